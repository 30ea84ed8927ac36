package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// How often a list is redrawn if --watch does not say it, the least that it may say, and how long a
// daemon has for an answer before what is shown is called old.
const (
	redrawEvery = 2 * time.Second
	redrawLeast = 100 * time.Millisecond
	answerTime  = 5 * time.Second
)

// answered is a list as the daemon has answered it.
type answered struct {
	json   func() error // prints it for programs
	names  []string     // one for each row
	people func(screen) string
	next   string // page token of what follows; empty: nothing does
}

// asker asks the daemon for a list.
type asker func(context.Context) (answered, error)

// listFlags are those of each command that lists something.
type listFlags struct {
	a     *app
	watch time.Duration
}

// addListFlags adds --output, with its forms, and --watch to a command.
func (a *app) addListFlags(cmd *cobra.Command, forms ...string) *listFlags {
	l := &listFlags{a: a}
	a.addOutput(cmd, forms...)
	cmd.Flags().DurationVar(&l.watch, "watch", 0, "show the list anew every 2s, or with --watch=5s at another `interval`, until Ctrl-C")
	cmd.Flags().Lookup("watch").NoOptDefVal = redrawEvery.String()
	return l
}

// print prints what a daemon answers, once or again and again.
func (l *listFlags) print(ctx context.Context, cmd *cobra.Command, ask asker) error {
	if cmd.Flags().Changed("watch") {
		return l.follow(ctx, cmd.CommandPath(), ask)
	}
	got, err := ask(ctx)
	if err != nil {
		return err
	}
	return l.a.printList(got)
}

// printList prints a list in the form that is asked for, and how to go on.
func (a *app) printList(got answered) error {
	var err error
	switch {
	case a.json:
		return got.json()
	case a.form == formName:
		err = a.printNames(got.names)
	default:
		_, err = fmt.Fprint(a.out, got.people(a.screen()))
	}
	if err != nil {
		return err
	}
	return a.sayMore(got.next)
}

// follow shows a list until the context ends. A daemon that answers no more leaves what it answered
// last, and a word that it is old.
func (l *listFlags) follow(ctx context.Context, title string, ask asker) error {
	switch {
	case l.a.json || l.a.form == formName:
		return usagef("--watch is for people: give it without --json and without --output json or name")
	case l.watch < redrawLeast:
		return usagef("--watch: %s is too short: want %s or more", l.watch, redrawLeast)
	}
	got, err := ask(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	b := &board{a: l.a, title: title, every: l.watch, redraws: l.a.screen().terminal && l.a.env("TERM") != "dumb"}
	b.open()
	defer b.close()
	for b.got, b.at = got, time.Now(); ; {
		if err := b.draw(); err != nil {
			return err
		}
		if pause(ctx, l.watch) != nil {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, answerTime)
		got, err := ask(asking)
		late := asking.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && late:
			b.old = fmt.Sprintf("no answer within %s", answerTime)
		case err != nil:
			b.old = text.Clean(err.Error())
		default:
			b.got, b.at, b.old = got, time.Now(), ""
		}
	}
}

// board is where a list is shown again and again.
type board struct {
	a       *app
	title   string
	every   time.Duration
	redraws bool // on a terminal; else each list stands below the one before

	got   answered
	at    time.Time // when it was answered
	old   string    // why it is old; empty: it is not
	drawn bool
}

// What the terminal is told: to keep what stands on it for later, without a cursor meanwhile, and
// to draw over what was drawn.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l"
	firstScreen = "\x1b[?25h\x1b[?1049l"
	toTheTop    = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

func (b *board) open() {
	if b.redraws {
		text.Sayf(b.a.out, otherScreen)
	}
}

// close leaves the terminal as it was, with the last list below.
func (b *board) close() {
	if !b.redraws {
		return
	}
	text.Sayf(b.a.out, "%s%s", firstScreen, b.got.people(b.a.screen()))
	if b.old != "" {
		text.Sayf(b.a.err, "orreryd: %s\n", b.oldText())
	}
}

// oldText says how old the list is, and why.
func (b *board) oldText() string {
	return fmt.Sprintf("OLD: as of %s UTC, %s ago: %s", b.at.UTC().Format(time.TimeOnly), time.Since(b.at).Round(time.Second), b.old)
}

// draw shows the list as it is now.
func (b *board) draw() error {
	s := b.a.screen()
	if !b.redraws {
		return b.add(s)
	}
	head := fmt.Sprintf("%s, every %s: as of %s UTC", b.title, b.every, b.at.UTC().Format(time.TimeOnly))
	if b.old != "" {
		head = b.oldText()
	}
	if s.columns > 0 {
		head = text.Cut(head, s.columns)
	}
	if s.colours && b.old != "" {
		head = text.Yellow.Paint(head)
	}
	lines := strings.Split(strings.TrimSuffix(b.got.people(s), "\n"), "\n")
	if b.got.next != "" {
		lines = append(lines, "There is more: see --limit and --all")
	}
	if most := s.rows - 3; s.rows > 0 && len(lines) > max(most, 1) { // below the head and a line without text
		hidden := len(lines) - max(most-1, 1)
		lines = append(lines[:len(lines)-hidden:len(lines)-hidden], fmt.Sprintf("… and %s", counted(hidden, "more line")))
	}
	var out strings.Builder
	out.WriteString(toTheTop)
	for _, line := range append([]string{head, ""}, lines...) {
		out.WriteString(line + clearLine + "\n")
	}
	out.WriteString(clearBelow)
	_, err := fmt.Fprint(b.a.out, out.String())
	return err
}

// add prints the list below the one before, unless that is the same since it is old.
func (b *board) add(s screen) error {
	if b.old != "" {
		text.Sayf(b.a.err, "orreryd: %s\n", b.oldText())
		return nil
	}
	if b.drawn {
		text.Sayf(b.a.out, "\n")
	}
	b.drawn = true
	_, err := fmt.Fprint(b.a.out, b.got.people(s))
	return err
}
