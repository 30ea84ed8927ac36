package page_test

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// hostile is a text that ends whatever it stands in, if a page takes it for more than text.
const hostile = `'"><xss onload=xss()>&lt;/xss&gt;`

// A schema is what is read of one in openapi.json.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"` // a text, or a list of such
	Enum       []any             `json:"enum"`
	Format     string            `json:"format"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Additional json.RawMessage   `json:"additionalProperties"`
	AllOf      []schema          `json:"allOf"`
	AnyOf      []schema          `json:"anyOf"`
}

// attacker sends what makes a world with the hostile text in each text that an operation takes there, by its schema.
type attacker struct {
	k       *kit
	schemas map[string]schema
	bodies  map[string]map[string]schema // of the requests, by path and method
	took    map[string]bool              // "POST /v1/actions label"
	sent    []sentBody                   // as they were asked for
}

type sentBody struct{ method, path, body string }

func newAttacker(t *testing.T, k *kit) *attacker {
	t.Helper()
	a := &attacker{k: k, took: make(map[string]bool), bodies: make(map[string]map[string]schema)}
	raw, err := json.Marshal(k.write("GET", "/openapi.json", ""))
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Schema schema } `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
		Components struct{ Schemas map[string]schema } `json:"components"`
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	a.schemas = doc.Components.Schemas
	for path, methods := range doc.Paths {
		a.bodies[path] = make(map[string]schema)
		for method, op := range methods {
			if c, ok := op.RequestBody.Content["application/json"]; ok {
				a.bodies[path][strings.ToUpper(method)] = c.Schema
			}
		}
	}
	require.Greater(t, len(a.bodies), 80)
	return a
}

// pattern gives the operation's path of a request, and the schema of its body.
func (a *attacker) pattern(method, path string) (string, schema, bool) {
	path, _, _ = strings.Cut(path, "?")
	given := strings.Split(path, "/")
	for _, pattern := range slices.Sorted(maps.Keys(a.bodies)) { // "/v1/x/bulk" before "/v1/x/{id}"
		parts := strings.Split(pattern, "/")
		if len(parts) == len(given) {
			fits := true
			for i := range parts {
				fits = fits && (parts[i] == given[i] || strings.HasPrefix(parts[i], "{"))
			}
			if s, ok := a.bodies[pattern][method]; fits && ok {
				return pattern, s, true
			}
		}
	}
	return "", schema{}, false
}

// free are texts of the world that name nothing on which the rest of it depends, so that others may stand in their place.
var free = map[string]bool{
	"label": true, "description": true, "reason": true, "error": true, "message": true, "prompt": true, "text": true, "progress": true, "output": true, "holder": true,
	"key": true, "comment": true, "owner": true, "action_type": true, "name": true,
}

// left are members into which nothing is put: they say what the world does, or are read by others in a form of their own.
var left = map[string]bool{
	"namespace": true, "tenant": true, "id": true, "tool_name": true, "provider": true, "tool": true, "queue": true, "pod_spec": true, "trigger": true, "cron_expr": true,
	"schedule": true, "definition.inputs": true, "context": true, "input": true, "workspace": true, "command": true, "recurrence": true, "match": true, "constraint_config": true, "action_config": true,
}

// A place is one where a text may stand in a body: put gives the body with it.
type place struct {
	field string
	put   func(body any) any
}

// places gives those of a body by its schema.
func (a *attacker) places(s schema, at string, present any) (out []place) {
	for s.Ref != "" {
		s = a.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	for _, part := range s.AllOf {
		out = append(out, a.places(part, at, present)...)
	}
	name := at[strings.LastIndexByte(at, '.')+1:]
	replace := func(v any) []place {
		return []place{{at, func(any) any { return v }}}
	}
	switch kind := typeOf(s); {
	case left[name] || left[at]:
	case kind == "string":
		if len(s.Enum) == 0 && s.Format == "" && (present == nil || free[name]) {
			out = append(out, replace(hostile)...)
		}
	case kind == "object" && len(s.Properties) == 0:
		if present == nil {
			out = append(out, replace(map[string]any{"k": hostile})...)
			out = append(out, place{at + " key", func(any) any { return map[string]any{hostile: hostile} }})
		}
	case kind == "object":
		object, _ := present.(map[string]any)
		if object == nil && at != "" {
			break
		}
		for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
			for _, p := range a.places(s.Properties[member], strings.TrimPrefix(at+"."+member, "."), object[member]) {
				out = append(out, place{p.field, func(body any) any {
					o := maps.Clone(body.(map[string]any))
					o[member] = p.put(o[member])
					return o
				}})
			}
		}
	case kind == "array" && s.Items != nil:
		list, _ := present.([]any)
		if present == nil && typeOf(a.resolved(*s.Items)) == "string" {
			out = append(out, replace([]any{hostile})...)
		}
		for i, v := range list {
			for _, p := range a.places(*s.Items, at+"[]", v) {
				out = append(out, place{p.field, func(body any) any {
					l := slices.Clone(body.([]any))
					l[i] = p.put(l[i])
					return l
				}})
			}
		}
	case kind == "" && len(s.AllOf) == 0 && present == nil: // any JSON
		out = append(out, replace(map[string]any{hostile: hostile})...)
	}
	return out
}

func (a *attacker) resolved(s schema) schema {
	for s.Ref != "" {
		s = a.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	return s
}

// typeOf gives the type of a value that is not null.
func typeOf(s schema) string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if one != "null" {
				return one.(string)
			}
		}
	}
	return ""
}

// rewrite puts the text wherever an operation takes it: places that are refused stay as they were. It gives the body that was taken,
// and the answer; ok is false if not even one place was taken.
func (a *attacker) rewrite(method, path, body string) (w *httptest.ResponseRecorder, ok bool) {
	pattern, s, known := a.pattern(method, path)
	if !known {
		return nil, false
	}
	var v any = map[string]any{}
	if body != "" {
		require.NoError(a.k.t, json.Unmarshal([]byte(body), &v))
	}
	places := a.places(s, "", v)
	if pattern == "/v1/calendars" { // schedules name it: see renamed
		places = slices.DeleteFunc(places, func(p place) bool { return p.field == "name" })
	}
	for len(places) > 0 {
		b := v
		for _, p := range places {
			b = p.put(b)
		}
		raw, err := json.Marshal(b)
		require.NoError(a.k.t, err)
		if w = a.ask(method, path, string(raw)); w.Code < 300 {
			for _, p := range places {
				a.took[method+" "+pattern+" "+p.field] = true
			}
			return w, true
		}
		require.Less(a.k.t, w.Code, 500, "%s %s: %s: %s", method, path, raw, w.Body)
		places = withoutRefused(places, w.Body.String())
	}
	return nil, false
}

// withoutRefused takes out the place that a refusal names, or else the last one.
func withoutRefused(places []place, answer string) []place {
	var told struct{ Error string }
	_ = json.Unmarshal([]byte(answer), &told)
	field, _, _ := strings.Cut(told.Error, ":")
	field = regexp.MustCompile(`\[\d+\]`).ReplaceAllString(field, "[]")
	for i, p := range slices.Backward(places) {
		name, _, _ := strings.Cut(p.field, " ")
		if name == field || strings.HasPrefix(field, name+".") || strings.HasPrefix(field, name+"[") || strings.HasPrefix(name, field+".") {
			return slices.Delete(slices.Clone(places), i, i+1)
		}
	}
	return places[:len(places)-1]
}

func (a *attacker) ask(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(a.k.t.Context(), method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:7460", "127.0.0.1:50000"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.k.api.Handler().ServeHTTP(w, r)
	return w
}

// hasName finds what is known by a name that stands in the path.
var hasName = regexp.MustCompile(`^/v1/(queues|locks|semaphores|workers|jobs|subscribers)/([^/?]+)`)

// renamed sends all that was sent once more, about things with hostile names, as far as they are taken.
func (a *attacker) renamed() {
	for _, s := range a.sent {
		if m := hasName.FindStringSubmatchIndex(s.path); m != nil {
			if w := a.ask(s.method, s.path[:m[4]]+url.PathEscape(hostile)+s.path[m[5]:], s.body); w.Code < 300 {
				a.took["the name of "+s.path[m[2]:m[3]]] = true
			}
		}
		if s.path == "/v1/calendars" {
			var v map[string]any
			require.NoError(a.k.t, json.Unmarshal([]byte(s.body), &v))
			v["name"] = hostile
			raw, err := json.Marshal(v)
			require.NoError(a.k.t, err)
			a.took["the name of calendars"] = a.ask(s.method, s.path, string(raw)).Code < 300
		}
	}
}

var (
	marks    = regexp.MustCompile(`(.{0,6})xss(?: |\+|%20)onload`)
	unmarked = regexp.MustCompile(`(.{0,9})/xss`)
)

// assertTextAlone fails if a page takes the hostile text for more than text, and counts how often it shows it.
func assertTextAlone(t *testing.T, path, body string) (n int) {
	t.Helper()
	assertWellFormed(t, body)
	for _, m := range marks.FindAllStringSubmatch(body, -1) {
		n++
		assert.Regexp(t, `(&lt;|%3C|u003c)$`, m[1], "%s: a bracket of a value", path)
	}
	for _, m := range unmarked.FindAllStringSubmatch(body, -1) {
		assert.Regexp(t, `(&amp;lt;|%26lt%3B|u0026lt;|%26lt%3B)$`, m[1], "%s: an escape of a value was undone", path)
	}
	assert.NotContains(t, body, `'"`, "%s: a quote of a value", path)
	assert.NotContains(t, body, `'&#34;`, path)
	assert.NotContains(t, body, `&#39;"&gt;`, path)
	for _, to := range hrefs(body) {
		assert.True(t, strings.HasPrefix(to, "/ui/") || strings.HasPrefix(to, "#"), "%s leads to %s", path, to)
	}
	return n
}

// crawl reads each page that is led to from a page, and gives how often each shows the hostile text.
func (k *kit) crawl(most int) map[string]int {
	k.t.Helper()
	seen, todo, shown := map[string]bool{"/": true}, []string{"/"}, make(map[string]int)
	for len(todo) > 0 && len(shown) < most {
		path := todo[0]
		todo = todo[1:]
		w := k.send("GET", path, nil)
		if w.Code == http.StatusSeeOther {
			continue
		}
		require.Less(k.t, w.Code, 500, "%s: %s", path, w.Body)
		shown[path] = assertTextAlone(k.t, path, w.Body.String())
		for _, to := range hrefs(w.Body.String()) {
			to, below := strings.CutPrefix(html.UnescapeString(to), "/ui")
			to, _, _ = strings.Cut(to, "#")
			if below && !seen[to] && !strings.HasPrefix(to, "/static/") && !strings.Contains(to, "/logs/download") && !strings.Contains(to, "/calendar?day=") {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return shown
}

// hostilePod has a run fail for what a cluster says of its pod.
func (k *kit) hostilePod() {
	k.t.Helper()
	id := uuidOf(k.t, k.write("POST", "/v1/jobs/report/trigger"+ofDefault, `{}`)["run"].(string))

	run, code := k.reaches(id, core.OrchestratorContainerCreating), int32(1)
	pod := core.Pod{Name: hostile, Node: hostile, Reason: hostile, Message: hostile}
	_, err := k.engine.Runs().Send(k.t.Context(), id, core.PodRunning{Attempt: run.RetryAttempt, Pod: pod})
	require.NoError(k.t, err)
	pod.ExitCode = &code
	_, err = k.engine.Runs().Send(k.t.Context(), id, core.PodEnded{Attempt: run.RetryAttempt, Pod: pod})
	require.NoError(k.t, err)
	k.when(id, func(o core.Orchestrator) bool {
		return o.RetryAttempt > run.RetryAttempt || o.State == core.OrchestratorFailed
	})
}

func TestAHostileTextWhereverTheAPITakesOneStaysTextOnEachPage(t *testing.T) {
	k := newWorld(t)
	a := newAttacker(t, k)
	k.rewrite = func(method, path, body string) (*httptest.ResponseRecorder, bool) {
		if method == http.MethodGet {
			return nil, false
		}
		a.sent = append(a.sent, sentBody{method, path, body})
		return a.rewrite(method, path, body)
	}
	k.everything()
	for _, waiting := range k.write("GET", "/v1/pipelines?status=running", "")["pipelines"].([]any) {
		id, _ := waiting.(map[string]any)["id"].(string)
		asks := k.write("GET", "/v1/pipelines/"+id, "")["definition"].(map[string]any)["phases"].([]any)[0].(map[string]any)["name"].(string)
		phase, err := json.Marshal(asks)
		require.NoError(t, err)
		for _, sent := range [][2]string{{"signal", `{"name":"go"}`}, {"checkpoint", `{"message":"m"}`}, {"approve", `{"phase":` + string(phase) + `,"approved":true,"comment":"c"}`}} {
			_, ok := a.rewrite("POST", "/v1/pipelines/"+id+"/"+sent[0], sent[1])
			assert.True(t, ok, sent[0])
		}
	}
	k.rewrite = nil
	k.hostilePod()
	a.renamed()
	phase, err := json.Marshal(map[string]any{"label": "phases", "definition": map[string]any{"name": hostile, "phases": []any{map[string]any{"name": hostile, "run": map[string]any{"tool": "fail"}}}}})
	require.NoError(t, err)
	a.took["the name of phases"] = a.ask("POST", "/v1/pipelines", string(phase)).Code < 300
	assert.Greater(t, len(a.took), 60, "so many texts are hostile")
	for _, of := range []string{
		"the name of queues", "the name of locks", "the name of semaphores", "the name of calendars", "the name of subscribers", "the name of workers", "the name of jobs",
		"POST /v1/actions labels key", "POST /v1/actions metadata key", "POST /v1/actions tool_input", "POST /v1/recurring payload key", "POST /v1/queues/{name}/items key",
		"POST /v1/queues/{name}/items/{id}/fail error", "POST /v1/pipelines/{id}/signal name", "POST /v1/pipelines/{id}/checkpoint message", "POST /v1/pipelines/{id}/approve comment",
		"POST /v1/tasks/{id}/heartbeat progress", "POST /v1/tasks/{id}/heartbeat output", "POST /v1/recurring/{id}/pause reason", "POST /v1/calendars exclude.weekly[].name",
	} {
		assert.True(t, a.took[of], of)
	}

	shown := k.crawl(1500)
	with := 0
	for _, n := range shown {
		if n > 0 {
			with++
		}
	}
	assert.Greater(t, len(shown), 300)
	assert.Greater(t, with, 100, "it is shown at all")
}
