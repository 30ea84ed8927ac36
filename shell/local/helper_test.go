//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/local"
)

// patience is for a slow and loaded machine: nothing waits for so long unless it is
// broken.
const patience = 2 * time.Minute

// hostVar makes the test binary a host of a runner, which ends by SIGKILL.
const hostVar = "ORRERY_TEST_LOCAL_HOST"

func TestMain(m *testing.M) {
	if raw := os.Getenv(hostVar); raw != "" {
		if err := host(raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// hostTask is what a host does until it is killed at a step.
type hostTask struct {
	Dir    string
	Run    jobs.Run
	Delete bool
	Step   string
	// Upgrade has another program take the place of this one's file at Step; nobody is
	// killed then.
	Upgrade bool
}

func host(raw string) error {
	var task hostTask
	if err := json.Unmarshal([]byte(raw), &task); err != nil {
		return err
	}
	r, err := local.New(local.Options{Dir: task.Dir})
	if err != nil {
		return err
	}
	r.AtStep(func(step string) {
		if step != task.Step {
			return
		}
		if task.Upgrade {
			upgrade()
		} else {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	if task.Delete {
		_, err = r.Delete(context.Background(), task.Run.Attempt)
	} else {
		_, err = r.Create(context.Background(), task.Run)
	}
	return err
}

// upgrade puts another program in the place of this one, as a package manager does.
func upgrade() {
	exe, err := os.Executable()
	if err == nil {
		err = os.WriteFile(exe+".new", []byte("#!/bin/sh\nexit 99\n"), 0o700)
	}
	if err == nil {
		err = os.Rename(exe+".new", exe)
	}
	if err != nil {
		panic(err)
	}
}

// killedAt has another process do the task, and die at the step.
func killedAt(t *testing.T, task hostTask) {
	t.Helper()
	raw, err := json.Marshal(task)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), hostVar+"="+string(raw))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "it reached its end: %s", out)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), "%s", out)
}

// seen collects what a runner tells.
type seen struct {
	mu  sync.Mutex
	all []jobs.Observation
}

func (s *seen) Observe(_ context.Context, o jobs.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
}

func (s *seen) of(a jobs.Attempt) []jobs.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []jobs.Observation
	for _, o := range s.all {
		if o.Attempt == a {
			found = append(found, o)
		}
	}
	return found
}

// world is a runner that watches.
type world struct {
	*local.Runner
	*seen
	t       *testing.T
	stop    func()
	stopped atomic.Bool
}

func watching(t *testing.T, dir string, change ...func(*local.Options)) *world {
	t.Helper()
	o := local.Options{Dir: dir}
	for _, fn := range change {
		fn(&o)
	}
	r, err := local.New(o)
	require.NoError(t, err)
	return watch(t, r)
}

func watch(t *testing.T, r *local.Runner) *world {
	t.Helper()
	w := &world{Runner: r, seen: &seen{}, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Watch(ctx, w.seen) }()
	w.stop = sync.OnceFunc(func() {
		w.stopped.Store(true)
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
	t.Cleanup(func() {
		if w.stopped.Load() {
			return // the test has seen to it
		}
		held, err := r.Held(context.Background())
		assert.NoError(t, err)
		for _, a := range held {
			_, err := r.Delete(context.Background(), a)
			assert.NoError(t, err)
		}
		w.stop()
	})
	_, err := r.Held(t.Context())
	require.NoError(t, err)
	return w
}

// until waits for something to be true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, 5*time.Millisecond, what)
}

// reaches waits for a phase of an attempt, and gives what was told with it.
func (w *world) reaches(a jobs.Attempt, phase jobs.Phase) jobs.Observation {
	w.t.Helper()
	var last jobs.Observation
	until(w.t, "the pod is "+string(phase), func() bool {
		all := w.of(a)
		for _, o := range all {
			if o.Phase == phase {
				last = o
				return true
			}
		}
		return false
	})
	return last
}

func (w *world) create(run jobs.Run) {
	w.t.Helper()
	_, err := w.Create(w.t.Context(), run)
	require.NoError(w.t, err)
}

func (w *world) delete(a jobs.Attempt) {
	w.t.Helper()
	_, err := w.Delete(w.t.Context(), a)
	require.NoError(w.t, err)
}

func (w *world) log(a jobs.Attempt, container string) string {
	w.t.Helper()
	var b bytes.Buffer
	_, err := w.Logs(w.t.Context(), a, jobs.LogOptions{Container: container}, &b)
	require.NoError(w.t, err)
	return b.String()
}

// pod makes a run of a pod spec.
func pod(spec string) jobs.Run {
	at := core.Time(1_700_000_000_000)
	return jobs.Run{
		Attempt: jobs.Attempt{Run: uuid.New()},
		RunID:   core.RunID("nightly", at), JobID: "nightly", ScheduledAt: at,
		Spec: core.JobSpec{ID: "nightly", PodSpec: json.RawMessage(spec), Labels: map[string]string{"team": "blue"}},
	}
}

// shell makes a run of one shell script.
func script(text string, more ...string) jobs.Run {
	quoted, _ := json.Marshal(text)
	extra := ""
	if len(more) > 0 {
		extra = "," + strings.Join(more, ",")
	}
	return pod(`{"containers":[{"name":"main","image":"none","command":["sh","-c",` + string(quoted) + `]}]` + extra + `}`)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	return string(b)
}

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "file") }

func (w *world) dir() string { return w.Path() }

// assertNone holds that no process of the run is left.
func assertNone(t *testing.T, w *world, run jobs.Run) {
	t.Helper()
	assert.Empty(t, local.Marked(filepath.Join(w.dir(), run.Name())))
}

func localMarked(w *world, run jobs.Run) []int {
	return local.Marked(filepath.Join(w.dir(), run.Name()))
}
