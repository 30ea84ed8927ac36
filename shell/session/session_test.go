//go:build unix

package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/session"
)

// hostile are words that a shell, or tmux, would make something else of.
var hostile = []string{
	"", " ", "two words", "'single' \"double\"", "$HOME ${HOME} $(id) `id`", "line\n   next\n\n#last", "\ttab",
	"-d", "--", "-", ";", "a;", `\`, `\n \\ \101`, "~", "~root", "*", "{", "}", "#{pid}", "#(id)", "##", "%H %%", "!x", "&& | > <",
	"é 日本 \U0001F600", "\x01\x1b[31m\x7f", strings.Repeat("long ", 10_000), "=x", "A=b", "\r",
}

func TestAProgramGetsArgumentsEnvironmentAndDirectoryAsTheyAre(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		dir := "a #{pid} $HOME 'q' \"d\" \\ %H\n  é"
		require.NoError(t, os.Mkdir(filepath.Join(p.root, dir), 0o700))
		vars := env("tell")
		for i, value := range hostile {
			vars[fmt.Sprint("HOSTILE_", i)] = value
		}
		p.carry(effects.Spawn{Session: "a", Workspace: dir, Command: append([]string{os.Args[0]}, hostile...), Env: vars})
		var got told
		require.NoError(t, json.Unmarshal([]byte(p.file(dir+"/told")), &got))
		assert.Equal(t, hostile, got.Args)
		assert.Equal(t, filepath.Join(p.root, dir), got.Dir)
		for i, value := range hostile {
			assert.Contains(t, got.Env, fmt.Sprint("HOSTILE_", i, "=", value))
		}
		assert.Equal(t, 0, *p.ended("a").ExitCode)
	})
}

func TestAProgramWithoutArgumentsIsNotReadByAShell(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		program := filepath.Join(p.root, "a $HOME; 'b'")
		require.NoError(t, os.Symlink(os.Args[0], program))
		p.carry(effects.Spawn{Session: "a", Command: []string{"./a $HOME; 'b'"}, Env: env("tell")})
		assert.NotEmpty(t, p.file("told"))
	})
}

func TestAProgramGetsNothingOfTheDaemonsEnvironmentThatIsNotNamed(t *testing.T) {
	t.Setenv("SESSION_SECRET", "s3cret")
	t.Setenv("SESSION_OPEN_1", "one")
	t.Setenv("TMUX", "/nowhere,1,0")
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend, func(o *session.Options) { o.InheritEnv = []string{"PATH", "SESSION_OPEN_*", "TMUX"} })
		p.spawn("a", "tell")
		seen := p.file("told")
		assert.NotContains(t, seen, "s3cret")
		assert.NotContains(t, seen, "/nowhere")
		assert.Contains(t, seen, "SESSION_OPEN_1=one")
		assert.Contains(t, seen, "ORRERY_SESSION=a")
		assert.NotContains(t, seen, "HOME=", "only what is named")
	})
}

func TestAnEndIsNoticedWithItsCode(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		end := "exit 7"
		if backend == session.Tmux { // which hears of an end before the kernel has handed on what was written just before
			end = "sleep 0.2; " + end
		}
		p.carry(effects.Spawn{Session: "code", Command: []string{"sh", "-c", "echo last words; " + end}})
		i := p.ended("code")
		require.NotNil(t, i.ExitCode)
		assert.Equal(t, 7, *i.ExitCode)
		assert.Empty(t, i.Signal)
		assert.Equal(t, "last words", p.shows("code", "words").Text, "the screen of one that has ended can be read, and has nothing of ours")

		p.carry(effects.Spawn{Session: "signal", Command: []string{"sh", "-c", "kill -KILL $$"}})
		i = p.ended("signal")
		assert.Nil(t, i.ExitCode)
		assert.Equal(t, "SIGKILL", i.Signal)
	})
}

func TestASpawnLeavesASessionThatLivesAndReplacesOneThatHasEnded(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		cat := effects.Spawn{N: 1, Session: "a", Command: []string{"cat"}}
		p.carry(cat)
		first := p.info("a")
		require.True(t, first.Alive)
		cat.N = 2
		p.carry(cat)
		assert.Equal(t, first.PID, p.info("a").PID)

		end := effects.Spawn{N: 3, Session: "b", Command: []string{"sh", "-c", "echo x >> ran"}}
		p.carry(end)
		p.ended("b")
		p.carry(end)
		assert.Equal(t, "x\n", p.file("ran"), "this very spawn has been carried out")
		end.N = 4
		p.carry(end)
		p.ended("b")
		assert.Equal(t, "x\n", p.file("ran"), "nor once more, where the machine asks again for what was interrupted")
		_, err := p.Carry(t.Context(), effects.Ref{Kind: "task", ID: uuid.UUID{1}}, end)
		require.NoError(t, err)
		p.ended("b")
		assert.Equal(t, "x\nx\n", p.file("ran"), "another machine's")
		_, err = p.Carry(t.Context(), effects.Ref{}, end)
		require.NoError(t, err)
		p.ended("b")
		assert.Equal(t, "x\nx\nx\n", p.file("ran"), "without a machine nothing is a repetition")
	})
}

func TestASpawnTellsTheSessionAndItsProcess(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		result, err := p.Carry(t.Context(), machine, effects.Spawn{Session: "a"})
		require.NoError(t, err)
		assert.JSONEq(t, fmt.Sprintf(`{"session":"a","pid":%d}`, p.info("a").PID), string(result))
		assert.Equal(t, backend, p.Backend())
	})
}

func TestWhatIsWrongWithASpawnIsNamedAndNotTriedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		outside := t.TempDir()
		require.NoError(t, os.Symlink(outside, filepath.Join(p.root, "out")))
		require.NoError(t, os.WriteFile(filepath.Join(p.root, "file"), nil, 0o600))
		for _, row := range []struct {
			spawn effects.Spawn
			says  string
		}{
			{effects.Spawn{Session: ""}, `session: ""`},
			{effects.Spawn{Session: "a.b"}, `session: "a.b"`},
			{effects.Spawn{Session: "a b"}, `session: "a b"`},
			{effects.Spawn{Session: "a\n"}, `session: "a\n"`},
			{effects.Spawn{Session: strings.Repeat("x", 65)}, `session: "xxx`},
			{effects.Spawn{Workspace: "../x"}, `workspace: "../x" contains ".."`},
			{effects.Spawn{Workspace: "a/../b"}, `workspace: "a/../b" contains ".."`},
			{effects.Spawn{Workspace: outside}, "workspace: " + fmt.Sprintf("%q", outside) + " leads out"},
			{effects.Spawn{Workspace: p.root + "x"}, "leads out of the workspace root"},
			{effects.Spawn{Workspace: "out"}, `workspace: "out" is a link that leads out`},
			{effects.Spawn{Workspace: p.root + "/out"}, `is a link that leads out`},
			{effects.Spawn{Workspace: "file"}, `workspace: "file" is not a directory`},
			{effects.Spawn{Workspace: "missing"}, `workspace: directory "missing" does not exist`},
			{effects.Spawn{Workspace: "a\x00b"}, `workspace: "a\x00b" is not a path`},
			{effects.Spawn{Workspace: "a\xffb"}, `workspace: "a\xffb" is not a path`},
			{effects.Spawn{Command: []string{"cat", "\xff"}}, `command[1]: "\xff" is not valid UTF-8`},
			{effects.Spawn{Command: []string{"cat", "a\x00"}}, `command[1]: "a\x00" contains a zero byte`},
			{effects.Spawn{Command: []string{"cat", strings.Repeat("x", 1<<17)}}, `command[1]: "xxx`},
			{effects.Spawn{Command: make([]string, 1001)}, `command: has 1001 elements`},
			{effects.Spawn{Command: []string{"-x"}}, `command[0]: "-x" is not a program`},
			{effects.Spawn{Command: []string{"-" + strings.Repeat("x", 198) + "ñ"}}, strings.Repeat("x", 198) + `\xc3…" is not a program`},
			{effects.Spawn{Command: []string{""}}, `command[0]: "" is not a program`},
			{effects.Spawn{Command: []string{"no-such-program", "x"}}, `command[0]: program "no-such-program" is not found in PATH`},
			{effects.Spawn{Command: []string{"./file"}}, `command[0]: program "./file" cannot be run`},
			{effects.Spawn{Command: []string{p.root}}, `it is a directory`},
			{effects.Spawn{Env: map[string]string{"A=B": ""}}, `env: "A=B" is not the name`},
			{effects.Spawn{Env: map[string]string{"A": "\xff"}}, `env.A: "\xff" is not valid UTF-8`},
			{effects.Spawn{Env: map[string]string{"ORRERY_SESSION": "b"}}, `env: variable "ORRERY_SESSION" is reserved`},
			{effects.Spawn{Input: "a\x1b[201~b"}, `input: has the control character '\x1b' at byte 1`},
			{effects.Spawn{Input: "\xff"}, `input: "\xff" is not valid UTF-8`},
			{effects.Spawn{Input: strings.Repeat("x", 1<<20)}, `input: has 1048576 bytes`},
		} {
			if row.spawn.Session == "" && !strings.HasPrefix(row.says, "session") {
				row.spawn.Session = "a"
			}
			_, err := p.Carry(t.Context(), machine, row.spawn)
			if assert.ErrorContains(t, err, row.says) {
				assert.True(t, shell.IsPermanent(err), err)
				assert.Less(t, len(err.Error()), 1000)
			}
		}
		all, err := p.List(t.Context())
		require.NoError(t, err)
		assert.Empty(t, all)
	})
}

func TestAWorkspaceIsMadeWhereThatIsAskedForButNeverOutsideOfTheRoot(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend, func(o *session.Options) { o.CreateWorkspace = true })
		outside := t.TempDir()
		require.NoError(t, os.Symlink(outside, filepath.Join(p.root, "out")))
		p.carry(effects.Spawn{Session: "a", Workspace: "new/er", Command: []string{"sh", "-c", "pwd > part && mv part here"}})
		assert.Equal(t, filepath.Join(p.root, "new/er")+"\n", p.file("new/er/here"))
		_, err := p.Carry(t.Context(), machine, effects.Spawn{Session: "b", Workspace: "out/new"})
		assert.ErrorContains(t, err, "workspace:")
		assert.True(t, shell.IsPermanent(err))
		assert.NoDirExists(t, filepath.Join(outside, "new"))
	})
}

func TestALinkInsideOfTheRootIsFollowed(t *testing.T) {
	p := open(t, session.PTY)
	require.NoError(t, os.Mkdir(filepath.Join(p.root, "real"), 0o700))
	require.NoError(t, os.Symlink("real", filepath.Join(p.root, "link")))
	p.carry(effects.Spawn{Session: "a", Workspace: filepath.Join(p.root, "link"), Command: []string{"touch", "x"}})
	p.file("real/x")
}

func TestKillEndsAllThatRunsInASession(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.spawn("a", "family")
		p.spawn("other", "ignore")
		ids := p.pids(5)
		keep := p.info("other").PID
		ids = append(ids, p.info("a").PID)
		p.carry(effects.Kill{N: 2, Session: "a"})
		left, err := session.Running(ids...)
		require.NoError(t, err)
		assert.Equal(t, []int{keep}, left, "all have ended when Kill returns, and no others")
		assert.Nil(t, p.info("a"))
		p.carry(effects.Kill{N: 3, Session: "a"})
		p.carry(effects.Kill{N: 4, Session: "never"})
		p.carry(effects.Kill{N: 5, Session: "other"})
	})
}

// A process that is amid an exec shows no environment, and must not be overlooked
// for that: here is one that does nothing else.
func TestAProcessIsToldByItsMarkAlsoAmidAnExec(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes cannot be told elsewhere")
	}
	p := open(t, session.PTY)
	require.NoError(t, os.WriteFile(filepath.Join(p.root, "again"), []byte("#!/bin/sh\nexec ./again\n"), 0o700))
	p.carry(effects.Spawn{Session: "a", Command: []string{"./again"}})
	for range 300 {
		names, err := p.Marked()
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, names)
	}
	p.carry(effects.Kill{Session: "a"})
}

func TestKillEndsWhatAProgramLeftWhenItEnded(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.spawn("a", "leave")
		ids := p.pids(1)
		p.ended("a")
		p.carry(effects.Kill{Session: "a"})
		left, err := session.Running(ids...)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

func TestAKillThatIsInterruptedCanBeCarriedOutAgain(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend, func(o *session.Options) { o.KillGrace = time.Hour })
		p.spawn("a", "ignore")
		p.pids(1)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := p.Carry(ctx, machine, effects.Kill{Session: "a"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.False(t, shell.IsPermanent(err))
		assert.True(t, p.info("a").Alive)

		// The one who gets it next has less patience.
		if backend == session.Tmux {
			p.options.KillGrace = -1
			_, err = again(t, p.options).Carry(t.Context(), machine, effects.Kill{Session: "a"})
			require.NoError(t, err)
			assert.Nil(t, p.info("a"))
		} else {
			left, err := os.FindProcess(p.info("a").PID)
			require.NoError(t, err)
			require.NoError(t, left.Kill())
			p.carry(effects.Kill{Session: "a"})
		}
	})
}

func TestASocketThatCannotBeMadeIsNamed(t *testing.T) {
	p := open(t, session.PTY)
	o := p.options
	o.Backend, o.Socket = session.Tmux, filepath.Join(p.root, "missing", "s")
	s := again(t, o)
	all, err := s.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, all)
	_, err = s.Carry(t.Context(), machine, effects.Spawn{Session: "a"})
	require.ErrorContains(t, err, "error creating "+o.Socket)
	require.NoError(t, os.Mkdir(filepath.Dir(o.Socket), 0o700))
	_, err = s.Carry(t.Context(), machine, effects.Spawn{Session: "a"})
	require.NoError(t, err)
	_, err = s.Carry(t.Context(), machine, effects.Kill{Session: "a"})
	require.NoError(t, err)
}

func TestWhatATmuxServerLeavesWhenItIsKilledIsEndedByTheNextSpawn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes cannot be told elsewhere")
	}
	p := open(t, session.Tmux)
	p.spawn("a", "ignore")
	ids := p.pids(1)
	id, err := exec.Command("tmux", "-S", p.options.Socket, "display-message", "-p", "#{pid}").Output()
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(id)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	until(t, "the session is gone", func() bool { return p.info("a") == nil })
	_, err = p.Carry(t.Context(), machine, effects.SendInput{N: 1, Session: "a", Input: "x"})
	require.ErrorIs(t, err, session.ErrNotFound)
	p.carry(effects.Spawn{N: 2, Session: "a", Command: []string{"cat"}})
	left, err := session.Running(ids...)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.True(t, p.info("a").Alive)
}

func TestOtherEffectsAreRefused(t *testing.T) {
	p := open(t, session.PTY)
	_, err := p.Carry(t.Context(), machine, effects.Notify{})
	require.ErrorContains(t, err, "effects.Notify is none of sessions")
	assert.True(t, shell.IsPermanent(err))
}

func TestCleanupKillsWhatNobodyWants(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		for _, name := range []string{"a", "b", "c"} {
			p.carry(effects.Spawn{Session: name, Command: []string{"cat"}})
		}
		p.carry(effects.Spawn{Session: "dead", Command: []string{"true"}})
		p.ended("dead")
		if backend == session.Tmux { // somebody's own, on our socket
			require.NoError(t, exec.Command("tmux", "-S", p.options.Socket, "new-session", "-d", "-s", "mine", "cat").Run())
		}
		killed, err := p.Cleanup(t.Context(), func(name string) bool { return name == "b" })
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "c", "dead"}, killed)
		all, err := p.List(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.Equal(t, "b", all[0].Name)
		assert.True(t, all[0].Alive)
		if backend == session.Tmux {
			require.NoError(t, exec.Command("tmux", "-S", p.options.Socket, "has-session", "-t", "=mine").Run())
		}
	})
}

func TestCleanupLeavesWhatIsStartedMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		p.carry(effects.Spawn{Session: "a", Command: []string{"cat"}})
		killed, err := p.Cleanup(t.Context(), func(string) bool {
			p.carry(effects.Spawn{Session: "b", Command: []string{"cat"}})
			return false
		})
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, killed)
		assert.True(t, p.info("b").Alive)
	})
}

func TestADaemonFindsTheSessionsOfTheOneBefore(t *testing.T) {
	p := open(t, session.Tmux)
	// Without an echo, since that comes when it is typed, be what was typed before read or not.
	spawn := effects.Spawn{N: 1, Session: "a", Command: []string{"sh", "-c", "stty -echo; echo ready; exec cat"}, Input: "hello"}
	send := effects.SendInput{N: 2, Session: "a", Input: "again"}
	p.carry(spawn)
	p.carry(send)
	p.shows("a", "again")
	pid := p.info("a").PID

	p.Sessions = again(t, p.options)
	p.carry(spawn)
	p.carry(send)
	p.carry(effects.SendInput{N: 3, Session: "a", Input: "end"})
	assert.Equal(t, "ready\nhello\nagain\nend", p.shows("a", "end").Text)
	assert.Equal(t, pid, p.info("a").PID)
	p.carry(effects.Kill{N: 4, Session: "a"})
	until(t, "the server has gone with its last session", func() bool {
		return exec.Command("tmux", "-S", p.options.Socket, "list-sessions").Run() != nil
	})
}

func TestWhatOutlivesADaemonOnItsOwnTerminalsIsEndedByTheNext(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes cannot be told elsewhere")
	}
	p := open(t, session.PTY)
	daemon := exec.Command(os.Args[0], p.root)
	daemon.Env = append(os.Environ(), roleVar+"=daemon")
	require.NoError(t, daemon.Start())
	kill := sync.OnceValue(func() error { return errors.Join(daemon.Process.Kill(), daemon.Wait()) })
	t.Cleanup(func() { _ = kill() }) // where the test fails before
	ids := p.pids(1)
	require.ErrorContains(t, kill(), "signal: killed")
	left, err := session.Running(ids...)
	require.NoError(t, err)
	require.Equal(t, ids, left)

	killed, err := p.Cleanup(t.Context(), func(string) bool { return false })
	require.NoError(t, err)
	assert.Equal(t, []string{"left"}, killed)
	left, err = session.Running(ids...)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestCloseEndsWhatRunsOnOurOwnTerminals(t *testing.T) {
	p := open(t, session.PTY)
	p.spawn("a", "family")
	ids := p.pids(4)
	require.NoError(t, p.Close())
	left, err := session.Running(ids...)
	require.NoError(t, err)
	assert.Empty(t, left)
	_, err = p.Carry(t.Context(), machine, effects.Spawn{Session: "b"})
	require.ErrorIs(t, err, session.ErrClosed)
}

func TestTwoInstancesDoNotMeet(t *testing.T) {
	p := open(t, session.Tmux, func(o *session.Options) {
		t.Setenv("TMUX_TMPDIR", filepath.Dir(o.Root)) // t.TempDir is too long for a socket's name
		o.Socket, o.Instance = "", "one"
	})
	o := p.options
	o.Instance = "two"
	other := again(t, o)
	p.carry(effects.Spawn{Session: "a", Command: []string{"cat"}})
	all, err := other.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, all)
	_, err = other.Carry(t.Context(), machine, effects.Kill{Session: "a"})
	require.NoError(t, err)
	assert.True(t, p.info("a").Alive)
	assert.NotEqual(t, p.AttachCommand("a"), other.AttachCommand("a"))
	p.carry(effects.Kill{Session: "a"})
}

func TestManyAtOnceStartOneSession(t *testing.T) {
	onEach(t, func(t *testing.T, backend string) {
		p := open(t, backend)
		const n = 8
		errs := make(chan error, n)
		for i := range n {
			go func() {
				ref := effects.Ref{Kind: "task", ID: uuid.UUID{byte(i + 1)}}
				_, err := p.Carry(t.Context(), ref, effects.Spawn{Session: "a", Command: []string{"sh", "-c", "echo x >> ran; cat"}})
				errs <- err
			}()
		}
		for range n {
			require.NoError(t, <-errs)
		}
		until(t, "it runs", func() bool { return p.file("ran") != "" })
		assert.Equal(t, "x\n", p.file("ran"))
		p.carry(effects.Kill{Session: "a"})
	})
}
