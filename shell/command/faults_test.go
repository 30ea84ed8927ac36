//go:build unix

package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
)

func TestACommandThatHangsIsStoppedAndTheErrorSaysWhy(t *testing.T) {
	for _, cause := range []error{shell.ErrCancelled, shell.ErrTimeLimit, shell.ErrStopping, shell.ErrFenced} {
		t.Run(cause.Error(), func(t *testing.T) {
			s := newStage(t)
			cancel, out := background(t, newTool(t, command.Options{}), s.input("wait"))
			program := s.await()
			cancel(cause)
			r := <-out
			program.dead(t)
			require.ErrorIs(t, r.err, cause)
			assert.Regexp(t, `^command "[^"]+" was killed: `+cause.Error()+`$`, r.err.Error())
			assert.Equal(t, -1, decode(t, r.result).ExitCode)
			assert.Contains(t, []string{"SIGTERM", "SIGKILL"}, decode(t, r.result).Signal)
		})
	}
}

func TestACommandThatReachesItsOwnLimitSaysWhichLimit(t *testing.T) {
	_, err := run(t, newTool(t, command.Options{}), `{"argv":["sh","-c","echo working >&2; exec sleep 3600"],"timeout_seconds":0.25}`)
	require.ErrorIs(t, err, shell.ErrTimeLimit)
	var stopped *command.StoppedError
	require.ErrorAs(t, err, &stopped)
	assert.Equal(t, 250*time.Millisecond, stopped.Limit)
	assert.EqualError(t, err, `command "sh" reached its time limit of 250ms and was killed; stderr ends with "working"`)
}

func TestACommandThatEndsPolitelyOnSIGTERMHasStillFailed(t *testing.T) {
	s := newStage(t)
	cancel, out := background(t, newTool(t, command.Options{KillGrace: time.Hour}), s.input("polite"))
	s.await()
	cancel(shell.ErrCancelled)
	r := <-out
	require.ErrorIs(t, r.err, shell.ErrCancelled)
	assert.Contains(t, r.err.Error(), `was killed: the action was cancelled; stderr ends with "bye`)
	assert.Equal(t, 0, decode(t, r.result).ExitCode, "that is what it ended with, success or not")
	assert.Equal(t, "bye\n", decode(t, r.result).Stderr)
}

func TestACommandThatIgnoresSIGTERMIsKilledAfterTheGrace(t *testing.T) {
	s := newStage(t)
	cancel, out := background(t, newTool(t, command.Options{KillGrace: 30 * time.Millisecond}), s.input("ignore"))
	program := s.await()
	cancel(shell.ErrCancelled)
	r := <-out
	program.dead(t)
	require.ErrorIs(t, r.err, shell.ErrCancelled)
	assert.Contains(t, r.err.Error(), `was killed: the action was cancelled; it did not end within 30ms of SIGTERM; stderr ends with "not yet"`)
	assert.Equal(t, "SIGKILL", decode(t, r.result).Signal)
	assert.Equal(t, "not yet\n", decode(t, r.result).Stderr)
}

// endsBy stops a program of some role for a reason, checks that the program is dead,
// and gives the error of its run.
func endsBy(t *testing.T, grace time.Duration, role string, why error) error {
	t.Helper()
	s := newStage(t)
	cancel, out := background(t, newTool(t, command.Options{KillGrace: grace}), s.input(role))
	program := s.await()
	cancel(why)
	r := <-out
	program.dead(t)
	require.ErrorIs(t, r.err, why)
	return r.err
}

func TestACommandThatLostItsLeaseGetsNoGrace(t *testing.T) {
	assert.ErrorIs(t, endsBy(t, time.Hour, "ignore", shell.ErrFenced), shell.ErrFenced)
}

func TestACommandThatIsKilledGetsNoGrace(t *testing.T) {
	assert.NotContains(t, endsBy(t, time.Hour, "ignore", shell.ErrKilled).Error(), "SIGTERM")
}

func TestANegativeGraceMeansSIGKILLAtOnce(t *testing.T) {
	assert.NotContains(t, endsBy(t, -1, "ignore", shell.ErrCancelled).Error(), "SIGTERM")
}

func TestTheWholeGroupIsStopped(t *testing.T) {
	// The leader dies of SIGTERM at once and its child ignores it: the child must
	// not outlive the run, nor hold it up.
	s := newStage(t)
	cancel, out := background(t, newTool(t, command.Options{KillGrace: time.Hour}), s.input("parent-of-ignore"))
	child := s.await()
	require.Equal(t, "ignore", child.role)
	cancel(shell.ErrCancelled)
	r := <-out
	child.dead(t)
	require.ErrorIs(t, r.err, shell.ErrCancelled)
}

func TestWhatAFinishedCommandLeftInItsGroupIsKilled(t *testing.T) {
	s := newStage(t)
	child, r := s.leaves(t, "leave-child")
	child.dead(t)
	require.NoError(t, r.err)
	assert.Equal(t, "leader was here\n", decode(t, r.result).Stdout)
}

func TestAChildInASessionOfItsOwnLivesOnAndHoldsNothingUp(t *testing.T) {
	s := newStage(t)
	child, r := s.leaves(t, "leave-session")
	require.NoError(t, r.err)
	assert.Equal(t, "leader was here\n", decode(t, r.result).Stdout)
	child.goOn(t) // it is still there to read this, and to end of it
	child.dead(t)
}

func TestGigabytesOfOutputNeedNoMemory(t *testing.T) {
	s := newStage(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, out := background(t, newTool(t, command.Options{}), s.input("flood", `"max_output_bytes":1000`))
	r := <-out
	runtime.ReadMemStats(&after)
	require.NoError(t, r.err)
	o := decode(t, r.result)
	total := int64(2<<30) + int64(len("the end"))
	assert.Equal(t, total-1000, o.StdoutDropped)
	assert.True(t, strings.HasPrefix(o.Stdout, strings.Repeat("0123456789abcdef", 31)), o.Stdout)
	assert.True(t, strings.HasSuffix(o.Stdout, "cdefthe end"), o.Stdout)
	assert.Contains(t, o.Stdout, "\n[… 2147482655 bytes dropped …]\n")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

func TestWithoutFileDescriptorsTheErrorSaysSoAndLaterRunsWorkAgain(t *testing.T) {
	s := newStage(t)
	_, out := background(t, newTool(t, command.Options{}), s.input("descriptors"))
	r := <-out
	require.NoError(t, r.err)
	lines := strings.Split(decode(t, r.result).Stdout, "\n")
	require.Len(t, lines, 3)
	assert.Contains(t, lines[0], `command "/bin/echo" was not started: out of file descriptors: raise the daemon's limit (ulimit -n)`)
	assert.Equal(t, "<nil>", lines[1])
}

func TestOneToolRunsManyCommandsAtOnce(t *testing.T) {
	tool := newTool(t, command.Options{})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			in := `{"argv":["cat"],"stdin":"hello"}`
			if i%4 == 0 {
				in = `{"argv":["sleep","3600"]}`
				cancel(shell.ErrCancelled)
			}
			res, err := tool.Run(ctx, shell.Call{Input: json.RawMessage(in)})
			if i%4 == 0 {
				assert.ErrorIs(t, err, shell.ErrCancelled)
				return
			}
			if assert.NoError(t, err) {
				assert.Contains(t, string(res), `"stdout":"hello"`)
			}
		})
	}
	wg.Wait()
}

func TestAStartThatFailsForLackOfResourcesIsTold(t *testing.T) {
	for _, row := range []struct {
		err  error
		want bool
	}{
		{&os.PathError{Op: "fork/exec", Err: syscall.EMFILE}, true},
		{errors.Join(syscall.EAGAIN), true},
		{os.ErrNotExist, false},
	} {
		assert.Equal(t, row.want, (&command.StartError{Err: row.err}).Exhausted(), row.err)
	}
}

// What the engine asks an error about: whether another attempt of the action makes sense.
func TestAProgramThatIsNotThereIsNotTriedAgain(t *testing.T) {
	for err, lasting := range map[error]bool{
		exec.ErrNotFound: true, fs.ErrNotExist: true, fs.ErrPermission: true, syscall.ENOEXEC: true, syscall.EMFILE: false, io.EOF: false,
	} {
		assert.Equal(t, lasting, shell.IsPermanent(&command.StartError{Err: err}), err)
	}
	assert.False(t, shell.IsPermanent(&command.ExitError{Code: 1}))
}
