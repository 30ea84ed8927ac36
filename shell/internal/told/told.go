// Package told names what the built-in tools tell a program, or an HTTP server, about the
// action that they carry out: as variables of an environment, or as headers.
//
// The names are fixed. What users choose, keys of metadata and labels among it, stands in
// values alone, so that none of it can set a variable or a header of its own.
package told

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// Bounds of one value. Linux takes 128 KiB for a variable. Servers take 8 KiB for a line of
// the header, some 16 KiB for all of it; what is told must not be what a request fails of.
const (
	maxVariable = 64 << 10
	maxHeader   = 2 << 10
)

// Prefix begins the name of every header that [Headers] gives.
const Prefix = "Orrery-"

// Pair is a variable or a header.
type Pair struct{ Name, Value string }

// pairs gives all that is told, under the names of headers without [Prefix].
func pairs(call shell.Call) []Pair {
	due, occurrence, cycle := "", "", ""
	if !call.DueAt.IsZero() {
		due = call.DueAt.String()
	}
	if call.Occurrence != uuid.Nil {
		occurrence = call.Occurrence.String()
	}
	if call.Cycle > 0 {
		cycle = strconv.FormatUint(uint64(call.Cycle), 10)
	}
	return []Pair{
		{"Action-Id", call.ActionID.String()},
		{"Attempt", strconv.FormatUint(uint64(call.Attempt), 10)},
		{"Namespace", call.Namespace},
		{"Tenant", call.Tenant},
		{"Label", call.Label},
		{"Due-At", due},
		{"Cycle", cycle},
		{"Occurrence", occurrence},
		{"Recurring-Dispatch", call.Metadata[core.MetaRecurringDispatch]},
		{"Recurring-Id", call.Metadata[core.MetaRecurringID]},
		{"Metadata", Object(call.Metadata)},
		{"Labels", Object(call.Labels)},
		{"Webhook-Route", call.Route},
		{"Webhook-Headers", webhookHeaders(call.Header)},
	}
}

// Environ gives the variables. One that does not apply is empty; one whose value is too long
// is empty, too, and ORRERY_LEFT_OUT names it.
func Environ(call shell.Call) []Pair {
	all := pairs(call)
	var left []string
	for i := range all {
		p := &all[i]
		p.Name = "ORRERY_" + strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))
		if len(p.Value) > maxVariable {
			p.Value, left = "", append(left, p.Name)
		}
	}
	return append(all, Pair{"ORRERY_LEFT_OUT", strings.Join(left, " ")})
}

// Headers gives the headers, of a webhook without signatures. One that does not apply is left out, and so is one whose value
// is too long, which Orrery-Left-Out names.
func Headers(call shell.Call) []Pair {
	var told []Pair
	var left []string
	for _, p := range pairs(call) {
		name := Prefix + p.Name
		var value string
		switch p.Name {
		case "Metadata", "Labels":
			value = ascii(p.Value)
		case "Webhook-Headers":
			value = ascii(unsigned(p.Value))
		default:
			value = percent(p.Value)
		}
		switch {
		case len(value) > maxHeader:
			left = append(left, name)
		case value != "":
			told = append(told, Pair{name, value})
		}
	}
	if left != nil {
		told = append(told, Pair{Prefix + "Left-Out", strings.Join(left, ", ")})
	}
	return told
}

// webhookHeaders gives the kept headers of a webhook as one line of JSON; what is no JSON, as
// nothing.
func webhookHeaders(kept json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, kept) != nil {
		return ""
	}
	return b.String()
}

// unsigned takes the signatures out of the kept headers of a webhook: whoever has a signature, with the body,
// could send the webhook again in its sender's name.
func unsigned(headers string) string {
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(headers), &all) != nil {
		return ""
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool {
		return strings.Contains(strings.ToLower(name), "signature")
	})
	b, err := json.Marshal(all)
	if err != nil { // cannot be: it was JSON
		return ""
	}
	return string(b)
}

// Object gives a map as a JSON object, its keys in order; an empty one as nothing.
func Object(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil { // cannot be: strings alone
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ascii writes JSON with escapes for all that is not a printable character of ASCII.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch high, low := utf16.EncodeRune(r); {
		case r >= ' ' && r <= '~':
			b.WriteRune(r)
		case high != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// percent writes a text with %XX for each byte that is not a printable character of ASCII,
// for '%' itself, and for a space at either end, which HTTP would drop.
func percent(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || c == '%' || c == ' ' && (i == 0 || i == len(text)-1) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
