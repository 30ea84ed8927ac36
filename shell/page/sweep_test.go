package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
)

// foreign are tokens of another tenant than that of the world, each with a few things of its own.
var foreign = []httpapi.Token{
	token("b", func(t *httpapi.Token) { t.Tenants, t.Sessions, t.Git = []string{"b"}, true, true }),
	token("reader", func(t *httpapi.Token) { t.Tenants, t.ReadOnly = []string{"b"}, true }),
	token("tool", func(t *httpapi.Token) { t.Tenants, t.Tools = []string{"b"}, []string{"echo"} }),
}

// atNoon has the page show all times as of one moment, so that two looks at it can be compared.
func (k *kit) atNoon() {
	k.t.Helper()
	var err error
	k.page, err = page.New(page.Options{API: k.api, Clock: &setClock{now: time.Date(2090, 1, 2, 12, 0, 0, 0, time.UTC)}})
	require.NoError(k.t, err)
}

// ofB makes some of each kind in the tenant b, which does nothing more by itself.
func (k *kit) ofB() {
	k.t.Helper()
	const of = `{"namespace":"default","tenant":"b",`
	k.make("/v1/actions", of+`"label":"own","tool_name":"echo",`+farAway+`}`)
	k.until("/v1/actions/"+k.make("/v1/actions", of+`"label":"own","tool_name":"fail"}`), "status.type", "failed")
	k.make("/v1/recurring", of+`"cron_expr":"0 9 1 1 *","provider":"echo","action_type":"x","description":"own"}`)
	k.make("/v1/pipelines", of+`"label":"own","definition":{"name":"own","phases":[{"name":"ask","approval":{}}]}}`)
	k.make("/v1/strategies", of+`"label":"own","approaches":[{"name":"only","action":{"command":{"tool":"hold"}}}]}`)
	k.make("/v1/tasks", of+`"label":"own"}`)
	k.write("PUT", "/v1/queues/own?tenant=b", `{}`)
	k.write("POST", "/v1/queues/own/items?tenant=b", `{"data":1}`)
	k.write("PUT", "/v1/semaphores/own?tenant=b", `{"slots":2}`)
	k.write("POST", "/v1/locks/own/acquire?tenant=b", `{"holder":"own"}`)
	k.write("PUT", "/v1/jobs/own?tenant=b", `{"schedule":"0 3 1 1 *","pod_spec":{"containers":[{"name":"own"}]}}`)
}

// lists are the pages that are not about one thing: all of them, the forms of what is new, the acts on many, and some that
// are narrowed to the other tenant or search for what is its own.
func lists() (out []string) {
	add := func(pattern string) {
		if !strings.Contains(pattern, "{") || pattern == "/{$}" {
			out = append(out, strings.TrimSuffix(pattern, "{$}"))
		}
	}
	for _, pattern := range page.Views() {
		add(pattern)
	}
	for _, a := range page.Acts() {
		add(a.Form)
	}
	for _, list := range []string{"/actions", "/schedules", "/runs", "/queues", "/occurrences", "/webhooks", "/calendar"} {
		out = append(out, list+"?tenant=default", list+"?order=oldest")
	}
	for _, q := range []string{"import", "mail", "release", "report", "agent", "holidays", "o", "e"} {
		out = append(out, "/find?q="+q)
	}
	return append(out, "/actions?route=deploys", "/actions?tool=echo", "/actions?label=team", "/occurrences?verdict=missed", "/calendar?day=2091-02-03")
}

// counted are addresses that are no list: the log of requests has what the visitor has just asked for.
var counted = []string{"/audit"}

// look gives what a browser is answered: the status, where it is led, and the page.
func (k *kit) look(path string) string {
	k.t.Helper()
	w := k.send("GET", path, nil)
	return fmt.Sprint(w.Code, " ", w.Header().Get("Location"), "\n", mayDiffer.ReplaceAllString(w.Body.String(), ""))
}

// mayDiffer is what two looks at a page differ in by themselves.
var mayDiffer = regexp.MustCompile(`name="proof" value="[^"]*"|name="id" value="[^"]*"|>[\d.]+ m?s<`) // the last one is how long an item of its own waits

func TestNoPageOfATokenOfAnotherTenantChangesByWhatATenantHas(t *testing.T) {
	k := newWorld(t, append([]httpapi.Token{admin("ops")}, foreign...)...)
	k.atNoon()
	k.as = "ops-secret"
	k.ofB()
	before := make(map[string]string)
	pages := slices.DeleteFunc(lists(), func(path string) bool { return slices.Contains(counted, path) })
	require.Greater(t, len(pages), 60)
	for _, who := range foreign {
		k.as = who.Name + "-secret"
		for _, path := range pages {
			before[who.Name+path] = k.look(path)
		}
	}
	k.as = "ops-secret"
	empty := k.look("/")
	k.everything()
	require.NotEqual(t, empty, k.look("/"), "to an admin it is no secret")
	for _, who := range foreign {
		k.as = who.Name + "-secret"
		for _, path := range pages {
			if now := k.look(path); before[who.Name+path] != now {
				assert.Equal(t, words(before[who.Name+path]), words(now), "%s as %s", path, who.Name)
				assert.Fail(t, "it changes by what another tenant has", "%s as %s", path, who.Name)
			}
		}
	}
}

// things are the addresses of a thing's pages, and of the forms of the acts on it, by the segments that name it.
func things(at string) (out []string) {
	path, scope, _ := strings.Cut(at, "?")
	segments := strings.Split(path, "/")
	patterns := slices.Clone(page.Views())
	for _, a := range page.Acts() {
		patterns = append(patterns, a.Form)
	}
	for _, pattern := range patterns {
		parts := strings.Split(pattern, "/")
		if len(parts) < 3 || parts[1] != segments[1] || !strings.HasPrefix(parts[2], "{") {
			continue
		}
		for i, part := range parts {
			switch {
			case !strings.HasPrefix(part, "{"):
			case i < len(segments):
				parts[i] = segments[i]
			default: // a phase, an occurrence or an attempt
				parts[i] = "0"
			}
		}
		full := strings.Join(parts, "/")
		if scope != "" {
			full += "?" + scope
		}
		out = append(out, full)
	}
	return append(out, "/find?q="+url.QueryEscape(segments[2]), "/find?q="+url.QueryEscape(segments[2][:min(8, len(segments[2]))]))
}

// withoutName takes a name, in each form in which a page repeats what it was asked for, out of a page.
func withoutName(shown, name string) string {
	for _, of := range []string{name, page.ShortID(name), name[:min(8, len(name))]} {
		shown = regexp.MustCompile(`\b`+regexp.QuoteMeta(of)).ReplaceAllString(shown, "NAME")
	}
	return shown
}

func TestAThingOfAnotherTenantIsOnNoPageToldFromOneThatDoesNotExist(t *testing.T) {
	k := newWorld(t, append([]httpapi.Token{admin("ops")}, foreign...)...)
	k.atNoon()
	k.as = "ops-secret"
	asked, seen := 0, 0
	for _, e := range k.everything() {
		if !strings.Contains(strings.Trim(e.page, "/"), "/") {
			continue
		}
		path, _, _ := strings.Cut(e.page, "?")
		name := strings.Split(path, "/")[2]
		nobodys := "nobodys" + name[min(len(name), 7):]
		if uuid.Validate(name) == nil {
			nobodys = uuid.NewString()
		}
		for _, address := range things(e.page) {
			other := strings.ReplaceAll(strings.ReplaceAll(address, name, nobodys), "q="+name[:min(8, len(name))], "q="+nobodys[:min(8, len(nobodys))])
			for _, who := range foreign {
				k.as = who.Name + "-secret"
				asked++
				got, none := k.look(address), k.look(other)
				if got, none = withoutName(got, name), withoutName(none, nobodys); got != none {
					assert.Equal(t, words(none), words(got), "%s as %s", address, who.Name)
					assert.Fail(t, "it is told from one that does not exist", "%s as %s", address, who.Name)
				}
			}
			k.as = "ops-secret"
			if k.send("GET", address, nil).Code != http.StatusNotFound {
				seen++
			}
		}
	}
	assert.Greater(t, asked, 500)
	assert.Greater(t, seen, asked/len(foreign)/2, "an admin sees most of them: the addresses are right")
}
