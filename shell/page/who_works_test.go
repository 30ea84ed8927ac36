package page_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
)

// away is a store that cannot be read while gone.
type away struct {
	store.Store
	gone atomic.Bool
}

func (a *away) View(ctx context.Context, fn func(store.ReadTx) error) error {
	if a.gone.Load() {
		return store.ErrUnreachable
	}
	return a.Store.View(ctx, fn)
}

func TestAPageThatNobodyCanAnswerLinksToTheInstances(t *testing.T) {
	const link = `<a href="/ui/instances">Instances: which daemons work, and on what</a>`
	var st *away
	wrapped := func(o *shell.Options) {
		st = &away{Store: o.Store}
		o.Store = st
	}
	shown := func(o *httpapi.Options) {
		o.Cluster = func(context.Context) (wire.Cluster, error) { return fourDaemons(), nil }
	}
	failing := func(k *kit, path string) (status int, text string) { // an engine that starts, or ends, can read
		st.gone.Store(true)
		defer st.gone.Store(false)
		w := k.send("GET", path, nil)
		return w.Code, w.Body.String()
	}
	const later = `{"tool_name":"echo","trigger":{"type":"scheduled","next_tick_at":"2091-01-01T00:00:00Z"}}`
	k := newKitOn(t, wrapped, shown, admin("ops"), token("ann", func(t *httpapi.Token) { t.Tenants = []string{"ann"} }))
	k.as = "ops-secret"
	k.write("POST", "/v1/actions", later) // the engine has started once it is answered
	assert.NotContains(t, k.read("/actions"), link)
	status, text := failing(k, "/actions")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, text, link)
	status, text = failing(k, "/no-such-page")
	assert.Equal(t, http.StatusNotFound, status)
	assert.NotContains(t, text, link, "who works has nothing to do with a page that is not there")
	k.as = "ann-secret"
	status, text = failing(k, "/actions")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.NotContains(t, text, link, "a token that is bound may not see them")

	k = newKitOn(t, wrapped, func(*httpapi.Options) {})
	k.write("POST", "/v1/actions", later)
	status, text = failing(k, "/actions")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.NotContains(t, text, link, "the database is this daemon's alone")
}
