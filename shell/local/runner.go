//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/internal/files"
	"github.com/orrery-go/orrery/shell/internal/keymutex"
	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/internal/procs"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Runner runs pods as processes. Make it with [New]; it needs no closing. It is safe
// for concurrent use.
type Runner struct {
	dir    string
	node   string
	home   string // of pods; empty: none
	maxLog int64
	user   *confine.User // nil: the daemon's
	group  *groupPlan    // nil: pods have no control group
	logger *slog.Logger
	poll   bool // look at everything every now and then, instead of being told

	attempts keymutex.Map[string] // by attempt: one creation or deletion at a time
	launches chan struct{}        // holds a token for each launch that goes on
	watch    *watch
	readers  readers           // of pods that are about to be deleted
	owners   owners            // of pods
	step     func(name string) // a test may end the process there
}

var (
	_ jobs.Runner = (*Runner)(nil)
	_ jobs.Marker = (*Runner)(nil)
)

// maxLaunches is how many supervisors are started at a time: each start takes two
// processes of the program's size.
const maxLaunches = 32

// New makes a Runner. The error names the option that cannot be right.
func New(o Options) (*Runner, error) {
	if o.Dir == "" {
		return nil, errors.New("local: Dir is missing: say where runs keep their files")
	}
	if o.MaxLogBytes != 0 && o.MaxLogBytes < leastMaxLog {
		return nil, fmt.Errorf("local: MaxLogBytes is %d: must be at least %d", o.MaxLogBytes, leastMaxLog)
	}
	if o.Limits.Any() && o.Cgroups == nil {
		return nil, errors.New("local: Limits: need Cgroups, where the groups are made")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("local: Dir: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("local: Dir: %w", err)
	}
	// The directory is the mark of processes: it has one name.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("local: Dir: %w", err)
	}
	if err := openTo(o.RunAs, dir); err != nil {
		return nil, fmt.Errorf("local: RunAs: %w", err)
	}
	node, _ := os.Hostname()
	var group *groupPlan
	if o.Cgroups != nil {
		group = &groupPlan{Root: o.Cgroups.Root(), Limits: o.Limits}
	}
	return &Runner{
		group:    group,
		dir:      dir,
		node:     cmp.Or(node, "localhost"),
		home:     o.Home,
		maxLog:   cmp.Or(o.MaxLogBytes, defaultMaxLog),
		user:     o.RunAs,
		logger:   cmp.Or(o.Logger, slog.Default()),
		watch:    newWatch(),
		launches: make(chan struct{}, maxLaunches),
		step:     func(string) {},
	}, nil
}

// openTo lets a user enter the directory of all pods; it can list nothing there.
func openTo(u *confine.User, dir string) error {
	if u == nil {
		return nil
	}
	if err := u.Check(); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // as above
		return err
	}
	return u.CanEnter(dir)
}

// Check implements [jobs.Runner].
func (r *Runner) Check(spec core.JobSpec) error {
	_, err := checkedSpec(spec)
	return err
}

func (r *Runner) path(a jobs.Attempt) string { return filepath.Join(r.dir, a.Name()) }

// Create implements [jobs.Runner]: the pod's processes are started once, however
// often and by whomever it is called. calls is always 0: there is no API.
func (r *Runner) Create(ctx context.Context, run jobs.Run) (calls int, err error) {
	return 0, r.alone(ctx, run.Attempt, func() error { return r.create(ctx, run) })
}

func (r *Runner) create(ctx context.Context, run jobs.Run) error {
	dir := r.path(run.Attempt)
	if err := r.prepare(dir, run); err != nil {
		return err
	}
	r.watch.touch(run.Name())
	if before, err := exists(filepath.Join(dir, startedFile)); err != nil || before {
		return err
	}
	defer r.watch.touch(run.Name())
	r.step("prepared")
	select {
	case r.launches <- struct{}{}:
		defer func() { <-r.launches }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if run.Confirm != nil {
		if err := run.Confirm(); err != nil {
			return err
		}
	}
	return launch(ctx, dir, r.step)
}

// prepare makes the pod's directory, where it is not there.
func (r *Runner) prepare(dir string, run jobs.Run) error {
	switch p, err := readPlan(dir); {
	case err == nil && r.owners.isForeign(p.Database):
		return permanent("%s is of database %s, and this one is %s: %s", dir, p.Database, r.owners.own(), remedy)
	case err == nil && p.RunID != run.RunID:
		return permanent("%s is of the run %q, not of %q", dir, p.RunID, run.RunID)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	p, err := planOf(run, dir, r.node, uuid.NewString(), r.maxLog)
	if err != nil {
		return err
	}
	p.Group, p.Database = r.group, r.owners.own()
	made, err := os.MkdirTemp(r.dir, ownNewPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }() // nothing, once it has its name
	for _, sub := range []string{logDir, workDir} {
		if err := os.Mkdir(filepath.Join(made, sub), 0o700); err != nil {
			return err
		}
	}
	if r.user != nil {
		p.runAs(r.user)
		if err := errors.Join(os.Chmod(made, 0o711), os.Chown(filepath.Join(made, workDir), int(r.user.UID), int(r.user.GID))); err != nil { //nolint:gosec // the user enters it, and lists nothing
			return err
		}
	}
	if err := writeAtomically(filepath.Join(made, planFile), p, true); err != nil {
		return err
	}
	r.step("made")
	if err := os.Rename(made, dir); err != nil {
		return err
	}
	r.step("renamed")
	return syncDir(r.dir)
}

// alone does what try does to an attempt while nobody else creates or deletes it. It
// repeats try while its error may pass, for as long as ctx lasts.
func (r *Runner) alone(ctx context.Context, a jobs.Attempt, try func() error) error {
	unlock, err := r.attempts.Lock(ctx, a.Name())
	if err != nil {
		return err
	}
	defer unlock()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := try()
		if err == nil || shell.IsPermanent(err) || shell.IsNotStarted(err) || ctx.Err() != nil {
			return err
		}
		r.logger.WarnContext(ctx, "could not create or delete the processes of a pod; trying again", "error", err, "wait", wait)
		if pause.For(ctx, wait) != nil {
			return err
		}
	}
}

// Delete implements [jobs.Runner]. It returns when no process of the pod is left,
// and its files are removed.
func (r *Runner) Delete(ctx context.Context, a jobs.Attempt) (calls int, err error) {
	return 0, r.alone(ctx, a, func() error { return r.delete(ctx, a, r.end) })
}

// Kill implements [jobs.Killer]: the supervisor of the pod is killed with it.
func (r *Runner) Kill(ctx context.Context, a jobs.Attempt) (calls int, err error) {
	return 0, r.alone(ctx, a, func() error { return r.delete(ctx, a, sweep) })
}

// delete deletes an attempt, whose processes end ends if it was started.
func (r *Runner) delete(ctx context.Context, a jobs.Attempt, end func(ctx context.Context, dir string) error) error {
	dir := r.path(a)
	there, err := exists(dir)
	if err != nil {
		return err
	}
	if !there {
		// Somebody may have removed the files alone.
		return sweep(ctx, dir)
	}
	if r.isForeign(a) {
		return nil
	}
	r.watch.expectGone(a.Name())
	switch err := markStarted(dir); {
	case err == nil: // it was not started, and cannot be any more
	case errors.Is(err, errBefore):
		if err := end(ctx, dir); err != nil {
			return err
		}
		if err := removeGroup(dir); err != nil {
			return err
		}
		r.tellEnd(ctx, a)
		r.readers.wait(ctx, a.Name())
	default:
		return err
	}
	r.step("ended")
	gone := filepath.Join(r.dir, gonePrefix+a.Name())
	if err := files.RemoveAll(gone); err != nil { // of an earlier try
		return err
	}
	if err := os.Rename(dir, gone); err != nil {
		return err
	}
	r.step("gone")
	r.watch.touch(a.Name())
	return files.RemoveAll(gone)
}

// tellPatience is how long a deletion waits until the pod's end is told.
const tellPatience = 2 * time.Second

// tellEnd has Watch look at a pod that has ended before its files go: its exit code is
// known then, however busy the machine. A Watch that does not answer holds nothing up.
func (r *Runner) tellEnd(ctx context.Context, a jobs.Attempt) {
	if !r.watch.running() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellPatience)
	defer cancel()
	r.watch.touch(a.Name())
	_ = r.Beat(ctx) // without an answer the pod's end is not known: nothing else depends on it
}

// killPatience is how long a supervisor may take beyond its grace, on a busy machine,
// before it is killed with all that is left of its pod.
const killPatience = 30 * time.Second

// end ends the processes of a pod that was started.
func (r *Runner) end(ctx context.Context, dir string) error {
	grace := defaultGrace * time.Second
	if p, err := readPlan(dir); err == nil {
		grace = time.Duration(p.GraceSeconds) * time.Second
	}
	deadline := time.Now().Add(grace + killPatience)
	terminated := false
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pid, alive, err := supervised(dir)
		switch {
		case err != nil:
			return err
		case !alive:
			if st, err := readState(dir); err == nil && st.Phase == phaseEnded {
				return nil // it has left nothing
			}
			return sweep(ctx, dir)
		case time.Now().After(deadline):
			r.logger.WarnContext(ctx, "the supervisor of a pod does not end it: both are killed", "dir", dir, "pid", pid)
			return sweep(ctx, dir)
		case !terminated:
			terminated = true
			still := func() bool { now, alive, _ := supervised(dir); return alive && now == pid }
			if err := procs.Signal(pid, still, syscall.SIGTERM); err != nil {
				return err
			}
			r.step("asked")
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// Held implements [jobs.Runner].
func (r *Runner) Held(ctx context.Context) ([]jobs.Attempt, error) {
	select {
	case <-r.watch.ready():
		return r.list()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// list gives the attempts that are there, but for those of other databases.
func (r *Runner) list() ([]jobs.Attempt, error) {
	all, err := r.listAll()
	return r.owned(all), err
}

// listAll gives the attempts of all databases that are there.
func (r *Runner) listAll() ([]jobs.Attempt, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}
	var all []jobs.Attempt
	for _, e := range entries { // in the order of their names
		if a, ok := attemptOf(e.Name()); ok && e.IsDir() {
			all = append(all, a)
		}
	}
	return all, nil
}
