package httpapi_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func TestAKeyThatTheStoreDidNotTakeAtFirstIsKeptOnceItDoes(t *testing.T) {
	st, clock := &failing{Store: memory.New()}, newClock()
	t.Cleanup(func() { _ = st.Close() })
	withClock := func(o *httpapi.Options) { o.Clock = clock }
	a := start(t, setup{store: st, api: withClock})
	a.add("a", "echo", "1", nil)
	a.add("a", "echo", "1", nil)
	st.fail(io.ErrShortWrite)
	next := a.do("GET", "/v1/actions?limit=1", nil).actionPage().Next
	found := func() int {
		return len(a.do("GET", "/v1/actions?limit=1&page_token="+next, nil).actionPage().Actions)
	}
	assert.Equal(t, 1, found())
	assert.Equal(t, 1, strings.Count(a.logs.String(), "page tokens end with this process"), "the store is left alone for a while")
	st.fail(nil)
	clock.advance(time.Minute)
	assert.Equal(t, 1, found(), "the store takes the key now")
	a.stop()
	a = start(t, setup{store: st, api: withClock})
	assert.Equal(t, 1, found(), "after a restart")
}

// hung is a store whose writer is busy with something else.
type hung struct {
	*memory.Store
	held    atomic.Bool
	release chan struct{} // nil: it stays busy
}

func (h *hung) Update(ctx context.Context, fn func(store.Tx) error) error {
	if h.held.Load() {
		select {
		case <-h.release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.Store.Update(ctx, fn)
}

func TestListsDoNotQueueForAKeyThatAStoreIsSlowToTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &hung{Store: memory.New()}
		defer func() { _ = st.Close() }()
		a := start(t, setup{store: st})
		a.add("a", "echo", "1", nil)
		a.add("a", "echo", "1", nil)
		a.stop()
		st.held.Store(true)
		begin := time.Now()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { assert.NotEmpty(t, a.do("GET", "/v1/actions?limit=1", nil).actionPage().Next) })
		}
		wg.Wait()
		assert.Equal(t, 5*time.Second, time.Since(begin), "all at once")
		assert.NotEmpty(t, a.do("GET", "/v1/actions?limit=1", nil).actionPage().Next)
		assert.Equal(t, 5*time.Second, time.Since(begin))
	})
}
