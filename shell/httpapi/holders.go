package httpapi

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
)

// machineNames are machines by their kinds and ids, as holders and refusals name those that the
// caller has not named.
var machineNames = regexp.MustCompile(
	`\b(action|recurring|pipeline|queue|task|strategy|worker|job|orchestrator|run):[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:#\d+)?|\bby action [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\baction [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} holds`)

// withoutIDs puts "another pipeline" and its like in the place of the machines in a text.
func withoutIDs(text string) string {
	return machineNames.ReplaceAllStringFunc(text, func(name string) string {
		kind, _, ok := strings.Cut(name, ":")
		switch {
		case ok:
			return "another " + kind
		case strings.HasPrefix(name, "by "):
			return "by another action"
		}
		return "another action holds"
	})
}

// hidesMachines reports whether machines are named to the holder by their kinds alone: a token
// that is bound to tools does not see each machine of its tenant.
func (t *Token) hidesMachines() bool { return len(t.Tools) > 0 }

// seesLease reports whether the holder of the token is shown the fencing token of a lease that
// somebody has acquired: an admin, whoever has acquired it, and where nobody knows who that was
// whoever sees all of the tenant.
func (c *call) seesLease(by string) bool {
	return c.token.Admin || by == c.actor || by == "" && !c.token.hidesMachines()
}

// ownName gives the name of who has acquired something if that is the caller.
func (c *call) ownName(by string) string {
	if by == c.actor {
		return by
	}
	return ""
}

// shownOccurrence hides whose dedup key an occurrence came upon.
func shownOccurrence(c *call, o core.Occurrence) core.Occurrence {
	if c.token.hidesMachines() {
		o.Reason = withoutIDs(o.Reason)
	}
	return o
}

// shownTo is a function of a listing whose records are shown as a token may see them.
func shownTo[S any](of func(*call, S) S) func(context.Context, S) (S, error) {
	return func(ctx context.Context, v S) (S, error) { return of(callOf(ctx), v), nil }
}

func shownLock(c *call, l core.Lock) core.Lock {
	if !c.seesLease(l.By) {
		l.Token = 0
	}
	if !c.token.hidesMachines() {
		return l
	}
	l.Holder, l.Owner, l.By = withoutIDs(l.Holder), core.Owner{}, c.ownName(l.By)
	l.Waiters = slices.Clone(l.Waiters)
	for i, w := range l.Waiters {
		l.Waiters[i].Holder, l.Waiters[i].Owner = withoutIDs(w.Holder), core.Owner{}
	}
	return l
}

func shownSemaphore(c *call, s core.Semaphore) core.Semaphore {
	own := false
	s.Holders = slices.Clone(s.Holders)
	for i, h := range s.Holders {
		if !c.seesLease(h.By) {
			s.Holders[i].Token = 0
		}
		own = own || s.Token == h.Token && s.Holders[i].Token != 0
		if c.token.hidesMachines() {
			s.Holders[i].Holder, s.Holders[i].Owner, s.Holders[i].By = withoutIDs(h.Holder), core.Owner{}, c.ownName(h.By)
		}
	}
	if !own && !c.token.Admin {
		s.Token = 0
	}
	if !c.token.hidesMachines() {
		return s
	}
	s.Waiters = slices.Clone(s.Waiters)
	for i, w := range s.Waiters {
		s.Waiters[i].Holder, s.Waiters[i].Owner = withoutIDs(w.Holder), core.Owner{}
	}
	return s
}
