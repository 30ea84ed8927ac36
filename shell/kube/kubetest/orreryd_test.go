package kubetest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// built is the program orreryd, which is built once. [TestMain] removes it.
var built struct {
	once   sync.Once
	folder string
	err    error
}

// orreryd gives the path of the program, in a folder with nothing else.
func orreryd(t *testing.T) string {
	t.Helper()
	built.once.Do(func() { built.folder, built.err = buildOrreryd() })
	require.NoError(t, built.err)
	return filepath.Join(built.folder, "orreryd")
}

func buildOrreryd() (folder string, err error) {
	if folder, err = os.MkdirTemp("", "orrery-kube-program-"); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", folder, "github.com/orrery-go/orrery/examples/orreryd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return folder, fmt.Errorf("%s: %w: %s", build, err, out)
	}
	return folder, nil
}

// program is orreryd with a configuration and a database.
type program struct {
	t     *testing.T
	path  string
	dir   string // of its files
	url   string // of the daemon that runs
	token string // that the daemon asks for, if any
	pid   int    // of the daemon
}

// command is a command of the program.
func (p *program) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), p.path, args...)
	cmd.Dir = p.dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ORRERY") }), "ORRERY_SERVER="+p.url, "ORRERY_TOKEN="+p.token)
	return cmd
}

// do runs a command, and gives what it prints and its exit code.
func (p *program) do(args ...string) (string, int) {
	p.t.Helper()
	cmd := p.command(args...)
	out, err := cmd.CombinedOutput()
	require.NotNil(p.t, cmd.ProcessState, "%v: %v", args, err)
	return string(out), cmd.ProcessState.ExitCode()
}

// ok runs a command that must succeed.
func (p *program) ok(args ...string) string {
	p.t.Helper()
	out, code := p.do(args...)
	require.Zero(p.t, code, "%v: %s", args, out)
	return out
}

// daemon starts the daemon and waits until it answers; stop ends it by a signal, and
// gives its exit code.
func (p *program) daemon() (stop func(syscall.Signal) int) {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	cmd := exec.Command(p.path, "orchestrate", "--config", "orrery.toml", "--db", "orrery.db", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, p.command().Env, log
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, cmd.Start())
	p.pid = cmd.Process.Pid
	var once sync.Once
	stop = func(s syscall.Signal) int {
		once.Do(func() {
			_ = cmd.Process.Signal(s)
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait() // its code is what counts
			_ = log.Close()
		})
		return cmd.ProcessState.ExitCode()
	}
	p.t.Cleanup(func() {
		stop(syscall.SIGKILL)
		if said, err := os.ReadFile(log.Name()); err == nil && p.t.Failed() {
			p.t.Logf("the daemon said:\n%s", said[max(0, len(said)-20_000):])
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(p.t, err, "see its log")
	p.url = regexp.MustCompile(`http://[0-9.:]+[0-9]`).FindString(line)
	require.NotEmpty(p.t, p.url, line)
	return stop
}

// shownRun is what of a run's JSON counts here.
type shownRun struct {
	ID        string                  `json:"id"`
	RunID     string                  `json:"run_id"`
	JobID     string                  `json:"job_id"`
	State     core.OrchestratorStatus `json:"state"`
	Error     string                  `json:"error"`
	InCluster bool                    `json:"in_cluster"`
	Pod       core.Pod                `json:"pod"`
	Completed time.Time               `json:"completed_at"`
}

// runs lists the runs of a job in one of the states.
func (p *program) runs(job string, states ...core.OrchestratorStatus) []shownRun {
	p.t.Helper()
	var list struct {
		Runs []shownRun `json:"runs"`
	}
	require.NoError(p.t, json.Unmarshal([]byte(p.ok("run", "list", "--job", job, "--json")), &list))
	return slices.DeleteFunc(list.Runs, func(r shownRun) bool { return !slices.Contains(states, r.State) })
}

// some waits until so many runs of a job are in one of the states.
func (p *program) some(n int, job string, states ...core.OrchestratorStatus) []shownRun {
	p.t.Helper()
	var runs []shownRun
	eventually(p.t, func() error {
		if runs = p.runs(job, states...); len(runs) < n {
			return fmt.Errorf("%d runs of %s are %v: %s", len(runs), job, states, p.ok("run", "list"))
		}
		return nil
	})
	return runs
}

// hooks are web servers of a job's constraints, which note who asked.
type hooks struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int // by path
}

func newHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{asked: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asked[r.URL.Path]++
		_, _ = fmt.Fprintf(w, `{"proceed":%t}`, r.URL.Path != "/no")
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) times(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[path]
}

// newProgram has a configuration with a runner for the cluster, and the job files'
// texts with HOOKS and GATES replaced, in a file jobs.yaml.
func newProgram(t *testing.T, w *world, h *hooks, jobs string) *program {
	t.Helper()
	p := &program{t: t, path: orreryd(t), dir: t.TempDir()}
	config := fmt.Sprintf(`
[jobs]
allow = ["127.0.0.0/8"]
[runners.cluster]
type = "kubernetes"
kubeconfig = %q
`, w.settings.Kubeconfig)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "orrery.toml"), []byte(config), 0o600))
	jobs = strings.NewReplacer("HOOKS", h.URL, "GATES", w.gates.folder).Replace(jobs)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "jobs.yaml"), []byte(jobs), 0o600))
	return p
}

// jobsOfAFile: one with a schedule and constraints whose first attempt fails, one
// whose pod waits at a gate, one that takes too long, and one that may not run.
const jobsOfAFile = `
id: often
schedule: "*/2 * * * * *"
overlap: forbid
podSpec:
  nodeSelector: {orrery.test/node: real}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  volumes: [{name: gates, hostPath: {path: GATES}}]
  containers:
    - name: main
      image: localhost/busybox:test
      imagePullPolicy: Never
      command: [/bin/sh, -c, "echo ran; [ -e /gates/tried ] || { touch /gates/tried; exit 3; }"]
      volumeMounts: [{name: gates, mountPath: /gates}]
retry: {maxRetries: 2, initialDelay: 100ms}
constraints:
  - preRunHook:
      config: {url: "HOOKS/may"}
      onMet: [tell, {log: {message: "${run_id} may run"}}]
  - timeWindow:
      config: {from: "00:00", to: "24:00"}
  - expression:
      config: {expression: "attempt <= 2"}
  - lock:
      config: {name: warehouse}
  - expression:
      phase: post
      advisory: true
      config: {expression: "exit_code == 0"}
      onViolation: [{webhook: {url: "HOOKS/failed"}}]
actions:
  tell:
    webhook: {url: "HOOKS/told"}
---
id: waits
podSpec:
  nodeSelector: {orrery.test/node: real}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  volumes: [{name: gates, hostPath: {path: GATES}}]
  containers:
    - name: main
      image: localhost/busybox:test
      imagePullPolicy: Never
      command: [/bin/sh, -c, "echo first; until [ -e /gates/end ]; do sleep 1; done; echo last"]
      volumeMounts: [{name: gates, mountPath: /gates}]
---
id: endless
podSpec:
  nodeSelector: {orrery.test/node: real}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
    - {name: main, image: "localhost/busybox:test", imagePullPolicy: Never, command: [/bin/sleep, "3600"]}
constraints:
  - maxAllowedRunTime:
      config: {limit: 3s}
      onViolation: [{webhook: {url: "HOOKS/slow"}}]
---
id: refused
podSpec:
  containers: [{name: main, image: "localhost/busybox:test"}]
constraints:
  - preRunHook:
      config: {url: "HOOKS/no"}
      onViolation: [skip]
`

func TestTheDaemonRunsTheJobsOfAFileInTheClusterAndOutlivesSIGKILL(t *testing.T) {
	t.Parallel()
	w, h := newWorld(t, kubetest.SharedReal(t)), newHooks(t)
	p := newProgram(t, w, h, jobsOfAFile)
	stop := p.daemon()
	p.ok("job", "apply", "-f", "jobs.yaml")

	// A schedule, constraints, a retry, actions.
	first := p.some(2, "often", core.OrchestratorCompleted)
	first = first[len(first)-1:]
	assert.Equal(t, "ran\n", p.ok("run", "logs", first[0].RunID, "--attempt", "0"))
	assert.Equal(t, "ran\n", p.ok("run", "logs", first[0].RunID, "--attempt", "1"), "the second attempt")
	assert.Equal(t, 1, h.times("/failed"))
	assert.GreaterOrEqual(t, h.times("/told"), 3, "each attempt")
	assert.Contains(t, p.ok("run", "show", first[0].RunID), "lock")

	// A pod that takes too long is killed (R15); one that may not run is none.
	out, code := p.do("job", "trigger", "endless", "--wait")
	assert.Equal(t, 1, code, out)
	assert.Contains(t, p.some(1, "endless", core.OrchestratorFailed)[0].Error, "maxAllowedRunTime")
	assert.Equal(t, 1, h.times("/slow"))
	assert.Contains(t, p.ok("job", "trigger", "refused", "--wait"), "completed")

	// The daemon is killed while a pod runs, and finds it again.
	p.ok("job", "trigger", "waits")
	waits := p.some(1, "waits", core.OrchestratorRunning)[0]
	assert.Equal(t, -1, stop(syscall.SIGKILL))
	assert.Contains(t, p.ok("replay", "--verify", "--db", "orrery.db"), " 0 divergences")
	stop = p.daemon()
	follow := p.command("run", "logs", "-f", waits.RunID)
	said, err := follow.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, follow.Start())
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "first\n", line, "while the pod runs")
	require.NoError(t, w.gates.open("end"))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	assert.Equal(t, "last\n", string(rest))
	require.NoError(t, follow.Wait(), "it has completed")
	assert.Equal(t, "first\nlast\n", p.ok("run", "logs", waits.RunID))
	assert.Equal(t, []string{waits.ID + "/0"}, slices.DeleteFunc(w.attempts(), func(a string) bool { return !strings.HasPrefix(a, waits.ID) }), "one pod")

	// What is cancelled or deleted leaves nothing, and everything is in the journal.
	require.NoError(t, os.Remove(filepath.Join(w.gates.folder, "end")))
	p.ok("job", "trigger", "waits")
	p.ok("run", "cancel", p.some(1, "waits", core.OrchestratorRunning)[0].RunID)
	p.some(1, "waits", core.OrchestratorCancelled)
	p.ok("job", "trigger", "waits")
	p.some(1, "waits", core.OrchestratorRunning)
	p.ok("job", "delete", "waits")
	p.some(2, "waits", core.OrchestratorCancelled)
	p.ok("job", "delete", "often")
	w.leavesNothing()
	eventually(t, func() error { // a run gives its lock back once it hears that its pod is gone
		if out := p.ok("lock", "list"); !strings.Contains(out, "no locks are held") {
			return errors.New(out)
		}
		return nil
	})
	assert.Zero(t, stop(syscall.SIGTERM))
	assert.Contains(t, p.ok("replay", "--verify", "--db", "orrery.db"), " 0 divergences")
}
