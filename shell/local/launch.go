//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/orrery-go/orrery/shell/internal/files"
)

// The names under which this program is started once more: as the supervisor of a
// pod, and as the process that starts it and ends, so that the supervisor is
// nobody's child.
const (
	launcherName   = "orrery-pod-launcher"
	supervisorName = "orrery-pod"
)

// What a supervisor answers the one who launched it.
const (
	answerStarted = "started" // by this one
	answerBefore  = "before"  // another one was there before
)

// init turns a process that was started as one of these into it. This happens
// before main, so that every program that has a [Runner] can be its own
// supervisor, tests included.
func init() {
	if len(os.Args) != 2 || os.Getenv(podDirVar) != os.Args[1] {
		return
	}
	switch os.Args[0] {
	case launcherName:
		os.Exit(launchDetached(os.Args[1]))
	case supervisorName:
		// The kernel kills containers when the thread that started them ends: the
		// first one ends with the process.
		runtime.LockOSThread()
		os.Exit(superviseMain(os.Args[1]))
	}
}

// self is the running program, also where its file was replaced or removed.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// launch starts the supervisor of the pod in dir, unless there was one before. It
// returns once it is known which.
func launch(ctx context.Context, dir string, step func(string)) error {
	exe, err := self()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Other packages of the program may print something before it becomes a launcher:
	// the answer has a way of its own.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	var problem strings.Builder
	cmd := &exec.Cmd{Path: exe, Args: []string{launcherName, dir}, Dir: dir, Env: supervisorEnv(dir), Stderr: &problem, ExtraFiles: []*os.File{w}}
	// It is not killed when ctx ends: it takes a moment, and a pod that is half
	// started could not be told from one that is not.
	err = cmd.Start()
	_ = w.Close()
	var out []byte
	if err == nil {
		step("launched")
		out, err = io.ReadAll(r)
		err = errors.Join(err, cmd.Wait())
	}
	if err != nil {
		return fmt.Errorf("start the supervisor of a pod: %w%s", err, clipped(problem.String()))
	}
	switch string(out) {
	case answerStarted, answerBefore:
		step("answered")
		return nil
	}
	return fmt.Errorf("start the supervisor of a pod: it ended before it was ready%s", clipped(problem.String()+string(out)))
}

// answerTo is where a launcher and a supervisor answer.
func answerTo() *os.File {
	syscall.CloseOnExec(3)
	return os.NewFile(3, "answer")
}

func clipped(text string) string {
	const most = 512
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", text[:min(len(text), most)])
}

// supervisorEnv is what a supervisor needs: nothing of the daemon's, which holds
// secrets. The mark lets it be found. GORACE is read by programs that have the race
// detector, which sleep for a second at their end unless it says otherwise.
func supervisorEnv(dir string) []string {
	env := []string{podDirVar + "=" + dir, "GOMAXPROCS=2"}
	if races, ok := os.LookupEnv("GORACE"); ok {
		env = append(env, "GORACE="+races)
	}
	return env
}

// launchDetached is the launcher: it starts the supervisor in a session of its own,
// and hands its answer on.
func launchDetached(dir string) int {
	fail := func(err error) int {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	to := answerTo()
	exe, err := self()
	if err != nil {
		return fail(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	trace, err := os.OpenFile(filepath.Join(dir, traceFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fail(err)
	}
	cmd := &exec.Cmd{
		Path: exe, Args: []string{supervisorName, dir}, Dir: "/", Env: supervisorEnv(dir),
		Stdout: trace, Stderr: trace, ExtraFiles: []*os.File{w},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	_ = w.Close()
	answer, err := io.ReadAll(r) // ends when the supervisor has answered, or has ended
	if err != nil {
		return fail(err)
	}
	_, _ = to.Write(answer)
	return 0
}

// superviseMain is the supervisor.
func superviseMain(dir string) int {
	answer := answerTo()
	p, lock, err := claim(dir)
	switch {
	case errors.Is(err, errBefore):
		_, _ = answer.WriteString(answerBefore)
		return 0
	case err != nil:
		_, _ = answer.WriteString(err.Error())
		return 1
	}
	s := newSupervisor(dir, p)
	_, _ = answer.WriteString(answerStarted)
	_ = answer.Close()
	s.run()
	runtime.KeepAlive(lock) // until now the pod is supervised
	return 0
}

// errBefore says that a pod was started before, or must not be started any more.
var errBefore = errors.New("another supervisor was there before")

// claim makes this process the pod's only supervisor, now and for ever. It holds
// the lock for as long as it lives.
func claim(dir string) (plan, *os.File, error) {
	p, err := readPlan(dir)
	if err != nil {
		return plan{}, nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return plan{}, nil, err
	}
	got, err := files.TryLock(lock, false)
	if err == nil && !got {
		err = errBefore
	}
	if err == nil {
		err = lock.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(lock, "%d\n", os.Getpid())
	}
	if err == nil {
		err = markStarted(dir)
	}
	if err != nil {
		_ = lock.Close()
		return plan{}, nil, err
	}
	return p, lock, nil
}

// markStarted makes the mark that a pod was started; errBefore where it is there.
// It is on the disk before it returns: not even after a power failure is anything
// started again.
func markStarted(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, startedFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return errBefore
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(dir))
}
