package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func TestADamagedRecordIsNamedByAListAndGoneForWhoAsksForIt(t *testing.T) {
	st := memory.New()
	a := start(t, setup{store: st, api: func(o *httpapi.Options) {
		o.Tokens = []httpapi.Token{
			{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true},
			{Name: "one", SHA256: httpapi.HashToken("one"), Namespaces: []string{"ns"}, Tenants: []string{"t1"}},
		}
	}})
	as := func(token string) { a.header.Set("Authorization", "Bearer "+token) }
	as("root")
	made, err := a.engine.Actions().Create(t.Context(), core.ActionSpec{Namespace: "ns", Tenant: "t1", ToolName: "echo", Trigger: core.Scheduled(effects.TimeOf(time.Now().Add(time.Hour)))})
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		seq, err := tx.Seq()
		require.NoError(t, err)
		require.NoError(t, tx.AppendJournal(seq+1, 1, core.NewEntry(seq+1, 1, "test").AppendJSON(nil)))
		return tx.Put(seq+1, []store.Write{{Kind: core.KindAction, ID: made.ID, State: []byte(`{"id":7}`), Due: made.Deadline(), Terms: made.Terms(),
			Prev: store.Prev{Version: 1, Seq: seq, Due: made.Deadline(), Terms: made.Terms()}}})
	}))

	list := a.do("GET", "/v1/actions", nil)

	assert.Equal(t, http.StatusOK, list.status)
	assert.Equal(t, "1", list.header.Get("Orrery-Damaged"))
	got := a.do("GET", "/v1/actions/"+made.ID.String(), nil)
	assert.Equal(t, http.StatusGone, got.status)
	assert.Contains(t, got.body, "its record could not be read and was set aside")
	assert.Contains(t, got.body, "orreryd quarantine")
	assert.Empty(t, a.do("GET", "/v1/actions", nil).header.Get("Orrery-Damaged"))
	as("one")
	assert.Equal(t, http.StatusNotFound, a.do("GET", "/v1/actions/"+made.ID.String(), nil).status, "a tenant cannot tell it from what never was")
}
