package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/internal/openapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store/memory"
)

// document is what the tests read of openapi.json.
type document struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Parameters map[string]parameter       `json:"parameters"`
		Responses  map[string]json.RawMessage `json:"responses"`
		Headers    map[string]json.RawMessage `json:"headers"`
		Schemas    map[string]schema          `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	OperationID string                     `json:"operationId"`
	Summary     string                     `json:"summary"`
	Parameters  []reference                `json:"parameters"`
	Responses   map[string]json.RawMessage `json:"responses"`
	Security    *[]map[string][]string     `json:"security"`
}

type reference struct {
	Ref string `json:"$ref"`
}

type parameter struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
}

type schema struct {
	Properties           map[string]json.RawMessage `json:"properties"`
	Required             []string                   `json:"required"`
	AdditionalProperties *bool                      `json:"additionalProperties"`
	OneOf                []schema                   `json:"oneOf"`
}

func readDocument(t *testing.T) document {
	t.Helper()
	var d document
	require.NoError(t, json.Unmarshal(openAPIDocument, &d))
	require.Equal(t, "3.1.0", d.OpenAPI)
	return d
}

func idleServer(t *testing.T) *Server {
	t.Helper()
	st := memory.New()
	t.Cleanup(func() { _ = st.Close() })
	e, err := shell.New(shell.Options{Store: st})
	require.NoError(t, err)
	s, err := New(Options{Engine: e})
	require.NoError(t, err)
	return s
}

func TestOpenAPIDocumentIsAsItIsGenerated(t *testing.T) {
	doc, err := openapi.Document()
	require.NoError(t, err)
	assert.Equal(t, string(doc), string(openAPIDocument), "run go generate ./shell/httpapi")
}

func TestOpenAPIDescribesEveryRouteAndNoOther(t *testing.T) {
	var served, described []string
	for _, rt := range idleServer(t).routes() {
		served = append(served, rt.method+" "+rt.path)
	}
	for path, ops := range readDocument(t).Paths {
		for method := range ops {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	assert.ElementsMatch(t, served, described)
}

func TestEveryListIsSentWhileItIsReadAndBoundedForEachToken(t *testing.T) {
	d := readDocument(t)
	found := 0
	for _, rt := range idleServer(t).routes() {
		paged := slices.ContainsFunc(d.Paths[rt.path][strings.ToLower(rt.method)].Parameters, func(p reference) bool {
			return strings.HasSuffix(p.Ref, "/page_token")
		})
		switch rt.path {
		case "/v1/changes/{kind}/{id}", "/v1/find", "/v1/upcoming": // they hold as much as a list, and have no pages
			assert.NotZero(t, rt.access&lists, rt.path)
			continue
		}
		assert.Equal(t, paged, rt.access&lists != 0, "%s %s", rt.method, rt.path)
		if paged {
			found++
		}
	}
	assert.GreaterOrEqual(t, found, 15)
}

func TestOpenAPIOperationsAreWhole(t *testing.T) {
	d := readDocument(t)
	ids := map[string]bool{}
	for _, rt := range idleServer(t).routes() {
		op := d.Paths[rt.path][strings.ToLower(rt.method)]
		name := rt.method + " " + rt.path
		assert.NotEmpty(t, op.Summary, name)
		assert.False(t, ids[op.OperationID], "%s: operationId %q is given twice", name, op.OperationID)
		ids[op.OperationID] = true
		assert.Contains(t, op.Responses, "403", name)
		if rt.access == anyone {
			require.NotNil(t, op.Security, name)
			assert.Empty(t, *op.Security, "%s needs no token", name)
			continue
		}
		assert.Contains(t, op.Responses, "400", name)
		assert.Contains(t, op.Responses, "401", name)
		if strings.Contains(rt.path, "{") {
			assert.Contains(t, op.Responses, "404", name)
		}
	}
}

func TestOpenAPIReferencesLeadSomewhere(t *testing.T) {
	d := readDocument(t)
	refs := regexp.MustCompile(`"\$ref": "#/components/(\w+)/(\w+)"`).FindAllSubmatch(openAPIDocument, -1)
	require.NotEmpty(t, refs)
	used := map[string]bool{}
	for _, m := range refs {
		kind, name := string(m[1]), string(m[2])
		used[name] = true
		switch kind {
		case "schemas":
			assert.Contains(t, d.Components.Schemas, name)
		case "parameters":
			assert.Contains(t, d.Components.Parameters, name)
		case "responses":
			assert.Contains(t, d.Components.Responses, name)
		case "headers":
			assert.Contains(t, d.Components.Headers, name)
		default:
			t.Errorf("reference to components/%s", kind)
		}
	}
	for name := range d.Components.Schemas {
		assert.True(t, used[name], "schema %s is used", name)
	}
	for name := range d.Components.Parameters {
		assert.True(t, used[name], "parameter %s is used", name)
	}
}

// The routes themselves tell which parameters they know: they list them when
// given one that they do not.
func TestOpenAPIParametersAreThoseThatTheRoutesTake(t *testing.T) {
	d := readDocument(t)
	s := idleServer(t)
	for _, rt := range s.routes() {
		if rt.access == anyone || rt.access == webhookSender {
			continue
		}
		req := httptest.NewRequestWithContext(t.Context(), rt.method, strings.ReplaceAll(rt.path, "{id}", "0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10")+"?zzz=1", http.NoBody)
		req.Host, req.RemoteAddr = "localhost", "127.0.0.1:1"
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, req)
		var body wire.Error
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body))
		known, found := strings.CutPrefix(body.Error, `query: "zzz" is unknown: `)
		require.True(t, found, "%s %s: %s", rt.method, rt.path, body.Error)
		var takes []string
		if list, ok := strings.CutPrefix(known, "use "); ok {
			takes = strings.Split(list, ", ")
		}
		var described []string
		for _, p := range d.Paths[rt.path][strings.ToLower(rt.method)].Parameters {
			_, name, _ := strings.Cut(p.Ref, "#/components/parameters/")
			if p := d.Components.Parameters[name]; p.In == "query" {
				described = append(described, p.Name)
			}
		}
		assert.ElementsMatch(t, takes, described, "%s %s", rt.method, rt.path)
	}
}

// jsonNames lists the names of a struct's fields in JSON, each once: an outer
// field hides one of the same name in an embedded struct.
func jsonNames(typ reflect.Type) []string {
	var names, inner []string
	for f := range typ.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			inner = append(inner, jsonNames(f.Type)...)
		case f.IsExported():
			names = append(names, tag)
		}
	}
	for _, name := range inner {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func TestOpenAPISchemasHaveTheFieldsOfTheGoTypes(t *testing.T) {
	d := readDocument(t)
	others := []string{"Time", "Trigger", "Recurrence"} // no plain structs; see below
	assert.ElementsMatch(t, slices.Collect(maps.Keys(d.Components.Schemas)), slices.AppendSeq(others, maps.Keys(openapi.Types)))
	for name, typ := range openapi.Types {
		s := d.Components.Schemas[name]
		assert.ElementsMatch(t, jsonNames(typ), slices.Collect(maps.Keys(s.Properties)), name)
		for _, r := range s.Required {
			assert.Contains(t, s.Properties, r, name)
		}
		strict := strings.HasSuffix(name, "Request") || slices.Contains([]string{"RecurringPatch", "Reason", "RunPolicy", "QueueConfig", "QueueRate", "Retry", "RetryConfig", "LogPolicy", "Backoff", "SetEntry", "SetJob", "SetQueue", "SetSemaphore", "SetSubscriber", "SetWorker"}, name)
		assert.Equal(t, strict, s.AdditionalProperties != nil && !*s.AdditionalProperties, "%s: unknown fields are refused", name)
	}
}

func TestOpenAPITriggersAreTheEncodedOnes(t *testing.T) {
	d := readDocument(t)
	keys := func(v any) []string {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(b, &m))
		return slices.Collect(maps.Keys(m))
	}
	forms := d.Components.Schemas["Trigger"].OneOf
	require.Len(t, forms, 2)
	assert.ElementsMatch(t, keys(core.Scheduled(effects.MinTime)), slices.Collect(maps.Keys(forms[0].Properties)))
	assert.ElementsMatch(t, keys(core.Trigger{Type: core.TriggerWebhook}), slices.Collect(maps.Keys(forms[1].Properties)))
	cron := d.Components.Schemas["Recurrence"].OneOf[1]
	assert.ElementsMatch(t, keys(core.CronRecurrence("@daily", "UTC")), slices.Collect(maps.Keys(cron.Properties)))
}
