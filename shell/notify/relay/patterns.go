package relay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

// Bounds of a channel: how many patterns it has, and the bytes of one and of its name, which
// together name a subscriber.
const (
	maxEvents  = 50
	maxPattern = core.MaxNameBytes/2 - len(Subscribers) - 1
	MaxName    = core.MaxNameBytes / 2
)

// CheckEvents reports what is wrong with the patterns of a channel. The error begins with which
// one it is, as in "[1]: …".
func CheckEvents(patterns []string) error {
	if len(patterns) > maxEvents {
		return fmt.Errorf(": has %d patterns: want at most %d", len(patterns), maxEvents)
	}
	for i, p := range patterns {
		if err := checkEvent(p); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		for _, before := range patterns[:i] {
			if overlap(p, before) {
				return fmt.Errorf("[%d]: %q and %q have events in common, which would be told twice: leave one of them out", i, clip(p), clip(before))
			}
		}
	}
	return nil
}

func checkEvent(p string) error {
	category, action, ok := strings.Cut(p, ":")
	if !ok || category == "" || action == "" || strings.Contains(action, ":") || len(p) > maxPattern || strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%q is no pattern of events: want CATEGORY:ACTION, such as %q or %q", clip(p), effects.Custom("action", "failed"), effects.Custom("alert", "*"))
	}
	// What is told goes through a queue, which announces that: it would be told, too, for ever.
	if ofQueues(p) {
		return fmt.Errorf("%q has events of queues, by which the telling itself is announced: of them only %q can be told", clip(p), effects.KindQueueDead)
	}
	if !strings.Contains(p, "*") && effects.ReservedCategory(category) && !announced(p) {
		return fmt.Errorf("%q is never announced%s", clip(p), suggestion(p))
	}
	return nil
}

// ofQueues reports whether a pattern has events of queues but that an item was given up.
func ofQueues(p string) bool {
	for _, kind := range effects.Announced() {
		if kind.Category == "queue" && kind != effects.KindQueueDead && overlap(p, kind.String()) {
			return true
		}
	}
	return false
}

func clip(s string) string { return texts.Clip(s, 96) }

// known are the kinds of all events that machines announce.
var known = effects.Announced()

func announced(p string) bool {
	return slices.ContainsFunc(known, func(kind effects.EventKind) bool { return kind.String() == p })
}

// suggestion names the kind that is most like one that is wrong.
func suggestion(p string) string {
	best, distance := "", 4
	for _, kind := range known {
		if d := texts.Distance(kind.String(), p); d < distance {
			best, distance = kind.String(), d
		}
	}
	if best == "" {
		return ": see what is in the list of events"
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// overlap reports whether an event that there can be matches both patterns.
func overlap(a, b string) bool {
	ac, aa, _ := strings.Cut(a, ":")
	bc, ba, _ := strings.Cut(b, ":")
	if effects.ReservedCategory(ac) || effects.ReservedCategory(bc) {
		one, other := core.EventMatch{Category: ac, Action: aa}, core.EventMatch{Category: bc, Action: ba}
		return slices.ContainsFunc(known, func(kind effects.EventKind) bool {
			ev := effects.Event{Kind: kind}
			return one.Matches(ev) && other.Matches(ev)
		})
	}
	return common(ac, bc) && common(aa, ba)
}

// common reports whether a text can match both patterns, in which "*" stands for any text. Its
// time is that of the product of their lengths.
func common(a, b string) bool {
	// row[j] says whether what is behind the present place of a and behind j of b has a text in
	// common.
	row := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		diagonal := false // of the row before, at j+1
		for j := len(b); j >= 0; j-- {
			below := row[j]
			switch {
			case i == len(a) && j == len(b):
				row[j] = true
			case i < len(a) && a[i] == '*':
				row[j] = below || j < len(b) && row[j+1]
			case j < len(b) && b[j] == '*':
				row[j] = row[j+1] || i < len(a) && below
			case i < len(a) && j < len(b):
				row[j] = a[i] == b[j] && diagonal
			default:
				row[j] = false
			}
			diagonal = below
		}
	}
	return row[0]
}
