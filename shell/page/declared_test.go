package page_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/page"
	"github.com/orrery-go/orrery/shell/setfile"
)

// declare applies a set with one thing of each kind.
func (k *kit) declare() {
	k.t.Helper()
	k.write("POST", "/v1/sets/ours", `{"take_over":true,"entries":[
		{"file":"r.toml","recurring":{"name":"nightly","cron_expr":"30 2 1 1 *","timezone":"Europe/Berlin","provider":"echo","payload":{"text":"a \"b\" <c>"},"description":"each <b>night</b>","labels":{"team":"data"},"overlap":"skip"}},
		{"file":"j.yaml","job":{"id":"report","name":"Report","schedule":"0 9 * * *","pod_spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"i","resources":{}}]}}},
		{"file":"q.toml","queue":{"name":"mail","config":{"concurrency":2}}},
		{"file":"q.toml","semaphore":{"name":"gate","slots":2}},
		{"file":"w.toml","worker":{"name":"mailer","queue":"mail","concurrency":3,"do":{"run":{"tool":"echo","input":{"v":"${item.data}"}}}}},
		{"file":"c.toml","calendar":{"name":"closed","timezone":"Europe/Berlin","exclude":{"dates":[{"date":"2090-12-25","name":"Christmas"}]}}},
		{"file":"s.toml","subscriber":{"name":"heard","match":{"category":"deploys"},"do":{"push":{"namespace":"default","tenant":"default","name":"mail"}}}}]}`)
}

// ownedForms are the pages of what a set owns, how its form of edits is called, and a change by that form.
var ownedForms = []struct{ at, edit, deletes, file, field, value string }{
	{"/recurring/{id}", "edit", "delete", "r.toml", "description", "edited"},
	{"/jobs/report", "apply", "delete", "j.yaml", "name", "edited"},
	{"/queues/mail", "configure", "delete", "q.toml", "concurrency", "7"},
	{"/semaphores/gate", "configure", "", "q.toml", "slots", "7"},
	{"/workers/mailer", "configure", "delete", "w.toml", "concurrency", "7"},
	{"/calendars/closed", "edit", "delete", "c.toml", "description", "edited"},
	{"/subscribers/heard", "edit", "delete", "s.toml", "match", `{"category":"edited"}`},
}

var preformatted = regexp.MustCompile(`(?s)<pre[^>]*>(.*?)</pre>`)

func TestTheFormOfWhatASetOwnsShowsTheTextOfItsFile(t *testing.T) {
	k := newJobsPage(t).kit
	k.declare()
	nightly := k.recurringNamed("nightly")
	k.write("POST", "/v1/recurring/nightly/pause?namespace=default&tenant=default", `{"reason":"the disk is full"}`)
	dir := t.TempDir()
	for _, row := range ownedForms {
		at := strings.Replace(row.at, "{id}", nightly, 1)
		assert.Contains(t, k.text(at), "Set of files ours in "+row.file, at)
		form := k.read(at + "/" + row.edit)
		says := words(form)
		assert.Contains(t, says, "The set ours declares it, in "+row.file+". Change it there, and apply the set: orreryd apply -f FOLDER --set ours", at)
		assert.Contains(t, says, "Change it here all the same", at)
		assert.NotContains(t, form, `<details class="group" open`, "%s: its fields stand behind", at)
		m := preformatted.FindStringSubmatch(form)
		require.NotNil(t, m, "%s: %s", at, says)
		require.NoError(t, os.WriteFile(filepath.Join(dir, strings.NewReplacer("/", "-", nightly, "r").Replace(at)+filepath.Ext(row.file)), []byte(html.UnescapeString(tags.ReplaceAllString(m[1], ""))), 0o600))
		if row.deletes != "" {
			assert.Contains(t, k.text(at+"/"+row.deletes), "The set ours declares it, in "+row.file+". Take it out there, and apply the set: orreryd apply -f FOLDER --set ours --prune", at)
		}
	}
	// What the forms show declares what there is.
	entries, err := setfile.Load([]string{dir}, setfile.Options{})
	require.NoError(t, err)
	require.Len(t, entries, len(ownedForms))
	res, err := k.engine.Sets().Apply(t.Context(), "ours", entries, shell.SetOptions{DryRun: true})
	require.NoError(t, err)
	for _, c := range res.Changes {
		assert.Equal(t, shell.SetKeeps, c.Action, "%s %s: %+v", c.Kind, c.Name, c.Fields)
	}
	assert.Contains(t, k.text("/recurring/"+nightly+"/pause"), "Its times are skipped", "operations stay")
	assert.NotContains(t, k.text("/recurring/"+nightly+"/pause"), "The set ours")
}

// recurringNamed gives the id of the recurring action of that name.
func (k *kit) recurringNamed(name string) string {
	k.t.Helper()
	id, _ := k.write("GET", "/v1/recurring/"+name+"?namespace=default&tenant=default", "")["id"].(string)
	require.NotEmpty(k.t, id)
	return id
}

func TestWhatASetOwnsIsEditedOnThePageByWhoTakesItOver(t *testing.T) {
	k := newJobsPage(t).kit
	owned := func() int {
		list, _ := k.write("GET", "/v1/sets?set=ours", "")["declared"].([]any)
		return len(list)
	}
	k.declare()
	nightly := k.recurringNamed("nightly")
	for i, row := range ownedForms {
		form := strings.Replace(row.at, "{id}", nightly, 1) + "/" + row.edit
		change := url.Values{row.field: {row.value}}
		if row.edit == "apply" {
			change = url.Values{"rest": {`{"name":"edited","pod_spec":{"containers":[{"name":"main","image":"i"}]}}`}}
		}
		w := k.try(form, change)
		assert.Equal(t, http.StatusConflict, w.Code, form)
		assert.Contains(t, words(w.Body.String()), `the set "ours" declares it, in `+row.file+`: change it there and apply the set, or take it over`, form)
		assert.Equal(t, len(ownedForms)-i, owned(), form)

		change.Set("take_over", "yes")
		k.act(form, change)
		assert.Equal(t, len(ownedForms)-i-1, owned(), form)
		assert.NotContains(t, k.text(form), "The set ours", form)
	}
	k.declare()
	for _, row := range ownedForms {
		if row.deletes == "" || row.at == "/calendars/closed" {
			continue
		}
		form := strings.Replace(row.at, "{id}", nightly, 1) + "/" + row.deletes
		assert.Equal(t, http.StatusConflict, k.try(form, nil).Code, form)
		k.act(form, url.Values{"take_over": {"yes"}})
	}
	assert.Equal(t, 2, owned(), "the semaphore and the calendar")
}

func TestWhoMayOnlyReadGetsNoTextForTheFile(t *testing.T) {
	k := newKitWith(t, func(o *httpapi.Options) { o.Redact.Names = true },
		httpapi.Token{Name: "root", SHA256: httpapi.HashToken("root-token"), Admin: true}, httpapi.Token{Name: "ann", SHA256: httpapi.HashToken("ann-token"), ReadOnly: true})
	k.as = "root-token"
	k.write("POST", "/v1/sets/ours", `{"entries":[{"file":"r.toml","recurring":{"namespace":"default","tenant":"default","name":"nightly","cron_expr":"@daily","provider":"echo","payload":{"password":"hunter2"}}}]}`)
	id := k.recurringNamed("nightly")
	assert.Contains(t, k.read("/recurring/"+id+"/edit"), "hunter2")
	k.as = "ann-token"
	form := k.read("/recurring/" + id + "/edit")
	assert.Contains(t, words(form), "The set ours declares it")
	assert.NotContains(t, form, "As it stands in the file")
	assert.NotContains(t, form, "hunter2")
}

func TestEachKindThatASetDeclaresHasItsTextOnThePage(t *testing.T) {
	k := newKit(t)
	raw, err := json.Marshal(k.write("GET", "/openapi.json", ""))
	require.NoError(t, err)
	var doc struct {
		Components struct {
			Schemas struct {
				SetEntry struct{ Properties map[string]any }
			}
		}
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	kinds := len(doc.Components.Schemas.SetEntry.Properties) - 2 // but for file and was
	assert.Len(t, page.Declarations, kinds)
	for _, path := range page.Declarations {
		offered := false
		for _, a := range page.Acts() {
			offered = offered || a.Request == "PUT "+path
		}
		assert.True(t, offered, "%s is edited by no act", path)
	}
}
