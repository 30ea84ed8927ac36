package page

import (
	"html/template"

	"github.com/orrery-go/orrery/effects"
)

// A view is one page as data: what a handler makes of the API's answers, and the templates make HTML
// of. All text in it is plain, and is escaped where it is written.
type view struct {
	Title   string
	Kind    string // of what the title names, such as "Action"; may be empty
	Of      string // what the title is done to, such as an action's label; may be empty
	State   *cell  // of what the title names
	Crumbs  []link
	Acts    []link
	More    []link // further pages of what the title names
	Body    []block
	Home    bool // of the overview: its title is the page's name
	SignIn  *signIn
	ActForm *actForm
	Fail    *apiError
	Static  bool // it shows nothing that changes by itself
	Every   int  // after so many seconds it is loaded again, beside when something changes; 0: it is not
}

// A block is one part of a view: one of its members is set.
type block struct {
	Title  string
	ID     string // of the heading, for links
	Note   string // below the title
	Facts  []fact
	Table  *table
	Text   *text
	Tiles  []tile
	SVG    template.HTML // of a diagram, made by this package of escaped parts
	Notice *notice
	Links  []link
	Empty  string // instead of all this
}

// A fact is a name and what it is, in a list of such.
type fact struct {
	Name  string
	Value cell
}

// A cell is a short value.
type cell struct {
	Text  string
	Href  string
	Tone  tone
	State bool // it is shown as a badge
	Code  bool
	Hint  string // shown behind it
	At    *moment
	Since string // the time, RFC 3339, from which on Text tells how long something lasts that goes on
	More  []cell // further values behind it
	Acts  []link // acts on what it tells of
	Lines []string
	Wide  bool // in a table it may take what room there is
}

// A moment is a time as it is shown.
type moment struct {
	RFC3339 string
	Text    string // in the zone that was chosen, which it names
	Ago     string // "in 5 min", "2 h ago"
}

// A tone says by a colour, beside its text, how something stands.
type tone string

const (
	toneNone tone = ""
	toneGood tone = "good"
	toneBad  tone = "bad"
	toneBusy tone = "busy"
	toneWait tone = "wait"
	toneOff  tone = "off"
)

// A link leads to another page, or to an act.
type link struct {
	Text    string
	Href    string
	Danger  bool
	Main    bool   // the act that is most likely
	Refused string // why the visitor may not; then it leads nowhere
}

// A table is a list.
type table struct {
	Caption string // for screen readers
	Head    []string
	Rows    [][]cell
	Empty   string // what would fill it
	Filter  *filter
	Order   *link  // to the list the other way around
	Next    string // the address of the next page
	First   string // that of the first page, on others
}

// A filter is the form above a list, whose state is in the address.
type filter struct {
	Path   string
	Fields []field
	Keep   []field // hidden ones
	Active bool    // one of the fields has a value
	All    string  // the address without any filter; empty: Path
}

// text is a long value.
type text struct {
	Plain string
	HTML  template.HTML // made by this package of escaped parts
	Wrap  bool
	Tail  bool // its end is what counts: it is shown scrolled there
	Tree  *tree
	JSON  bool
	Get   string // the address at which all of it is downloaded; empty: all of it is shown
	all   []byte
}

// A tile is a number of the overview, which leads to what it counts.
type tile struct {
	Name  string
	Value string
	Href  string
	Tone  tone
	Hint  string
}

// A notice is what the visitor should see first.
type notice struct {
	Text string
	Tone tone
}

// textOf is a cell of plain text; nothing is shown as a dash.
func textOf(s string) cell { return cell{Text: s} }

// codeOf is a cell of a value that somebody may type.
func codeOf(s string) cell { return cell{Text: s, Code: true} }

// to makes the cell lead to an address of this page.
func (c cell) to(href string) cell {
	c.Href = href
	return c
}

// wide lets the cell take what room there is.
func (c cell) wide() cell {
	c.Wide = true
	return c
}

// state is a badge.
func state(s string, t tone) cell { return cell{Text: s, State: true, Tone: t} }

// at is a cell of a time; nothing if it is zero.
func (q *visit) at(t effects.Time) cell {
	if t.IsZero() {
		return cell{}
	}
	return cell{At: q.moment(t)}
}

// facts leaves out those that have no value.
func facts(all ...fact) (out []fact) {
	for _, f := range all {
		v := f.Value
		if v.Text != "" || v.At != nil || v.State || len(v.More) > 0 || len(v.Lines) > 0 {
			out = append(out, f)
		}
	}
	return out
}
