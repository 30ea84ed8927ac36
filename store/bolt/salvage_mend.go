package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// soundValue tells what is wrong with an entry, as far as the entry alone can tell.
func soundValue(table string, k, v []byte) (err error) {
	want := func(n int) error {
		if len(k) != n {
			return fmt.Errorf("%w: the key has %d bytes, not %d", store.ErrCorrupt, len(k), n)
		}
		return nil
	}
	if kind, ok := strings.CutPrefix(table, recordsPrefix); ok {
		_, err := recordAt(effects.Kind(kind), k, v, new(texts))
		return err
	}
	if strings.HasPrefix(table, basePrefix) {
		kind, id, ok := splitBaseKey(k)
		if !ok {
			return fmt.Errorf("%w: the key is no kind and id", store.ErrCorrupt)
		}
		_, err := parseRecord(effects.Kind(kind), id, v, new(texts))
		return err
	}
	switch table {
	case bucketNames[bucketJournal]:
		if err = want(8); err == nil {
			_, err = parseEntry(k, v, new(texts))
		}
	case bucketNames[bucketEpochs]:
		if err = want(8); err == nil {
			err = parseJSON(k, v, &epochValue{})
		}
	case bucketNames[bucketOutbox]:
		if err = want(effectLen); err == nil {
			_, err = parseOutbox(k, v)
		}
	case bucketNames[bucketWebhooks]:
		err = want(idLen) // its checksum is in the other table: who reads it looks
	case bucketNames[bucketWebhooksInfo]:
		if err = want(idLen); err == nil {
			_, _, err = parseWebhookInfo(k, v)
		}
	case bucketNames[bucketRunLogs]:
		if err = want(effectLen); err == nil {
			_, err = parseRunLog(k, v)
		}
	case bucketNames[bucketClaims]:
		_, err = parseClaim(k, v)
	case bucketNames[bucketQuarantine]:
		err = parseJSON(k, v, &quarantineValue{})
	case bucketNames[bucketMeta]:
		_, err = parseMeta(k, v)
	case bucketNames[bucketSystem]:
		_, err = unseal(v, sumOf(k))
	case bucketNames[bucketDue]:
		err = want(len(store.DueKey{}))
	}
	return err
}

// mend makes a whole database of what was found.
func (s *salvager) mend() error {
	for _, name := range bucketNames {
		if _, err := s.out.bucket([]byte(name)); err != nil {
			return err
		}
	}
	for _, step := range []func() error{s.mendSystem, s.setAside, s.mendRecords, s.mendHistory, s.mendWaiting, s.mendIndexes, s.mendCounts} {
		if err := errors.Join(step(), s.err); err != nil {
			return err
		}
	}
	return s.out.commit()
}

// bucket gives a table of the new file as the transaction under way has it; nil: it is not there.
func (s *salvager) bucketOf(name string) *bbolt.Bucket {
	if s.out.tx == nil {
		if _, err := s.out.bucket([]byte(bucketNames[bucketSystem])); err != nil {
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
	system := s.bucketOf(bucketNames[bucketSystem])
	if err := putFormat(s.out.tx); err != nil {
		return err
	}
	if !s.isLost(bucketNames[bucketSystem], tokenKey) && system.Get(tokenKey) != nil {
		return nil
	}
	most := uint64(0)
	err := s.each(bucketNames[bucketClaims], func(k, v []byte) error {
		c, err := parseClaim(k, v)
		most = max(most, c.Token)
		return err
	})
	if err != nil || most == 0 {
		return err
	}
	return putSealed(s.bucketOf(bucketNames[bucketSystem]), tokenKey, tokenValue{Token: most + 1<<20})
}

// setAside puts damaged records into the quarantine, but those that the backup or the log had.
func (s *salvager) setAside() error {
	for i := range s.aside {
		q := &s.aside[i]
		if s.has(recordsPrefix+string(q.Kind), q.ID[:]) {
			continue
		}
		key := appendQuarantineKey(nil, q)
		v, err := sealJSON(key, quarantineValue(*q))
		if err != nil {
			return err
		}
		s.put(bucketNames[bucketQuarantine], key, v)
	}
	return s.err
}

// mendWaiting makes the index of the effects that wait.
func (s *salvager) mendWaiting() error {
	return s.each(bucketNames[bucketOutbox], func(k, v []byte) error {
		o, err := parseOutbox(k, v)
		if err == nil && len(o.holder) == 0 {
			s.put(bucketNames[bucketWaiting], appendWaitKey(nil, string(o.lane), o.seq, k), nil)
		}
		return errors.Join(err, s.err)
	})
}

// mendIndexes makes the due index and the lists anew, or takes out of them what leads nowhere.
func (s *salvager) mendIndexes() error {
	if s.o.Index == nil {
		return s.pruneIndexes()
	}
	for _, name := range s.named(recordsPrefix) {
		kind := effects.Kind(strings.TrimPrefix(name, recordsPrefix))
		err := s.each(name, func(k, v []byte) error {
			r, err := recordAt(kind, k, v, new(texts))
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
		s.err = errors.Join(s.err, s.change(bucketNames[bucketDue], len(key), func(b *bbolt.Bucket) error {
			entries := dueEntries(string(b.Get(key[:])))
			if !slices.ContainsFunc(entries, func(e store.DueEntry) bool { return e.Kind == kind }) {
				entries = append(entries, store.DueEntry{Kind: kind})
			}
			return b.Put(key[:], dueValue(entries))
		}))
	}
	for i := range terms {
		value := []byte{}
		if terms[i].Counted {
			value = []byte(counted)
		}
		s.put(listsPrefix+string(kind), appendListKey(nil, terms[i].Name, terms[i].At, id), value)
	}
}

// pruneIndexes takes out of the indexes what leads to no record.
func (s *salvager) pruneIndexes() error {
	due := bucketNames[bucketDue]
	err := s.each(due, func(k, v []byte) error {
		entries := dueEntries(string(v))
		there := slices.DeleteFunc(slices.Clone(entries), func(e store.DueEntry) bool { return !s.has(recordsPrefix+string(e.Kind), k[8:]) })
		switch {
		case len(there) == 0:
			return s.delete(due, k)
		case len(there) < len(entries):
			s.put(due, k, dueValue(there))
		}
		return s.err
	})
	for _, name := range s.named(listsPrefix) {
		kind := strings.TrimPrefix(name, listsPrefix)
		err = errors.Join(err, s.each(name, func(k, v []byte) error {
			sound := len(k) >= lengthSize+listTail && int(binary.BigEndian.Uint16(k)) == len(k)-lengthSize-listTail
			if !sound || !s.has(recordsPrefix+kind, k[len(k)-idLen:]) {
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
	for _, name := range s.named(listsPrefix) {
		kind := effects.Kind(strings.TrimPrefix(name, listsPrefix))
		err := s.each(name, func(k, v []byte) error {
			if string(v) == counted {
				counts[string(countKeyBytes(kind, effects.CountName(k[lengthSize:len(k)-listTail])))]++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		s.put(bucketNames[bucketCounts], []byte(k), strconv.AppendUint(nil, counts[k], 10))
	}
	return s.err
}
