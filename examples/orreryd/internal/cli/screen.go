package cli

import (
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// screen is what a table is printed on. The zero value is a pipe or a file: nothing is fitted,
// and nothing has a colour.
type screen struct {
	terminal bool
	columns  int // that a row may take; 0: any number
	rows     int // 0: any number
	colours  bool
	whole    bool      // no cell is cut, whatever there is room for
	now      time.Time // what short times are short for
}

// isTerminal reports whether a command reads from a terminal, or writes to one.
func isTerminal(of any) bool {
	f, ok := of.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// screen looks at the standard output as it is now: terminals change their size.
func (a *app) screen() screen {
	s := screen{whole: a.form == formWide, now: time.Now().UTC()}
	f, ok := a.out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.terminal = true
	s.colours = a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
	if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
		s.columns, s.rows = columns, rows
	}
	if s.whole {
		s.columns = 0
	}
	return s
}

// paint gives a state in its colour.
func (s screen) paint(state string) string {
	if !s.colours {
		return state
	}
	return text.StateColour(state).Paint(state)
}

// line sets cells side by side, two columns apart, each as wide as its width says; the last one
// ends the line. paints says which of them are states.
func (s screen) line(cells []string, widths []int, paints func(i int) bool) string {
	var b strings.Builder
	for i, c := range cells {
		shown := c
		if paints(i) {
			shown = s.paint(c)
		}
		b.WriteString(shown)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", max(widths[i]-text.Width(c), 0)+2))
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}
