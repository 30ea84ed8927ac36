package page_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
)

// changes lists the requests of the API's description that change something.
func changes(t *testing.T) (out []string) {
	t.Helper()
	k := newKit(t)
	paths, _ := k.write("GET", "/openapi.json", "")["paths"].(map[string]any)
	for path, described := range paths {
		methods, _ := described.(map[string]any)
		for method := range methods {
			if slices.Contains([]string{"post", "put", "delete", "patch"}, method) {
				out = append(out, strings.ToUpper(method)+" "+path)
			}
		}
	}
	require.Greater(t, len(out), 60)
	return out
}

func TestEveryRequestThatChangesSomethingIsAnActOrIsLeftOutWithAReason(t *testing.T) {
	offered := make(map[string]bool)
	for _, a := range page.Acts() {
		offered[a.Request] = true
	}
	known := changes(t)
	for _, request := range known {
		reason, left := page.LeftOut[request]
		if offered[request] {
			assert.False(t, left, "%s is an act of the page, and left out: %s", request, reason)
		} else {
			assert.True(t, left, "%s is no act of the page, and is not left out with a reason", request)
		}
	}
	for request, reason := range page.LeftOut {
		assert.Contains(t, known, request, "what is left out is no request of the API")
		assert.NotEmpty(t, reason, request)
	}
	for _, a := range page.Acts() {
		assert.Contains(t, known, a.Request, "act %s", a.Key)
	}
}

func TestNoActIsCarriedOutForWhoMayOnlyRead(t *testing.T) {
	k := newKit(t, httpapi.Token{Name: "ann", SHA256: httpapi.HashToken("ann-token"), ReadOnly: true})
	k.as = "ann-token"
	form := url.Values{"proof": {k.proof()}}
	for _, a := range page.Acts() {
		path := strings.NewReplacer("{id}", "00000000-0000-4000-8000-000000000000", "{name}", "x", "{phase}", "x").Replace(a.Form)
		w := k.send("POST", path, form)
		assert.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest, http.StatusNotFound}, w.Code, a.Form) // bad: a field that must be given was not
		assert.Empty(t, w.Header().Get("Location"), a.Form)
	}
}

func TestEveryActSaysWhatItWillDoAndWhatWasDone(t *testing.T) {
	keys, forms := make(map[string]bool), make(map[string]bool)
	for _, a := range page.Acts() {
		assert.NotEmpty(t, a.Says, a.Form)
		assert.NotEmpty(t, a.Done, a.Form)
		assert.False(t, keys[a.Key], "two acts have the key %s: what is said afterwards would be another's", a.Key)
		assert.False(t, forms[a.Form], "two acts have the form %s", a.Form)
		keys[a.Key], forms[a.Form] = true, true
		assert.Contains(t, page.Views(), a.On, "the page of what %s is done to", a.Form)
	}
}
