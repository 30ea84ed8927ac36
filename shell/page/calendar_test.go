package page_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// aheadClock is a clock that a test puts ahead of the machine's.
type aheadClock struct {
	shell.SystemClock
	ahead atomic.Int64 // nanoseconds
}

func (c *aheadClock) Now() time.Time { return c.SystemClock.Now().Add(time.Duration(c.ahead.Load())) }

func newKitAhead(t *testing.T, clock *aheadClock) *kit {
	t.Helper()
	k := newKitOn(t, func(o *shell.Options) { o.Clock = clock }, func(o *httpapi.Options) { o.Clock = clock })
	k.tellTime(clock)
	return k
}

// A pause of days stands on each of them: while it lasts, and once it has its entry.
func TestEachDayOfAPauseSaysThatTheScheduleWasPaused(t *testing.T) {
	clock := &aheadClock{}
	k := newKitAhead(t, clock)
	id := k.make("/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"0 * * * *","provider":"echo","action_type":"x","description":"hourly"}`)
	k.write("POST", "/v1/recurring/"+id+"/pause", `{"reason":"the weekend"}`)
	day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
	clock.ahead.Store(int64(3 * 24 * time.Hour))
	between := k.read("/calendar?day=" + day(1))
	assert.Contains(t, section(between, "Paused"), "hourly")
	assert.Contains(t, section(between, "Paused"), "the weekend")
	assert.NotContains(t, words(between), "No schedule fires on this day.")
	assert.Empty(t, section(k.read("/calendar?day="+day(-1)), "Paused"), "it was not paused yet")

	k.write("POST", "/v1/recurring/"+id+"/resume", "")
	require.Eventually(t, func() bool {
		return strings.Contains(section(k.read("/calendar?day="+day(1)), "Over more than this day"), "hourly")
	}, 20*time.Second, 50*time.Millisecond)
	between = k.read("/calendar?day=" + day(1))
	assert.Contains(t, section(between, "Over more than this day"), "the weekend", "and why")
	assert.Empty(t, section(between, "Paused"))
	assert.Contains(t, k.text("/occurrences?spanning=true&from="+day(1)+"T00:00:00Z&to="+day(2)+"T00:00:00Z"), "the weekend")
}

func TestTheCalendarIsNarrowedToTenantsAndSchedules(t *testing.T) {
	k := newKit(t)
	var ids []string
	for _, name := range []string{"mine", "other"} {
		ids = append(ids, k.make("/v1/recurring", `{"namespace":"n","tenant":"`+name+`","cron_expr":"15 3 * * *","provider":"echo","action_type":"x","description":"`+name+`"}`))
	}
	for _, query := range []string{"tenant=mine", "name=mine"} {
		shown := k.text("/calendar?day=2096-03-01&" + query)
		assert.Contains(t, shown, "mine to come", query)
		assert.NotContains(t, shown, "other to come", query)
	}
	assert.NotContains(t, k.text("/calendar?day=2096-03-01&kind=job"), "to come")
	for _, id := range ids {
		k.write("POST", "/v1/recurring/"+id+"/trigger", "{}")
	}
	require.Eventually(t, func() bool { return strings.Count(k.text("/occurrences"), "dispatched completed") == 2 }, 20*time.Second, 20*time.Millisecond)
	assert.Contains(t, k.text("/calendar?tenant=mine"), "mine completed", "of the day that has begun")
	assert.NotContains(t, k.text("/calendar?tenant=mine"), "other")
	assert.Contains(t, k.read("/calendar?day=2096-03-01&tenant=mine"), `href="/ui/calendar?day=2096-03-02&amp;tenant=mine"`, "the day after has the same filters")
	assert.Equal(t, http.StatusBadRequest, k.send("GET", "/calendar?day=soon", nil).Code)
}
