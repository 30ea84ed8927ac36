package shell

import (
	"cmp"
	"context"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

// pageChunk is how many machines are read in one transaction: what a filter or a caller
// does with them keeps no snapshot of the store open.
const pageChunk = 64

// page reads a page of an index: the machines to be kept. A nil keep keeps all.
func page[S core.State](ctx context.Context, st store.Store, of index, p Page, keep func(S) bool) (list []S, next string, err error) {
	limit := p.Limit
	if limit <= 0 {
		limit = DefaultPage
	}
	limit = min(limit, MaxPage)
	most := maxPageBytes
	if p.MaxBytes > 0 {
		most = min(most, p.MaxBytes)
	}
	from, err := of.parseToken(p.Token)
	if err != nil {
		return nil, "", err
	}
	list = make([]S, 0, min(limit, DefaultPage))
	for examined, size := 0, 0; len(list) < limit && examined < maxExamined && size < most; {
		c, err := readChunk[S](ctx, st, of, from, min(limit-len(list), pageChunk), most-size)
		if err != nil {
			return nil, "", err
		}
		for _, s := range c.states {
			if (p.Visible == nil || p.Visible(s)) && (keep == nil || keep(s)) {
				list = append(list, s)
			}
		}
		if from = c.last; c.ended {
			return list, "", nil
		}
		examined += c.examined
		size += c.size
	}
	return list, of.token(from), nil
}

// chunk is what one transaction has read of an index.
type chunk[S core.State] struct {
	states   []S
	last     store.Cursor // where to go on
	ended    bool         // nothing follows
	examined int
	size     int
}

// readChunk reads up to limit machines that stand behind from, fewer once their states
// take most bytes.
func readChunk[S core.State](ctx context.Context, st store.Store, of index, from store.Cursor, limit, most int) (out chunk[S], err error) {
	err = st.View(ctx, func(tx store.ReadTx) error {
		out = chunk[S]{last: from}
		m := merge{tx: tx, of: of, from: from, ahead: max(limit/len(of.terms), 4)}
		for out.examined < limit && out.size < most {
			c, ok, err := m.next()
			if err != nil {
				return err
			}
			if !ok {
				out.ended = true
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
				out.states = append(out.states, *s)
			}
		}
		return nil
	})
	return out, err
}

// merge reads several indexes as one that has their order.
type merge struct {
	tx    store.ReadTx
	of    index
	from  store.Cursor
	ahead int // how many of one index are read at a time
	heads []head
}

// head is how far one of the indexes was read.
type head struct {
	found []store.Cursor // that are read and not given yet
	last  store.Cursor
	more  bool // there may be more behind last
}

// next gives the next cursor; ok is false if there is none.
func (m *merge) next() (c store.Cursor, ok bool, err error) {
	if m.heads == nil {
		m.heads = make([]head, len(m.of.terms))
		for i := range m.heads {
			m.heads[i] = head{last: m.from, more: true}
		}
	}
	best := -1
	for i := range m.heads {
		if err := m.fill(i); err != nil {
			return c, false, err
		}
		if found := m.heads[i].found; len(found) > 0 && (best < 0 || m.before(found[0], c)) {
			best, c = i, found[0]
		}
	}
	if best < 0 {
		return c, false, nil
	}
	m.heads[best].found = m.heads[best].found[1:]
	return c, true, nil
}

// fill reads on in an index of which nothing is left.
func (m *merge) fill(i int) error {
	h := &m.heads[i]
	if len(h.found) > 0 || !h.more {
		return nil
	}
	found, err := m.tx.Scan(m.of.kind, m.of.terms[i], h.last, m.of.newest, m.ahead)
	if err != nil {
		return err
	}
	h.found, h.more = found, len(found) == m.ahead
	if len(found) > 0 {
		h.last = found[len(found)-1]
	}
	return nil
}

// before reports whether a stands before b.
func (m *merge) before(a, b store.Cursor) bool {
	order := cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(string(a.ID[:]), string(b.ID[:])))
	if m.of.newest {
		return order > 0
	}
	return order < 0
}
