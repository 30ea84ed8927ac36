package setfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// values reads the texts of one table, and says what is wrong with them.
type values struct {
	say func(key, format string, args ...any)
}

// duration is a text such as "1h30m".
type duration string

// rate is a text such as "100/1s".
type rate string

func (v *values) duration(key string, d duration, unit time.Duration, what string) int64 {
	if d == "" {
		return 0
	}
	is, err := time.ParseDuration(string(d))
	switch {
	case err != nil:
		v.say(key, "%q is no duration: write it such as \"90s\", \"10m\" or \"1h30m\"", string(d))
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
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return duration(s)
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
	d, wrong := time.ParseDuration(per)
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
		for _, key := range sortedKeys(v) {
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

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m { // order-free: sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
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

// weekdays are the names of the days, in their order.
var weekdays = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"} // read-only: a table

// days reads dates and weekly windows.
func (v *values) days(key string, dates, weekly []string) (out core.CalendarDays) {
	for _, s := range dates {
		span, name, _ := strings.Cut(s, "=")
		date, to, _ := strings.Cut(span, "..")
		out.Dates = append(out.Dates, core.CalendarDate{Date: date, To: to, Name: name})
	}
	for i, s := range weekly {
		w, err := window(s)
		if err != nil {
			v.say(fmt.Sprintf("%s_weekly[%d]", key, i), "%s", err)
		}
		out.Weekly = append(out.Weekly, w)
	}
	return out
}

// window reads "DAYS[ FROM-TO][=NAME]"; days may be a span such as "mon-fri", or "daily".
func window(s string) (core.CalendarWindow, error) {
	span, name, _ := strings.Cut(s, "=")
	days, clock, timed := strings.Cut(strings.TrimSpace(span), " ")
	w := core.CalendarWindow{Name: name}
	if timed {
		from, to, ok := strings.Cut(clock, "-")
		if !ok {
			return w, fmt.Errorf("%q has no span of the day: write it such as \"mon-fri 22:00-06:00\"", s)
		}
		w.From, w.To = from, to
	}
	if days == "daily" {
		return w, nil
	}
	for part := range strings.SplitSeq(days, ",") {
		first, last, isSpan := strings.Cut(strings.ToLower(part), "-")
		if !isSpan {
			last = first
		}
		i, end := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if i < 0 || end < 0 {
			return w, fmt.Errorf("%q is no day: use %s, or daily", part, strings.Join(weekdays, ", "))
		}
		w.Days = append(w.Days, weekdays[i])
		for i != end {
			i = (i + 1) % len(weekdays)
			w.Days = append(w.Days, weekdays[i])
		}
	}
	return w, nil
}

// textsOfDays writes dates and weekly windows.
func textsOfDays(d core.CalendarDays) (dates, weekly []string) {
	for _, of := range d.Dates {
		s := of.Date
		if of.To != "" {
			s += ".." + of.To
		}
		dates = append(dates, named(s, of.Name))
	}
	for _, w := range d.Weekly {
		s := "daily"
		if len(w.Days) > 0 {
			s = strings.Join(w.Days, ",")
		}
		if w.From != "" || w.To != "" {
			s += " " + cmp.Or(w.From, "00:00") + "-" + cmp.Or(w.To, "24:00")
		}
		weekly = append(weekly, named(s, w.Name))
	}
	return dates, weekly
}

func named(what, name string) string {
	if name == "" {
		return what
	}
	return what + "=" + name
}
