package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestBodiesThatNoStoryCanHold(t *testing.T) {
	const limit = httpapi.DefaultMaxBodyBytes
	pad := func(n int) string {
		return `{"tool_name":"hold"` + strings.Repeat(" ", n-len(`{"tool_name":"hold"}`)) + "}"
	}
	nested := func(n int) string {
		return `{"tool_name":"hold","tool_input":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	action := func(field, value string) string { return fmt.Sprintf(`{"tool_name":"hold",%q:%s}`, field, value) }
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	var many strings.Builder
	for i := range 65 {
		fmt.Fprintf(&many, `,"k%d":"v"`, i)
	}
	tests := map[string]struct {
		path, body string
		status     int
		says       string
	}{
		"as large as allowed":      {"/v1/actions", pad(limit), 201, ""},
		"a byte too large":         {"/v1/actions", pad(limit + 1), 413, "body: is larger than the limit of 1048576 bytes"},
		"10 000 levels":            {"/v1/actions", nested(10_000), 400, "is nested deeper than 200 levels"},
		"10 000 levels, unclosed":  {"/v1/actions", strings.Repeat(`{"a":`, 10_000), 400, "unknown field"},
		"100 levels":               {"/v1/actions", nested(100), 201, ""},
		"invalid UTF-8":            {"/v1/actions", action("label", "\"a\xffb\""), 400, "is not valid UTF-8"},
		"an overlong NUL":          {"/v1/actions", action("label", "\"a\xc0\x80b\""), 400, "is not valid UTF-8"},
		"half a surrogate pair":    {"/v1/actions", action("label", `"\ud800"`), 400, "half a surrogate pair"},
		"a raw NUL":                {"/v1/actions", action("label", "\"a\x00b\""), 400, "raw control character"},
		"NUL after the end":        {"/v1/actions", `{"tool_name":"hold"}` + "\x00", 400, "has more after its end"},
		"a byte order mark":        {"/v1/actions", "\ufeff" + `{"tool_name":"hold"}`, 400, "byte order mark"},
		"UTF-16":                   {"/v1/actions", "{\x00\"\x00}\x00", 400, "is not JSON"},
		"a long name":              {"/v1/actions", action("namespace", long(256)), 400, "namespace: 256 bytes is longer than 255"},
		"a long label":             {"/v1/actions", action("label", long(4097)), 400, "label: 4097 bytes is longer than 4096"},
		"a long unknown field":     {"/v1/actions", action(strings.Repeat("y", 100_000), "1"), 400, "unknown field"},
		"too many labels":          {"/v1/actions", action("labels", "{"+many.String()[1:]+"}"), 400, "labels: 65 entries are more than 64"},
		"a long scope":             {"/v1/actions", `{"tool_name":"hold","namespace":` + long(255) + `,"tenant":` + long(255) + `}`, 400, "namespace and tenant: together 510 bytes are longer than 500"},
		"a long scope, recurring":  {"/v1/recurring", `{"cron_expr":"@daily","provider":"hold","action_type":"x","namespace":` + long(255) + `,"tenant":` + long(255) + `}`, 400, "namespace and tenant: together 510 bytes are longer than 500"},
		"the longest scope":        {"/v1/actions", `{"tool_name":"hold","namespace":` + long(250) + `,"tenant":` + long(250) + `}`, 201, ""},
		"a number beyond 64 bits":  {"/v1/actions", action("recurrence", "99999999999999999999999"), 400, "recurrence:"},
		"a huge number as input":   {"/v1/actions", action("tool_input", "1e999999"), 201, ""},
		"10 kB of commas as cron":  {"/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"` + strings.Repeat(",", 10_000) + `","provider":"hold","action_type":"x"}`, 400, "cron_expr:"},
		"many lists as cron":       {"/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"` + strings.Repeat("1,", 5_000) + `1 * * * *","provider":"hold","action_type":"x"}`, 400, "cron_expr:"},
		"a long zone":              {"/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"@daily","timezone":` + long(10_000) + `,"provider":"hold","action_type":"x"}`, 400, "timezone:"},
		"a zone with a path in it": {"/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"@daily","timezone":"../../etc/passwd","provider":"hold","action_type":"x"}`, 400, "timezone:"},
	}
	a := start(t, setup{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a.t = t
			r := a.do("POST", test.path, test.body)
			require.Equal(t, test.status, r.status, "%.300s", r.body)
			if test.status != http.StatusCreated {
				assert.Contains(t, r.errorText(), test.says)
				assert.Less(t, len(r.body), 2048, "a bad value is not sent back whole")
			}
		})
	}
}

func TestABodyThatBreaksOffIsRefused(t *testing.T) {
	a := start(t, setup{})
	whole := `{"tool_name":"hold","tool_input":{"a":[1,2,{"b":"c"}]},"labels":{"x":"y"}}`
	for n := range len(whole) {
		r := a.do("POST", "/v1/actions", whole[:n])
		require.Equal(t, http.StatusBadRequest, r.status, "%d bytes: %s", n, r.body)
		require.Regexp(t, `: is not JSON: .* got the end of the input$|^body: is empty`, r.errorText())
	}
	r := a.do("POST", "/v1/actions", io.MultiReader(strings.NewReader(whole[:30]), broken{}))
	assert.Equal(t, http.StatusBadRequest, r.status)
	assert.Equal(t, "body: the connection ended before the whole body arrived", r.errorText())
	assert.Contains(t, a.do("GET", "/v1/actions", nil).body, `"actions":[]`)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Whatever is sent, the answer is JSON, says what is wrong in UTF-8, and is
// never a fault of the server.
func TestNoInputIsAnsweredWithAnInternalError(t *testing.T) {
	a := start(t, setup{})
	words := []string{
		"", "null", "true", "0", "-1", "1e400", `""`, `"x"`, `"\u0000"`, "[]", "{}", "[1]", `{"a":1}`, `"2026-02-10T14:00:00Z"`,
		`"@daily"`, `"echo"`, `"hold"`, `{"type":"scheduled","next_tick_at":"2100-01-01T00:00:00Z"}`, `{"cron":"* * * * *"}`, "\xff", "\x00", `"Europe/Berlin"`,
	}
	fields := []string{
		"id", "namespace", "tenant", "label", "tool_name", "action_type", "tool_input", "trigger", "recurrence", "policy", "dedup_key",
		"metadata", "labels", "cron_expr", "timezone", "provider", "payload", "description", "ends_at", "enabled", "start_deadline_seconds", "reason", "nonsense",
	}
	targets := []string{
		"POST /v1/actions", "GET /v1/actions", "POST /v1/recurring", "GET /v1/recurring", "GET /v1/recurring/preview", "POST /v1/webhooks/open", "GET /v1/info",
		"GET /v1/actions/ID", "GET /v1/actions/ID/logs", "POST /v1/actions/ID/cancel", "POST /v1/actions/ID/trigger", "GET /v1/recurring/ID", "PUT /v1/recurring/ID", "DELETE /v1/recurring/ID",
		"POST /v1/recurring/ID/pause", "POST /v1/recurring/ID/resume", "POST /v1/recurring/ID/trigger", "GET /v1/recurring/ID/history", "GET /v1/recurring/ID/preview",
	}
	params := []string{"namespace", "tenant", "status", "tool", "label", "limit", "page_token", "enabled", "cron_expr", "timezone", "n", "x"}
	ids := []string{a.do("POST", "/v1/actions", `{"tool_name":"hold"}`).str("id")}
	ids = append(ids, a.do("POST", "/v1/recurring", `{"namespace":"n","tenant":"t","cron_expr":"@yearly","provider":"hold","action_type":"x"}`).str("recurring_id"), "x", "0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10")
	rapid.Check(t, func(t *rapid.T) {
		method, path, _ := strings.Cut(rapid.SampledFrom(targets).Draw(t, "target"), " ")
		path = strings.Replace(path, "ID", rapid.SampledFrom(ids).Draw(t, "id"), 1)
		q := url.Values{}
		for range rapid.IntRange(0, 2).Draw(t, "params") {
			q.Add(rapid.SampledFrom(params).Draw(t, "param"), rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"1", "true", "@daily", "a=b", "hold"})).Draw(t, "value"))
		}
		var b strings.Builder
		b.WriteString(rapid.SampledFrom([]string{"{", "{", "{", "", "["}).Draw(t, "open"))
		for i := range rapid.IntRange(0, 5).Draw(t, "fields") {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%s", rapid.SampledFrom(fields).Draw(t, "field"), rapid.SampledFrom(words).Draw(t, "word"))
		}
		b.WriteString(rapid.SampledFrom([]string{"}", "}", "}", "", "]"}).Draw(t, "close"))
		r := a.do(method, path+"?"+q.Encode(), b.String())
		if r.status >= 500 || !utf8.ValidString(r.body) || r.status != http.StatusNoContent && !json.Valid([]byte(r.body)) {
			t.Fatalf("%s %s?%s %q: %d %q\n%s", method, path, q.Encode(), b.String(), r.status, r.body, a.logs.String())
		}
	})
}

func TestPagesGiveEverythingOnceAndTheirTokensHoldForTheirListAlone(t *testing.T) {
	tokens := []httpapi.Token{
		{Name: "all", SHA256: httpapi.HashToken("all"), Admin: true},
		{Name: "some", SHA256: httpapi.HashToken("some"), Tenants: []string{"t1", "t2"}},
	}
	a := start(t, setup{api: func(o *httpapi.Options) { o.Tokens = tokens }})
	const each = 40
	want := map[string]int{}
	for i := range each * 4 {
		tenant := fmt.Sprintf("t%d", i%4)
		r := a.do("POST", "/v1/actions", map[string]any{"tool_name": "hold", "namespace": "ns", "tenant": tenant, "labels": map[string]string{"n": fmt.Sprint(i % 3)}}, bearer("all"))
		require.Equal(t, http.StatusCreated, r.status, r.body)
		want[tenant]++
	}
	type page struct {
		Actions []core.Action `json:"actions"`
		Next    string        `json:"next_page_token"`
	}
	get := func(query, token, as string) page {
		t.Helper()
		r := a.do("GET", "/v1/actions?"+query+"&page_token="+token, nil, bearer(as))
		require.Equal(t, http.StatusOK, r.status, r.body)
		var p page
		require.NoError(t, json.Unmarshal([]byte(r.body), &p))
		return p
	}
	tests := map[string]struct {
		query, as string
		count     int
	}{
		"all":                          {"", "all", each * 4},
		"one tenant":                   {"namespace=ns&tenant=t3", "all", each},
		"one tenant of all namespaces": {"tenant=t3", "all", each},
		"the token's":                  {"", "some", each * 2},
		"one of the token's":           {"namespace=ns&tenant=t2", "some", each},
		"a status":                     {"status=running", "some", each * 2},
		"nothing":                      {"status=failed", "some", 0},
	}
	for name, test := range tests {
		for _, limit := range []int{1, 7, 80, 1000} {
			t.Run(fmt.Sprintf("%s by %d", name, limit), func(t *testing.T) {
				a.t = t
				seen := map[string]bool{}
				last := ""
				for token := ""; ; {
					p := get(fmt.Sprintf("%s&limit=%d", test.query, limit), token, test.as)
					require.LessOrEqual(t, len(p.Actions), limit)
					for _, act := range p.Actions {
						require.False(t, seen[act.ID.String()], "twice")
						seen[act.ID.String()] = true
						place := act.CreatedAt.String() + act.ID.String()
						if last != "" {
							require.Less(t, place, last, "newest first")
						}
						last = place
						if test.as == "some" {
							require.Contains(t, []string{"t1", "t2"}, act.Tenant)
						}
					}
					if token = p.Next; token == "" {
						break
					}
				}
				assert.Len(t, seen, test.count)
			})
		}
	}

	a.t = t
	token := get("namespace=ns&tenant=t1&limit=1", "", "all").Next
	require.NotEmpty(t, token)
	other := a.do("GET", "/v1/actions?namespace=ns&tenant=t2&page_token="+token, nil, bearer("all"))
	assert.Equal(t, http.StatusBadRequest, other.status, "of another list")
	rnd := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	for range 200 {
		forged := []byte(token)
		i := rnd.IntN(len(forged))
		forged[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"[rnd.IntN(32)]
		if string(forged) == token {
			continue
		}
		r := a.do("GET", "/v1/actions?namespace=ns&tenant=t1&page_token="+string(forged), nil, bearer("all"))
		if r.status == http.StatusOK { // only bits that base64 leaves unused
			require.Equal(t, len(token)-1, i, "forged %q of %q", forged, token)
		}
	}
}
