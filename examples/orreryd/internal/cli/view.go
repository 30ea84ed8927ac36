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
	fields [][2]string // names and values; those with an empty value are left out; a name may have a limit, see table
	tables []table     // those without a row are left out
}

// table has the names of columns and rows of cells. A name that ends with a colon and a number has a
// limit: the cells of "LABEL:32" are cut after 32 characters.
type table struct {
	header []string
	rows   [][]string
}

// print prints an answer: for programs as it came, for people what is to be seen of it.
func (a *app) print(raw json.RawMessage, v view) error { return a.show(raw, v.text(a.screen())) }

// show prints a value for programs, or a text for people.
func (a *app) show(v any, people string) error {
	if a.json {
		return a.printJSON(v)
	}
	_, err := io.WriteString(a.out, people)
	return err
}

// text is the view for people.
func (v view) text(s screen) string {
	if v.line != "" {
		return v.line + "\n"
	}
	var fields [][]string
	for _, f := range v.fields {
		if f[1] != "" {
			name, most := limitOf(f[0])
			fields = append(fields, []string{name, s.clip(f[1], most)})
		}
	}
	parts := []string{fieldLines(fields, s)}
	for _, t := range v.tables {
		if len(t.rows) > 0 {
			parts = append(parts, t.text(s))
		}
	}
	return strings.Join(parts, "\n")
}

// fieldLines sets names and values side by side; on a terminal a state has its colour.
func fieldLines(fields [][]string, s screen) string {
	if !s.colours {
		return columns(fields)
	}
	widths := make([]int, 2)
	for _, f := range fields {
		widths[0] = max(widths[0], text.Width(f[0]))
	}
	var b strings.Builder
	for _, f := range fields {
		isState := slices.Contains(stateColumns, strings.ToUpper(f[0]))
		b.WriteString(s.line(f, widths, func(i int) bool { return i == 1 && isState }))
	}
	return b.String()
}

// text is the table for people: as it is for a pipe or a file, and on a terminal as it has room for.
func (t table) text(s screen) string {
	cols := t.columns(s)
	if !s.terminal {
		rows := make([][]string, len(t.rows)+1)
		for _, c := range cols {
			for i, cell := range append([]string{c.name}, c.cells...) {
				rows[i] = append(rows[i], cell)
			}
		}
		return columns(rows)
	}
	cols = s.fit(cols)
	var b strings.Builder
	widths := make([]int, len(cols))
	for i, c := range cols {
		widths[i] = c.width
	}
	for row := -1; row < len(t.rows); row++ {
		cells := make([]string, len(cols))
		for i, c := range cols {
			cells[i] = c.title
			if row >= 0 {
				cells[i] = c.cells[row]
			}
		}
		b.WriteString(s.line(cells, widths, func(i int) bool { return row >= 0 && slices.Contains(stateColumns, cols[i].name) }))
	}
	return b.String()
}

// limitOf takes a name and a limit apart: "LABEL:32"; the limit is 0 if there is none.
func limitOf(name string) (alone string, most int) {
	alone, digits, _ := strings.Cut(name, ":")
	most, _ = strconv.Atoi(digits)
	return alone, most
}

// clip gives a clean text, cut after so many characters unless it is to be whole.
func (s screen) clip(v string, most int) string {
	if most == 0 || s.whole {
		return text.Clean(v)
	}
	return text.Clip(v, most)
}

// columns gives the table column by column, with clean cells.
func (t table) columns(s screen) []fitColumn {
	cols := make([]fitColumn, len(t.header))
	for i, h := range t.header {
		name, most := limitOf(h)
		c := fitColumn{name: name, title: name, cells: make([]string, 0, len(t.rows))}
		for _, row := range t.rows {
			if s.columns > 0 { // fit cuts it
				most = 0
			}
			c.cells = append(c.cells, s.clip(row[i], most))
		}
		c.measure()
		cols[i] = c
	}
	return cols
}

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
