//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// applyJob applies a job of one shell script.
func (p *process) applyJob(id, script, more string) {
	p.t.Helper()
	spec, err := json.Marshal(map[string]any{"containers": []any{map[string]any{"name": "main", "image": "none", "command": []string{"sh", "-c", script}}}})
	require.NoError(p.t, err)
	p.ok("job", "apply", "-f", write(p.t, id+".yaml", fmt.Sprintf("id: %s\npodSpec: %s\n%s", id, spec, more)))
}

// trigger makes a run and gives its UUID.
func (p *process) trigger(job string) string {
	p.t.Helper()
	return anID.FindString(p.ok("job", "trigger", job))
}

// eventually repeats a command until its output has a text.
func (p *process) eventually(text string, args ...string) string {
	p.t.Helper()
	var r result
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if r = p.do(args...); strings.Contains(r.out, text) {
			return r.out
		}
	}
	require.Failf(p.t, "it did not come", "%q of %v: %s%s", text, args, r.out, r.err)
	return ""
}

func TestALocalRunOutlivesTheDaemonAndIsNotBegunTwice(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			dir := podsDir(t)
			args := []string{"--db", filepath.Join(dir, "orrery.db")}
			p := start(t, args...)
			p.applyJob("long", fmt.Sprintf("echo begun | tee -a %[1]s/begun; until test -e %[1]s/go; do sleep 0.05; done; echo ended; exit 5", dir), "")
			run := p.trigger("long")
			p.eventually("begun", "run", "logs", run)

			p.signal(sig)
			p.code()
			p = start(t, args...)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
			r := p.do("run", "logs", "-f", run)
			assert.Equal(t, "begun\nended\n", r.out)
			assert.Equal(t, exitFailed, r.code)
			assert.Contains(t, r.err, "failed: exit code 5")
			begun, err := os.ReadFile(filepath.Join(dir, "begun"))
			require.NoError(t, err)
			assert.Equal(t, "begun\n", string(begun), "it was begun twice")
			p.signal(syscall.SIGTERM)
			require.Zero(t, p.code())
			left, err := os.ReadDir(filepath.Join(dir, "orrery.db.runs"))
			require.NoError(t, err)
			for _, e := range left {
				assert.NotContains(t, e.Name(), "orrery-", "what a run had is left behind")
			}
		})
	}
}

func TestATriggerWithADedupKeyIsSafeToRepeatAlsoAfterSIGKILL(t *testing.T) {
	t.Parallel()
	args := []string{"--tick-rate", "0.2", "--db", database(t)}
	p := start(t, args...)
	p.applyJob("once", "true", "")
	first := p.ok("job", "trigger", "once", "--dedup-key", "release 7")
	p.signal(syscall.SIGKILL)
	p.code()
	p = start(t, args...)
	assert.Equal(t, first, p.ok("job", "trigger", "once", "--dedup-key", "release 7"))
	p.ok("job", "trigger", "once", "--dedup-key", "release 7", "--wait")
	other := p.ok("job", "trigger", "once", "--dedup-key", "release 8")
	assert.NotEqual(t, first, other)
	assert.Equal(t, 2, strings.Count(p.ok("run", "list", "--job", "once"), "once:"))
}

// A configuration with tokens or executables has no local runner unless it asks for one.
func TestADaemonWithoutARunnerSaysAtItsStartThatTheRunsOfStoredJobsWillFail(t *testing.T) {
	t.Parallel()
	db := database(t)
	const said = "each of their runs will fail"
	file := write(t, "orrery.toml", "[tools.command]\nexecutables = ['date']\n")
	p := start(t, "--db", db, "--config", file)
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	assert.NotContains(t, p.stderr.String(), said, "there are no jobs")
	p = start(t, "--db", db)
	p.applyJob("old", "true", "")
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	p = start(t, "--db", db, "--config", file)
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	assert.Regexp(t, `level=WARN msg=".*`+said+`" job=old namespace=default tenant=default error=".*write the lines .*runners.local`, p.stderr.String())
}

func TestFollowedLogsGoOnOverAttempts(t *testing.T) {
	t.Parallel()
	dir := podsDir(t)
	p := start(t, "--db", filepath.Join(dir, "orrery.db"))
	p.applyJob("again", fmt.Sprintf("echo attempt $ORRERY_ATTEMPT; until test -e %s/go; do sleep 0.05; done; test $ORRERY_ATTEMPT = 2", dir), "retry: {maxRetries: 5, initialDelay: 10ms}\n")
	run := p.trigger("again")
	p.eventually("attempt 0", "run", "logs", run)
	follower := begin(t, []string{"ORRERY_SERVER=" + p.url}, "run", "logs", "-f", run)
	await(t, follower.out, "^attempt 0$") // so it follows, before that attempt may end
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	assert.Zero(t, follower.code())
	var more []string
	for line := range follower.out {
		more = append(more, line)
	}
	assert.Equal(t, []string{"attempt 1", "attempt 2"}, more)
	var said []string
	for line := range follower.errs {
		said = append(said, line)
	}
	assert.Equal(t, []string{"==> attempt 1 <==", "==> attempt 2 <=="}, said)
}

func TestWhatACancelledPodWritesAsItEndsIsFollowedAndStored(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.applyJob("saving", "exec 2>/dev/null; trap 'sleep 0.3; echo saved; exit 3' TERM; echo begun; while :; do sleep 0.05; done", "")
	run := p.trigger("saving")
	p.eventually("begun", "run", "logs", run)
	p.eventually("running", "run", "show", run) // a run that is cancelled before it knows of its pod keeps no logs
	done := make(chan result)
	go func() { done <- p.do("run", "logs", "-f", run) }()
	p.ok("run", "cancel", run)
	select {
	case r := <-done:
		assert.Equal(t, "begun\nsaved\n", r.out)
		assert.Equal(t, exitFailed, r.code)
	case <-time.After(patience):
		require.Fail(t, "it follows for ever")
	}
	assert.Equal(t, "begun\nsaved\n", p.ok("run", "logs", run))
	assert.Regexp(t, `logs +12 bytes`, p.ok("run", "show", run))
}

func TestARunThatTakesLongerThanItMayIsKilledAndItsViolationsActionsAreTaken(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.applyJob("endless", "while :; do sleep 0.05; done", `
retry: {maxRetries: 1, initialDelay: 10ms}
constraints:
  - maxAllowedRunTime: {config: {limit: 500ms}, onViolation: [{log: {message: "${message}"}}]}
`)
	r := p.do("job", "trigger", "endless", "--wait")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "it ran for longer than maxAllowedRunTime, 500ms")
	assert.Regexp(t, `retry +1 of at most 1`, r.out)
	assert.Regexp(t, `maxAllowedRunTime → log +post +1 +taken`, r.out)
}

func TestWhatTheDaemonRefusesIsNamedAsTheFileHasIt(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	file := write(t, "bare.yaml", "id: bare\npodSpec: {containers: [{name: main, image: none}]}\n")
	r := p.do("job", "apply", "-f", file)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, file+`: job "bare": podSpec.containers[0].command: missing`)
}

func TestARunThatWasSkippedIsNotTakenForOneThatRan(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.applyJob("skips", "exit 1", "constraints: [{dependsOn: {config: {job: nobody}, onViolation: [skip]}}]\n")
	assert.Regexp(t, `state +completed \(skipped\)`, p.ok("job", "trigger", "skips", "--wait"))
	assert.Regexp(t, `completed .* skipped`, p.ok("run", "list", "--job", "skips"))
	p.applyJob("runs", "true", "")
	assert.NotContains(t, p.ok("job", "trigger", "runs", "--wait"), "skipped")
	assert.NotContains(t, p.ok("run", "list", "--job", "runs"), "skipped")
}

func TestAnActionRunsAJobByTheToolKubernetes(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.applyJob("tool", "exit 4", "")
	r := p.do("actions", "add", "--in", "0s", "--tool", "kubernetes", "--input", `{"job":"tool"}`, "--wait")
	assert.Equal(t, exitFailed, r.code, r.out)
	assert.Contains(t, r.out+r.err, "exit code 4")
}

func TestTheExampleJobsAreRight(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.ok("job", "check", "-f", "../../../jobs", "-f", "../../../kubernetes/nightly.yaml")
	p.ok("job", "apply", "-f", "../../../jobs")
	out := p.ok("job", "trigger", "nightly-report", "--wait")
	assert.Contains(t, out, "completed")
}

func TestKeysOfWebhooksAreNotShown(t *testing.T) {
	file := write(t, "orrery.toml", "[jobs.secrets.a]\nsecret = 'whsec_b25lIHNlY3JldCBvZiB0aGUgdGVzdHM='\n[jobs.secrets.b]\nsecret_env = 'KEY_OF_B'")
	t.Setenv("KEY_OF_B", "b25lIHNlY3JldCBvZiB0aGUgdGVzdHM=")
	r := cli(t, nil, "", "config", "show", "--config", file)
	require.Zero(t, r.code, r.err)
	assert.NotContains(t, r.out, "b25lIHNlY3JldCBvZiB0aGUgdGVzdHM=")
	assert.Contains(t, r.out, "KEY_OF_B")
}

func TestAJobMayAskForTheKeysThatAreForItAlone(t *testing.T) {
	t.Parallel()
	const key = "secret = 'b25lIHNlY3JldCBvZiB0aGUgdGVzdHM='\n"
	p := start(t, "--db", database(t), "--config", write(t, "orrery.toml", "[jobs]\nfeed_secret = 'feeds'\n[jobs.secrets.feeds]\n"+key+
		"[jobs.secrets.ours]\n"+key+"namespaces = ['default']\ntenants = ['default']\n[jobs.secrets.theirs]\n"+key+"tenants = ['acme']\n[jobs.secrets.lab]\n"+key+"namespaces = ['lab']\n"))
	for name, allowed := range map[string]bool{"ours": true, "theirs": false, "lab": false, "feeds": false} {
		file := write(t, name+".yaml", "id: "+name+"\npodSpec: {containers: [{name: main, image: x, command: [\"true\"]}]}\n"+
			"constraints: [{previousRun: {onViolation: [{webhook: {url: 'https://example.com', secret: "+name+"}}]}}]\n")
		refusal := `webhook.secret: there is no secret "` + name + `": use one of `
		r := p.do("job", "apply", "-f", file)
		action := p.do("actions", "add", "--tool", "kubernetes", "--wait", "--input", `{"pod_spec":{"containers":[{"name":"main","image":"x","command":["true"]}]},
			"constraint_config":{"constraints":[{"previousRun":{"onViolation":[{"webhook":{"url":"https://example.com","secret":"`+name+`"}}]}}]}}`)
		if allowed {
			assert.Zero(t, r.code, r.err)
			assert.Zero(t, action.code, action.out+action.err)
			continue
		}
		assert.NotZero(t, r.code, name)
		assert.Contains(t, r.err, refusal+"ours")
		assert.NotZero(t, action.code, name)
		assert.Contains(t, action.out+action.err, refusal)
	}
}

func TestADatabaseOfRunsIsToldOfThem(t *testing.T) {
	t.Parallel()
	const secret = "whsec_b25lIHNlY3JldCBvZiB0aGUgdGVzdHM="
	key, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	var mu sync.Mutex
	var refused bool
	told := map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !refused { // it comes again
			refused = true
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = key.Verify(body, r.Header)
		}
		var batch struct {
			Updates []core.JobRunUpdate
			Metrics []core.OrchestratorMetrics
		}
		if err == nil {
			err = json.Unmarshal(body, &batch)
		}
		if err != nil {
			told["bad "+err.Error()]++
		}
		for _, u := range batch.Updates {
			told[fmt.Sprintf("update %s %d", u.Status, u.RetryAttempt)]++
		}
		for _, m := range batch.Metrics {
			told[fmt.Sprintf("metrics %s %d", m.FinalState, *m.PodExitCode)]++
		}
	}))
	t.Cleanup(web.Close)
	p := start(t, "--db", database(t), "--config", write(t, "orrery.toml", fmt.Sprintf(
		"[jobs]\nupdates_url = '%[1]s'\nmetrics_url = '%[1]s'\nfeed_secret = 'a'\n[jobs.secrets.a]\nsecret = '%[2]s'\n", web.URL, secret)))
	p.applyJob("told", "exit 9", "retry: {maxRetries: 1, initialDelay: 1ms}\n")
	require.Equal(t, exitFailed, p.do("job", "trigger", "told", "--wait").code)
	want := []string{"update running 0", "update pending 1", "update running 1", "update failed 1", "metrics failed 9"}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return told["update failed 1"] > 0 && told["metrics failed 9"] > 0
	}, patience, 10*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	for _, w := range want {
		assert.Contains(t, told, w)
	}
	for k := range told {
		assert.NotContains(t, k, "bad")
	}
}

func TestJobCheckSaysAllThatIsWrongOnLinesThatEditorsFollow(t *testing.T) {
	t.Parallel()
	good := write(t, "good.yaml", "id: good\npodSpec: {containers: [{name: main, image: x}]}\n")
	bad := write(t, "bad.yaml", `id: "a:b"
schedule: "61 * * * *"
podSpec: {containers: [{name: main, image: x}]}
constraints:
  - maxAllowedRunTime: {config: {limit: 3m}, onViolation: [fial]}
  - nope: {}
`)
	r := cli(t, nil, "", "job", "check", "-f", good, "-f", bad)
	assert.Equal(t, 1, r.code)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, lines, 5, r.out)
	for i, want := range []string{
		bad + `:1:5: id: "a:b" has a colon`, bad + `:2:11: schedule: minute field "61"`, bad + ":5:60: constraints[0].maxAllowedRunTime.onViolation[0].fial: there is no such action",
		bad + ":6:5: constraints[1].nope: there is no such constraint", good + ": ok: good",
	} {
		assert.True(t, strings.HasPrefix(lines[i], want), "%s\n%s", want, lines[i])
	}
	assert.Contains(t, lines[2], "the name of one in actions", "as the file has it")
	assert.Equal(t, "orreryd: 4 errors in the job files\n", r.err)

	var said struct {
		Errors []struct{ Line int }
	}
	r = cli(t, nil, "", "job", "check", "--json", "-f", bad)
	require.NoError(t, json.Unmarshal([]byte(r.out), &said), r.out)
	assert.Len(t, said.Errors, 4)

	r = cli(t, nil, "", "job", "check", "-f", good, "-f", good)
	assert.Equal(t, good+`:1:1: id: the job "good" is in `+good+" already\n"+good+": ok: good\n", r.out)
	r = cli(t, nil, "", "job", "apply", "-f", bad)
	assert.Equal(t, 1, r.code, "no daemon is asked")
	assert.Equal(t, strings.Join(lines[:4], "\n")+"\norreryd: 4 errors in the job files\n", r.err)
	r = cli(t, nil, "", "job", "apply", good)
	assert.Equal(t, 2, r.code)
	assert.Contains(t, r.err, "name the file with -f, as in: orreryd job apply -f ")
}

func TestTheTablesOfJobsAndRunsShowWhatTheNextCommandTakes(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.applyJob("mine", "true", "")
	p.applyJob("theirs", "true", "tenant: theirs\n")
	p.ok("job", "trigger", "mine", "--wait")
	for _, table := range []string{p.ok("job", "history", "mine"), p.ok("job", "runs", "mine"), p.ok("run", "list", "--job", "mine")} {
		run := regexp.MustCompile(`mine:\S+Z`).FindString(table)
		require.NotEmpty(t, run, table)
		assert.NotContains(t, table, "SCOPE", "it is the one that commands look in")
		uuid := strings.Fields(strings.Split(p.ok("run", "show", run), "\n")[1])[1]
		for _, id := range []string{run, uuid} {
			p.ok("run", "show", id)
			p.ok("run", "logs", id)
			p.ok("run", "wait", id)
			assert.Contains(t, p.do("run", "retry", id).err, "has ended")
			assert.Contains(t, p.do("run", "cancel", id).err, "completed")
		}
	}
	p.ok("job", "trigger", "theirs", "--tenant", "theirs", "--wait")
	assert.Regexp(t, `(?m)^theirs:\S+Z +default/theirs `, p.ok("run", "list"))
	assert.Contains(t, p.do("job", "show", "").err, "JOB is empty: orreryd job show wants one")
	r := p.do("job", "trigger", "theirs")
	assert.Equal(t, 4, r.code)
	assert.Contains(t, r.err, `orreryd: job "theirs" not found in default/default`)
}

func TestAListSaysWhatARunWaitsFor(t *testing.T) {
	t.Parallel()
	pod := core.Pod{Reason: "CreateRetried", Message: "the API did not take the Job yet"}
	assert.Equal(t, "CreateRetried: the API did not take the Job yet", runNote(wire.RunSummary{State: core.OrchestratorContainerCreating, Pod: pod}))
	assert.Equal(t, "lost", runNote(wire.RunSummary{State: core.OrchestratorFailed, Pod: pod, Error: "lost"}))
	assert.Empty(t, runNote(wire.RunSummary{State: core.OrchestratorCancelled, Pod: pod}))
}
