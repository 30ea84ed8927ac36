package session

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// trimScreen drops what is blank at the end of each row and of the whole.
func trimScreen(text string) string {
	rows := strings.Split(text, "\n")
	for i, row := range rows {
		rows[i] = strings.TrimRight(row, " ")
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// maxLines is how many lines a terminal keeps, with those pushed out.
const maxLines = 2000

// terminal shows output as a simple terminal would: it knows the ends of lines,
// the moves of the cursor and what erases, and skips the rest, such as colours,
// scroll regions and insertions. A character takes one column.
type terminal struct {
	columns, rows int
	lines         [][]rune // at least one
	dropped       int      // lines that were too many
	line, column  int
	title         string
	pastes        bool // the program wants to know what was pasted
}

func newTerminal(columns, rows int) *terminal {
	return &terminal{columns: columns, rows: rows, lines: make([][]rune, 1)}
}

// top is the first line that the screen shows.
func (t *terminal) top() int { return max(0, len(t.lines)-t.rows) }

// text gives what the screen shows.
func (t *terminal) text() string {
	var b strings.Builder
	for _, line := range t.lines[t.top():] {
		b.WriteString(string(line))
		b.WriteByte('\n')
	}
	return trimScreen(b.String())
}

// feed takes output. A sequence that has not ended is skipped: the whole is fed
// anew each time.
func (t *terminal) feed(out []byte) {
	for len(out) > 0 {
		if out[0] == 0x1b {
			out = out[t.escape(out[1:])+1:]
			continue
		}
		r, size := utf8.DecodeRune(out)
		out = out[size:]
		switch {
		case r == '\n':
			t.down()
		case r == '\r':
			t.column = 0
		case r == '\b':
			t.column = max(0, min(t.column, t.columns-1)-1)
		case r == '\t':
			t.column = min(t.columns-1, (t.column/8+1)*8)
		case r < ' ' || r >= 0x7f && r < 0xa0:
		default:
			t.put(r)
		}
	}
}

func (t *terminal) down() {
	t.line++
	if t.line < len(t.lines) {
		return
	}
	t.lines = append(t.lines, nil)
	if over := len(t.lines) - maxLines; over > 0 {
		t.lines = t.lines[over:]
		t.line, t.dropped = t.line-over, t.dropped+over
	}
}

func (t *terminal) put(r rune) {
	if t.column >= t.columns {
		t.column = 0
		t.down()
	}
	line := t.lines[t.line]
	for len(line) <= t.column {
		line = append(line, ' ')
	}
	line[t.column] = r
	t.lines[t.line] = line
	t.column++
}

// escape reads what follows an escape and gives its length.
func (t *terminal) escape(s []byte) int {
	if len(s) == 0 {
		return 0
	}
	switch s[0] {
	case '[':
		return t.control(s)
	case ']':
		return t.command(s)
	case 'P', 'X', '^', '_': // strings that are not for the eye
		n, _ := untilEnd(s)
		return n
	case '(', ')', '*', '+', '#', '%', ' ':
		return min(2, len(s))
	case 'c': // reset
		t.clear()
	case 'M': // up
		t.line = max(t.top(), t.line-1)
	}
	return 1
}

// untilEnd gives the length of a string with its end, and that without.
func untilEnd(s []byte) (whole, text int) {
	for i, c := range s {
		switch {
		case c == 0x07:
			return i + 1, i
		case c == 0x1b && i+1 < len(s) && s[i+1] == '\\':
			return i + 2, i
		case c == 0x1b:
			return i, i
		}
	}
	return len(s), len(s)
}

// command reads an operating system command; those that set the title are heard,
// once they have come whole.
func (t *terminal) command(s []byte) int {
	whole, end := untilEnd(s)
	if kind, title, ok := strings.Cut(string(s[1:end]), ";"); ok && whole > end && (kind == "0" || kind == "2") {
		t.title = strings.ToValidUTF8(title, "\uFFFD")
	}
	return whole
}

// control reads a control sequence: parameters, then what is to be done.
func (t *terminal) control(s []byte) int {
	end := 1
	for end < len(s) && s[end] >= 0x20 && s[end] < 0x40 {
		end++
	}
	if end == len(s) {
		return end
	}
	params := string(s[1:end])
	if final := s[end]; final >= 0x40 && final < 0x7f {
		t.do(final, params)
	}
	return end + 1
}

func (t *terminal) do(final byte, params string) {
	if mode, ok := strings.CutPrefix(params, "?"); ok {
		switch mode {
		case "2004":
			t.pastes = final == 'h'
		case "47", "1047", "1049": // another screen, or back
			t.clear()
		}
		return
	}
	first, second, _ := strings.Cut(params, ";")
	n := param(first, 1)
	switch final {
	case 'A':
		t.line = max(t.top(), t.line-n)
	case 'B':
		t.line = min(len(t.lines)-1, t.line+n)
	case 'C':
		t.column = min(t.columns-1, t.column+n)
	case 'D':
		t.column = max(0, t.column-n)
	case 'G':
		t.column = min(t.columns, n) - 1
	case 'H', 'f':
		t.moveTo(min(n, t.rows)-1, min(param(second, 1), t.columns)-1)
	case 'd':
		t.moveTo(min(n, t.rows)-1, t.column)
	case 'J':
		t.eraseScreen(first)
	case 'K':
		t.eraseLine(first)
	}
}

// param reads a number from 1 to 9999.
func param(s string, def int) int {
	n, err := strconv.Atoi(s)
	if err != nil || n == 0 {
		return def
	}
	return max(1, min(n, 9999))
}

// moveTo moves to a place on the screen.
func (t *terminal) moveTo(row, column int) {
	t.line, t.column = t.top()+row, column
	for len(t.lines) <= t.line {
		t.lines = append(t.lines, nil)
	}
}

func (t *terminal) eraseScreen(part string) {
	switch part {
	case "", "0":
		t.eraseLine("0")
		clear(t.lines[t.line+1:])
	case "1":
		t.eraseLine("1")
		clear(t.lines[t.top():max(t.top(), t.line)])
	case "2", "3":
		clear(t.lines[t.top():])
	}
}

func (t *terminal) eraseLine(part string) {
	line := t.lines[t.line]
	switch part {
	case "", "0":
		t.lines[t.line] = line[:min(len(line), t.column)]
	case "1":
		for i := range min(len(line), t.column+1) {
			line[i] = ' '
		}
	case "2":
		t.lines[t.line] = nil
	}
}

func (t *terminal) clear() {
	clear(t.lines[t.top():])
	t.line, t.column = t.top(), 0
}
