package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/theory/jsonpath"
)

// WebhookFilter says which requests of a route are taken. The zero value takes all. What it leaves
// out is answered with 200, so that its sender does not try again, and is not stored.
type WebhookFilter struct {
	// Events are the types of event that are taken; empty: all. The type is the value of the
	// header X-GitHub-Event, X-Gitlab-Event, X-Gitea-Event or Ce-Type, or else the member "type"
	// of a JSON body, where Standard Webhooks have it.
	Events []string
	// Match are what a body, which then has to be JSON, must have: all of them.
	Match []WebhookMatch
}

// WebhookMatch is one condition on a body.
type WebhookMatch struct {
	// Path is a JSONPath (RFC 9535), such as $.ref; it must select something. One segment of it may
	// be a descendant segment, such as $..ref.
	Path string
	// Values hold what it must select, one of them: a text as it is, a number, true, false or null as
	// JSON has it. An array or an object is none of them. Empty: anything.
	Values []string
}

// Bounds of a filter.
const (
	maxFilterEntries = 100     // of each list
	maxFilterText    = 1 << 10 // bytes of each text
)

// Bounds of a body that a filter looks into: what a path selects, and what it takes to read the body,
// must stay in proportion to its bytes, of which a sender has 10 MB.
const (
	maxFilteredDepth  = 64      // levels of arrays and objects
	maxFilteredValues = 500_000 // of all levels, about
)

// eventHeaders are where senders say what type of event it is.
var eventHeaders = []string{"X-Github-Event", "X-Gitlab-Event", "X-Gitea-Event", "Ce-Type"}

// filter is a compiled [WebhookFilter].
type filter struct {
	events []string
	match  []match
}

type match struct {
	path   *jsonpath.Path
	values []string
}

// Validate says what is wrong with a filter, by the names Events and Match.
func (f WebhookFilter) Validate() error {
	_, err := f.compile()
	return err
}

func (f WebhookFilter) compile() (*filter, error) {
	texts := func(field string, values []string) error {
		if len(values) > maxFilterEntries {
			return fmt.Errorf("%s: has %d entries: want at most %d", field, len(values), maxFilterEntries)
		}
		for i, v := range values {
			if len(v) > maxFilterText {
				return fmt.Errorf("%s[%d]: has %d bytes: want at most %d", field, i, len(v), maxFilterText)
			}
		}
		return nil
	}
	if err := texts("events", f.Events); err != nil {
		return nil, err
	}
	if i := slices.Index(f.Events, ""); i >= 0 {
		return nil, fmt.Errorf("events[%d]: is empty: name a type of event", i)
	}
	if len(f.Match) > maxFilterEntries {
		return nil, fmt.Errorf("match: has %d entries: want at most %d", len(f.Match), maxFilterEntries)
	}
	out := &filter{events: f.Events}
	for i, m := range f.Match {
		field := fmt.Sprintf("match[%d]", i)
		if len(m.Path) > maxFilterText {
			return nil, fmt.Errorf("%s.path: has %d bytes: want at most %d", field, len(m.Path), maxFilterText)
		}
		path, err := jsonpath.Parse(m.Path)
		if err != nil {
			return nil, fmt.Errorf("%s.path: %q is no JSONPath, such as $.ref: %w", field, clip(m.Path), err)
		}
		if n := descendants(path); n > 1 {
			return nil, fmt.Errorf("%s.path: %q has %d descendant segments (..): want at most 1, name the members between them", field, clip(m.Path), n)
		}
		if err := texts(field+".values", m.Values); err != nil {
			return nil, err
		}
		out.match = append(out.match, match{path, m.Values})
	}
	return out, nil
}

// ignores says why a request is not taken; empty: it is.
func (f *filter) ignores(header http.Header, body []byte) string {
	if len(f.events) == 0 && len(f.match) == 0 {
		return ""
	}
	event := ""
	for _, name := range eventHeaders {
		if event = header.Get(name); event != "" {
			break
		}
	}
	byHeader := event != ""
	if byHeader && len(f.events) > 0 && !slices.Contains(f.events, event) {
		return fmt.Sprintf("the route does not take the event %q", clip(event))
	}
	if byHeader && len(f.match) == 0 {
		return ""
	}
	if why := tooComplex(body); why != "" {
		return why
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return "the route looks into the body, which is not JSON"
	}
	if !byHeader && len(f.events) > 0 {
		members, _ := value.(map[string]any)
		event, _ := members["type"].(string)
		if event == "" {
			return "the request says no type of event, neither in a header nor as the member \"type\" of its body"
		}
		if !slices.Contains(f.events, event) {
			return fmt.Sprintf("the route does not take the event %q", clip(event))
		}
	}
	for _, m := range f.match {
		if !m.met(value) {
			return fmt.Sprintf("the body has not what the route wants at %s", m.path)
		}
	}
	return ""
}

func (m match) met(value any) bool {
	for node := range m.path.Select(value).All() {
		if len(m.values) == 0 {
			return true
		}
		if text, has := nodeText(node); has && slices.Contains(m.values, text) {
			return true
		}
	}
	return false
}

// nodeText gives a text as it is, a number, true, false or null as JSON has it. An array or an object
// has no text: selected one within the other, they would be written once for each level.
func nodeText(node any) (text string, has bool) {
	switch node := node.(type) {
	case string:
		return node, true
	case []any, map[string]any:
		return "", false
	}
	b, err := json.Marshal(node)
	return string(b), err == nil
}

// descendants counts the segments of a path that look at all levels: each multiplies the work of the
// one before by the depth of the body.
func descendants(path *jsonpath.Path) (n int) {
	for _, segment := range path.Query().Segments() {
		if segment.IsDescendant() {
			n++
		}
	}
	return n
}

// tooComplex says why no filter looks into a body; empty: it is small enough. It reads the brackets and
// commas outside of texts, and leaves it to the decoder whether the body is JSON.
func tooComplex(body []byte) string {
	depth, values, text := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			depth++
			values++
		case c == ']' || c == '}':
			depth--
		case c == ',':
			values++
		}
		switch {
		case depth > maxFilteredDepth:
			return fmt.Sprintf("the route looks into the body, which has more than %d levels", maxFilteredDepth)
		case values > maxFilteredValues:
			return fmt.Sprintf("the route looks into the body, which has more than %d values", maxFilteredValues)
		}
	}
	return ""
}
