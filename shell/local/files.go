//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/internal/files"
	"github.com/orrery-go/orrery/shell/jobs"
)

// The files of a pod. Its directory appears whole, by a rename, and goes the same
// way.
const (
	planFile = "plan.json"
	// lockFile is locked by the supervisor for as long as it lives, and holds its id.
	lockFile = "lock"
	// startedFile is made once: by the supervisor, which holds the lock then, before
	// it starts anything, or by a deletion that was faster. Whoever finds it there
	// starts nothing.
	startedFile = "started"
	stateFile   = "state.json"
	logDir      = "logs"
	traceFile   = "supervisor.log" // empty, unless the supervisor panics

	newPrefix  = ".new-"  // a pod's directory that is being made
	gonePrefix = ".gone-" // one that is being removed: its processes are gone
	runnerLock = ".lock"  // held while a runner watches
)

// The phases of a pod in its [state].
const (
	phaseInit    = "init" // nothing but init containers has run
	phaseRunning = "running"
	phaseEnded   = "ended"
)

// state is what a supervisor tells of its pod.
type state struct {
	Version    int              `json:"version"`
	Phase      string           `json:"phase"`
	StartedAt  core.Time        `json:"started_at"`
	FinishedAt core.Time        `json:"finished_at"`
	ExitCode   *int32           `json:"exit_code,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	Message    string           `json:"message,omitempty"`
	Containers []containerState `json:"containers"`
}

// containerState is how far a container is.
type containerState struct {
	Name       string    `json:"name"`
	PID        int       `json:"pid,omitempty"`
	StartedAt  core.Time `json:"started_at"`
	FinishedAt core.Time `json:"finished_at"`
	Ended      bool      `json:"ended"` // its log is whole
	ExitCode   int32     `json:"exit_code"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
}

// attemptOf gives the attempt of that [jobs.Attempt.Name].
func attemptOf(name string) (jobs.Attempt, bool) {
	rest, ours := strings.CutPrefix(name, "orrery-")
	id, number, cut := strings.Cut(rest, "-")
	run, err := uuid.Parse(id)
	n, numErr := strconv.ParseUint(number, 10, 32)
	a := jobs.Attempt{Run: run, N: uint32(n)}
	return a, ours && cut && err == nil && numErr == nil && a.Name() == name
}

// writeAtomically puts v into a file as JSON: who reads it finds the old or the new.
func writeAtomically(path string, v any, durable bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if durable && err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	if durable {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readPlan reads the plan of the pod in dir.
func readPlan(dir string) (plan, error) {
	var p plan
	err := readJSON(filepath.Join(dir, planFile), &p)
	if err == nil && p.Version != planVersion {
		err = fmt.Errorf("%s: version %d is not %d", filepath.Join(dir, planFile), p.Version, planVersion)
	}
	return p, err
}

// readState reads what the supervisor of the pod in dir has told; the zero state
// where it has told nothing yet.
func readState(dir string) (state, error) {
	var s state
	err := readJSON(filepath.Join(dir, stateFile), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	return s, err
}

// readProgress tells how far the pod in dir is: whether it was started, whether its
// supervisor lives, and the state, of which only that of a living one must be readable.
func readProgress(dir string) (st state, started, alive bool, err error) {
	if started, err = exists(filepath.Join(dir, startedFile)); err != nil {
		return st, started, false, err
	}
	if started {
		if _, alive, err = supervised(dir); err != nil && !alive {
			return st, started, false, err
		}
	}
	// The state is read after the look at the supervisor: its last word comes before
	// its end.
	if st, err = readState(dir); !alive {
		err = nil
	}
	return st, started, alive, err
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// supervised reports whether the supervisor of the pod in dir lives, and its id. It
// may be asked only where startedFile is there: a look at the lock takes it for a
// moment, and a supervisor that does not get it starts nothing.
func supervised(dir string) (pid int, alive bool, err error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }()
	free, err := files.TryLock(f, true)
	if err != nil || free {
		return 0, false, err
	}
	b := make([]byte, 32)
	n, _ := f.Read(b)
	pid, err = strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid <= 1 {
		return 0, true, fmt.Errorf("%s: %q is no process", f.Name(), b[:n])
	}
	return pid, true, nil
}
