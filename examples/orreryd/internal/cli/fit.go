package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// shortestID is how many characters of an id are shown at least, and the least that a command
// takes for an id.
const shortestID = 8

// leastText is how many columns a text keeps that is cut for want of room.
const leastText = 10

// stateColumns are the columns with a state: they have colours, and are never cut or left out.
var stateColumns = []string{"STATE", "STATUS", "VERDICT", "OUTCOME"}

// idColumns are the columns with ids whose beginnings commands take. A name may look like an id, and is none.
var idColumns = []string{"ID", "ACTION", "ITEM", "RUN"}

// spareColumns are the columns that are left out for want of room, the least important first.
var spareColumns = []string{
	"COUNT", "INPUTS/S", "REQUESTS/S", "STRATEGIES", "QUEUES", "TASKS", "PIPELINES", "RETRY", "REFUSED", "RECOVERIES",
	"PRIORITY", "DELAYED", "HOLDERS", "WINDOWS", "DATES", "EXIT", "RUNS", "RUN TOOK", "TIMES", "UNTIL", "LAST (UTC)", "ENDED (UTC)", "CREATED (UTC)",
	"HEARTBEAT (UTC)", "STARTED (UTC)", "TOOK", "COMPLETED", "OLDEST", "WAITING", "ATTEMPTS", "UNTIL (UTC)", "RUN", "ZONE", "KEY", "TOOL", "DOES", "FROM",
	"NODE", "SESSION", "OPERATION", "SCOPE", "HOLDER", "APPROACH", "DESCRIPTION", "LABEL", "WAITS FOR", "SEEN", "SINCE (UTC)", "DATA", "SCHEDULE", "NEXT (UTC)", "DUE (UTC)", "NOTE",
}

// cutColumns are the columns whose texts are cut for want of room, the least important first.
var cutColumns = []string{
	"FROM", "NODE", "POD", "SCOPE", "ZONE", "SESSION", "OPERATION", "KEY", "TOOL", "DOES", "HOLDER", "QUEUE", "WHO", "TENANT", "PHASE", "APPROACH", "PIPELINE",
	"CRON", "DATA", "PATH", "SCHEDULE", "EVENT", "DESCRIPTION", "LABEL", "DONE BY", "MESSAGE", "DATES AND WINDOWS", "NAME", "CAUSE", "REASON", "NOTE",
}

// fitColumn is a column of a table that is to fit.
type fitColumn struct {
	name  string // as the rules have it
	title string // as it is shown
	cells []string
	short bool // its ids are prefixes: what is shorter is none that a command takes
	width int  // that it has
	least int  // that it may be cut to; its width if it may not be cut
}

// measure sets how wide the column is, and how narrow it may become.
func (c *fitColumn) measure() {
	c.width = text.Width(c.title)
	for _, cell := range c.cells {
		c.width = max(c.width, text.Width(cell))
	}
	c.least = c.width
	if slices.Contains(cutColumns, c.name) {
		c.least = min(c.width, max(text.Width(c.title), leastText))
	}
}

// shortest is how narrow the first column may become if there is no other way.
func (c *fitColumn) shortest() int {
	if c.short {
		return c.width
	}
	return min(c.width, leastText)
}

// fit gives the columns of a table as a screen has room for them. It cuts ids to unique prefixes, then
// times to what is not clear by itself, then texts, and then leaves out what can be spared. The first
// column, which says what a row is about, stays whole for longest.
func (s screen) fit(cols []fitColumn) []fitColumn {
	if s.columns == 0 || room(cols, fullWidth) <= s.columns {
		return cols
	}
	for i := range cols {
		cols[i].shortenIDs()
		cols[i].measure()
	}
	if room(cols, fullWidth) > s.columns {
		for i := range cols {
			cols[i].shortenTimes(s.now)
			cols[i].measure()
		}
	}
	cols[0].least = cols[0].width
	for _, name := range spareColumns {
		if room(cols, leastWidth) <= s.columns {
			break
		}
		cols = append(cols[:1:1], slices.DeleteFunc(cols[1:], func(c fitColumn) bool { return c.name == name })...)
	}
	for i := len(cols) - 1; i > 0 && room(cols, leastWidth)-cols[0].width+cols[0].shortest() > s.columns; i-- {
		if !slices.Contains(stateColumns, cols[i].name) {
			cols = slices.Delete(cols, i, i+1)
		}
	}
	s.distribute(cols)
	return cols
}

// distribute cuts columns to what there is room for: the most important get what they want first.
func (s screen) distribute(cols []fitColumn) {
	left := s.columns - room(cols, leastWidth)
	if left < 0 { // the first column must do with less
		cols[0].least = max(cols[0].least+left, cols[0].shortest())
		left = 0
	}
	rank := func(c fitColumn) int { return slices.Index(cutColumns, c.name) }
	order := make([]*fitColumn, len(cols))
	for i := range cols {
		order[i] = &cols[i]
	}
	slices.SortStableFunc(order, func(a, b *fitColumn) int { return rank(*b) - rank(*a) })
	for _, c := range order {
		more := min(c.width-c.least, left)
		if c == &cols[0] {
			more = 0
		}
		left -= more
		c.width = c.least + more
	}
	for i, c := range cols {
		shorten := text.Cut
		if i == 0 {
			shorten = text.CutMiddle
		}
		for j := range c.cells {
			c.cells[j] = shorten(c.cells[j], c.width)
		}
		cols[i].title = text.Cut(c.title, c.width)
	}
}

func fullWidth(c fitColumn) int  { return c.width }
func leastWidth(c fitColumn) int { return c.least }

// room is how many columns of a terminal the columns of a table take.
func room(cols []fitColumn, width func(fitColumn) int) int {
	n := 2 * (len(cols) - 1)
	for _, c := range cols {
		n += width(c)
	}
	return n
}

// shortenIDs cuts ids to prefixes of one length that are unique in the column.
func (c *fitColumn) shortenIDs() {
	if !slices.Contains(idColumns, c.name) {
		return
	}
	var list []string
	for _, cell := range c.cells {
		if uuid.Validate(cell) == nil {
			list = append(list, cell)
		} else if cell != "-" {
			return
		}
	}
	if n := prefixLength(list); n > 0 {
		c.short = true
		for i, cell := range c.cells {
			c.cells[i] = cell[:min(n, len(cell))]
		}
	}
}

// prefixLength is how many characters tell ids apart; 0 if there is none.
func prefixLength(ids []string) int {
	if len(ids) == 0 {
		return 0
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	n := shortestID
	for i, id := range ids[1:] {
		for n < len(id) && id[:n] == ids[i][:n] {
			n++
		}
	}
	if ids[0][n-1] == '-' { // a dash tells nothing
		n++
	}
	return n
}

// nearby is how far from now a time is shown without its year.
const nearby = 182 * 24 * time.Hour

// shortenTimes shows times to the minute, and those that are near without their year.
func (c *fitColumn) shortenTimes(now time.Time) {
	short := make([]string, len(c.cells))
	for i, cell := range c.cells {
		t, err := time.Parse(time.DateTime, cell)
		switch {
		case cell == "-":
			short[i] = cell
		case err != nil:
			return
		case t.Sub(now).Abs() < nearby:
			short[i] = t.Format("01-02 15:04")
		default:
			short[i] = t.Format("2006-01-02 15:04")
		}
	}
	c.cells = short
	if zone, ok := strings.CutSuffix(c.title, " (UTC)"); ok {
		c.title = zone + " UTC"
	}
}
