package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

// TestEachKindOfAlertIsToldOnceOverAnOutage has a schedule for each kind of alert, in a database in a file. All goes well at
// 01:00. At 02:00 what runs fails, or takes long; at 02:15 the daemon stops, and at 05:30 one starts for which all goes well.
func TestEachKindOfAlertIsToldOnceOverAnOutage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		tool := func(ctx context.Context, c shell.Call) (json.RawMessage, error) {
			switch {
			case !broken.Load():
				return nil, nil
			case c.Label == "slow":
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return nil, errors.New("no disk")
		}
		var told []string
		begin := func() (e *shell.Engine, stop func()) {
			st, err := bolt.Open(path, bolt.Options{NoSync: true}) // it is closed, not killed
			require.NoError(t, err)
			e, stopEngine := start(t, shell.Options{Store: st, Tools: tools(shell.ToolFunc(tool)), TickRate: time.Hour})
			events := e.Subscribe(func(ev effects.Event) bool { return ev.Kind.Category == "alert" }, 100)
			return e, func() {
				synctest.Wait()
				require.NoError(t, stopEngine())
				events.Close()
				for ev := range events.C {
					var said core.DigestSaid
					require.NoError(t, json.Unmarshal(ev.Data, &said))
					require.Len(t, said.Alerts, int(said.Count))
					for _, a := range said.Alerts {
						over := map[bool]string{true: ", and over"}[a.Over]
						told = append(told, fmt.Sprintf("%s %s: %s of %s%s", ev.Timestamp.Std().UTC().Format("15:04:05"), ev.Kind, a.Kind, a.Name, over))
					}
				}
				verify(t, st)
				require.NoError(t, st.Close())
			}
		}

		midnight := time.Now()
		until := func(of time.Duration) { <-time.After(time.Until(midnight.Add(of))) }
		e, stop := begin()
		for kind, rules := range map[string]core.AlertRules{ // order-free: each is told of by itself
			"late": {LateSeconds: 600}, "missed": {Missed: true}, "stale": {StaleSeconds: 130 * 60}, "failing": {Failing: 1}, "slow": {SlowSeconds: 600},
		} {
			r := everyMinute()
			r.Name, r.CronExpr, r.Alerts, r.Missed = kind, "0 * * * *", rules, core.MissedSkip
			if kind == "late" {
				r.Missed = core.MissedLatest
			}
			_, err := e.Recurring().Create(bg(), r)
			require.NoError(t, err)
		}
		until(90 * time.Minute)
		broken.Store(true)
		until(135 * time.Minute)
		stop()
		before := slices.Clone(told)

		until(330 * time.Minute)
		broken.Store(false)
		_, stop = begin()
		until(7 * time.Hour)
		stop()
		slices.Sort(before)
		assert.Equal(t, []string{"02:00:30 alert:raised: failing of failing", "02:10:30 alert:raised: slow of slow"}, before)
		after := told[len(before):]
		slices.Sort(after)
		assert.Equal(t, []string{
			"05:30:00 alert:cleared: slow of slow", // it was over when the daemon stopped; five minutes lie between two messages
			"05:35:00 alert:raised: late of late, and over", "05:35:00 alert:raised: missed of missed", "05:35:00 alert:raised: stale of stale",
			"06:00:30 alert:cleared: failing of failing", "06:00:30 alert:cleared: missed of missed", "06:00:30 alert:cleared: stale of stale",
		}, after)
	})
}
