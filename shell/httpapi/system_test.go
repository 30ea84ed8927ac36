package httpapi_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

func TestTheSystemTellsHowFarTheLoopLagsAndHowOftenItCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, setup{engine: func(o *shell.Options) { o.StrictTick, o.TickRate = true, time.Minute }})
		numbers := func() map[string]any {
			r := a.do("GET", "/v1/system", nil)
			require.Equal(t, http.StatusOK, r.status, r.body)
			return r.object()
		}
		<-time.After(90 * time.Second) // between two ticks
		idle := numbers()
		assert.Zero(t, idle["loop_lag_seconds"])
		assert.EqualValues(t, 61, idle["loop_lag_limit_seconds"], "what is due at once waits for a tick")

		due := effects.TimeOf(time.Now().Add(10 * time.Second))
		for range 3 {
			r := a.do("POST", "/v1/actions", `{"namespace":"ns","tenant":"t1","tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"`+due.String()+`"}}`)
			require.Equal(t, http.StatusCreated, r.status, r.body)
			<-time.After(time.Millisecond)
		}
		busy := numbers()
		assert.InDelta(t, 0.05, busy["commits_per_second"], 0.011, "three in a minute, and what the tick has committed")
		assert.InDelta(t, 0.05, busy["inputs_per_second"], 0.011)

		<-time.After(31 * time.Second) // behind the tick, 20 s after they were due
		assert.InDelta(t, 20, numbers()["loop_lag_seconds"], 1)
		assert.Contains(t, a.do("GET", "/metrics", nil).body, "orrery_loop_lag_seconds ")
		<-time.After(2 * time.Minute)
		assert.Zero(t, numbers()["loop_lag_seconds"], "a minute later it is forgotten")
		a.stop()
	})
}
