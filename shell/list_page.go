package shell

import (
	"context"
	"encoding/binary"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

// pageChunk is how many machines are read in one transaction: what a filter or a caller
// does with them keeps no snapshot of the store open.
const pageChunk = 64

// limit is how many machines a page has at most.
func (p Page) limit() int {
	if p.Limit <= 0 {
		return DefaultPage
	}
	return min(p.Limit, MaxPage)
}

// page reads a page of an index: the machines to be kept. A nil keep keeps all.
func page[S core.State](ctx context.Context, st store.Store, of index, p Page, keep func(S) bool) (list []S, next string, err error) {
	limit := p.limit()
	most := maxPageBytes
	if p.MaxBytes > 0 {
		most = min(most, p.MaxBytes)
	}
	from, err := of.parseToken(p.Token)
	if err != nil {
		return nil, "", err
	}
	list = make([]S, 0, min(limit, DefaultPage))
	for missed, steps, size := 0, 0, 0; len(list) < limit && missed < maxMissed && steps < maxSteps && size < most; {
		kept := len(list)
		c, err := readChunk[S](ctx, st, &of, from, bounds{records: min(limit-kept, pageChunk), bytes: most - size, steps: maxSteps - steps})
		if err != nil {
			return nil, "", err
		}
		for i, s := range c.states {
			if (p.Visible == nil || p.Visible(s)) && (keep == nil || keep(s)) {
				list = append(list, s)
				if p.Marks != nil {
					*p.Marks = append(*p.Marks, of.mark(c.at[i]))
				}
			}
		}
		if from = c.last; c.ended {
			return list, "", nil
		}
		missed += c.examined - (len(list) - kept)
		steps += c.steps
		size += c.size
	}
	return list, of.token(from), nil
}

// chunk is what one transaction has read of an index.
type chunk[S core.State] struct {
	states   []S
	at       []store.Cursor // of the states
	last     store.Cursor   // where to go on
	ended    bool           // nothing follows
	examined int
	steps    int // in lists of which not all was wanted
	size     int
}

// bounds are how much of an index one transaction may read.
type bounds struct{ records, bytes, steps int }

// readChunk reads the machines that stand behind from, up to the bounds.
func readChunk[S core.State](ctx context.Context, st store.Store, of *index, from store.Cursor, most bounds) (out chunk[S], err error) {
	err = st.View(ctx, func(tx store.ReadTx) error {
		out = chunk[S]{last: from}
		if of.groups == nil {
			if of.groups, err = of.find(tx); err != nil {
				return err
			}
		}
		m := newMeet(tx, of, most.records, most.steps)
		for out.examined < most.records && out.size < most.bytes {
			c, ok, err := m.next(out.last)
			if err != nil {
				return err
			}
			out.steps = m.steps
			if !ok || of.beyond(c) {
				out.last, out.ended = c, ok || !m.tired()
				return nil
			}
			s, n, err := decodeAs[S](tx, of.kind, c.ID)
			if err != nil {
				return err
			}
			out.last = c
			out.examined++
			out.size += n
			if s != nil {
				out.states, out.at = append(out.states, *s), append(out.at, c)
			}
		}
		return nil
	})
	return out, err
}

// mark gives where a cursor of the index stands.
func (x *index) mark(c store.Cursor) Mark {
	m := Mark{Token: x.token(c)}
	binary.BigEndian.PutUint64(m.Order[:8], uint64(c.At)^1<<63) // so that what is before 1970 is less
	copy(m.Order[8:], c.ID[:])
	if x.newest {
		for i := range m.Order {
			m.Order[i] = ^m.Order[i]
		}
	}
	return m
}
