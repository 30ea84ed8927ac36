package bolt

import (
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// Mending are the records of a new file, for [SalvageOptions.Mend]. It is for one goroutine, until that returns.
type Mending struct {
	s *salvager
	// Anew says that the journal begins anew whatever is mended. Otherwise it does so because of what is
	// mended: a replay could not explain it.
	Anew bool
}

// Each visits the records of a kind, in the order of their ids. What fn returns ends it. fn may change any records.
func (m *Mending) Each(kind effects.Kind, fn func(id uuid.UUID, state []byte) error) error {
	return m.s.each(tables.RecordsPrefix+string(kind), func(k, v []byte) error {
		r, err := tables.RecordAt(kind, k, v, new(tables.Texts))
		if err != nil {
			return err
		}
		return fn(r.ID, r.State)
	})
}

// Load gives the state of a record; nil: there is none.
func (m *Mending) Load(kind effects.Kind, id uuid.UUID) (state []byte, err error) {
	r, err := m.record(kind, id)
	return r.State, err
}

// record gives a record; Version 0: there is none.
func (m *Mending) record(kind effects.Kind, id uuid.UUID) (r store.Record, err error) {
	b := m.s.bucketOf(tables.RecordsPrefix + string(kind))
	if b == nil {
		return r, m.s.err
	}
	raw := b.Get(id[:])
	if raw == nil {
		return r, nil
	}
	return tables.ParseRecord(kind, id, raw, new(tables.Texts))
}

// Replace gives a record another state, for that reason; nil: it is removed.
func (m *Mending) Replace(kind effects.Kind, id uuid.UUID, state []byte, why string) error {
	r, err := m.record(kind, id)
	if err != nil {
		return err
	}
	if r.Version == 0 {
		r.Version, r.Seq = 1, 1
	}
	table := tables.RecordsPrefix + string(kind)
	if m.s.mends++; len(m.s.mended) < MaxLost {
		m.s.mended = append(m.s.mended, fmt.Sprintf("%s/%s: %s", kind, id, why))
	}
	m.s.loseHistory(math.MaxUint64, "%s/%s was changed to fit to others", kind, id)
	if state == nil {
		return m.s.delete(table, id[:])
	}
	m.s.put(table, id[:], tables.AppendRecord(nil, kind, id, r.Version, r.Seq, state))
	return m.s.err
}

func (s *salvager) mendRecords() error {
	if s.o.Mend == nil {
		return nil
	}
	epochs, err := s.epochs()
	if err != nil {
		return err
	}
	return s.o.Mend(&Mending{s: s, Anew: s.wholeFrom(epochs) == len(epochs)})
}
