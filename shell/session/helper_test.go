//go:build unix

package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/session"
)

// The test binary is also the program that runs in the sessions: the variable
// says which part it plays.
const roleVar = "SESSION_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func play(role string) {
	switch role {
	case "tell": // what it was given
		dir, _ := os.Getwd()
		b, _ := json.Marshal(told{Args: os.Args[1:], Dir: dir, Env: os.Environ()})
		check(os.WriteFile("told.tmp", b, 0o600))
		check(os.Rename("told.tmp", "told"))
	case "ignore": // what asks it to end
		signal.Ignore(syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
		check(os.WriteFile("pid-"+strconv.Itoa(os.Getpid()), nil, 0o600))
		select {}
	case "family": // leaves no way to hide untried
		self("ignore", nil, false)
		self("ignore", nil, true)                   // in a session of its own
		self("orphan", nil, true)                   // whose child loses its parent
		self("ignore", []string{"PATH=/bin"}, true) // without the mark
		signal.Ignore(syscall.SIGHUP, syscall.SIGTERM)
		select {}
	case "orphan":
		self("ignore", nil, true)
	case "leave": // ends, and leaves one behind
		self("ignore", nil, false)
		for matches := []string(nil); len(matches) == 0; {
			matches, _ = filepath.Glob("pid-*")
		}
	case "daemon": // starts a session on its own terminals
		s, err := session.New(session.Options{Backend: session.PTY, Root: os.Args[1]})
		check(err)
		_, err = s.Carry(context.Background(), effects.Ref{}, effects.Spawn{Session: "left", Command: []string{os.Args[0]}, Env: env("ignore")})
		check(err)
		select {}
	}
}

type told struct {
	Args []string
	Dir  string
	Env  []string
}

func self(role string, environ []string, apart bool) {
	if environ == nil {
		environ = os.Environ()
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(environ, roleVar+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: apart}
	check(cmd.Start())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(8)
	}
}

func env(role string) map[string]string { return map[string]string{roleVar: role} }

// place is where a test has its sessions.
type place struct {
	*session.Sessions
	t       *testing.T
	root    string
	options session.Options
}

// onEach runs a test on both backends.
func onEach(t *testing.T, test func(t *testing.T, backend string)) {
	for _, backend := range []string{session.Tmux, session.PTY} {
		t.Run(backend, func(t *testing.T) { test(t, backend) })
	}
}

// open makes Sessions of a backend, and sees to it that nothing is left of them.
func open(t *testing.T, backend string, change ...func(*session.Options)) *place {
	if _, err := exec.LookPath("tmux"); backend == session.Tmux && err != nil {
		if runtime.GOOS != "linux" {
			t.Skip("tmux is not installed")
		}
		t.Fatal("tmux is not in PATH: these tests need it (apt-get install tmux)")
	}
	dir, err := os.MkdirTemp("", "ses") //nolint:usetesting // t.TempDir is too long for a socket's name
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	root := filepath.Join(dir, "root")
	require.NoError(t, os.Mkdir(root, 0o700))
	o := session.Options{
		Backend: backend, Root: root, Socket: filepath.Join(dir, "s"),
		KillGrace: 100 * time.Millisecond, InputWait: time.Minute, EnterDelay: -1,
		CommandTimeout: time.Minute, Shell: "/bin/sh",
	}
	for _, c := range change {
		c(&o)
	}
	p := &place{t: t, root: root, options: o, Sessions: again(t, o)}
	t.Cleanup(func() {
		// All of it goes, also where the test has failed; and what a program can hide
		// from everybody is found only as long as its session is there.
		last := o
		last.KillGrace = -1
		if s, err := session.New(last); assert.NoError(t, err) {
			_, err := s.Cleanup(context.Background(), func(string) bool { return false })
			assert.NoError(t, err)
			assert.NoError(t, s.Close())
		}
		if backend == session.Tmux {
			_ = exec.Command("tmux", "-S", o.Socket, "kill-server").Run()
			until(t, "the tmux server is gone", func() bool {
				return exec.Command("tmux", "-S", o.Socket, "list-sessions").Run() != nil
			})
		}
		require.NoError(t, p.Close())
		left, err := p.Marked()
		require.NoError(t, err)
		require.Empty(t, left, "sessions with processes that are left over")
	})
	return p
}

// again makes Sessions as another daemon on the same machine does.
func again(t *testing.T, o session.Options) *session.Sessions {
	s, err := session.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// until waits for something to become true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(t, "not within a minute: "+what)
		}
	}
}

var machine = effects.Ref{Kind: "task", ID: uuid.MustParse("11111111-2222-3333-4444-555555555555")}

// carry carries an effect out for which nothing may go wrong.
func (p *place) carry(e effects.Outer) {
	p.t.Helper()
	_, err := p.Carry(p.t.Context(), machine, e)
	require.NoError(p.t, err)
}

// spawn starts a session that plays a role.
// interrupted carries an effect out until meanwhile returns, and cancels it then.
func (p *place) interrupted(e effects.Outer, meanwhile func()) {
	p.t.Helper()
	ctx, interrupt := context.WithCancel(p.t.Context())
	carried := make(chan error, 1)
	go func() {
		_, err := p.Carry(ctx, machine, e)
		carried <- err
	}()
	meanwhile()
	interrupt()
	require.ErrorIs(p.t, <-carried, context.Canceled)
}

func (p *place) spawn(name, role string) {
	p.t.Helper()
	p.carry(effects.Spawn{Session: name, Command: []string{os.Args[0]}, Env: env(role)})
}

// info gives what List says of a session, nil where it says nothing.
func (p *place) info(name string) *session.Info {
	p.t.Helper()
	all, err := p.List(p.t.Context())
	require.NoError(p.t, err)
	for _, i := range all {
		if i.Name == name {
			return &i
		}
	}
	return nil
}

// ended waits until the session's program has ended.
func (p *place) ended(name string) *session.Info {
	p.t.Helper()
	until(p.t, name+" has ended", func() bool { i := p.info(name); return i != nil && !i.Alive })
	return p.info(name)
}

// shows waits until the session shows a text.
func (p *place) shows(name, text string) session.Screen {
	p.t.Helper()
	var s session.Screen
	until(p.t, name+" shows "+text, func() bool {
		var err error
		s, err = p.Capture(p.t.Context(), name)
		require.NoError(p.t, err)
		return strings.Contains(s.Text, text)
	})
	return s
}

// rests waits until the session's cursor is at a place: where what was written
// last puts it. What a program writes at once may be seen in parts.
func (p *place) rests(name string, row, column int) session.Screen {
	p.t.Helper()
	var s session.Screen
	until(p.t, fmt.Sprintf("the cursor of %s is in row %d, column %d", name, row, column), func() bool {
		var err error
		s, err = p.Capture(p.t.Context(), name)
		require.NoError(p.t, err)
		return s.CursorRow == row && s.CursorColumn == column
	})
	return s
}

// pids waits for as many programs that have noted their ids.
func (p *place) pids(n int) []int {
	p.t.Helper()
	var ids []int
	until(p.t, fmt.Sprint(n, " programs run"), func() bool {
		ids = nil
		files, err := filepath.Glob(filepath.Join(p.root, "pid-*"))
		require.NoError(p.t, err)
		for _, f := range files {
			id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(f), "pid-"))
			require.NoError(p.t, err)
			ids = append(ids, id)
		}
		return len(ids) >= n
	})
	require.Len(p.t, ids, n)
	return ids
}

// file waits for a file in the root, and reads it.
func (p *place) file(name string) string {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	until(p.t, name+" is there", func() bool { _, err := os.Stat(path); return err == nil })
	b, err := os.ReadFile(path)
	require.NoError(p.t, err)
	return string(b)
}
