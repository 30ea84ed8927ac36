package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// shown is a terminal that can be captured, which takes a while.
type shown struct {
	screens
	captured atomic.Int64
	screen   func(session string) (shell.SessionScreen, error)
}

func (s *shown) Capture(_ context.Context, session string) (shell.SessionScreen, error) {
	s.captured.Add(1)
	<-time.After(100 * time.Millisecond)
	return s.screen(session)
}

// withScreen makes a task whose session shows something.
func withScreen(t *testing.T, s shell.SessionObserver) (*shell.Engine, core.Task) {
	t.Helper()
	e := running(t, shell.Options{
		Store: inMemory(t), TickRate: time.Hour, Sessions: s, WatchEvery: time.Second,
		Interpreters: map[string]shell.Interpreter{effects.LaneSession: carrying(func(context.Context) (json.RawMessage, error) { return nil, nil })},
	})
	task, err := e.Tasks().Create(bg(), core.TaskSpec{Workspace: "w", Command: []string{"agent"}})
	require.NoError(t, err)
	elapse(2 * time.Second)
	return e, task
}

func TestTheScreenOfATaskIsCapturedOnceASecondForAllWhoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shown{screens: screens{now: shell.SessionObservation{Alive: true, Changed: true, Tail: "the tail"}}}
		s.screen = func(session string) (shell.SessionScreen, error) {
			return shell.SessionScreen{Text: "\x1b[31m" + session + "\x1b[0m\x07\nsecond", Rows: 50, Columns: 200, CursorRow: 1, CursorColumn: 6, Title: "agent"}, nil
		}
		e, task := withScreen(t, s)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				got, err := e.TaskScreen(bg(), task.ID)
				assert.NoError(t, err)
				assert.True(t, got.Live)
				assert.Equal(t, "\x1b[31m"+task.SessionID+"\x1b[0m\nsecond", got.Screen.Text)
				assert.Equal(t, effects.TimeOf(time.Now()), got.At)
			})
		}
		wg.Wait()
		assert.EqualValues(t, 1, s.captured.Load())
		elapse(time.Second)
		_, err := e.TaskScreen(bg(), task.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 2, s.captured.Load(), "what is older than a second is captured anew")
	})
}

func TestAScreenThatCannotBeCapturedIsTheEndThatTheLastHeartbeatHasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shown{screens: screens{now: shell.SessionObservation{Alive: true, Changed: true, Tail: "the tail"}}}
		e, task := withScreen(t, s)
		for why, err := range map[string]error{
			"there is no such session on this machine":                     fmt.Errorf("gone: %w", shell.ErrNotFound),
			"the session could not be captured: the daemon's log says why": assert.AnError,
		} {
			s.screen = func(string) (shell.SessionScreen, error) { return shell.SessionScreen{}, err }
			elapse(2 * time.Second)
			got, err := e.TaskScreen(bg(), task.ID)
			require.NoError(t, err)
			assert.False(t, got.Live)
			assert.Equal(t, why, got.Why)
			assert.Equal(t, "the tail", got.Screen.Text)
			assert.False(t, got.At.IsZero())
		}
		_, err := e.Tasks().Send(bg(), task.ID, core.TaskCancel{Reason: "enough"})
		require.NoError(t, err)
		got, err := e.TaskScreen(bg(), task.ID)
		require.NoError(t, err)
		assert.Equal(t, "the task has ended, and its session with it", got.Why)

		idle, err := e.Tasks().Create(bg(), core.TaskSpec{})
		require.NoError(t, err)
		got, err = e.TaskScreen(bg(), idle.ID)
		require.NoError(t, err)
		assert.Equal(t, shell.TaskScreen{Session: idle.SessionID, At: got.At, Why: "the task has no session"}, got)
		_, err = e.TaskScreen(bg(), [16]byte{1})
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

func TestWithoutACapturerAScreenSaysThatSessionsAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, task := withScreen(t, &screens{now: shell.SessionObservation{Alive: true, Changed: true, Tail: "the tail"}})
		got, err := e.TaskScreen(bg(), task.ID)
		require.NoError(t, err)
		assert.Equal(t, "sessions are not shown by this daemon", got.Why)
		assert.Equal(t, "the tail", got.Screen.Text)
	})
}

func TestOfALargeScreenTheLastRowsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shown{screens: screens{now: shell.SessionObservation{Alive: true, Changed: true}}}
		s.screen = func(string) (shell.SessionScreen, error) {
			return shell.SessionScreen{Text: strings.Repeat(strings.Repeat("x", 999)+"\n", 100) + "end\xff"}, nil
		}
		e, task := withScreen(t, s)
		got, err := e.TaskScreen(bg(), task.ID)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(got.Screen.Text), core.MaxScreenBytes)
		assert.Greater(t, len(got.Screen.Text), core.MaxScreenBytes-1000)
		assert.True(t, strings.HasSuffix(got.Screen.Text, "x\nend\uFFFD"))
		assert.Equal(t, 0, (len(got.Screen.Text)-len("end\uFFFD"))%1000, "rows are whole")
	})
}
