package shell

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// meet reads the groups of an index together: what stands in a list of each. It asks each
// group in turn for the first entry that is not before the one that the others have come to, so it
// reads about as much as the shortest of them has, and no records.
type meet struct {
	of     *index
	groups []*merge
	steps  int // how often a group was asked, if there are several
	most   int
}

func newMeet(tx store.ReadTx, of *index, records, steps int) *meet {
	m := &meet{of: of, most: steps}
	for _, terms := range of.groups {
		ahead := max(records/max(len(terms), 1), 4)
		if len(of.groups) > 1 {
			ahead = min(ahead, 16)
		}
		m.groups = append(m.groups, &merge{tx: tx, of: of, terms: terms, ahead: ahead})
	}
	return m
}

// tired reports whether it was asked as often as it may be.
func (m *meet) tired() bool { return len(m.groups) > 1 && m.steps >= m.most }

// next gives the first cursor behind after. ok is false if nothing follows, or once the
// meet is tired: then it goes on behind c.
func (m *meet) next(after store.Cursor) (c store.Cursor, ok bool, err error) {
	bound := after
	for i, agreed := 0, 0; agreed < len(m.groups); i = (i + 1) % len(m.groups) {
		if m.tired() {
			return bound, false, nil
		}
		m.steps++
		d, ok, err := m.groups[i].next(bound)
		if err != nil || !ok {
			return after, false, err
		}
		if agreed == 0 || d != c {
			c, bound, agreed = d, m.of.justBefore(d), 0
		}
		agreed++
	}
	return c, true, nil
}

// merge reads several lists as one that has their order.
type merge struct {
	tx    store.ReadTx
	of    *index
	terms []string
	ahead int // how many of one list are read at a time
	heads []head
}

// head is how far one of the lists was read.
type head struct {
	found []store.Cursor // that are read, and may be given
	last  store.Cursor
	more  bool // there may be more behind last
}

// next gives the first cursor behind after, which is never before that of the call before; ok
// is false if there is none.
func (m *merge) next(after store.Cursor) (c store.Cursor, ok bool, err error) {
	if m.heads == nil {
		m.heads = make([]head, len(m.terms))
		for i := range m.heads {
			m.heads[i] = head{last: after, more: true}
			if floor := m.of.floors[m.terms[i]]; !m.of.newest && after.At < floor {
				m.heads[i].last = store.Cursor{At: floor}
			}
		}
	}
	for i := range m.heads {
		if err := m.fill(i, after); err != nil {
			return c, false, err
		}
		if found := m.heads[i].found; len(found) > 0 && (!ok || m.of.before(found[0], c)) {
			c, ok = found[0], true
		}
	}
	return c, ok, nil
}

// fill drops what is not behind after, and reads on in a list of which nothing is left.
func (m *merge) fill(i int, after store.Cursor) error {
	h := &m.heads[i]
	for len(h.found) > 0 && after != (store.Cursor{}) && !m.of.before(after, h.found[0]) {
		h.found = h.found[1:]
	}
	if len(h.found) > 0 || !h.more {
		return nil
	}
	if after != (store.Cursor{}) && (h.last == (store.Cursor{}) || m.of.before(h.last, after)) {
		h.last = after
	}
	found, err := m.tx.Scan(m.of.kind, m.terms[i], h.last, m.of.newest, m.ahead)
	if err != nil {
		return err
	}
	h.found, h.more = found, len(found) == m.ahead
	if len(found) > 0 {
		h.last = found[len(found)-1]
	}
	if floor := m.of.floors[m.terms[i]]; m.of.newest && floor > 0 {
		if n := slices.IndexFunc(found, func(c store.Cursor) bool { return c.At < floor }); n >= 0 {
			h.found, h.more = found[:n], false
		}
	}
	return nil
}

// before reports whether a stands before b.
func (x *index) before(a, b store.Cursor) bool {
	order := cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(string(a.ID[:]), string(b.ID[:])))
	if x.newest {
		return order > 0
	}
	return order < 0
}

// justBefore gives the place that stands right before c: what follows it is c, or behind c.
// It is never the zero Cursor, which stands before all.
func (x *index) justBefore(c store.Cursor) store.Cursor {
	step := bits.Sub64
	if x.newest {
		step = bits.Add64
	}
	low, carry := step(binary.BigEndian.Uint64(c.ID[8:]), 1, 0)
	high, carry := step(binary.BigEndian.Uint64(c.ID[:8]), 0, carry)
	if carry > 0 {
		c.At = clampedStep(c.At, x.newest)
	}
	binary.BigEndian.PutUint64(c.ID[:8], high)
	binary.BigEndian.PutUint64(c.ID[8:], low)
	switch {
	case c != store.Cursor{}:
	case x.newest:
		c.ID[15] = 1
	default:
		c = store.Cursor{At: -1, ID: uuid.Max}
	}
	return c
}

// clampedStep gives the time after or before one.
func clampedStep(at effects.Time, later bool) effects.Time {
	switch {
	case later && at < math.MaxInt64:
		return at + 1
	case !later && at > math.MinInt64:
		return at - 1
	}
	return at
}
