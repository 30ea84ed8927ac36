package config

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

func TestABatchThatComesAgainHasTheSameIdAndALargerOneAnother(t *testing.T) {
	got := make(chan string, 8)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Webhook-Id") }))
	defer web.Close()
	f, err := jobsConfig{UpdatesURL: web.URL, MetricsURL: web.URL}.MakeFeed()
	require.NoError(t, err)
	one, two := core.JobRunUpdate{UpdateID: uuid.UUID{1}}, core.JobRunUpdate{UpdateID: uuid.UUID{2}}
	require.NoError(t, f.Sync(t.Context(), []core.JobRunUpdate{one}))
	require.NoError(t, f.Sync(t.Context(), []core.JobRunUpdate{one}))
	require.NoError(t, f.Sync(t.Context(), []core.JobRunUpdate{one, two}))
	// Runs of two tenants may have one id.
	require.NoError(t, f.Collect(t.Context(), []core.OrchestratorMetrics{{RunID: "j:t", TotalDurationMS: 1}}))
	require.NoError(t, f.Collect(t.Context(), []core.OrchestratorMetrics{{RunID: "j:t", TotalDurationMS: 2}}))
	var ids []string
	for range 5 {
		ids = append(ids, <-got)
	}
	assert.Equal(t, ids[0], ids[1])
	assert.NotEqual(t, ids[1], ids[2])
	assert.NotEqual(t, ids[3], ids[4])
}

func TestAFeedFollowsNoRedirectAndItsErrorsHideTheURL(t *testing.T) {
	var asked atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	f, err := jobsConfig{UpdatesURL: web.URL + "/s3cret?key=s3cret"}.MakeFeed()
	require.NoError(t, err)
	err = f.Sync(t.Context(), []core.JobRunUpdate{{}})
	require.ErrorContains(t, err, `answered 307 Temporary Redirect`)
	assert.NotContains(t, err.Error(), "s3cret")
	assert.EqualValues(t, 1, asked.Load())
	web.Close()
	err = f.Sync(t.Context(), []core.JobRunUpdate{{}})
	require.ErrorContains(t, err, "post to http://127.0.0.1")
	assert.NotContains(t, err.Error(), "s3cret")
}
