package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// view is what people are shown of something: a line, or fields, and tables below them.
type view struct {
	line   string
	fields [][2]string // names and values; those with an empty value are left out
	tables []table     // those without a row are left out
}

// table has cells that are clean.
type table struct {
	header []string
	rows   [][]string
}

// print prints an answer: for programs as it came, for people what is to be seen of it.
func (a *app) print(raw json.RawMessage, v view) error { return a.show(raw, v.text()) }

// show prints a value for programs, or a text for people.
func (a *app) show(v any, people string) error {
	if a.json {
		return a.printJSON(v)
	}
	_, err := io.WriteString(a.out, people)
	return err
}

// text is the view for people.
func (v view) text() string {
	if v.line != "" {
		return v.line + "\n"
	}
	var fields [][]string
	for _, f := range v.fields {
		if f[1] != "" {
			fields = append(fields, []string{f[0], text.Clean(f[1])})
		}
	}
	parts := []string{columns(fields)}
	for _, t := range v.tables {
		if len(t.rows) > 0 {
			parts = append(parts, t.text())
		}
	}
	return strings.Join(parts, "\n")
}

func (t table) text() string { return columns(append([][]string{t.header}, t.rows...)) }

// columns sets rows below one another.
func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		text.Sayf(w, "%s\n", strings.Join(row, "\t"))
	}
	_ = w.Flush() // a builder takes everything
	return b.String()
}

// printLine prints a sentence for people, and for programs the answer, if it has a body.
func (a *app) printLine(raw json.RawMessage, line string) error {
	if a.json && len(raw) == 0 {
		return nil
	}
	return a.show(raw, line+"\n")
}

// printJSON prints a value for programs: indented, one value a call.
func (a *app) printJSON(v any) error {
	var b []byte
	var err error
	if raw, ok := v.(json.RawMessage); ok {
		var buf bytes.Buffer
		err = json.Indent(&buf, bytes.TrimSpace(raw), "", "  ")
		b = buf.Bytes()
	} else {
		b, err = json.MarshalIndent(v, "", "  ")
	}
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "%s\n", b)
	return err
}

// cell is a text in a table, cut after some runes; "-" if it is empty.
func cell(s string, most int) string { return text.OrDash(text.Clip(s, most)) }

// number shows a count.
func number[N int | uint32 | uint64](n N) string { return strconv.FormatUint(uint64(n), 10) }

// orEmpty shows a value; empty for the zero value.
func orEmpty[T comparable](v T, show func(T) string) string {
	var zero T
	if v == zero {
		return ""
	}
	return show(v)
}

// numberOr shows a count; empty for none.
func numberOr(n uint32) string { return orEmpty(n, number[uint32]) }

// shortTime shows a time in a table, to the second.
func shortTime(t effects.Time) string {
	return text.OrDash(orEmpty(t, func(t effects.Time) string { return t.Std().Format(time.DateTime) }))
}

// timeText shows a time by itself; empty for none.
func timeText(t effects.Time) string { return orEmpty(t, effects.Time.String) }

// took is the time between two instants; "-" if there is one alone.
func took(from, to effects.Time) string {
	if from.IsZero() || to.IsZero() {
		return "-"
	}
	return to.Sub(from).String()
}

// milliseconds shows a length of time of the API.
func milliseconds(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// millisecondsOr shows a length of time of the API; empty for none.
func millisecondsOr(n int64) string { return orEmpty(n, milliseconds) }

// pairs shows a map in the order of its keys.
func pairs(m map[string]string) string {
	list := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return strings.Join(list, ", ")
}

// plain shows a value as JSON.
func plain(v any) string {
	b, err := text.PlainJSON(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// idOr shows an id; empty for none.
func idOr(id uuid.UUID) string { return orEmpty(id, uuid.UUID.String) }

// failed is how something has ended that failed, and why; nil if it did not fail: did is empty.
func failed(what fmt.Stringer, kind, did, why string) error {
	if did == "" {
		return nil
	}
	return fmt.Errorf("%s %s %s: %s", kind, what, did, why)
}

// counted writes a number of things.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
