package runbook_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/shell/runbook"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file beside the test, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "go test ./shell/runbook -update writes %s", path)
}

// TestFilesAreReportedOnAsAWhole parses what stands in testdata/*.txt: the errors
// of the file b.toml, or its warnings, or "ok".
func TestFilesAreReportedOnAsAWhole(t *testing.T) {
	datadriven.Walk(t, "testdata/reports", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			require.Equal(t, "parse", d.Cmd)
			book, err := runbook.Parse("b.toml", []byte(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			out := "ok\n"
			for _, w := range book.Warnings {
				out += "warning: " + w.Error() + "\n"
			}
			return out
		})
	})
}

func goodFiles(t *testing.T) []string {
	files, err := filepath.Glob("testdata/good/*.toml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func TestAGoodFileGivesWhatItSays(t *testing.T) {
	for _, file := range goodFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			book, err := runbook.Load(file)
			require.NoError(t, err)
			assert.Empty(t, book.Warnings)
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetIndent("", "  ")
			e.SetEscapeHTML(false)
			require.NoError(t, e.Encode(book))
			golden(t, strings.TrimSuffix(file, ".toml")+".json", b.Bytes())
			assertCoreTakes(t, book)
		})
	}
}

// assertCoreTakes sends all that a runbook says to the machines that it is for.
func assertCoreTakes(t testing.TB, book *runbook.Runbook) {
	t.Helper()
	c := core.Clock{Now: effects.MinTime}
	taken := func(what string, effs []effects.Effect) {
		t.Helper()
		for _, e := range effs {
			if r, ok := e.(effects.Refused); ok {
				require.Failf(t, "refused", "%s: %s", what, r.Reason)
			}
		}
	}
	for _, q := range book.Queues {
		_, effs := core.Queue{}.Apply(core.QueueCreate{Namespace: "n", Tenant: "t", Name: q.Name, Config: q.Config}, c)
		taken("queue "+q.Name, effs)
	}
	for _, s := range book.Semaphores {
		_, effs := core.Semaphore{}.Apply(core.SemaphoreConfigure{Namespace: "n", Tenant: "t", Name: s.Name, Slots: s.Slots}, c)
		taken("semaphore "+s.Name, effs)
	}
	for _, w := range book.Workers {
		_, effs := core.Worker{}.Apply(core.WorkerConfigure{Spec: w.Spec("n", "t")}, c)
		taken("worker "+w.Name, effs)
	}
	bus := core.Bus{}
	for _, s := range book.Subscriptions("n", "t") {
		var effs []effects.Effect
		bus, effs = bus.Apply(core.BusSubscribe{Namespace: "n", Tenant: "t", Subscriber: s}, c)
		taken("subscriber "+s.Name, effs)
	}
	assert.Len(t, bus.Subscribers, len(book.Subscriptions("n", "t")), "each has a name of its own")
	for _, p := range book.Pipelines {
		create := core.PipelineCreate{Spec: core.PipelineSpec{
			ID: uuid.Max, Namespace: "n", Tenant: "t", Runbook: book.Name, Definition: p, Context: map[string]json.RawMessage{},
		}}
		for _, in := range p.Inputs {
			if in.Required {
				create.Spec.Context[in.Name] = json.RawMessage(`"x"`)
			}
		}
		for _, name := range []string{"item", "event"} { // from a worker, and from the bus
			if p.Validate() != nil {
				create.Spec.Context[name] = json.RawMessage("{}")
			}
		}
		_, effs := core.Pipeline{}.Apply(create, c)
		taken("pipeline "+p.Name, effs)
	}
}

func TestAFileThatIsTooLargeOrMissingIsAnError(t *testing.T) {
	_, err := runbook.Parse("big.toml", make([]byte, runbook.MaxFileBytes+1))
	require.ErrorContains(t, err, "big.toml:1:1: the file is larger than 4194304 bytes: split it")
	_, err = runbook.Load(filepath.Join(t.TempDir(), "none.toml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Empty(t, runbook.All(err))
}

func TestAFileNamesARunbookThatDoesNotNameItself(t *testing.T) {
	book, err := runbook.Parse("/srv/nightly.toml", nil)
	require.NoError(t, err)
	assert.Equal(t, "nightly", book.Name)
}

func TestErrorsAreSortedAndBounded(t *testing.T) {
	var b strings.Builder
	for i := range 2 * runbook.MaxErrors {
		fmt.Fprintf(&b, "k%d = 1\n", i)
	}
	_, err := runbook.Parse("b.toml", []byte(b.String()))
	all := runbook.All(err)
	require.Len(t, all, runbook.MaxErrors)
	for i, e := range all {
		assert.Equal(t, i+1, e.Line)
		assert.Equal(t, 1, e.Column)
		assert.Equal(t, fmt.Sprintf("k%d", i), e.Field)
	}
	assert.Contains(t, all[len(all)-1].Problem, "(and 50 more)")
}

// hostile are files that want more than there is: memory, time or stack.
func hostile() map[string]string {
	var chain, wide strings.Builder
	for i := range 60 { // each starts the next one twice: 2^60 of them
		fmt.Fprintf(&wide, "[[pipelines.p%d.phases]]\nname = \"x\"\n", i)
		if i < 59 {
			fmt.Fprintf(&wide, "pipelines = { start = [\"p%d\", \"p%d\"] }\n", i+1, i+1)
		} else {
			wide.WriteString("checkpoint = \"end\"\n")
		}
	}
	for i := range 3000 {
		fmt.Fprintf(&chain, "[[pipelines.p%d.phases]]\nname = \"x\"\npipelines = { start = [\"p%d\"] }\n", i, i+1)
	}
	var starts, prompts strings.Builder
	starts.WriteString("[pipelines.b]\n")
	for i := range core.MaxPhases {
		fmt.Fprintf(&starts, "[[pipelines.b.phases]]\nname = \"n%d\"\ncheckpoint = \"x\"\n", i)
	}
	for i := range 400 {
		fmt.Fprintf(&starts, "[[pipelines.a%d.phases]]\nname = \"x\"\npipelines = { start = [{ pipeline = \"b\", context = { c%d = 1 } }] }\n", i, i)
	}
	fmt.Fprintf(&prompts, "[agents.a]\ncommand = [\"${prompt}${prompt}\"]\nprompt = \"%s\"\n", strings.Repeat("x", 60<<10))
	for i := range 2000 {
		fmt.Fprintf(&prompts, "[workers.w%d]\nqueue = \"q\"\ntask = \"a\"\n", i)
	}
	chain.WriteString("[[pipelines.p3000.phases]]\nname = \"x\"\ncheckpoint = \"end\"\n")
	return map[string]string{
		"deep array":     "a = " + strings.Repeat("[", 1<<20),
		"deep table":     "a = " + strings.Repeat("{a=", 1<<18),
		"deep closed":    "a = " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"long key":       strings.Repeat("a.", 1<<20) + "a = 1",
		"long header":    "[" + strings.Repeat("a.", 1<<20) + "a]",
		"doubling":       wide.String(),
		"long chain":     chain.String(),
		"many starters":  starts.String(),
		"many prompts":   prompts.String(),
		"many inputs":    "[pipelines.p]\ninputs = [" + strings.Repeat("{},", 1<<20) + "]",
		"many words":     "[queues.p]\nno_retry = [" + strings.Repeat("'',", 1<<20) + "]",
		"many errors":    strings.Repeat("[x]\n", 1<<18),
		"one long line":  "a = [" + strings.Repeat("1,", 1<<20) + "]",
		"not UTF-8":      "name = \"\xff\"",
		"lone brackets":  strings.Repeat("[[", 1<<20),
		"nothing at all": strings.Repeat("\n", 1<<21) + "x",
	}
}

func TestHostileFilesAreRefusedWithoutHarm(t *testing.T) {
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			_, err := runbook.Parse("b.toml", []byte(text))
			require.NotEmpty(t, runbook.All(err))
			assert.Less(t, len(err.Error()), 64<<10)
		})
	}
}

func TestWhatAPipelineStartsIsBounded(t *testing.T) {
	var deep, wide strings.Builder
	for i := range 60 {
		fmt.Fprintf(&deep, "[[pipelines.p%d.phases]]\nname = \"x\"\npipelines = { start = [\"p%d\"] }\n", i, i+1)
	}
	deep.WriteString("[[pipelines.p60.phases]]\nname = \"x\"\ncheckpoint = \"end\"\n")
	_, err := runbook.Parse("b.toml", []byte(deep.String()))
	require.ErrorContains(t, err, "with the pipelines that it starts it is nested deeper than")
	assert.Len(t, runbook.All(err), 1, "it is said once, where it begins")

	fmt.Fprintf(&wide, "[[pipelines.a.phases]]\nname = \"x\"\npipelines = { start = [%s] }\n", strings.Repeat(`"b",`, 20))
	fmt.Fprintf(&wide, "[[pipelines.b.phases]]\nname = \"x\"\ncheckpoint = \"%s\"\n", strings.Repeat("x", 40<<10))
	_, err = runbook.Parse("b.toml", []byte(wide.String()))
	require.EqualError(t, err, "b.toml:1:13: pipelines.a: with the pipelines that it starts it has more than 524032 bytes of JSON")
}

func TestAnAgentIsNotChangedByATaskThatNamesIt(t *testing.T) {
	book, err := runbook.Parse("b.toml", []byte(`
[agents.a]
command = ["x"]
env = { A = "1" }
[[pipelines.p.phases]]
name = "one"
task = { agent = "a", prompt = "x", env = { B = "2" } }
[[pipelines.p.phases]]
name = "two"
task = { agent = "a", prompt = "y", env = { A = "3" } }
`))
	require.NoError(t, err)
	def, _ := book.Pipeline("p")
	assert.Equal(t, map[string]string{"A": "1", "B": "2"}, def.Phases[0].Task.Env)
	assert.Equal(t, map[string]string{"A": "3"}, def.Phases[1].Task.Env)
}

func TestAThousandPhasesAreFine(t *testing.T) {
	var b strings.Builder
	for i := range core.MaxPhases {
		fmt.Fprintf(&b, "[[pipelines.p.phases]]\nname = \"n%d\"\ncheckpoint = \"${pipeline.id}\"\n", i)
	}
	book, err := runbook.Parse("b.toml", []byte(b.String()))
	require.NoError(t, err)
	def, ok := book.Pipeline("p")
	require.True(t, ok)
	assert.Len(t, def.Phases, core.MaxPhases)
	assertCoreTakes(t, book)
	_, ok = book.Pipeline("q")
	assert.False(t, ok)
}

func TestWorkersAreWokenByTheirOwnQueue(t *testing.T) {
	book, err := runbook.Parse("b.toml", []byte(`
name = "r"
[queues.q]
[workers.w]
queue = "q"
run = ["true"]
wake_on = [{ event = "pipeline:phase", data = { phase = "merge" } }]
[[subscribers]]
name = "s"
match = "git:*"
wake = "w"
`))
	require.NoError(t, err)
	queue := core.QueueRef("n", "t", "q").ID
	woken := func(e effects.Event) (names []string) {
		for _, s := range book.Subscriptions("n", "t") {
			if s.Matches(e) {
				require.Equal(t, []effects.Effect{effects.WakeWorker{Worker: core.WorkerRef("n", "t", "w")}}, s.Handle(e))
				names = append(names, s.Name)
			}
		}
		return names
	}
	source := effects.EventSource{Component: "queue", ID: queue}
	assert.Equal(t, []string{"r/w/push"}, woken(effects.Event{Kind: effects.KindQueuePush, Source: source}))
	assert.Equal(t, []string{"r/w/ready"}, woken(effects.Event{Kind: effects.EventKind{Category: "queue", Action: "ready"}, Source: source}))
	assert.Empty(t, woken(effects.Event{Kind: effects.KindQueuePush, Source: effects.EventSource{ID: uuid.Max}}), "another queue")
	assert.Equal(t, []string{"r/w/wake/1"}, woken(effects.Event{Kind: effects.KindPipelinePhase, Data: json.RawMessage(`{"phase":"merge"}`)}))
	assert.Equal(t, []string{"r/s"}, woken(effects.Event{Kind: effects.EventKind{Category: "git", Action: "merged"}}))
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/good/*.toml")
	require.NoError(f, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(b)
		for part := range strings.SplitSeq(string(b), "\n\n") {
			f.Add([]byte(part))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer boundtest.Within(t, len(b))()
		book, err := runbook.Parse("b.toml", b)
		if err != nil {
			for _, e := range runbook.All(err) {
				require.GreaterOrEqual(t, e.Line, 1)
				require.GreaterOrEqual(t, e.Column, 1)
				require.NotEmpty(t, e.Problem)
			}
			require.NotEmpty(t, runbook.All(err), "%s", err)
			return
		}
		assertCoreTakes(t, book)
	})
}
