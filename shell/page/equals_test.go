package page_test

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/page"
)

// An entity is one thing of a database: where the API answers with it, and its page.
type entity struct{ kind, api, page string }

// A scalar is one value of an answer, by the way to it: elements of lists have no number, so that all of them are one field.
type scalar struct {
	field string
	value any
}

// scalars gives the values of an answer that say something: neither null, nor empty, nor 0, nor false.
func scalars(field string, v any) (out []scalar) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, scalars(strings.TrimPrefix(field+"."+name, "."), v[name])...)
		}
	case []any:
		for _, e := range v {
			out = append(out, scalars(field+"[]", e)...)
		}
	case nil:
	default:
		if v != "" && v != uuid.Nil.String() && v != false && v != json.Number("0") {
			out = append(out, scalar{field, v})
		}
	}
	return out
}

// forms are the ways in which a page may show a value.
func forms(s scalar) []string {
	switch v := s.value.(type) {
	case json.Number:
		out := []string{v.String()}
		if s.field == "alerts.failing" {
			out = append(out, "failing="+v.String()) // as a rule is written
		}
		if n, err := v.Float64(); err == nil {
			for suffix, unit := range map[string]time.Duration{"_ms": time.Millisecond, "_seconds": time.Second, "recurrence": time.Second} {
				if strings.HasSuffix(s.field, suffix) {
					d := time.Duration(n * float64(unit))
					out = append(out, page.Roughly(d), page.Precisely(d))
				}
			}
		}
		return out
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return []string{at.UTC().Format("2006-01-02 15:04:05 UTC")}
		}
		if body, err := base64.StdEncoding.DecodeString(v); err == nil && strings.HasSuffix(s.field, "raw_payload") {
			return []string{string(body)}
		}
		return []string{v, page.ShortID(v), strings.ReplaceAll(v, "_", " ")}
	}
	return nil // true is shown by words of its own
}

// shows reports whether a page has one of the forms as words of their own. A number does not count within a time, and one of a single
// digit only as the first or the last word of a text: else each would be found somewhere.
func shows(texts []string, s scalar) bool {
	_, isNumber := s.value.(json.Number)
	return slices.ContainsFunc(forms(s), func(form string) bool {
		form = strings.Join(strings.Fields(form), " ")
		word := regexp.MustCompile(`(^|[^\pL\pN.])` + regexp.QuoteMeta(form) + `($|[^\pL\pN.]|\.($|[^\pL\pN]))`)
		return form != "" && slices.ContainsFunc(texts, func(text string) bool {
			switch {
			case isNumber && strings.HasSuffix(text, " UTC"):
				return false
			case isNumber && len(form) == 1:
				return text == form || strings.HasPrefix(text, form+" ") || strings.HasSuffix(text, " "+form)
			}
			return word.MatchString(text)
		})
	})
}

var leads = regexp.MustCompile(`href="([^"]*)"`)

// shownBy gives the texts of a page, and the ids to which it leads: an id may be shown by a link.
func shownBy(shown string) (texts []string) {
	_, main, _ := strings.Cut(shown, "<main")
	_, main, _ = strings.Cut(main, ">")
	for _, text := range tags.Split(main, -1) {
		if text = strings.Join(strings.Fields(html.UnescapeString(text)), " "); text != "" {
			texts = append(texts, text)
		}
	}
	for _, m := range leads.FindAllStringSubmatch(shown, -1) {
		for part := range strings.FieldsFuncSeq(html.UnescapeString(m[1]), func(r rune) bool { return r == '/' || r == '?' || r == '#' }) {
			if uuid.Validate(part) == nil {
				texts = append(texts, part)
			}
		}
	}
	return texts
}

// decoded reads an answer with its numbers as they are.
func (k *kit) decoded(path string) map[string]any {
	k.t.Helper()
	raw, err := json.Marshal(k.write("GET", path, ""))
	require.NoError(k.t, err)
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var out map[string]any
	require.NoError(k.t, d.Decode(&out))
	return out
}

// settled reads what the API answers and what the page shows, of one moment.
func (k *kit) settled(e entity) (answer map[string]any, shown string) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		answer = atRest(e.kind, k.decoded(e.api))
		shown = k.read(e.page)
		return assert.ObjectsAreEqual(answer, atRest(e.kind, k.decoded(e.api)))
	}, 20*time.Second, 100*time.Millisecond, "%s changes for ever", e.api)
	return answer, shown
}

// moving are the members of answers that change while nothing happens, some of one kind alone: they are not compared.
var moving = []string{
	"oldest_ready_seconds", "batches", "journal_seq", "commits_per_second", "inputs_per_second", "loop_lag_seconds", "late_seconds", "system instances",
}

// atRest leaves out what changes by itself.
func atRest(kind string, answer map[string]any) map[string]any {
	out := maps.Clone(answer)
	for _, name := range moving {
		delete(out, strings.TrimPrefix(name, kind+" "))
	}
	return out
}

func TestWhatAPageShowsIsWhatTheAPIAnswersForEachKindOfThing(t *testing.T) {
	k := newWorld(t)
	unused := make(map[string]bool)
	for field := range notShown {
		unused[field] = true
	}
	for _, e := range k.everything() {
		answer, shown := k.settled(e)
		texts, n := shownBy(shown), 0
		for _, s := range scalars("", answer) {
			field := e.kind + " " + s.field
			if why := reasonFor(field, unused); why != "" || s.field == "policy.max_attempts" && !triesAgain(answer) {
				continue
			}
			n++
			assert.True(t, s.value != true && shows(texts, s), "%s shows nowhere that %s is %v", e.page, field, s.value)
		}
		assert.Greater(t, n, 3, "%s: nothing was compared", e.kind)
	}
	assert.Empty(t, slices.Sorted(maps.Keys(unused)), "nothing has these fields: they need no reason")
}

// triesAgain reports whether attempts count for something at all: else the page does not name their bound.
func triesAgain(answer map[string]any) bool {
	policy, _ := answer["policy"].(map[string]any)
	return policy["on_failure"] == "retry" || policy["on_interrupt"] == "retry"
}

// reasonFor gives the reason why a field is not compared, also one of what it stands in.
func reasonFor(field string, unused map[string]bool) string {
	kind, path, _ := strings.Cut(field, " ")
	for _, of := range []string{kind, "*"} {
		for at := path; at != ""; {
			if why, ok := notShown[of+" "+at]; ok {
				delete(unused, of+" "+at)
				return why
			}
			i := strings.LastIndexAny(at, ".[")
			if i < 0 {
				break
			}
			at = at[:i]
		}
	}
	return ""
}

func TestAValueThatAPageDoesNotShowIsFound(t *testing.T) {
	texts := shownBy(`<main id="x"><dt>Attempt</dt><dd>3 of 4</dd> <b>Due 2026-01-02 03:04:05 UTC</b><i>1.5 s</i>`)
	for _, s := range []scalar{{"attempt", json.Number("3")}, {"due", "2026-01-02T03:04:05.678Z"}, {"took_ms", json.Number("1500")}} {
		assert.True(t, shows(texts, s), "%v", s)
	}
	for _, s := range []scalar{{"attempt", json.Number("1")}, {"due", "2026-01-02T03:04:06.678Z"}, {"took_ms", json.Number("1600")}, {"label", "ttempt"}, {"enabled", true}} {
		assert.False(t, shows(texts, s), "%v", s)
	}
	assert.Equal(t, []scalar{{"a[].b", json.Number(strconv.Itoa(1))}, {"c", "x"}}, scalars("", map[string]any{
		"a": []any{map[string]any{"b": json.Number("1")}, map[string]any{"b": json.Number("0")}}, "c": "x", "d": nil, "e": "", "f": false,
	}))
}
