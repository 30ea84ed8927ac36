package httpcall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpcall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTool(t *testing.T, o httpcall.Options) *httpcall.Tool {
	if o.Backoff == 0 {
		o.Backoff = time.Millisecond
	}
	tool, err := httpcall.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tool.Close()) })
	return tool
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// in makes an input of fields: pairs of a name and a value.
func in(fields ...any) json.RawMessage {
	m := map[string]any{}
	for i := 0; i < len(fields); i += 2 {
		m[fields[i].(string)] = fields[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func run(t *testing.T, tool *httpcall.Tool, input json.RawMessage) (string, error) {
	raw, err := tool.Run(t.Context(), shell.Call{Input: input, IdempotencyKey: "key/1"})
	if status := new(*httpcall.StatusError); err != nil && !errors.As(err, status) {
		require.Nil(t, raw, "there was no whole answer")
	}
	return string(raw), err
}

type m = map[string]any

func TestARequestIsSentAsTheInputSays(t *testing.T) {
	type seen struct {
		method, body, contentType, key, agent, custom string
	}
	payload := []byte("raw=1")
	for name, row := range map[string]struct {
		fields m
		call   shell.Call
		want   seen
	}{
		"no method, no body": {m{}, shell.Call{}, seen{method: "GET", agent: "orrery"}},
		"no method, a body": {m{"body": m{"a": 1}}, shell.Call{},
			seen{method: "POST", body: `{"a":1}`, contentType: "application/json", key: "key/1", agent: "orrery"}},
		"null is a body": {m{"body": nil}, shell.Call{},
			seen{method: "POST", body: `null`, contentType: "application/json", key: "key/1", agent: "orrery"}},
		"text": {m{"method": "PUT", "body_text": "hé"}, shell.Call{},
			seen{method: "PUT", body: `hé`, contentType: "text/plain; charset=utf-8", key: "key/1", agent: "orrery"}},
		"empty text": {m{"method": "POST", "body_text": ""}, shell.Call{},
			seen{method: "POST", contentType: "text/plain; charset=utf-8", key: "key/1", agent: "orrery"}},
		"own headers": {m{"method": "POST", "headers": m{"content-type": "text/csv", "idempotency-key": "mine", "user-agent": "ua", "x-custom": "c"}, "body_text": "a,b"}, shell.Call{},
			seen{method: "POST", body: "a,b", contentType: "text/csv", key: "mine", agent: "ua", custom: "c"}},
		"webhook body": {m{}, shell.Call{Payload: payload, Header: json.RawMessage(`{"content-type":"application/x-www-form-urlencoded"}`)},
			seen{method: "POST", body: "raw=1", contentType: "application/x-www-form-urlencoded", key: "key/1", agent: "orrery"}},
		"webhook body, listed header": {m{"method": "PATCH"}, shell.Call{Payload: payload, Header: json.RawMessage(`{"Content-Type":["text/x","text/y"]}`)},
			seen{method: "PATCH", body: "raw=1", contentType: "text/x", key: "key/1", agent: "orrery"}},
		"webhook body without a type": {m{}, shell.Call{Payload: payload},
			seen{method: "POST", body: "raw=1", contentType: "application/octet-stream", key: "key/1", agent: "orrery"}},
		"webhook header that would smuggle": {m{}, shell.Call{Payload: payload, Header: json.RawMessage(`{"Content-Type":"a\r\nX: y"}`)},
			seen{method: "POST", body: "raw=1", contentType: "application/octet-stream", key: "key/1", agent: "orrery"}},
		"webhook body beside one of the input": {m{"body_text": "own"}, shell.Call{Payload: payload},
			seen{method: "POST", body: "own", contentType: "text/plain; charset=utf-8", key: "key/1", agent: "orrery"}},
		"webhook body and GET": {m{"method": "GET"}, shell.Call{Payload: payload}, seen{method: "GET", agent: "orrery"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got seen
			s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				got = seen{r.Method, string(b), r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key"), r.UserAgent(), r.Header.Get("X-Custom")}
			})
			row.fields["url"] = s.URL + "/p?q=1#fragment"
			row.call.Input, _ = json.Marshal(row.fields)
			row.call.IdempotencyKey = "key/1"
			_, err := newTool(t, httpcall.Options{}).Run(t.Context(), row.call)
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

func TestAnAnswerIsGivenBackAsJSONOrText(t *testing.T) {
	for name, row := range map[string]struct {
		status      int
		contentType string
		body        string
		max         int
		want        string
	}{
		"JSON":                      {200, "application/json", `{"n": 12345678901234567890, "h": "<b>"}`, 100, `{"status":200,"headers":{"Content-Type":"application/json"},"body":{"n":12345678901234567890,"h":"<b>"},"truncated":false,"attempts":1}`},
		"JSON of another name":      {201, "application/problem+json; charset=utf-8", `[1]`, 100, `{"status":201,"headers":{"Content-Type":"application/problem+json; charset=utf-8"},"body":[1],"truncated":false,"attempts":1}`},
		"JSON that is none":         {200, "application/json", `{"a":`, 100, `{"status":200,"headers":{"Content-Type":"application/json"},"body":"{\"a\":","truncated":false,"attempts":1}`},
		"JSON with a key twice":     {200, "application/json", `{"a":1,"a":2}`, 100, `{"status":200,"headers":{"Content-Type":"application/json"},"body":"{\"a\":1,\"a\":2}","truncated":false,"attempts":1}`},
		"JSON that is cut":          {200, "application/json", `123456`, 3, `{"status":200,"headers":{"Content-Type":"application/json"},"body":"123","truncated":true,"attempts":1}`},
		"JSON of exactly the limit": {200, "application/json", `123`, 3, `{"status":200,"headers":{"Content-Type":"application/json"},"body":123,"truncated":false,"attempts":1}`},
		"empty JSON":                {200, "application/json", ``, 100, `{"status":200,"headers":{"Content-Type":"application/json"},"body":"","truncated":false,"attempts":1}`},
		"text":                      {200, "text/plain", "{}<\n", 100, `{"status":200,"headers":{"Content-Type":"text/plain"},"body":"{}<\n","truncated":false,"attempts":1}`},
		"no text":                   {200, "image/png", "\x89P\x00\xff", 100, `{"status":200,"headers":{"Content-Type":"image/png"},"body":"` + "\ufffdP\ufffd\ufffd" + `","truncated":false,"attempts":1}`},
		"nothing":                   {204, "", "", 0, `{"status":204,"headers":{},"body":"","truncated":false,"attempts":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Date"] = nil
				w.Header().Set("Set-Cookie", "secret=1")
				if row.contentType != "" {
					w.Header().Set("Content-Type", row.contentType)
				}
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, row.body)
			})
			got, err := run(t, newTool(t, httpcall.Options{}), in("url", s.URL, "max_response_bytes", row.max))
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

func TestTheStatusDecidesAboutSuccess(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, " broken:\n%s ", strings.Repeat("x", 600))
	})
	tool := newTool(t, httpcall.Options{})
	for _, row := range []struct {
		codes any
		ok    []int
		bad   []int
	}{
		{nil, []int{200, 201, 299}, []int{300, 404, 500, 503}},
		{[]any{404}, []int{404}, []int{200, 405}},
		{[]any{"4xx", "500-503", 302, "201"}, []int{302, 201, 400, 499, 500, 503}, []int{200, 301, 504}},
	} {
		for _, code := range row.ok {
			_, err := run(t, tool, in("url", fmt.Sprint(s.URL, "/", code), "success_codes", row.codes))
			assert.NoError(t, err, "%d of %v", code, row.codes)
		}
		for _, code := range row.bad {
			_, err := run(t, tool, in("url", fmt.Sprint(s.URL, "/", code, "?token=secret"), "success_codes", row.codes))
			var status *httpcall.StatusError
			require.ErrorAs(t, err, &status, "%d of %v", code, row.codes)
			assert.Equal(t, code, status.Status)
			assert.NotContains(t, err.Error(), "secret")
			text := fmt.Sprintf("%d %s; body begins with %q", code, http.StatusText(code), "broken:\n"+strings.Repeat("x", 504))
			assert.Equal(t, "GET "+s.URL+fmt.Sprint("/", code)+" answered "+text, err.Error())
		}
	}
}

func TestAnInputThatCannotBeRightIsRefusedWithItsField(t *testing.T) {
	const u = `"url":"http://x"`
	many := `{"url":"http://x","headers":{`
	for i := range 101 {
		many += fmt.Sprintf(`"h%d":"",`, i)
	}
	many = strings.TrimSuffix(many, ",") + "}}"
	for in, want := range map[string]string{
		``:                               `tool_input: is empty: want an object`,
		`{}`:                             `tool_input.url: is missing: want one such as "https://example.com/path"`,
		`{"url":7}`:                      `tool_input.url: want a string, got number 7`,
		`{"uri":"http://x"}`:             `tool_input.uri: unknown field: use one of method, url, headers, body, body_text, timeout_seconds, total_timeout_seconds, success_codes, max_response_bytes, retries, idempotent, follow_redirects`,
		`{` + u + `,` + u + `}`:          `tool_input.url: is given twice`,
		`{"url":"ftp://x"}`:              `tool_input.url: "ftp://x" has scheme "ftp": use http or https`,
		`{"url":"example.com/x"}`:        `tool_input.url: "example.com/x" has no scheme: use http or https`,
		`{"url":"http:///x"}`:            `tool_input.url: "http:///x" has no host`,
		`{"url":"http:x"}`:               `tool_input.url: "http:x" has no host`,
		`{"url":"http://a:b@x"}`:         `tool_input.url: has a user or password in it: use an Authorization header`,
		`{"url":"http://x:99999"}`:       `tool_input.url: "http://x:99999" has port 99999: want 1 to 65535`,
		`{"url":"http://x:a"}`:           `tool_input.url: "http://x:a" is not a URL: invalid port ":a" after host`,
		`{"url":"http://x/\r\nHost: y"}`: `tool_input.url: "http://x/\r\nHost: y" is not a URL: net/url: invalid control character in URL`,
		`{"url":"http://` + strings.Repeat("x", 8200) + `"}`:              `tool_input.url: has 8207 bytes: want at most 8192`,
		`{` + u + `,"method":"post"}`:                                     `tool_input.method: "post" must be in upper case: use "POST"`,
		`{` + u + `,"method":"CONNECT"}`:                                  `tool_input.method: "CONNECT" is not known: use one of GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE`,
		`{` + u + `,"method":"GET","body":{}}`:                            `tool_input.method: "GET" sends no body: leave body and body_text out, or use another method`,
		`{` + u + `,"body":{},"body_text":""}`:                            `tool_input.body_text: stands beside body: use one of the two`,
		`{` + u + `,"headers":{"a b":"c"}}`:                               `tool_input.headers: "a b" is not a header name`,
		`{` + u + `,"headers":{"":"c"}}`:                                  `tool_input.headers: "" is not a header name`,
		`{` + u + `,"headers":{"a":["c"]}}`:                               `tool_input.headers.a: want a string, got an array`,
		`{` + u + `,"headers":{"X-A":"1","x-a":"2"}}`:                     `tool_input.headers: "X-A" and "x-a" are the same header`,
		`{` + u + `,"headers":{"X-A":"s\r\nHost: y"}}`:                    `tool_input.headers: the value of X-A has the control character '\r' at offset 1`,
		`{` + u + `,"headers":{"host":"y"}}`:                              `tool_input.headers: Host cannot be set: it follows from url`,
		`{` + u + `,"headers":{"transfer-encoding":"y"}}`:                 `tool_input.headers: Transfer-Encoding cannot be set: it follows from the body`,
		`{` + u + `,"headers":{"Content-Length":"1"}}`:                    `tool_input.headers: Content-Length cannot be set: it follows from the body`,
		`{` + u + `,"headers":{"A":"` + strings.Repeat("x", 8193) + `"}}`: `tool_input.headers: the value of A has 8193 bytes: want at most 8192`,
		many:                              `tool_input.headers: has 101: want at most 100`,
		`{` + u + `,"timeout_seconds":0}`: `tool_input.timeout_seconds: 0 is out of range: want 0.001 to 86400`,
		`{` + u + `,"total_timeout_seconds":1e9}`:                              `tool_input.total_timeout_seconds: 1e+09 is out of range: want 0.001 to 86400`,
		`{` + u + `,"max_response_bytes":-1}`:                                  `tool_input.max_response_bytes: -1 is out of range: want 0 to 1048576`,
		`{` + u + `,"retries":11}`:                                             `tool_input.retries: 11 is out of range: want 0 to 10`,
		`{` + u + `,"success_codes":[]}`:                                       `tool_input.success_codes: must have at least one element, or be left out for ["2xx"]`,
		`{` + u + `,"success_codes":[200,600]}`:                                `tool_input.success_codes[1]: want a status code from 100 to 599, "2xx" or "200-299", got 600`,
		`{` + u + `,"success_codes":["9xx"]}`:                                  `tool_input.success_codes[0]: want a status code from 100 to 599, "2xx" or "200-299", got "9xx"`,
		`{` + u + `,"success_codes":["300-200"]}`:                              `tool_input.success_codes[0]: want a status code from 100 to 599, "2xx" or "200-299", got "300-200"`,
		`{` + u + `,"success_codes":[true]}`:                                   `tool_input.success_codes[0]: want a status code from 100 to 599, "2xx" or "200-299", got true`,
		`{` + u + `,"success_codes":[` + strings.Repeat("200,", 100) + `200]}`: `tool_input.success_codes: has 101 elements: want at most 100`,
	} {
		tool := newTool(t, httpcall.Options{})
		assert.EqualError(t, tool.ValidateInput(json.RawMessage(in)), want)
		_, err := run(t, tool, json.RawMessage(in))
		assert.EqualError(t, err, want, "Run holds the same rules as ValidateInput")
	}
}

func TestOptionsThatCannotBeRightAreRefused(t *testing.T) {
	for want, o := range map[string]httpcall.Options{
		`TimeLimit: -1s is negative: want more than zero, or zero for the default`:  {TimeLimit: -time.Second},
		`MaxResponse: -1 is negative: want more than zero, or zero for the default`: {MaxResponse: -1},
		`Retries: 11 is out of range: want at most 10`:                              {Retries: 11},
		`UserAgent: "a\r\nb" has a control character`:                               {UserAgent: "a\r\nb"},
		`Allow[0]: is not a valid prefix: want one such as 10.0.0.0/8`:              {Allow: []netip.Prefix{{}}},
	} {
		_, err := httpcall.New(o)
		assert.EqualError(t, err, want)
	}
}

func TestTheWaitGrowsIsBoundedAndIsTheSameForTheSameAction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "base"))
		var id uuid.UUID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		attempt := rapid.Uint32().Draw(t, "attempt")
		n := rapid.IntRange(1, 11).Draw(t, "n")
		full := min(10*time.Second, base<<(n-1))
		d := httpcall.Backoff(base, id, attempt, n)
		require.GreaterOrEqual(t, d, full/2)
		require.LessOrEqual(t, d, full)
		require.Equal(t, d, httpcall.Backoff(base, id, attempt, n))
	})
	waits := map[time.Duration]bool{}
	for i := range 100 {
		waits[httpcall.Backoff(time.Second, uuid.UUID{byte(i)}, 1, 1)] = true
	}
	assert.Greater(t, len(waits), 95, "actions that fail together do not come back together")
}

func TestEveryAddressHasItsScope(t *testing.T) {
	for addr, want := range map[string]httpcall.Scope{
		"8.8.8.8": httpcall.Public, "2606:4700::1111": httpcall.Public, "::ffff:8.8.8.8": httpcall.Public, "64:ff9b::808:808": httpcall.Public,
		"172.32.0.1": httpcall.Public, "100.128.0.1": httpcall.Public,
		"10.1.2.3": httpcall.Private, "172.16.0.1": httpcall.Private, "192.168.1.1": httpcall.Private, "100.64.0.1": httpcall.Private,
		"100.100.100.199": httpcall.Private, "198.18.0.1": httpcall.Private, "fd00:ec3::254": httpcall.Private, "fec0::1": httpcall.Private,
		"::ffff:10.0.0.1": httpcall.Private, "64:ff9b::a00:1": httpcall.Private, "2002:a00:1::": httpcall.Private,
		"127.0.0.1": httpcall.Loopback, "127.255.255.254": httpcall.Loopback, "::1": httpcall.Loopback, "::ffff:127.0.0.1": httpcall.Loopback,
		"64:ff9b::7f00:1": httpcall.Loopback, "2002:7f00:1::": httpcall.Loopback,
		"169.254.169.254": httpcall.Special, "fe80::1": httpcall.Special, "fe80::1%eth0": httpcall.Special, "::ffff:169.254.169.254": httpcall.Special,
		"0.0.0.0": httpcall.Special, "0.1.2.3": httpcall.Special, "::": httpcall.Special, "224.0.0.1": httpcall.Special, "ff02::1": httpcall.Special,
		"255.255.255.255": httpcall.Special, "240.0.0.1": httpcall.Special, "168.63.129.16": httpcall.Special, "192.0.0.192": httpcall.Special,
		"100.100.100.200": httpcall.Special, "::ffff:100.100.100.200": httpcall.Special, "64:ff9b::6464:64c8": httpcall.Special,
		"fd00:ec2::254": httpcall.Special, "fd00:ec2::23": httpcall.Special, "fd20:ce::254": httpcall.Special,
		"::127.0.0.1": httpcall.Special, "2001::1": httpcall.Special, "64:ff9b::a9fe:a9fe": httpcall.Special,
	} {
		got, word := httpcall.Classify(netip.MustParseAddr(addr))
		assert.Equal(t, want, got, "%s is %s", addr, word)
	}
	got, _ := httpcall.Classify(netip.Addr{})
	assert.Equal(t, httpcall.Special, got)
}

func TestOneToolMakesManyRequestsAtOnce(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	tool := newTool(t, httpcall.Options{})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if i%4 == 0 {
				cancel(shell.ErrCancelled)
			}
			text := fmt.Sprint("call ", i)
			raw, err := tool.Run(ctx, shell.Call{Input: in("url", s.URL, "method", "POST", "body_text", text)})
			if i%4 == 0 {
				assert.ErrorIs(t, err, shell.ErrCancelled)
				return
			}
			if assert.NoError(t, err) {
				assert.Contains(t, string(raw), text)
			}
		})
	}
	wg.Wait()
}

func TestAServerIsToldOfTheAction(t *testing.T) {
	var got http.Header
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	due, err := effects.ParseTime("2026-02-10T14:00:00Z")
	require.NoError(t, err)
	call := shell.Call{
		Input: in("url", s.URL, "headers", m{"X-Custom": "c"}), Attempt: 2, Cycle: 3, Namespace: "n", Tenant: "acme",
		Label: "nightly\r\nX-Evil: 1", DueAt: due,
		Metadata: map[string]string{"_recurring_dispatch": "true", "_recurring_id": "r"}, Labels: map[string]string{"team": "Ö"},
	}
	_, err = newTool(t, httpcall.Options{}).Run(t.Context(), call)
	require.NoError(t, err)
	told := map[string]string{}
	for name := range got {
		if strings.HasPrefix(name, "Orrery-") || strings.HasPrefix(name, "X-") {
			told[name] = got.Get(name)
		}
	}
	assert.Equal(t, map[string]string{
		"Orrery-Action-Id": call.ActionID.String(), "Orrery-Attempt": "2", "Orrery-Cycle": "3", "Orrery-Namespace": "n", "Orrery-Tenant": "acme",
		"Orrery-Label": "nightly%0D%0AX-Evil: 1", "Orrery-Due-At": "2026-02-10T14:00:00.000Z",
		"Orrery-Recurring-Dispatch": "true", "Orrery-Recurring-Id": "r",
		"Orrery-Metadata": `{"_recurring_dispatch":"true","_recurring_id":"r"}`, "Orrery-Labels": `{"team":"\u00d6"}`, "X-Custom": "c",
	}, told)
}
