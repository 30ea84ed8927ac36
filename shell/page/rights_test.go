package page_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestActsAndPagesThatATokenMayNotUseSayWhyAndLeadNowhere(t *testing.T) {
	k := newKit(t, admin("ops"),
		token("tool", func(t *httpapi.Token) { t.Tools = []string{"echo"} }),
		token("plain", func(t *httpapi.Token) { t.Tenants = []string{"default"} }),
		token("reader", func(t *httpapi.Token) { t.ReadOnly, t.Tenants = true, []string{"default"} }))
	for _, test := range []struct{ as, page, act, form, why string }{
		{"tool", "/locks", "New semaphore", "/new-semaphore", "Your token may only use the tools echo; it cannot break leases or configure semaphores, which others use too."},
		{"tool", "/calendars", "New calendar", "/new-calendar", "Your token may only use the tools echo; it cannot change calendars, which hold for the schedules of all tools."},
		{"tool", "/tasks", "New task", "/tasks/new", "Your token may not create tasks: that takes sessions = true for the token."},
		{"plain", "/tasks", "New task", "/tasks/new", "Your token may not create tasks: that takes sessions = true for the token."},
		{"reader", "/queues", "New queue", "/new-queue", "Your token is read-only."},
		{"reader", "/tasks", "New task", "/tasks/new", "Your token is read-only."},
		{"reader", "/actions", "Retry all that match", "/actions/retry-all", "Your token is read-only."},
	} {
		k.as = "ops-secret"
		assert.Contains(t, k.read(test.page), `href="/ui`+test.form, "an admin is led to %s", test.form)
		k.as = test.as + "-secret"
		shown := k.read(test.page)
		assert.NotContains(t, shown, `href="/ui`+test.form, "%s on %s", test.as, test.page)
		assert.Contains(t, words(shown), test.act+" : "+test.why, "%s on %s", test.as, test.page)
		assert.Contains(t, k.text(test.form), test.why, "its form says so, too")
	}

	for entry, refused := range map[string]string{"Jobs": "tool", "Runs": "tool", "Queues": "tool", "Events": "tool plain reader", "Subscribers": "tool", "Tasks": "", "Locks": ""} {
		path := "/" + strings.ToLower(entry)
		for _, as := range []string{"ops", "tool", "plain", "reader"} {
			k.as = as + "-secret"
			shown, status := k.read("/"), k.send("GET", path, nil).Code
			if strings.Contains(refused, as) {
				assert.NotContains(t, shown, `href="/ui`+path+`">`, "%s does not lead to %s", as, entry)
				assert.Contains(t, shown, `>`+entry+`<span class="hidden">: Your token `, "%s is told why", as)
				assert.Equal(t, http.StatusForbidden, status, "%s: %s", as, entry)
			} else {
				assert.Contains(t, shown, `href="/ui`+path+`">`, "%s is led to %s", as, entry)
				assert.Equal(t, http.StatusOK, status, "%s: %s", as, entry)
			}
		}
	}
}

func TestAnActOnSchedulesOfSeveralKindsIsOfferedIfOneOfThemIsAllowed(t *testing.T) {
	k := newKit(t, token("tool", func(t *httpapi.Token) { t.Tools = []string{"echo"} }))
	k.as = "tool-secret"
	assert.Contains(t, k.read("/schedules"), `href="/ui/schedules/pause-all`)
}
