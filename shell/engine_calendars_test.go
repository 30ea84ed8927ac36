package shell_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// hurrying is a clock of which time passes, while it is told to hurry, whenever somebody asks for it.
type hurrying struct {
	shell.SystemClock
	each, passed atomic.Int64
}

func (h *hurrying) Steady() time.Time {
	return h.SystemClock.Steady().Add(time.Duration(h.passed.Add(h.each.Load())))
}

func (h *hurrying) Now() time.Time { return h.SystemClock.Now().Add(time.Duration(h.passed.Load())) }

func TestAChangeOfACalendarLooksAtItsSchedulesForTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &hurrying{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), Clock: clock})
		of := shell.Scope{Namespace: everyMinute().Namespace, Tenant: everyMinute().Tenant}
		_, err := e.Calendars().Create(bg(), core.CalendarSpec{Namespace: of.Namespace, Tenant: of.Tenant, Name: "c"})
		require.NoError(t, err)
		for range 5 {
			spec := everyMinute()
			spec.Calendars = []string{"c"}
			_, err := e.Recurring().Create(bg(), spec)
			require.NoError(t, err)
		}
		leaveOut := func(days ...string) shell.CalendarChange {
			t.Helper()
			exclude := core.CalendarDays{Weekly: []core.CalendarWindow{{Days: days}}}
			change, err := e.Calendars().UpdateTelling(bg(), of, "c", core.CalendarUpdate{Patch: core.CalendarPatch{Exclude: &exclude}})
			require.NoError(t, err)
			return change
		}
		change := leaveOut("mon", "tue", "wed", "thu", "fri", "sat", "sun")
		assert.Len(t, change.Moved, 5)
		assert.False(t, change.More)
		clock.each.Store(int64(time.Second))
		change = leaveOut("mon")
		clock.each.Store(0)
		assert.NotEmpty(t, change.Moved)
		assert.Less(t, len(change.Moved), 5)
		assert.True(t, change.More, "nobody looked at the others")
	})
}
