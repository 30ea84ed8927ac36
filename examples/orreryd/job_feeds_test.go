package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestADeliveryIsKnownByAllThatIsInIt(t *testing.T) {
	var mu sync.Mutex
	var ids []string
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, r.Header.Get("Webhook-Id"))
	}))
	t.Cleanup(web.Close)
	f, err := jobsConfig{UpdatesURL: web.URL, MetricsURL: web.URL}.feeds()
	require.NoError(t, err)
	t.Cleanup(f.client.CloseIdleConnections)
	one, two := core.JobRunUpdate{UpdateID: uuid.UUID{1}}, core.JobRunUpdate{UpdateID: uuid.UUID{2}}
	for _, batch := range [][]core.JobRunUpdate{{one}, {one, two}, {one}} { // after a crash more may come with it
		require.NoError(t, f.Sync(t.Context(), batch))
	}
	for _, batch := range [][]core.OrchestratorMetrics{{{RunID: "a"}}, {{RunID: "a"}, {RunID: "b"}}} {
		require.NoError(t, f.Collect(t.Context(), batch))
	}
	require.Len(t, ids, 5)
	assert.NotEqual(t, ids[0], ids[1], "who has seen the one must not pass over the other")
	assert.Equal(t, ids[0], ids[2])
	assert.NotEqual(t, ids[3], ids[4])
}

func TestOneRunnerThatHangsLeavesPlacesForTheOthers(t *testing.T) {
	limits := map[string]int{"http": 2}
	laneLimits(64, limits)
	assert.Equal(t, map[string]int{"http": 2, effects.LaneRun: 1024, effects.LaneConstraints: 256, effects.LaneActions: 256}, limits)
	laneLimits(5000, limits)
	assert.Equal(t, 5000, limits[effects.LaneRun])
}
