//go:build unix

package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/session"
	"github.com/orrery-go/orrery/store"
)

// sessionProgram runs in a terminal session. It leaves a line when it begins and
// one for all that is typed, and something behind that does not end when it is
// asked to.
const sessionProgram = `
left() { printf '%-255s\n' "$1 $me $ORRERY_SESSION/$$$2 0" >> "$effects"; }
effects=$1 me=$2
left begun
(trap '' HUP TERM INT; exec sleep 1000) &
echo ready
while IFS= read -r line; do
	left typed ":$line"
	case $line in end-*) exit 0 ;; esac
done
exit 1
`

// What is typed into a session: once with its start, now and then, to remind it.
const (
	firstInput = "hello"
	nudgeInput = "nudged"
)

var anInput = regexp.MustCompile(`^(` + firstInput + `|` + nudgeInput + `|in-[0-9a-f]+|end-[0-9a-f]+)$`)

// sessionPhase is a task in a session, which only a death of it makes stuck.
func sessionPhase(dir, me string) core.PhaseDef {
	hour := time.Hour.Milliseconds()
	return core.PhaseDef{Name: "session", Retry: often, Task: &core.AgentPrompt{
		Command: []string{"/bin/sh", "-c", sessionProgram, "sh", filepath.Join(dir, effectsFile), me}, Prompt: firstInput,
		Config: core.TaskConfig{HeartbeatTimeoutMS: hour, IdleTimeoutMS: hour, RecoveryIntervalMS: 10, MaxRecoveryAttempts: 1000, Nudge: nudgeInput},
	}}
}

// runbookSessions are those of an engine in the folder: each finds what the one
// before has left.
func runbookSessions(dir, backend string) (*session.Sessions, error) {
	return session.New(session.Options{
		Backend: backend, Root: filepath.Join(dir, rootDir), Instance: dir, Socket: filepath.Join(dir, "s"), // a socket's path must be short
		KillGrace: 20 * time.Millisecond, EnterDelay: 5 * time.Millisecond, InputWait: time.Minute, CommandTimeout: time.Minute,
	})
}

// needs skips a test of sessions where tmux is missing, but not where the gate
// runs.
func needs(t *testing.T, backend string) {
	t.Helper()
	if _, err := exec.LookPath("tmux"); backend == session.Tmux && err != nil {
		if runtime.GOOS != "linux" {
			t.Skip("tmux is not installed")
		}
		t.Fatal("tmux is not in PATH: this test needs it (apt-get install tmux)")
	}
}

// endSessions ends what a test has left, also where it has failed.
func endSessions(t *testing.T, dir, backend string) {
	t.Helper()
	t.Cleanup(func() {
		s, err := runbookSessions(dir, backend)
		require.NoError(t, err)
		_, err = s.Cleanup(context.Background(), func(string) bool { return false })
		assert.NoError(t, err)
		assert.NoError(t, s.Close())
	})
}

// talk types into the session of a task, or ends the task in one way or another.
// What is refused came too early, or too late.
func talk(ctx context.Context, e *shell.Engine, task core.Task, rng *rand.Rand) {
	var ev core.TaskEvent
	switch n := rng.IntN(60); {
	case n < 8:
		ev = core.TaskInput{Text: fmt.Sprintf("in-%x", rng.Uint64())}
	case n < 10: // it ends by itself
		ev = core.TaskInput{Text: fmt.Sprintf("end-%x", rng.Uint64())}
	case n < 11 && task.Screen != "": // it is killed, but not before it has begun
		ev = core.TaskComplete{}
	case n < 13:
		ev = core.TaskRecover{Action: core.RecoverNudge}
	default:
		return
	}
	_, _ = e.Tasks().Send(ctx, task.ID, ev)
}

// examineSessions says what does not hold of sessions once all tasks have ended.
func examineSessions(t *testing.T, s *session.Sessions, did, keys map[string]int) {
	t.Helper()
	begun, first, more := make(map[string]int), make(map[string]bool), make(map[string]bool)
	for key, times := range keys {
		what, rest, _ := strings.Cut(key, " ")
		if what != "begun" && what != "typed" {
			continue
		}
		process, input, _ := strings.Cut(rest, ":")
		if what == "begun" {
			name, _, _ := strings.Cut(process, "/")
			begun[name] += times
			continue
		}
		assert.Regexp(t, anInput, input, "%s: an input is a line of its own", process)
		if input != nudgeInput {
			assert.Equal(t, 1, times, "%s: typed at most once: %s", process, input)
		}
		if input == firstInput {
			first[process] = true
		} else {
			more[process] = true
		}
	}
	t.Logf("%d sessions, %d of which were typed into", len(begun), len(more))
	for process := range more {
		assert.True(t, first[process], "%s: its first input was typed", process)
	}
	for n := range runbooks {
		assert.NotZero(t, did["begun "+runbookID(n).String()], "session of pipeline %s: at least once", runbookID(n))
	}
	if s.Backend() == session.Tmux {
		for name, times := range begun {
			assert.Equal(t, 1, times, "session %s lives through a crash, and is found again", name)
		}
	}
	all, err := s.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, all, "sessions that are left over")
	killed, err := s.Cleanup(t.Context(), func(string) bool { return false })
	require.NoError(t, err)
	assert.Empty(t, killed, "sessions with processes that are left over")
}

// carriedOut says which effects still wait to be.
func carriedOut(ctx context.Context, st store.Store) error {
	return st.View(ctx, func(tx store.ReadTx) error {
		return tx.Outbox(func(e store.OutboxEntry) error {
			return fmt.Errorf("%w: effect %d of %s in lane %s", errLater, e.Key.N, e.Key.ID, e.Lane)
		})
	})
}
