package setfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/spans"
)

// values reads the texts of one table, and says what is wrong with them.
type values struct {
	say func(key, format string, args ...any)
}

// duration is a text such as "1h30m" or "7d".
type duration string

// rate is a text such as "100/1s".
type rate string

func (v *values) duration(key string, d duration, unit time.Duration, what string) int64 {
	if d == "" {
		return 0
	}
	is, err := spans.Parse(string(d))
	switch {
	case err != nil:
		v.say(key, "%q is no duration: write it such as \"90s\", \"10m\", \"1h30m\" or \"7d\"", string(d))
	case is < 0 || is%unit != 0:
		v.say(key, "%s is not a whole number of %s, at least 0", string(d), what)
	default:
		return int64(is / unit)
	}
	return 0
}

func (v *values) seconds(key string, d duration) int64 {
	return v.duration(key, d, time.Second, "seconds")
}

func (v *values) millis(key string, d duration) int64 {
	return v.duration(key, d, time.Millisecond, "milliseconds")
}

// ofSeconds and ofMillis write durations; 0 is left out.
func ofSeconds(n int64) duration { return ofDuration(time.Duration(n) * time.Second) }
func ofMillis(n int64) duration  { return ofDuration(time.Duration(n) * time.Millisecond) }

func ofDuration(d time.Duration) duration {
	if d == 0 {
		return ""
	}
	return duration(spans.Text(d))
}

// time reads a time in RFC 3339; empty: none.
func (v *values) time(key, s string) effects.Time {
	if s == "" {
		return 0
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		v.say(key, "%q is no time in RFC 3339, such as \"2027-01-31T09:00:00+01:00\"", s)
		return 0
	}
	return effects.TimeOf(t)
}

// word refuses a word that is none of those in the tag of the key of a table.
func (v *values) word(key, word string, table any) string {
	f, _ := fieldOf(reflect.TypeOf(table), key)
	words := strings.Split(f.Tag.Get("enum"), ",")
	if word != "" && !slices.Contains(words, word) {
		v.say(key, "%q is unknown: use %s", word, strings.Join(words, ", "))
	}
	return word
}

// rate reads N/DURATION.
func (v *values) rate(key string, r rate, burst uint32) core.QueueRate {
	if r == "" {
		if burst != 0 {
			v.say(key+"_burst", "has an effect beside %s only", key)
		}
		return core.QueueRate{}
	}
	number, per, ok := strings.Cut(string(r), "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if per == "s" || per == "m" || per == "h" {
		per = "1" + per
	}
	d, wrong := spans.Parse(per)
	if !ok || err != nil || wrong != nil || n == 0 || d < time.Millisecond || d%time.Millisecond != 0 {
		v.say(key, "%q is no rate such as \"100/1s\"", string(r))
		return core.QueueRate{}
	}
	return core.QueueRate{Limit: uint32(n), PerMS: d.Milliseconds(), Burst: burst}
}

func ofRate(r core.QueueRate) rate {
	if r.Limit == 0 {
		return ""
	}
	return rate(fmt.Sprintf("%d/%s", r.Limit, ofMillis(r.PerMS)))
}

// json gives the JSON of a table, or of a text that has it; nil: neither is given.
func (v *values) json(key string, table map[string]any, text string) json.RawMessage {
	switch {
	case table != nil && text != "":
		v.say(key+"_json", "stands beside %s: give one of them", key)
	case text != "":
		if !json.Valid([]byte(text)) {
			v.say(key+"_json", "is not valid JSON")
			return nil
		}
		return json.RawMessage(text)
	case table != nil:
		if problem := notJSON(table, key); problem != "" {
			v.say(key, "%s", problem)
			return nil
		}
		return encoded(table)
	}
	return nil
}

// notJSON says what of a value of TOML JSON has not: dates and times, and numbers that are none.
func notJSON(v any, at string) string {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if problem := notJSON(v[key], at+"."+key); problem != "" {
				return problem
			}
		}
	case []any:
		for i, item := range v {
			if problem := notJSON(item, fmt.Sprintf("%s[%d]", at, i)); problem != "" {
				return problem
			}
		}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprintf("%s is %v, which JSON has not", at, v)
		}
	case string, bool, int64, nil:
	default:
		return fmt.Sprintf("%s is a date or a time, which JSON has not: write it as a text, in quotes", at)
	}
	return ""
}

// tableOrJSON gives a JSON object as a table, or, where that would not give it back byte for byte, as a text.
func tableOrJSON(data json.RawMessage) (table map[string]any, text string) {
	if data = plainjson.Readable(data); len(data) == 0 || string(data) == "{}" {
		return nil, ""
	}
	if table, ok := exactTable(data); ok && string(encoded(table)) == string(data) {
		return table, ""
	}
	return nil, string(data)
}

// tableOrJSONOf is tableOrJSON of a value whose JSON is read back into one of its type: the order of its members does not
// matter, as long as the texts within stay.
func tableOrJSONOf[T any](v T) (table map[string]any, text string) {
	data := plainjson.Readable(encoded(v))
	table, ok := exactTable(data)
	var again T
	if ok && decodeStrictly(encoded(table), &again) == nil && string(plainjson.Readable(encoded(again))) == string(data) {
		return table, ""
	}
	return nil, string(data)
}

// exactTable gives a JSON object as a table of TOML; ok is false where it has what TOML has not.
func exactTable(data json.RawMessage) (table map[string]any, ok bool) {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil, false
	}
	table, ok = v.(map[string]any)
	return table, ok && numbered(table)
}

// numbered puts numbers of TOML in the place of those of JSON; false: there is a null, or a number that no TOML has.
func numbered(v any) bool {
	number := func(v any) (any, bool) {
		n, ok := v.(json.Number)
		if !ok {
			return v, v != nil && numbered(v)
		}
		if i, err := n.Int64(); err == nil {
			return i, true
		}
		f, err := n.Float64()
		return f, err == nil
	}
	ok := true
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v { // order-free: each by itself
			is, fine := number(item)
			v[k], ok = is, ok && fine
		}
	case []any:
		for i, item := range v {
			is, fine := number(item)
			v[i], ok = is, ok && fine
		}
	}
	return ok
}

// days reads dates and weekly windows.
func (v *values) days(key string, dates, weekly []string) (out core.CalendarDays) {
	for _, s := range dates {
		out.Dates = append(out.Dates, ParseDate(s))
	}
	for i, s := range weekly {
		w, err := ParseWindow(s)
		if err != nil {
			v.say(fmt.Sprintf("%s_weekly[%d]", key, i), "%s", err)
		}
		out.Weekly = append(out.Weekly, w)
	}
	return out
}
