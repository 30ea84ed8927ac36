package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
)

// killedDaemon runs a program as the first attempt of theAction by a daemon that
// is then killed, and gives the processes that reported.
func killedDaemon(t *testing.T, s *stage, program string, roles ...string) map[string]*actor {
	daemon := self("daemon")
	daemon.Env = append(daemon.Env, socketVar+"="+s.path, programVar+"="+program)
	require.NoError(t, daemon.Start())
	actors := s.awaitAll(append(roles, program)...)
	require.NoError(t, daemon.Process.Kill())
	require.Error(t, daemon.Wait())
	actors[program].dead(t)
	return actors
}

// marked starts a process that waits, with more variables in its environment.
func marked(t *testing.T, s *stage, env ...string) (*actor, *exec.Cmd) {
	cmd := self("wait")
	cmd.Env = append(append(cmd.Env, socketVar+"="+s.path), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return s.await(), cmd
}

// logged collects what is logged until the test ends.
func logged(t *testing.T) *bytes.Buffer {
	var b bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	return &b
}

var (
	actionVar = "ORRERY_ACTION_ID=" + theAction.String()
	cycleVar  = "ORRERY_IDEMPOTENCY_KEY=" + theCycle
)

var nothing = json.RawMessage(`{"argv":["true"]}`)

func TestWhatAKilledDaemonLeftIsEndedBeforeTheNextAttemptStarts(t *testing.T) {
	for program, left := range map[string][]string{
		"leave-child":   {"wait"},
		"leave-session": {"wait"},
		"leave-two":     {"wait", "ignore"}, // one of them is known by its group only
	} {
		t.Run(program, func(t *testing.T) {
			s := newStage(t)
			actors := killedDaemon(t, s, program, left...)
			cancel, out := backgroundCall(t, newTool(t, command.Options{}), attempt(2, s.input("polite")))
			second := s.await()
			require.Equal(t, "polite", second.role)
			for _, role := range left {
				require.NoError(t, actors[role].conn.SetReadDeadline(time.Now().Add(time.Minute)), "it ended before the second attempt began")
				actors[role].dead(t)
			}
			cancel(shell.ErrCancelled)
			<-out
		})
	}
}

func TestTheFirstAttemptLeavesEverythingAlone(t *testing.T) {
	s := newStage(t)
	actors := killedDaemon(t, s, "leave-session", "wait")
	stray, _ := marked(t, s, actionVar)
	_, err := newTool(t, command.Options{}).Run(t.Context(), attempt(1, nothing))
	require.NoError(t, err)
	for _, process := range []*actor{actors["wait"], stray} {
		process.goOn(t) // it is still there to read this, and to end of it
		process.dead(t)
	}
}

func TestOnlyWhatEarlierAttemptsOfTheSameCycleStartedIsEnded(t *testing.T) {
	for name, row := range map[string]struct {
		env  []string
		ends bool
	}{
		"the first attempt":                {[]string{actionVar, cycleVar, "ORRERY_ATTEMPT=1"}, true},
		"the second":                       {[]string{actionVar, cycleVar, "ORRERY_ATTEMPT=2"}, true},
		"the action's id and nothing else": {[]string{actionVar}, true},
		"no action":                        {nil, false},
		"this attempt":                     {[]string{actionVar, cycleVar, "ORRERY_ATTEMPT=3"}, false},
		"a later one":                      {[]string{actionVar, cycleVar, "ORRERY_ATTEMPT=10"}, false},
		"another cycle":                    {[]string{actionVar, cycleVar + "0", "ORRERY_ATTEMPT=1"}, false},
		"another action":                   {[]string{"ORRERY_ACTION_ID=" + uuid.NewString(), "ORRERY_ATTEMPT=1"}, false},
		"the id in another variable":       {[]string{"PARENT_" + actionVar, cycleVar, "ORRERY_ATTEMPT=1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			log := logged(t)
			s := newStage(t)
			process, _ := marked(t, s, row.env...)
			_, err := newTool(t, command.Options{}).Run(t.Context(), attempt(3, nothing))
			require.NoError(t, err)
			if row.ends {
				assert.Contains(t, log.String(), `level=WARN msg="an earlier attempt's processes were still there, and were ended" action_id=`+theAction.String())
				assert.Contains(t, log.String(), " attempt=3 processes=1\n")
			} else {
				assert.Empty(t, log)
				process.goOn(t) // it is still there to read this, and to end of it
			}
			process.dead(t)
		})
	}
}

func TestAnActionWithoutAnIDHasNoMark(t *testing.T) {
	s := newStage(t)
	process, _ := marked(t, s, "ORRERY_ACTION_ID=00000000-0000-0000-0000-000000000000")
	_, err := newTool(t, command.Options{}).Run(t.Context(), shell.Call{Attempt: 2, Input: nothing})
	require.NoError(t, err)
	process.goOn(t)
	process.dead(t)
}

func TestTheDaemonAndItsAncestorsAreNeverEnded(t *testing.T) {
	// A daemon that an earlier attempt of its own action had started, such as a
	// copy of the whole, carries the mark.
	ancestor := self("ancestor")
	ancestor.Env = append(ancestor.Env, actionVar, cycleVar, "ORRERY_ATTEMPT=1")
	out, err := ancestor.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestTheDaemonsOwnGroupIsNotEndedWithAMarkedProcessInIt(t *testing.T) {
	s := newStage(t)
	var actors []*actor
	for _, env := range []string{actionVar, "UNMARKED=1"} {
		cmd := self("wait") // in the group of the test, which runs the tool
		cmd.Env = append(cmd.Env, socketVar+"="+s.path, env)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		actors = append(actors, s.await())
	}
	_, err := newTool(t, command.Options{}).Run(t.Context(), attempt(2, nothing))
	require.NoError(t, err)
	actors[0].dead(t)
	actors[1].goOn(t) // it is still there to read this, and to end of it
	actors[1].dead(t)
}

func TestAProcessWhoseFirstThreadHasEndedIsFound(t *testing.T) {
	s := newStage(t)
	cmd := self("headless")
	cmd.Env = append(cmd.Env, socketVar+"="+s.path, actionVar)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	process := s.await()
	require.Eventually(t, func() bool { // the first thread is gone, and with it what /proc shows of the whole
		env, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "environ"))
		return len(env) == 0
	}, time.Minute, time.Millisecond)
	_, err := newTool(t, command.Options{}).Run(t.Context(), attempt(2, nothing))
	require.NoError(t, err)
	process.dead(t)
}

func TestAProcessOfAnotherUserIsLeftAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	cmd := exec.Command("cat")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), actionVar}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = newTool(t, command.Options{}).Run(t.Context(), attempt(2, nothing))
	require.NoError(t, err)
	_, err = io.WriteString(in, "still there")
	require.NoError(t, err)
	require.NoError(t, in.Close())
	said, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	assert.Equal(t, "still there", string(said))
}

func TestAnAttemptIsNotStartedBesideWhatDoesNotEnd(t *testing.T) {
	s := newStage(t)
	process, cmd := marked(t, s, actionVar)
	tool := newTool(t, command.Options{KillGrace: 30 * time.Millisecond})
	tool.SetSIGKILL(func(*os.Process) error { return nil })
	trace := filepath.Join(t.TempDir(), "trace")
	raw, err := tool.Run(t.Context(), attempt(2, json.RawMessage(`{"argv":["touch",`+quote(trace)+`]}`)))
	var start *command.StartError
	require.ErrorAs(t, err, &start)
	assert.EqualError(t, err, `command "touch" was not started: process `+strconv.Itoa(cmd.Process.Pid)+
		` of an earlier attempt is still there, 30ms after SIGKILL: it has to end first, or it would work beside this attempt`)
	assert.Nil(t, raw)
	assert.NoFileExists(t, trace)
	process.goOn(t)
	process.dead(t)
}

func TestACancelDoesNotWaitForWhatDoesNotEnd(t *testing.T) {
	s := newStage(t)
	marked(t, s, actionVar)
	ctx, cancel := context.WithCancelCause(t.Context())
	tool := newTool(t, command.Options{KillGrace: time.Hour})
	tool.SetSIGKILL(func(*os.Process) error {
		cancel(shell.ErrCancelled)
		return nil
	})
	_, err := tool.Run(ctx, attempt(2, nothing))
	require.ErrorIs(t, err, shell.ErrCancelled)
	assert.EqualError(t, err, `command "true" was not started: there is no time left: the action was cancelled`)
}

func TestANegativeGraceStillWaitsForWhatAnEarlierAttemptLeft(t *testing.T) {
	s := newStage(t)
	process, _ := marked(t, s, actionVar)
	_, err := newTool(t, command.Options{KillGrace: -1}).Run(t.Context(), attempt(2, nothing))
	require.NoError(t, err)
	process.dead(t)
}

func TestAChildInASessionOfItsOwnEndsWithACommandThatIsStopped(t *testing.T) {
	for _, cause := range []error{shell.ErrCancelled, shell.ErrTimeLimit, shell.ErrStopping, shell.ErrFenced} {
		t.Run(cause.Error(), func(t *testing.T) {
			s := newStage(t)
			tool := newTool(t, command.Options{})
			tool.SetPipeDelay(time.Hour) // it holds the output open: Run must not sit that out
			later, _ := marked(t, s, actionVar, cycleVar, "ORRERY_ATTEMPT=2")
			cancel, out := backgroundCall(t, tool, attempt(1, s.input("leave-session")))
			actors := s.awaitAll("wait", "leave-session")
			cancel(cause)
			r := <-out
			require.ErrorIs(t, r.err, cause)
			assert.Equal(t, "leader was here\n", decode(t, r.result).Stdout)
			actors["wait"].dead(t)
			actors["leave-session"].dead(t)
			later.goOn(t) // another instance may be at the next attempt already
			later.dead(t)
		})
	}
}

func TestACommandThatEndsByItselfMayLeaveASessionBehind(t *testing.T) {
	s := newStage(t)
	_, out := backgroundCall(t, newTool(t, command.Options{}), attempt(1, s.input("leave-session")))
	actors := s.awaitAll("wait", "leave-session")
	actors["leave-session"].goOn(t)
	require.NoError(t, (<-out).err)
	actors["wait"].goOn(t) // it is still there to read this, and to end of it
	actors["wait"].dead(t)
}
