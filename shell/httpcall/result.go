package httpcall

import (
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// maxResult is how large a result gets as JSON: what the engine takes of a run,
// less some room. It would fail a request for a larger one, although
// the server has carried it out.
const maxResult = shell.MaxResultBytes - 1<<10

// result is the tool's JSON result.
type result struct {
	Status    int               `json:"status"`
	URL       string            `json:"url,omitempty"` // where redirects led, without the query
	Headers   map[string]string `json:"headers"`
	Body      any               `json:"body"` // json.RawMessage or string
	Truncated bool              `json:"truncated"`
	Attempts  int               `json:"attempts"`
}

// answer makes a result of what a server answered.
func answer(resp *http.Response, tr *trip, body []byte, truncated bool) result {
	res := result{Status: resp.StatusCode, Headers: selected(resp.Header), Truncated: truncated}
	res.Body = decoded(resp.Header.Get("Content-Type"), body, truncated)
	if tr.redirected.Load() {
		res.URL = shown(resp.Request.URL)
	}
	return res
}

// encode gives a result of at most maxResult bytes. A body that has no room is
// cut as text: as JSON it may be several times as long as what was read.
func encode(res result) (json.RawMessage, error) {
	raw, err := plainjson.Marshal(res)
	if err != nil || len(raw) <= maxResult {
		return raw, err
	}
	text, ok := res.Body.(string)
	if whole, isJSON := res.Body.(json.RawMessage); !ok && isJSON {
		text = string(whole)
	}
	res.Body, res.Truncated = "", true
	raw, err = plainjson.Marshal(res)
	if err != nil {
		return nil, err
	}
	res.Body = cut(text, maxResult-len(raw))
	return plainjson.Marshal(res)
}

// cut gives the longest beginning of a text that takes at most room bytes
// between the quotes of JSON.
func cut(s string, room int) string {
	for i, r := range s {
		if room -= sizeInJSON(r); room < 0 {
			return s[:i]
		}
	}
	return s
}

// sizeInJSON is how many bytes package json writes for a character.
func sizeInJSON(r rune) int {
	switch {
	case strings.ContainsRune("\"\\\b\f\n\r\t", r):
		return len(`\n`)
	case r < ' ', r == '\u2028', r == '\u2029': // the last two end a line in JavaScript
		return len(`\u0000`)
	}
	return utf8.RuneLen(r)
}

// decoded gives a body as JSON where it is that, and as text else.
func decoded(contentType string, b []byte, truncated bool) any {
	media, _, _ := mime.ParseMediaType(contentType)
	isJSON := media == "application/json" || strings.HasSuffix(media, "+json")
	// In the result it stands one level deeper: the engine counts that, too.
	if isJSON && !truncated && strictjson.Check(b) == nil && strictjson.Check(slices.Concat([]byte("["), b, []byte("]"))) == nil {
		return json.RawMessage(b)
	}
	return plainjson.Text(string(b))
}

// selected are the headers of an answer that a result keeps: those that say
// what it is and where it stands. Cookies and the like are not for a journal.
func selected(h http.Header) map[string]string {
	kept := map[string]string{}
	for _, name := range []string{
		"Content-Type", "Content-Language", "Date", "Etag", "Last-Modified", "Link", "Location", "Retry-After", "X-Request-Id",
	} {
		if v := h.Get(name); v != "" {
			kept[name] = plainjson.Text(v[:min(len(v), 1024)])
		}
	}
	return kept
}
