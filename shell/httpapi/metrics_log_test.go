package httpapi_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// logged is a store with a log.
type logged struct {
	store.Store
	stats store.LogStats
}

func (l *logged) LogStats() store.LogStats { return l.stats }

func TestMetricsTellOfTheLogAndItsCheckpoints(t *testing.T) {
	st := &logged{Store: memory.New(), stats: store.LogStats{
		Frames: 7, Bytes: 4096, Memory: 1024, Written: 81920, Checkpoints: 3, ViewsEnded: 5, Failed: 2, Took: time.Second, Total: 1500 * time.Millisecond, Err: errors.New("full"),
		Kept: 5000, Unshipped: 100, KeepErr: errors.New("not mounted"),
	}}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st, stopped: true})
	body := a.do("GET", "/metrics", nil).body
	for _, line := range []string{
		"orrery_log_frames 7", "orrery_log_bytes 4096", "orrery_log_memory_bytes 1024", "orrery_log_written_bytes_total 81920", "orrery_checkpoints_total 3", "orrery_views_ended_total 5", "orrery_checkpoints_failed_total 2",
		"orrery_checkpoint_seconds_total 1.5", "orrery_checkpoint_failing 1",
		"orrery_redo_bytes 5000", "orrery_redo_unshipped_bytes 100", "orrery_redo_failing 1",
	} {
		assert.Contains(t, body, "\n"+line+"\n")
	}
	st.stats.Err = nil
	assert.Contains(t, a.do("GET", "/metrics", nil).body, "\norrery_checkpoint_failing 0\n")
	without := start(t, setup{stopped: true})
	assert.NotContains(t, without.do("GET", "/metrics", nil).body, "orrery_log_frames")
}

// claimed is a store that another process may take over.
type claimed struct {
	store.Store
	failure error
}

func (*claimed) Failed() <-chan struct{} { return nil }
func (c *claimed) Failure() error        { return c.failure }
func (*claimed) Token() uint64           { return 7 }

func TestMetricsTellWhoOwnsADatabaseThatOthersMayTakeOver(t *testing.T) {
	st := &claimed{Store: memory.New()}
	t.Cleanup(func() { _ = st.Close() })
	a := start(t, setup{store: st, stopped: true})
	body := a.do("GET", "/metrics", nil).body
	assert.Contains(t, body, "\norrery_store_token 7\n")
	assert.Contains(t, body, "\norrery_store_lost 0\n")
	st.failure = store.ErrFenced
	assert.Contains(t, a.do("GET", "/metrics", nil).body, "\norrery_store_lost 1\n")
	without := start(t, setup{stopped: true})
	assert.NotContains(t, without.do("GET", "/metrics", nil).body, "orrery_store_")
}
