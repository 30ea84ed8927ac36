package core

import (
	"strconv"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// An entry of the ledger stands in its lists at the first of its times, though it may stand for
// many: those of an outage of three days, say. So that what a day has is found without reading all
// that came before it, an entry of several times stands under [SpanTerm], too, by how long it
// spans: who looks for what reaches into a day looks back from it, in the list of each class, no
// further than entries of that class reach.

// spanBounds are the bounds of the classes; the last class has none.
var spanBounds = []time.Duration{time.Hour, 4 * time.Hour, 16 * time.Hour, 64 * time.Hour, 256 * time.Hour, 1024 * time.Hour, 4096 * time.Hour}

// SpanTerm is, within a tenant and for all, the list term of the entries of a class: see [SpanClasses].
func SpanTerm(class int) string { return "span:" + strconv.Itoa(class) }

// SpanClasses gives, for each class, how long its entries span at most; of the last one it is 0, which is no bound.
func SpanClasses() []time.Duration { return append(append([]time.Duration{}, spanBounds...), 0) }

// spanClass gives the class of an entry of several times; ok is false if it is of one.
func (o Occurrence) spanClass() (class int, ok bool) {
	if o.LastDueAt <= o.DueAt {
		return 0, false
	}
	for class < len(spanBounds) && o.LastDueAt.Sub(o.DueAt) > spanBounds[class] {
		class++
	}
	return class, true
}

// withSpan adds the terms of an entry of several times.
func (o Occurrence) withSpan(terms []effects.Term) []effects.Term {
	class, ok := o.spanClass()
	if !ok {
		return terms
	}
	name := SpanTerm(class)
	return append(terms, effects.Term{Name: name, At: o.DueAt}, effects.Term{Name: TermWithin(name, o.scope()), At: o.DueAt})
}
