package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestManyPagesOfOneTokenAtOnceWaitForEachOther(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) { o.MaxListsPerToken, o.MaxRequestsPerToken = 2, 4 })
	for range 30 {
		k.make("/v1/actions", `{"tool_name":"echo"}`)
	}
	var all sync.WaitGroup
	status := make([]int, 200)
	for i := range status {
		all.Go(func() { status[i] = ask(t, k.page, "GET", []string{"/ui/", "/ui/find?q=echo"}[i%2], nil).Code })
	}
	all.Wait()
	for _, s := range status {
		assert.Equal(t, http.StatusOK, s)
	}
}

func TestWhoHasNotSignedInSendsNoLongForm(t *testing.T) {
	k := newKit(t, admin("ops"))
	w := k.send("POST", "/sign-in", url.Values{"token": {"ops-secret"}, "to": {strings.Repeat("x", 16<<10)}})
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, words(w.Body.String()), "it is longer than 16 KiB")
}
