//go:build unix

package command_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
)

// The test binary is also the program that the tests run: these variables say
// which part it plays and where the test listens.
const (
	roleVar    = "COMMAND_TEST_ROLE"
	programVar = "COMMAND_TEST_PROGRAM" // the role of a daemon's program
	socketVar  = "COMMAND_TEST_SOCKET"
	idVar      = "COMMAND_TEST_ACTION"
)

// theAction is the action that daemons carry out. Each run of the tests has its
// own, as two at once on one machine would end each other's processes.
var (
	theAction = actionID()
	theCycle  = theAction.String() + "/1"
)

func actionID() uuid.UUID {
	if id, err := uuid.Parse(os.Getenv(idVar)); err == nil {
		return id
	}
	return uuid.New()
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role)
	}
	goleak.VerifyTestMain(m)
}

func init() {
	if os.Getenv(roleVar) == "headless" {
		runtime.LockOSThread() // the main goroutine keeps the first thread
	}
}

func play(role string) {
	switch role {
	case "wait": // for ever, or until the test says more
		_, _ = report(role).Read(make([]byte, 1))
	case "ignore": // SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "not yet")
		_, _ = report(role).Read(make([]byte, 1))
	case "polite": // ends with success on SIGTERM
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		report(role)
		<-terms
		fmt.Fprintln(os.Stderr, "bye")
		os.Exit(0)
	case "leave-child", "leave-session", "leave-two": // a child that holds the output open
		child := self("wait")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if role == "leave-session" {
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		check(child.Start())
		if role == "leave-two" { // and one in the same group that nothing marks
			second := self("ignore")
			second.Env = []string{roleVar + "=ignore", socketVar + "=" + os.Getenv(socketVar)}
			check(second.Start())
		}
		fmt.Println("leader was here")
		conn := report(role)
		_, _ = conn.Read(make([]byte, 1)) // until the test has seen the child
		os.Exit(0)
	case "parent-of-ignore": // waits for a child that ignores SIGTERM
		child := self("ignore")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		check(child.Run())
	case "flood":
		block := []byte(strings.Repeat("0123456789abcdef", 1<<16)) // 1 MiB
		for range 2 << 10 {
			_, err := os.Stdout.Write(block)
			check(err)
		}
		fmt.Print("the end")
		os.Exit(0)
	case "daemon": // runs a program by the tool, as the daemon does
		tool, err := command.New(command.Options{InheritEnv: []string{socketVar}})
		check(err)
		in := fmt.Sprintf(`{"argv":[%q],"env":{%q:%q}}`, os.Args[0], roleVar, os.Getenv(programVar))
		_, err = tool.Run(context.Background(), attempt(1, json.RawMessage(in)))
		check(err)
	case "ancestor": // a daemon's parent, with the mark of the action that the daemon carries out
		daemon := self("second-attempt")
		daemon.Stdout, daemon.Stderr = os.Stdout, os.Stderr
		check(daemon.Run())
		os.Exit(0)
	case "second-attempt":
		tool, err := command.New(command.Options{})
		check(err)
		_, err = tool.Run(context.Background(), attempt(2, json.RawMessage(`{"argv":["true"]}`)))
		check(err)
		os.Exit(0)
	case "headless": // goes on when its first thread has ended
		conn := report(role)
		ended := make(chan struct{})
		go func() {
			<-ended
			_, _ = conn.Read(make([]byte, 1))
			os.Exit(0)
		}()
		close(ended)
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	case "descriptors":
		exhaustDescriptors()
	}
	os.Exit(7)
}

// exhaustDescriptors prints what the tool says without a descriptor left, and
// what it says when there are some again.
func exhaustDescriptors() {
	tool, err := command.New(command.Options{})
	check(err)
	check(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}))
	var open []*os.File
	for {
		f, err := os.Open(os.Args[0])
		if err != nil {
			break
		}
		open = append(open, f)
	}
	call := shell.Call{Input: json.RawMessage(`{"argv":["/bin/echo","ok"]}`)}
	_, err = tool.Run(context.Background(), call)
	fmt.Println(err)
	for _, f := range open {
		check(f.Close())
	}
	_, err = tool.Run(context.Background(), call)
	fmt.Println(err)
	os.Exit(0)
}

// attempt is a call that carries out theAction.
func attempt(n uint32, in json.RawMessage) shell.Call {
	return shell.Call{ActionID: theAction, Attempt: n, IdempotencyKey: theCycle, Input: in}
}

func self(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role, idVar+"="+theAction.String())
	return cmd
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(8)
	}
}

// report tells the test that this process is there. The connection closes when
// the process dies, however it dies: that is how tests see its end.
func report(role string) net.Conn {
	conn, err := net.Dial("unix", os.Getenv(socketVar))
	check(err)
	_, err = fmt.Fprintln(conn, role)
	check(err)
	return conn
}

// stage is where a test waits for the processes that it set going.
type stage struct {
	t        *testing.T
	listener net.Listener
	path     string
}

func newStage(t *testing.T) *stage {
	dir, err := os.MkdirTemp("", "cmd") //nolint:usetesting // t.TempDir is too long for a socket's name
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &stage{t: t, path: filepath.Join(dir, "s")}
	s.listener, err = net.Listen("unix", s.path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.listener.Close() })
	unix, ok := s.listener.(*net.UnixListener)
	require.True(t, ok)
	require.NoError(t, unix.SetDeadline(time.Now().Add(2*time.Minute)), "a process that never reports must not hang the tests")
	return s
}

// actor is a process that has reported.
type actor struct {
	role string
	conn net.Conn
	in   *bufio.Reader
}

// await waits until a process reports.
func (s *stage) await() *actor {
	conn, err := s.listener.Accept()
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	a := &actor{conn: conn, in: bufio.NewReader(conn)}
	line, err := a.in.ReadString('\n')
	require.NoError(s.t, err)
	a.role = strings.TrimSpace(line)
	return a
}

// awaitAll waits for several, in whichever order they come.
func (s *stage) awaitAll(roles ...string) map[string]*actor {
	all := map[string]*actor{}
	for range roles {
		a := s.await()
		all[a.role] = a
	}
	for _, r := range roles {
		require.Contains(s.t, all, r)
	}
	return all
}

// dead waits until the process is gone.
func (a *actor) dead(t *testing.T) {
	_, err := a.in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// goOn lets a process that waits for it go on.
func (a *actor) goOn(t *testing.T) {
	_, err := a.conn.Write([]byte("x"))
	require.NoError(t, err)
}

// leaves runs a program in a role that leaves a child behind, and gives the child and how
// the program ended.
func (s *stage) leaves(t *testing.T, role string) (child *actor, r ran) {
	t.Helper()
	_, out := background(t, newTool(t, command.Options{}), s.input(role))
	actors := s.awaitAll("wait", role)
	actors[role].goOn(t)
	return actors["wait"], <-out
}

// input gives the input that makes the test binary play a role, with more
// fields where given.
func (s *stage) input(role string, more ...string) json.RawMessage {
	fields := append([]string{
		fmt.Sprintf(`"argv":[%q]`, os.Args[0]),
		fmt.Sprintf(`"env":{%q:%q,%q:%q}`, roleVar, role, socketVar, s.path),
	}, more...)
	return json.RawMessage("{" + strings.Join(fields, ",") + "}")
}

func newTool(t *testing.T, o command.Options) *command.Tool {
	tool, err := command.New(o)
	require.NoError(t, err)
	return tool
}

// ran is what a run in the background came to.
type ran struct {
	result json.RawMessage
	err    error
}

// background starts a run and gives the way to cancel it and to its outcome.
func background(t *testing.T, tool *command.Tool, in json.RawMessage) (context.CancelCauseFunc, <-chan ran) {
	return backgroundCall(t, tool, shell.Call{Input: in})
}

func backgroundCall(t *testing.T, tool *command.Tool, call shell.Call) (context.CancelCauseFunc, <-chan ran) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	out := make(chan ran, 1)
	go func() {
		res, err := tool.Run(ctx, call)
		out <- ran{res, err}
	}()
	return cancel, out
}

type output struct {
	ExitCode      int    `json:"exit_code"`
	Signal        string `json:"signal"`
	Stdout        string `json:"stdout"`
	Stderr        string `json:"stderr"`
	StdoutDropped int64  `json:"stdout_dropped_bytes"`
	StderrDropped int64  `json:"stderr_dropped_bytes"`
	DurationMS    *int64 `json:"duration_ms"`
}

func decode(t *testing.T, raw json.RawMessage) output {
	var o output
	require.NoError(t, json.Unmarshal(raw, &o))
	return o
}
