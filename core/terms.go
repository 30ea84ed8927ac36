package core

import (
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/effects"
)

// IndexVersion names the list terms that [State.Terms] gives. The records of a database
// that was written with others must be reindexed: see [ReindexedKinds] and [FormerTerms].
const IndexVersion = "4"

// TermAll is the list term of all machines of a kind, by their creation.
const TermAll = "all"

// TermEnded is the list term of the machines of a kind that [ExpireEvent] may forget, by
// their end: those that have ended, see [EndedAt], and need not be kept, see [MustBeKept].
const TermEnded = "ended"

// TermRecurs is, within a tenant, the list term of the actions that recur and have not ended, from
// the first cycle on that stands in the ledger of occurrences.
const TermRecurs = "recurs"

// TermOwn is, within a tenant, the list term of all machines of a kind that has no statuses.
const TermOwn = "own"

// The list terms that follow are those of one tenant only: a machine stands under
// [TermWithin] of them. Their totals are those of all tenants.

// StatusTerm is the list term of the machines of a kind in one status.
func StatusTerm[S ~string](s S) string { return "status:" + string(s) }

// EnabledTerm is the list term of recurring actions or jobs that are enabled, or not.
func EnabledTerm(enabled bool) string { return "enabled:" + strconv.FormatBool(enabled) }

// ToolTerm is the list term of the actions of one tool.
func ToolTerm(tool string) string { return "tool:" + tool }

// RouteTerm is the list term of the actions that requests of one webhook route have made. An empty route is what the terms
// of all routes begin with.
func RouteTerm(route string) string { return "route:" + route }

// LabelTerm is the list term of what has a label with that value. ok is false if such
// labels have no list: key and value together are longer than [MaxListedLabel], or have a
// control character.
func LabelTerm(key, value string) (term string, ok bool) {
	if len(key)+len(value) > MaxListedLabel || hasControl(key) || hasControl(value) {
		return "", false
	}
	return "label:" + key + "=" + value, true
}

// Bounds of the lists by label.
const (
	MaxListedLabel  = 128 // bytes of a key and its value
	MaxListedLabels = 8   // of one machine: the first ones by their keys
)

// TermMoreLabels is the list term of the machines that have more labels than stand in
// lists: who looks for a label looks there, too.
const TermMoreLabels = "labels:more"

// TermWithin is the list term of those of another term that belong to one tenant.
func TermWithin(term string, of Scope) string {
	return term + withinSep + of.Namespace + withinSep + of.Tenant
}

// twoWithin is TermWithin of two terms, in one piece of memory.
func twoWithin(a, b string, of Scope) (inA, inB string) {
	both := a + withinSep + of.Namespace + withinSep + of.Tenant + b + withinSep + of.Namespace + withinSep + of.Tenant
	n := len(a) + (len(both)-len(a)-len(b))/2
	return both[:n], both[n:]
}

// TermOfTenants is what [TermWithin] begins with for each tenant.
func TermOfTenants(term string) string { return term + withinSep }

// TermTenant gives the tenant of a name that [TermWithin] has made.
func TermTenant(name string) (of Scope) {
	_, within, _ := strings.Cut(name, withinSep)
	of.Namespace, of.Tenant, _ = strings.Cut(within, withinSep)
	return of
}

// withinSep stands in no name of a tenant, and ends what the store counts by, see
// [effects.CountName].
const withinSep = "\x1f"

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 })
}

// listed gives the terms of most machines: all, and the status or what stands for it
// within the tenant.
func listed(at Time, status string, of Scope) []effects.Term {
	return append(make([]effects.Term, 0, 5),
		effects.Term{Name: TermAll, At: at, Counted: true},
		effects.Term{Name: TermWithin(status, of), At: at, Counted: true},
	)
}

// withEnd adds the term of what may be forgotten.
func withEnd(terms []effects.Term, at Time, ended bool) []effects.Term {
	if ended {
		terms = append(terms, effects.Term{Name: TermEnded, At: at})
	}
	return terms
}

// withLabels adds the terms of labels.
func withLabels(terms []effects.Term, at Time, labels map[string]string, of Scope) []effects.Term {
	if len(labels) == 0 {
		return terms
	}
	n := 0
	for _, key := range sortedKeys(labels) {
		term, ok := LabelTerm(key, labels[key])
		if !ok {
			continue
		}
		if n++; n > MaxListedLabels {
			return append(terms, effects.Term{Name: TermWithin(TermMoreLabels, of), At: at})
		}
		terms = append(terms, effects.Term{Name: TermWithin(term, of), At: at})
	}
	return terms
}

// StatusTerms lists the statuses that machines of a kind may have, or what stands for
// them, as list terms: each machine stands under [TermWithin] of one of them. It is empty for kinds
// that have none.
func StatusTerms(kind effects.Kind) []string { return kinds[kind].statuses }

// Statuses lists the statuses that machines of a kind may have. It is empty for kinds that have none, or whose list terms
// stand for something else.
func Statuses(kind effects.Kind) (words []string) {
	for _, term := range StatusTerms(kind) {
		if word, ok := strings.CutPrefix(term, StatusTerm("")); ok {
			words = append(words, word)
		}
	}
	return words
}

// statusTerms gives the list terms of statuses.
func statusTerms[S ~string](statuses ...S) []string {
	out := make([]string, 0, len(statuses))
	for _, s := range statuses {
		out = append(out, StatusTerm(s))
	}
	return out
}

// ReindexedKinds lists the kinds whose records stood under other list terms before
// [IndexVersion]. All of them stood under [TermAll].
func ReindexedKinds() []effects.Kind {
	var out []effects.Kind
	for _, k := range kindTable {
		if len(k.statuses) > 0 || k.expire != nil {
			out = append(out, k.name)
		}
	}
	return out
}

// FormerTerms lists the list terms under which a machine may have stood before [IndexVersion],
// but for those under which it stands still. They are those of version 1: version 2 had those of now but
// for [RouteTerm], version 3 those but for [TermFailed], [WaitsTerm] and [SpanTerm].
func FormerTerms(s State) []effects.Term {
	if o, ok := s.(Occurrence); ok {
		if o.Schedule != "" {
			return nil // there were none
		}
		return []effects.Term{{Name: TermAll, At: o.DecidedAt, Counted: true}}
	}
	var out []effects.Term
	for _, t := range s.Terms() {
		if status, scope, ok := strings.Cut(t.Name, withinSep); ok && t.Counted && status != TermRecurs { // of which there were none
			out = append(out,
				effects.Term{Name: status, At: t.At, Counted: true},
				effects.Term{Name: "scope:" + scope, At: t.At},
			)
		}
	}
	return out
}
