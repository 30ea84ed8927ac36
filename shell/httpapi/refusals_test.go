package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
)

// visitor makes the visitor that somebody is who has signed in with that token.
func (a *api) visitor(secret string) *httpapi.Visitor {
	a.t.Helper()
	r := httptest.NewRequestWithContext(a.t.Context(), "GET", "/", http.NoBody)
	sealed, err := a.server.SignIn(r, secret)
	require.NoError(a.t, err)
	v, err := a.server.Visitor(r, sealed)
	require.NoError(a.t, err)
	return v
}

// What the page shows as refused before somebody tries is what the table of the sweep says that the API refuses, whatever it is about.
func TestWhatATokenAloneDoesNotAllowIsSaidBeforehandForEachOperation(t *testing.T) {
	rows := sweepRows(t)
	synctest.Test(t, func(t *testing.T) {
		w := newSweepWorld(t, "", 1)
		defer w.stop()
		refusals := 0
		for _, o := range sweepOperations(t) {
			if o.variant != "" {
				continue
			}
			columns := strings.Split(rows[o.name()], "|")[1:]
			for i, k := range sweepTokens {
				if k.token == nil || k.token.Metrics { // who cannot sign in
					continue
				}
				cells := strings.Fields(columns[i])
				why := w.server.Refusal(w.visitor(k.bearer), o.method, o.path)
				all := !slices.ContainsFunc(cells, func(status string) bool { return status != "403" })
				if all {
					assert.NotEmpty(t, why, "%s with the token %s is refused whatever it is about", o.id, k.name)
				}
				if why != "" {
					refusals++
					assert.Contains(t, why, `token: "`+k.name+`" `, o.id)
					assert.False(t, slices.ContainsFunc(cells, func(status string) bool { return status != "403" && status != "404" }), "%s with the token %s: %s, but the API answers %v", o.id, k.name, why, cells)
				}
			}
		}
		assert.Greater(t, refusals, 100)
	})
}
