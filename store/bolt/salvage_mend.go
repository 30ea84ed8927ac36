package bolt

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// mend makes a whole database of what was found.
func (s *salvager) mend() error {
	for _, name := range tables.FixedNames() {
		if _, err := s.out.bucket([]byte(name)); err != nil {
			return err
		}
	}
	for _, step := range []func() error{s.mendSystem, s.setAside, s.mendRecords, s.mendHistory, s.mendWaiting, s.mendAnswered, s.mendIndexes, s.mendCounts} {
		if err := errors.Join(step(), s.err); err != nil {
			return err
		}
	}
	return s.out.commit()
}

// bucket gives a table of the new file as the transaction under way has it; nil: it is not there.
func (s *salvager) bucketOf(name string) *bbolt.Bucket {
	if s.out.tx == nil {
		if _, err := s.out.bucket([]byte(tables.NameSystem)); err != nil {
			s.err = errors.Join(s.err, err)
			return nil
		}
	}
	return s.out.tx.Bucket([]byte(name))
}

// each visits a table in parts, between which the transaction may end.
func (s *salvager) each(name string, visit func(k, v []byte) error) error {
	for from := []byte(nil); ; {
		b := s.bucketOf(name)
		if b == nil {
			return s.err
		}
		type entry struct{ k, v []byte }
		var part []entry
		c := b.Cursor()
		k, v := c.Seek(from)
		for ; k != nil && len(part) < 1000; k, v = c.Next() {
			part = append(part, entry{bytes.Clone(k), bytes.Clone(v)})
		}
		for _, e := range part {
			if err := visit(e.k, e.v); err != nil {
				return err
			}
		}
		if k == nil || s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		from = append(part[len(part)-1].k, 0)
	}
}

// named gives the tables of the new file whose names begin so.
func (s *salvager) named(prefix string) (names []string) {
	if s.bucketOf("") != nil || s.out.tx == nil {
		return nil
	}
	c := s.out.tx.Cursor()
	for k, _ := c.Seek([]byte(prefix)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, _ = c.Next() {
		names = append(names, string(k))
	}
	return names
}

// mendSystem sees to the format, and to a token that is greater than any that was given.
func (s *salvager) mendSystem() error {
	system := s.bucketOf(tables.NameSystem)
	if err := putFormat(s.out.tx); err != nil {
		return err
	}
	if !s.isLost(tables.NameSystem, tables.TokenKey) && system.Get(tables.TokenKey) != nil {
		return nil
	}
	most := uint64(0)
	err := s.each(tables.NameClaims, func(k, v []byte) error {
		c, err := tables.ParseClaim(k, v)
		most = max(most, c.Token)
		return err
	})
	if err != nil || most == 0 {
		return err
	}
	return putSealed(s.bucketOf(tables.NameSystem), tables.TokenKey, tables.TokenValue{Token: most + 1<<20})
}

// setAside puts damaged records into the quarantine, but those that the backup or the log had.
func (s *salvager) setAside() error {
	for i := range s.aside {
		q := &s.aside[i]
		if s.has(tables.RecordsPrefix+string(q.Kind), q.ID[:]) {
			continue
		}
		key := tables.AppendQuarantineKey(nil, q)
		v, err := tables.SealJSON(key, tables.QuarantineValue(*q))
		if err != nil {
			return err
		}
		s.put(tables.NameQuarantine, key, v)
	}
	return s.err
}

// mendWaiting makes the index of the effects that wait.
func (s *salvager) mendWaiting() error {
	return s.each(tables.NameOutbox, func(k, v []byte) error {
		waiting, err := tables.WaitKeyOf(k, v)
		if waiting != nil {
			s.put(tables.NameWaiting, waiting, nil)
		}
		return errors.Join(err, s.err)
	})
}

// mendAnswered makes the times of the answers that are kept: without its time none would be forgotten.
func (s *salvager) mendAnswered() error {
	return s.each(tables.NameAnswers, func(k, v []byte) error {
		place, err := tables.AnsweredKeyOf(k, v)
		if err == nil {
			s.put(tables.NameAnswered, place, nil)
		}
		return errors.Join(err, s.err)
	})
}

// mendIndexes makes the due index and the lists anew, or takes out of them what leads nowhere.
func (s *salvager) mendIndexes() error {
	if s.o.Index == nil {
		return s.pruneIndexes()
	}
	for _, name := range s.named(tables.RecordsPrefix) {
		kind := effects.Kind(strings.TrimPrefix(name, tables.RecordsPrefix))
		err := s.each(name, func(k, v []byte) error {
			r, err := tables.RecordAt(kind, k, v, new(tables.Texts))
			if err != nil {
				return err
			}
			due, terms, err := s.o.Index(kind, r.ID, r.State)
			if err != nil { // whoever meets it sets it aside
				s.lose("%s: key %x: it cannot be decoded: %v", name, k, err)
				return nil
			}
			s.index(kind, r.ID, due, terms)
			return s.err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *salvager) index(kind effects.Kind, id uuid.UUID, due effects.Time, terms []store.Term) {
	if due != 0 {
		key := store.NewDueKey(due, id)
		s.err = errors.Join(s.err, s.change(tables.NameDue, len(key), func(b *bbolt.Bucket) error {
			entries := tables.DueEntries(string(b.Get(key[:])))
			if !slices.ContainsFunc(entries, func(e store.DueEntry) bool { return e.Kind == kind }) {
				entries = append(entries, store.DueEntry{Kind: kind})
			}
			return b.Put(key[:], tables.DueValue(entries))
		}))
	}
	for i := range terms {
		value := []byte{}
		if terms[i].Counted {
			value = []byte(tables.Counted)
		}
		s.put(tables.ListsPrefix+string(kind), tables.AppendListKey(nil, terms[i].Name, terms[i].At, id), value)
	}
}

// pruneIndexes takes out of the indexes what leads to no record.
func (s *salvager) pruneIndexes() error {
	due := tables.NameDue
	err := s.each(due, func(k, v []byte) error {
		entries := tables.DueEntries(string(v))
		there := slices.DeleteFunc(slices.Clone(entries), func(e store.DueEntry) bool { return !s.has(tables.RecordsPrefix+string(e.Kind), k[8:]) })
		switch {
		case len(there) == 0:
			return s.delete(due, k)
		case len(there) < len(entries):
			s.put(due, k, tables.DueValue(there))
		}
		return s.err
	})
	for _, name := range s.named(tables.ListsPrefix) {
		kind := strings.TrimPrefix(name, tables.ListsPrefix)
		err = errors.Join(err, s.each(name, func(k, v []byte) error {
			if _, sound := tables.TermOf(k); !sound || !s.has(tables.RecordsPrefix+kind, k[len(k)-tables.IDLen:]) {
				return s.delete(name, k)
			}
			return s.err
		}))
	}
	return err
}

// mendCounts counts the lists.
func (s *salvager) mendCounts() error {
	counts := map[string]uint64{}
	for _, name := range s.named(tables.ListsPrefix) {
		kind := effects.Kind(strings.TrimPrefix(name, tables.ListsPrefix))
		err := s.each(name, func(k, v []byte) error {
			if term, ok := tables.TermOf(k); ok && string(v) == tables.Counted {
				counts[string(tables.CountKey(kind, effects.CountName(term)))]++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		s.put(tables.NameCounts, []byte(k), strconv.AppendUint(nil, counts[k], 10))
	}
	return s.err
}
