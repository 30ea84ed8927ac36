package shell_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/memory"
)

func TestNoToolIsBegunWhileAnotherProcessMayHaveTheStore(t *testing.T) {
	for name, wanted := range map[string]bool{"and later, since it is this one's all the same": true, "and not at all, since it was cancelled": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lost atomic.Bool
				var ran atomic.Int64
				lost.Store(true)
				a := inherit(t, memory.NewCluster(), "a", shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
					ran.Add(1)
					return nil, nil
				}), func(o *shell.Options) { o.Handover.Holds = func() bool { return !lost.Load() } })
				made := createCount(t, a.Engine, core.InterruptFail)
				<-time.After(10 * time.Second)
				synctest.Wait()
				require.Zero(t, ran.Load(), "another process may have told the action what became of it")
				if !wanted {
					_, err := a.Actions().Cancel(bg(), made.ID, "not any more")
					require.NoError(t, err)
				}
				lost.Store(false)
				<-time.After(time.Minute)
				synctest.Wait()
				is, err := a.Actions().Get(bg(), made.ID)
				require.NoError(t, err)
				if wanted {
					assert.Equal(t, core.StatusCompleted, is.Status.Type)
					assert.EqualValues(t, 1, ran.Load())
					assert.EqualValues(t, 1, is.Attempt, "it is no attempt more")
				} else {
					assert.Equal(t, core.StatusCancelled, is.Status.Type)
					assert.Zero(t, ran.Load())
				}
				a.over(t)
			})
		})
	}
}
