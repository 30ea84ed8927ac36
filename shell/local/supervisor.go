//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/internal/procgroup"
)

// outputDelay is how long the output of a container that has ended may be held open
// by what it left behind before the container counts as ended.
const outputDelay = time.Second

// supervisor runs one pod. All its methods but those of the reaper are called by one
// goroutine, which keeps the first thread.
type supervisor struct {
	dir      string
	plan     plan
	st       state
	group    *confine.Group // nil: it has none
	groupErr error          // why it cannot be had: nothing is started then

	exits   chan *container
	signals chan os.Signal
	// The times at which a pod is stopped, and killed; nil channels never come.
	deadline, overrun, kill <-chan time.Time
	saveLater               <-chan time.Time // to save what could not be saved

	reason, message string // why it is being stopped; empty: it is not
	result          *int   // the index of the container that failed first
	outputs         []*container

	mu      sync.Mutex // held while a process is started and made known
	running map[int]*container
	born    *sync.Cond // there is a process to wait for
}

// container is a program that was started.
type container struct {
	index  int // in state.Containers
	pid    int
	status syscall.WaitStatus
	copied chan struct{} // closed when all output was taken
	output *os.File      // the end that we read
}

func newSupervisor(dir string, p plan) *supervisor {
	s := &supervisor{
		dir: dir, plan: p,
		st:      state{Version: planVersion, Phase: phaseInit},
		exits:   make(chan *container),
		signals: make(chan os.Signal, 8),
		running: map[int]*container{},
	}
	s.born = sync.NewCond(&s.mu)
	for _, c := range slices.Concat(p.Init, p.Main) {
		s.st.Containers = append(s.st.Containers, containerState{Name: c.Name})
	}
	return s
}

// run runs the pod to its end, and returns when nothing of it is left.
func (s *supervisor) run() {
	// The others would end it; caught, and not ignored, they mean to containers what
	// they always mean.
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	adoptOrphans()
	go s.reap()
	if s.plan.DeadlineSeconds > 0 {
		s.deadline = time.After(time.Duration(s.plan.DeadlineSeconds) * time.Second)
	}
	s.save(false)
	s.groupErr = s.makeGroup()
	if s.runInit() {
		s.runMain()
	}
	s.endGroup()
	s.endAll()
	s.finish()
}

// runInit runs the init containers one after the other, and reports whether all
// succeeded.
func (s *supervisor) runInit() bool {
	for i, c := range s.plan.Init {
		if s.reason != "" {
			return false
		}
		s.start(i, c)
		s.await()
		if s.result != nil || s.reason != "" {
			return false
		}
	}
	return true
}

// runMain runs all other containers at once.
func (s *supervisor) runMain() {
	for i, c := range s.plan.Main {
		s.start(len(s.plan.Init)+i, c)
	}
	if s.alive() {
		s.st.Phase, s.st.StartedAt = phaseRunning, effects.TimeOf(time.Now())
		if s.plan.MaxRunMS > 0 {
			s.overrun = time.After(time.Duration(s.plan.MaxRunMS) * time.Millisecond)
		}
		s.save(false)
	}
	s.await()
}

func (s *supervisor) alive() bool {
	return slices.ContainsFunc(s.st.Containers, func(c containerState) bool { return c.PID != 0 && !c.Ended })
}

// await waits until all containers that were started have ended.
func (s *supervisor) await() {
	for s.alive() {
		select {
		case c := <-s.exits:
			s.ended(c)
		case sig := <-s.signals:
			if sig == syscall.SIGTERM {
				s.stop("Terminated", "it was stopped")
			}
		case <-s.deadline:
			s.stop("DeadlineExceeded", fmt.Sprintf("it was active for longer than activeDeadlineSeconds, %d", s.plan.DeadlineSeconds))
		case <-s.overrun:
			s.stop("DeadlineExceeded", "it ran for longer than maxAllowedRunTime")
		case <-s.saveLater:
			s.save(false)
		case <-s.kill:
			s.signal(syscall.SIGKILL)
			s.kill = time.After(time.Second) // for what has just been started
		}
	}
}

// stop asks all containers to end. They are killed when the grace is over.
func (s *supervisor) stop(reason, message string) {
	if s.reason != "" {
		return
	}
	s.reason, s.message = reason, message
	if s.plan.GraceSeconds > 0 {
		s.signal(syscall.SIGTERM)
		s.signal(syscall.SIGCONT) // one that is stopped would not hear it
	}
	s.kill = time.After(time.Duration(s.plan.GraceSeconds) * time.Second)
}

// signal gives a signal to the groups of all containers that run.
func (s *supervisor) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid := range s.running {
		_ = procgroup.Signal(pid, sig) // what has ended meanwhile is not yet reaped
	}
}

// start starts a container. Where that fails, it has ended.
func (s *supervisor) start(index int, p program) {
	c := &s.st.Containers[index]
	c.StartedAt = effects.TimeOf(time.Now())
	started, err := s.startProcess(index, p)
	if err != nil {
		c.Ended, c.FinishedAt = true, c.StartedAt
		c.ExitCode, c.Reason, c.Message = startCode(err), "StartError", fmt.Sprintf("start %q: %v", p.Argv[0], err)
		s.judge(index)
		return
	}
	c.PID = started.pid
	s.outputs = append(s.outputs, started)
}

// startCode is what a shell gives for a program that cannot be started.
func startCode(err error) int32 {
	if errors.Is(err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

func (s *supervisor) startProcess(index int, p program) (*container, error) {
	if s.groupErr != nil {
		return nil, s.groupErr
	}
	path, err := lookUp(p)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	defer func() { _ = null.Close() }()
	sys := attributes()
	if s.plan.User != nil {
		sys.Credential = s.plan.User.Credential()
	}
	if s.group != nil {
		s.group.BindProcess(sys)
	}
	s.mu.Lock()
	pid, err := syscall.ForkExec(path, p.Argv, &syscall.ProcAttr{
		Dir: p.Dir, Env: p.Env, Files: []uintptr{null.Fd(), w.Fd(), w.Fd()}, Sys: sys,
	})
	if err != nil {
		s.mu.Unlock()
		_ = r.Close()
		return nil, err
	}
	c := &container{index: index, pid: pid, copied: make(chan struct{}), output: r}
	s.running[pid] = c
	s.born.Signal()
	s.mu.Unlock()
	go func() {
		defer close(c.copied)
		log := newLogWriter(filepath.Join(s.dir, logDir), p.Name, s.plan.MaxLogBytes)
		defer log.close()
		_, _ = io.Copy(log, r) // ends when nobody holds the other end, or we close this one
	}()
	return c, nil
}

// lookUp finds the program of a container, in its own PATH.
func lookUp(p program) (string, error) {
	if info, err := os.Stat(p.Dir); err != nil {
		return "", fmt.Errorf("workingDir: %w", err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("workingDir: %s is not a directory", p.Dir)
	}
	name := p.Argv[0]
	if strings.ContainsRune(name, '/') {
		return name, nil // a relative one is taken from the working directory
	}
	var path string
	for _, kv := range p.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	var found error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(p.Dir, dir)
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		switch {
		case err != nil || info.IsDir():
		case unix.Access(file, unix.X_OK) != nil:
			found = cmp.Or(found, fmt.Errorf("%s: %w", file, fs.ErrPermission))
		default:
			return file, nil
		}
	}
	return "", cmp.Or(found, fmt.Errorf("not found in PATH %q: %w", path, fs.ErrNotExist))
}

// ended takes the end of a container.
func (s *supervisor) ended(e *container) {
	c := &s.st.Containers[e.index]
	c.Ended, c.FinishedAt = true, effects.TimeOf(time.Now())
	switch {
	case e.status.Signaled():
		c.ExitCode = 128 + int32(e.status.Signal())
		c.Reason, c.Message = "Error", "ended by "+procgroup.SignalName(e.status.Signal())
	case e.status.ExitStatus() != 0:
		c.ExitCode, c.Reason = int32(e.status.ExitStatus()), "Error"
	default:
		c.Reason = "Completed"
	}
	s.judge(e.index)
	s.save(false)
}

// judge remembers the first container that failed.
func (s *supervisor) judge(index int) {
	if s.result == nil && s.st.Containers[index].ExitCode != 0 {
		s.result = &index
	}
}

// finish writes down how the pod ended.
func (s *supervisor) finish() {
	s.st.Phase, s.st.FinishedAt = phaseEnded, effects.TimeOf(time.Now())
	s.st.Reason = "Completed"
	var code int32
	if s.result != nil {
		c := s.st.Containers[*s.result]
		code, s.st.Reason, s.st.Message = c.ExitCode, c.Reason, c.Message
		if len(s.st.Containers) > 1 {
			s.st.Message = fmt.Sprintf("container %q", c.Name)
			if c.Message != "" {
				s.st.Message += ": " + c.Message
			}
		}
	}
	s.st.ExitCode = &code
	if s.reason != "" {
		s.st.Reason, s.st.Message = s.reason, s.message
		// What was cut short has not succeeded, whatever it says.
		if code == 0 {
			s.st.ExitCode = nil
		}
	}
	s.save(true)
}

// save writes the state; where that fails, once more later. The last one has to be
// written: it goes on for as long as the pod is there, and nobody stops it.
func (s *supervisor) save(last bool) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := writeAtomically(filepath.Join(s.dir, stateFile), s.st, last)
		if err == nil {
			return
		}
		if !last {
			s.saveLater = time.After(time.Second)
			return
		}
		if there, _ := exists(filepath.Join(s.dir, planFile)); !there {
			return
		}
		select {
		case sig := <-s.signals:
			if sig == syscall.SIGTERM {
				return
			}
		case <-time.After(wait):
		}
	}
}
