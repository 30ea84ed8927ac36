package jobfile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/jobfile"
)

// plainPodSpec stands for package podspec: it is strict about the fields alone.
func plainPodSpec(b []byte) (json.RawMessage, error) {
	var p corev1.PodSpec
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, errors.New("containers[0].imge: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	var out bytes.Buffer
	err := json.Compact(&out, b)
	return out.Bytes(), err
}

// checkedSpec says something of a constraint, as package constraints does.
func checkedSpec(s *core.JobSpec) error {
	if bytes.Contains(s.ConstraintConfig, []byte(`"from"`)) {
		return errors.Join(errors.New("constraints[1].timeWindow.config.from: \"8\" is no time"), errors.New("actions.tell.notify.message: missing"))
	}
	return nil
}

// TestJobFiles shows the spec that each file gives, or all that is wrong with it.
func TestJobFiles(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			specs, err := jobfile.Parse("job.yaml", []byte(d.Input), jobfile.Options{ParsePodSpec: plainPodSpec, Validate: checkedSpec})
			if err != nil {
				assert.NotEmpty(t, jobfile.All(err))
				return err.Error() + "\n"
			}
			var b strings.Builder
			for _, s := range specs {
				out, err := json.MarshalIndent(s, "", "  ")
				require.NoError(t, err)
				if d.Cmd == "yaml" {
					out, err = jobfile.Marshal(applied(t, s))
					require.NoError(t, err)
					requireRoundTrip(t, s)
				}
				fmt.Fprintf(&b, "%s\n", bytes.TrimSpace(out))
			}
			return b.String()
		})
	})
}

// applied is the spec as the machine keeps it, with its defaults.
func applied(t require.TestingT, s core.JobSpec) core.JobSpec {
	if s.Namespace == "" {
		s.Namespace, s.Tenant = "default", "default"
	}
	j, out := core.Job{}.Apply(core.JobApply{Spec: s}, core.Clock{Now: effects.MinTime})
	require.NotEqual(t, core.Job{}.Key, j.Key, "%v", out)
	return j.JobSpec
}

// requireRoundTrip writes a job, reads what was written, and holds that nothing
// was lost.
func requireRoundTrip(t require.TestingT, s core.JobSpec) {
	want := applied(t, s)
	text, err := jobfile.Marshal(want)
	require.NoError(t, err)
	got, err := jobfile.Parse("again.yaml", text, jobfile.Options{ParsePodSpec: plainPodSpec})
	require.NoError(t, err, "%s", text)
	require.Len(t, got, 1)
	require.Equal(t, want, applied(t, got[0]), "%s", text)
}

func TestWhatIsWrittenGivesTheSameJob(t *testing.T) {
	text := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"yes", "no", "1", "1e3", "0x1f", " a", "a ", "a\nb", "a\nb\n", "\na", "a\n\nb", "- a", "a: b", "#a", "'", `"`, "a #b", "null", "~", "2001-01-01", "|", "a\n  b", "{", "*x", "&x", "!x", "%", "@", "`", "a\t", "\t", "é", "\u2028", "=", "<<"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,8}`)
		anyJSON := func(label string) json.RawMessage {
			v := map[string]any{}
			for range rapid.IntRange(0, 3).Draw(t, label) {
				v[text.Draw(t, label)] = []any{text.Draw(t, label), rapid.Int().Draw(t, label), rapid.Bool().Draw(t, label), nil, map[string]any{word.Draw(t, label): text.Draw(t, label)}}
			}
			b, err := json.Marshal(v)
			require.NoError(t, err)
			return b
		}
		env := make([]corev1.EnvVar, rapid.IntRange(0, 3).Draw(t, "env"))
		for i := range env {
			env[i] = corev1.EnvVar{Name: word.Draw(t, "name"), Value: text.Draw(t, "value")}
		}
		pod, err := json.Marshal(corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Command: []string{text.Draw(t, "arg")}, Env: env}}})
		require.NoError(t, err)
		s := core.JobSpec{
			ID: word.Draw(t, "id"), Name: word.Draw(t, "name"), Schedule: rapid.SampledFrom([]string{"", "@daily", "*/5 * * * *"}).Draw(t, "schedule"),
			Timezone: rapid.SampledFrom([]string{"", "Europe/Berlin"}).Draw(t, "zone"), Namespace: word.Draw(t, "namespace"), Tenant: word.Draw(t, "tenant"),
			Runner: rapid.SampledFrom([]string{"", "local"}).Draw(t, "runner"), PodSpec: pod,
			RetryConfig: core.RetryConfig{
				MaxRetries: rapid.Uint32Range(0, core.MaxRetries).Draw(t, "retries"), InitialDelayMS: rapid.Int64Range(0, 1e9).Draw(t, "delay"),
				BackoffMultiplier: core.Multiplier(rapid.Int64Range(0, 1e9).Draw(t, "multiplier")), MaxDelayMS: rapid.Int64Range(0, 1e9).Draw(t, "most"),
			},
			Overlap:                 rapid.SampledFrom([]core.OverlapPolicy{"", core.OverlapAllow, core.OverlapForbid, core.OverlapReplace, core.OverlapSkip, core.OverlapBufferOne, core.OverlapBufferAll, core.OverlapCancelOther, core.OverlapTerminateOther}).Draw(t, "overlap"),
			TTLSecondsAfterFinished: rapid.SampledFrom([]int64{0, 1, 3600, core.MaxTTLSecondsAfterFinished}).Draw(t, "ttl"),
			StartDeadlineSeconds:    rapid.Int64Range(0, 3600).Draw(t, "deadline"), MaxConcurrentRuns: rapid.Uint32Range(0, 500).Draw(t, "concurrent"),
			OrphanPolicy:      rapid.SampledFrom([]core.OrphanPolicy{"", core.OrphanAdopt}).Draw(t, "orphan"),
			PodStartTimeoutMS: rapid.Int64Range(0, 1e9).Draw(t, "start"), CreateAheadMS: rapid.Int64Range(0, core.MaxCreateAheadMS).Draw(t, "ahead"),
			ConstraintErrors: rapid.SampledFrom([]core.ErrorPolicy{"", core.FailOpen}).Draw(t, "errors"),
			Logs:             core.LogPolicy{Discard: rapid.Bool().Draw(t, "discard"), HeadBytes: rapid.Int64Range(0, 1<<40).Draw(t, "head"), TailBytes: rapid.Int64Range(0, 1<<20).Draw(t, "tail") << 10},
		}
		s.ScheduleOptions = core.ScheduleOptions{
			Calendars: rapid.SampledFrom([][]string{nil, {"holidays"}, {"on", "7"}}).Draw(t, "calendars"),
			Missed:    rapid.SampledFrom([]core.MissedPolicy{"", core.MissedLatest, core.MissedAll}).Draw(t, "missed"), CatchUpSeconds: rapid.Int64Range(0, core.MaxCatchUpSeconds).Draw(t, "window"),
			CatchUpLimit: rapid.Uint32Range(0, core.MaxCatchUpLimit).Draw(t, "limit"), CatchUpSpacingSeconds: rapid.Int64Range(0, core.MaxSpacingSeconds).Draw(t, "spacing"),
			BufferLimit: rapid.Uint32Range(0, core.MaxBufferLimit).Draw(t, "buffer"), MaxWaitSeconds: rapid.Int64Range(0, core.MaxWaitSeconds).Draw(t, "wait"),
		}
		if rapid.Bool().Draw(t, "constraints") {
			s.ConstraintConfig = json.RawMessage(`{"constraints":[` + string(anyJSON("constraint")) + `]}`)
			if c := anyJSON("action"); string(c) != "{}" {
				s.ActionConfig = json.RawMessage(`{"actions":` + string(c) + `}`)
			}
		}
		if rapid.Bool().Draw(t, "labels") {
			s.Labels = map[string]string{word.Draw(t, "label"): rapid.StringMatching(`[a-z0-9.]{0,8}`).Draw(t, "of")}
		}
		requireRoundTrip(t, s)
	})
}

func TestAPodSpecMayStandInAFileOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "job.yaml")
	require.NoError(t, os.WriteFile(file, []byte("id: a\npodSpecFile: pod.yaml\n"), 0o600))
	_, err := jobfile.Load(file, jobfile.Options{ParsePodSpec: plainPodSpec})
	require.ErrorContains(t, err, "job.yaml:2:14: podSpecFile: open ")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte("containers:\n  - name: main\n    imge: x\n"), 0o600))
	_, err = jobfile.Load(file, jobfile.Options{ParsePodSpec: plainPodSpec})
	require.EqualError(t, err, `pod.yaml:3:11: containers[0].imge: unknown field "imge"`)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte("containers:\n  - name: main\n    image: x\n"), 0o600))
	specs, err := jobfile.Load(file, jobfile.Options{ParsePodSpec: plainPodSpec})
	require.NoError(t, err)
	assert.JSONEq(t, `{"containers":[{"name":"main","image":"x"}]}`, string(specs[0].PodSpec))

	_, err = jobfile.Parse("job.yaml", []byte("id: a\npodSpecFile: pod.yaml\n"), jobfile.Options{ParsePodSpec: plainPodSpec})
	require.ErrorContains(t, err, "podSpecFile: no other file can be read from here")
	_, err = jobfile.Load(filepath.Join(dir, "none.yaml"), jobfile.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Empty(t, jobfile.All(err))
}

func TestWhatWouldGrowWithoutBoundIsRefused(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'j'; c++ {
		p := string(c - 1)
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+p+", ", 9), ", "))
	}
	for what, text := range map[string]string{
		"aliases": bomb, "deep": strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "deep JSON": strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"itself": "id: &a [*a]\n", "long": strings.Repeat("#", jobfile.MaxBytes+1), "no text": "id: \xff\n",
	} {
		_, err := jobfile.Parse("job.yaml", []byte(text), jobfile.Options{ParsePodSpec: plainPodSpec})
		require.Error(t, err, what)
		assert.Less(t, len(err.Error()), 10_000, what)
	}
}

func TestAJobThatAFileCannotSayIsNotWritten(t *testing.T) {
	for _, config := range []string{`{"constraints":[],"more":1}`, `{"other":[]}`, `{`} {
		_, err := jobfile.Marshal(core.JobSpec{ID: "a", PodSpec: json.RawMessage("{}"), ConstraintConfig: json.RawMessage(config)})
		assert.Error(t, err, config)
	}
}

// FuzzParse holds that no file makes it panic, and that what is read can be
// written and gives the same job.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"id: a\npodSpec: {containers: [{name: m, image: b}]}\n", `{"id":"a","podSpec":{"containers":[]}}`,
		"id: a\npodSpec: &p {containers: []}\nlabels: {<<: *p}\n---\nid: b\nretry: {backoffMultiplier: 1.50}\npodSpec: |\n  containers: []\n",
		"id: a\nlogs: {head: 1Ki}\nstartDeadline: 1m\nconstraints: [{timeWindow: {config: {from: 8}}}]\npodSpec: {}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer boundtest.Within(t, len(data))()
		specs, err := jobfile.Parse("job.yaml", data, jobfile.Options{ParsePodSpec: plainPodSpec, Validate: checkedSpec})
		if err != nil {
			return
		}
		for _, s := range specs {
			if s.Namespace == "" && s.Tenant == "" || s.Namespace != "" && s.Tenant != "" {
				requireRoundTrip(t, s)
			}
		}
	})
}

func TestWhatAValueIsTaggedAsDoesNotMakeItSo(t *testing.T) {
	const rest = "\npodSpec:\n  containers: [{name: m, image: x}]\n"
	for in, want := range map[string]string{
		"constraints: [{x: {config: {a: !!bool 'true,\"b\":1'}}}]": `constraints[0].x.config.a: true,"b":1 is no boolean: want true or false`,
		"constraints: [{x: {config: {a: !!bool yes}}}]":            "constraints[0].x.config.a: yes is no boolean: want true or false",
		"constraints: [{x: {config: {a: !!int '[1,2]'}}}]":         "constraints[0].x.config.a: [1,2] is no number that JSON has",
		"constraints: [{x: {config: {a: !!int 'null'}}}]":          "constraints[0].x.config.a: null is no number that JSON has",
		"logs: {discard: !!bool yes}":                              "logs.discard: it is a boolean: want true or false",
		"retry: {maxRetries: 010}":                                 "retry.maxRetries: 010 begins with a zero",
		"logs: {head: 0100}":                                       `logs.head: "0100" is not a number of bytes`,
	} {
		_, err := jobfile.Parse("job.yaml", []byte("id: a\n"+in+rest), jobfile.Options{})
		assert.ErrorContains(t, err, want, in)
	}
	specs, err := jobfile.Parse("job.yaml", []byte("id: a\nretry: {maxRetries: 0}\nconstraints: [{x: {config: {a: TRUE, b: -1, c: 0.5, d: 0x1f}}}]"+rest), jobfile.Options{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"constraints":[{"x":{"config":{"a":true,"b":-1,"c":0.5,"d":31}}}]}`, string(specs[0].ConstraintConfig))
}

func TestAFileThatGrowsInEachOfItsDocumentsIsCutOffOnceForAll(t *testing.T) {
	bomb := "---\na: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
	_, err := jobfile.Parse("job.yaml", []byte(strings.Repeat(bomb, 1000)), jobfile.Options{})
	require.ErrorContains(t, err, "more than 100000 values")
	assert.Less(t, len(jobfile.All(err)), 100)
}

func TestOfVeryManyErrorsTheFirstAreSaid(t *testing.T) {
	_, err := jobfile.Parse("job.yaml", []byte(strings.Repeat("---\nnope: 1\n", 3000)), jobfile.Options{})
	require.ErrorContains(t, err, "there is more that is wrong")
	assert.Len(t, jobfile.All(err), 201)
}

func TestTheColumnsOfALongLineOfJSON(t *testing.T) {
	many := strings.Repeat(`"é😀",`, 20_000) // 2 × 20000 characters of more than a byte each
	_, err := jobfile.Parse("job.json", []byte("{\n"+`"id": "a", "tags": [`+many+`1], "nope": 1}`), jobfile.Options{})
	require.Error(t, err)
	for _, e := range jobfile.All(err) {
		if e.Field == "nope" {
			assert.Equal(t, 2, e.Line)
			assert.Equal(t, len([]rune(`"id": "a", "tags": [`+many+`1], `))+1, e.Column)
			return
		}
	}
	assert.Fail(t, "it is not said", "%.300s", err)
}

func TestAFileWithoutAnEndIsTooLarge(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("there is no such file here")
	}
	_, err := jobfile.Load("/dev/zero", jobfile.Options{})
	assert.ErrorContains(t, err, "the most that a job file may have")
}

func TestWhatIsWrongInOnePlaceHidesNothingElsewhere(t *testing.T) {
	const text = `id: "a:b"
name: 5
schedule: "61 * * * *"
timezone: Mars/Base
labels: {app: ` + "LONG" + `, of: ` + "LONG" + `}
podSpec:
  restartPolicy: Always
  containers: [{name: main, image: x, imge: y}]
constraints:
  - previousRun: {}
  - nope: {}
  - timeWindow: {}
  - other: {}
`
	long := strings.Repeat("x", 64)
	_, err := jobfile.Parse("job.yaml", []byte(strings.ReplaceAll(text, "LONG", long)), jobfile.Options{Validate: func(s *core.JobSpec) error {
		var doc struct{ Constraints []map[string]any }
		require.NoError(t, json.Unmarshal(s.ConstraintConfig, &doc))
		var errs []error
		for i, c := range doc.Constraints {
			for _, name := range []string{"nope", "other"} {
				if _, ok := c[name]; ok {
					errs = append(errs, fmt.Errorf("constraints[%d].%s: see action_config, not %q", i, name, "action_config"))
				}
			}
		}
		return errors.Join(errs...)
	}})
	require.Error(t, err)
	assert.Equal(t, strings.Join([]string{
		`job.yaml:1:5: id: "a:b" has a colon, which ends it in the id of a run`,
		`job.yaml:2:7: name: it is a number: want a text: write "5" in quotes`,
		`job.yaml:3:11: schedule: minute field "61": 61 is out of range 0-59`,
		`job.yaml:4:11: timezone: "Mars/Base" is not an IANA time zone: write a name such as "Europe/Berlin" or "UTC"`,
		`job.yaml:5:15: labels.app: 64 bytes is longer than 63, the most that Kubernetes takes`,
		`job.yaml:5:85: labels.of: 64 bytes is longer than 63, the most that Kubernetes takes`,
		`job.yaml:7:18: podSpec.restartPolicy: "Always" must be "Never" or absent: the job's retry says how often it is tried again`,
		`job.yaml:8:45: podSpec.containers[0].imge: unknown field`,
		`job.yaml:11:5: constraints[1].nope: see actions, not "action_config"`,
		`job.yaml:13:5: constraints[3].other: see actions, not "action_config"`,
	}, "\n"), err.Error())
}

func TestABadByteAndANumberThatIsTooLargeAreNamed(t *testing.T) {
	_, err := jobfile.Parse("job.yaml", []byte("id: a\nname: é\xe9\n"), jobfile.Options{})
	require.EqualError(t, err, "job.yaml:2:8: the byte 0xe9 is not UTF-8 text: save the file as UTF-8")
	_, err = jobfile.Parse("job.yaml", []byte("id: a\nmaxConcurrentRuns: 99999999999999999999\nretry: {maxRetries: 1.5}\npodSpec: {containers: [{name: m, image: x}]}\n"), jobfile.Options{})
	require.EqualError(t, err, "job.yaml:2:20: maxConcurrentRuns: 99999999999999999999 is not a whole number between 0 and 500\n"+
		"job.yaml:3:21: retry.maxRetries: 1.5 is not a whole number between 0 and 1000")
}

func TestEachProblemThatTheDaemonTellsNamesItsFieldAsTheFileHasIt(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"pod_spec.volumes[0]: no": "podSpec.volumes[0]: no",
		"pod_spec.serviceAccountName: no; pod_spec: the profile: change it": "podSpec.serviceAccountName: no; podSpec: the profile: change it",
		"pod_spec: no\npod_start_timeout_ms: no; orphan_policy: no":         "podSpec: no\npodStartTimeout: no; orphanPolicy: no",
		"runner: no; see pod_spec: there":                                   "runner: no; see pod_spec: there",
		"it is full":                                                        "it is full",
	} {
		assert.Equal(t, want, jobfile.InFile(said))
	}
}
