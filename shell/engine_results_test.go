package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

func TestARequestWhoseCallerHasGoneBeforeItsTurnIsNotCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Store: inMemory(t), from: time.Now()}
		e := running(t, shell.Options{Store: s, Tools: tools(&counting{})})
		ctx, cancel := context.WithCancel(bg())
		spec := core.ActionSpec{ID: uuid.New(), ToolName: "count"}
		whileItCommits(t, e, s, func() {
			gone := make(chan error, 1)
			go func() {
				_, err := e.Actions().Create(ctx, spec)
				gone <- err
			}()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-gone, context.Canceled)
		})
		_, err := e.Actions().Get(bg(), spec.ID)
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

// unhurried is the context of a caller who, once its request is on its way,
// looks for the answer only after something else has happened.
type unhurried struct {
	context.Context
	first func()
	asked int
}

func (u *unhurried) Done() <-chan struct{} {
	if u.asked++; u.asked == 2 {
		u.first()
	}
	return u.Context.Done()
}

func TestAnAnswerThatWasGivenBeforeTheStopIsReadAfterIt(t *testing.T) {
	for range 20 { // as the choice between the two is by chance
		synctest.Test(t, func(t *testing.T) {
			e, stop := start(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
			synctest.Wait()
			stopped := false
			ctx := &unhurried{Context: bg(), first: func() {
				synctest.Wait() // it is answered
				require.NoError(t, stop())
				stopped = true
			}}
			a, err := e.Actions().Create(ctx, core.ActionSpec{ToolName: "count", Trigger: at(time.Hour)})
			require.True(t, stopped)
			require.NoError(t, err)
			assert.Equal(t, core.StatusPending, a.Status.Type)
		})
	}
}

func TestTheDefaultTimeoutHoldsWhereThePolicyGivesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(newGate()), DefaultTimeout: 5 * time.Second})
		begin := time.Now()
		ctx, cancel := context.WithTimeout(bg(), time.Minute)
		defer cancel()
		a, err := e.Actions().Execute(ctx, core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		assert.Equal(t, core.Status{Type: core.StatusFailed, Reason: shell.ErrTimeLimit.Error()}, a.Status)
		assert.Equal(t, 5*time.Second, time.Since(begin))
		_, err = e.Actions().Execute(ctx, core.ActionSpec{ToolName: "count", Policy: core.RunPolicy{TimeoutMS: 8000}})
		require.NoError(t, err)
		assert.Equal(t, 13*time.Second, time.Since(begin), "a policy's own goes first")
	})
}

// brief tells a long text of few letters by its ends and its length.
func brief(s string) string {
	if len(s) <= 100 {
		return s
	}
	return fmt.Sprintf("%q…%q, %d bytes", s[:20], s[len(s)-20:], len(s))
}

func TestWhatAToolGivesIsBoundedAndMadeText(t *testing.T) {
	const mebibyte = 1 << 20
	quoted := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	for name, tc := range map[string]struct {
		result json.RawMessage
		err    error
		want   core.Status
	}{
		"a result as large as it may be": {
			quoted(mebibyte), nil, core.Status{Type: core.StatusCompleted, Result: quoted(mebibyte)},
		},
		"a result that is too large": {
			quoted(mebibyte + 1), nil, core.Status{Type: core.StatusFailed, Reason: "the tool's result of 1048577 bytes is larger than 1048576"},
		},
		"a result that is not UTF-8": {
			json.RawMessage("{\"name\":\"M\xfcller\"}"), nil, core.Status{Type: core.StatusCompleted, Result: json.RawMessage("{\"name\":\"M\uFFFDller\"}")},
		},
		"a reason as long as it may be": {
			nil, errors.New(strings.Repeat("y", 4096)), core.Status{Type: core.StatusFailed, Reason: strings.Repeat("y", 4096)},
		},
		"a reason that is too long": {
			nil, errors.New(strings.Repeat("y", 5000)), core.Status{Type: core.StatusFailed, Reason: strings.Repeat("y", 4096) + "…"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := running(t, shell.Options{Store: inMemory(t), Tools: tools(shell.ToolFunc(
				func(context.Context, shell.Call) (json.RawMessage, error) { return tc.result, tc.err }))})
			a, err := e.Actions().Execute(bg(), core.ActionSpec{ToolName: "count"})
			require.NoError(t, err)
			assert.Equal(t, tc.want.Type, a.Status.Type)
			assert.Equal(t, brief(tc.want.Reason), brief(a.Status.Reason))
			assert.Equal(t, brief(string(tc.want.Result)), brief(string(a.Status.Result)))
		})
	}
}
