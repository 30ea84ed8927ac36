package shell_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/memory"
)

// 002 section 4 and 8: of several instances one dispatches an occurrence, and the others skip
// it. Each reads ahead in the due index, and finds some that the other one has taken.
func TestAnInstanceThatAnotherOneHasOvertakenSkipsTheOccurrence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		st := memory.New()
		var logs [2]bytes.Buffer
		var engines [2]*shell.Engine
		stopped := make(chan error, 2)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range engines {
			var err error
			engines[i], err = shell.New(shell.Options{
				Store: st, MaxBatch: 4, TickRate: time.Hour,
				Logger: slog.New(slog.NewJSONHandler(&logs[i], &slog.HandlerOptions{Level: slog.LevelDebug})),
				Tools:  map[string]shell.Tool{"ok": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, nil })},
			})
			require.NoError(t, err)
			go func() { stopped <- engines[i].Run(ctx) }()
		}
		for n := range many {
			_, err := engines[0].Recurring().Create(t.Context(), core.RecurringSpec{
				Namespace: "n", Tenant: fmt.Sprint("t", n%7), CronExpr: "0 * * * *", Enabled: true,
				ActionTemplate: core.RecurringActionTemplate{Provider: "ok", ActionType: "x"},
			})
			require.NoError(t, err)
		}
		<-time.After(61 * time.Minute)
		synctest.Wait()
		cancel()
		require.NoError(t, <-stopped)
		require.NoError(t, <-stopped)

		dispatched, skipped := map[string]int{}, 0
		for i := range logs {
			lines := bufio.NewScanner(&logs[i])
			for lines.Scan() {
				var line struct {
					Level, Msg, ID string
					Recurring      string `json:"recurring_id"`
				}
				require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
				switch line.Msg {
				case "recurring.dispatch":
					dispatched[line.ID+line.Recurring]++
				case "recurring.skip_claimed":
					skipped++
					assert.Equal(t, "DEBUG", line.Level)
					assert.NotEqual(t, uuid.Nil, uuid.MustParse(line.Recurring))
				}
			}
			require.NoError(t, lines.Err())
		}
		assert.Len(t, dispatched, many)
		for id, n := range dispatched {
			assert.Equal(t, 1, n, "%s was dispatched more than once", id)
		}
		assert.Positive(t, skipped)
	})
}
