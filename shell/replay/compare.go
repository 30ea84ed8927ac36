package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// comparison holds the end of the replay against the store. What records wait for it adds
// up, as hashes under a key that is drawn anew each time: where the due index and the outbox
// give the same sums, they hold the same. Only otherwise each entry is looked for.
type comparison struct {
	*fold
	tx      store.ReadTx
	seed    maphash.Seed
	text    []byte
	met     uint64 // machines of the replay that are stored
	waiting sum    // deadlines
	asked   sum    // outer effects
}

// sum is what a set of things adds up to.
type sum struct{ n, hashes uint64 }

func (s *sum) add(hash uint64) {
	s.n++
	s.hashes += hash
}

func (f *fold) compare(tx store.ReadTx) error {
	c := &comparison{fold: f, tx: tx, seed: maphash.MakeSeed()}
	f.report.Entities, f.states.ended = f.states.touched, true
	if err := eachRecord(f.ctx, tx, c.record); err != nil {
		return err
	}
	for _, part := range []func() error{c.missing, c.due, c.outbox} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) record(r store.Record) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	ref := effects.Ref{Kind: r.Kind, ID: r.ID}
	is, err := c.states.compare(ref, r.State)
	if err != nil {
		return err
	}
	state := r.State
	switch {
	case !is.known:
		c.report.Untouched++
		if r.Seq >= c.report.FirstBatch && c.report.FirstBatch > 0 {
			err = c.diverge(Divergence{Ref: ref, What: fmt.Sprintf("the record is of batch %d, but is not in the replay", r.Seq), Found: bytes.Clone(r.State)})
		}
	case is.same:
		c.met++
	default:
		err = c.diverge(Divergence{Ref: ref, What: "the stored state differs", Want: is.want, Found: bytes.Clone(r.State)})
		if state = is.want; state != nil {
			c.met++
		}
	}
	if err != nil || is.quiet || state == nil {
		return err
	}
	s, err := core.DecodeState(r.Kind, state)
	if err != nil {
		return c.diverge(Divergence{Ref: ref, What: err.Error()})
	}
	c.count(ref, s)
	return nil
}

// count adds up what a machine waits for.
func (c *comparison) count(ref effects.Ref, s core.State) {
	if at := s.Deadline(); !at.IsZero() {
		c.waiting.add(c.deadline(ref, at))
	}
	for _, e := range core.Outstanding(s) {
		c.text = c.text[:0]
		if e.Repeatable() { // else the entry is without it, but for those of earlier builds
			c.text = e.AppendJSON(c.text)
		}
		c.asked.add(c.effect(store.EffectKey{ID: ref.ID, N: e.Number()}, e.Lane(), c.text))
	}
}

func (c *comparison) deadline(ref effects.Ref, at effects.Time) uint64 {
	return maphash.Comparable(c.seed, struct {
		effects.Ref
		at effects.Time
	}{ref, at})
}

func (c *comparison) effect(key store.EffectKey, lane string, form []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	var n [8]byte
	binary.LittleEndian.PutUint32(n[:], key.N)
	binary.LittleEndian.PutUint32(n[4:], uint32(len(lane)))
	_, _ = h.Write(key.ID[:])
	_, _ = h.Write(n[:])
	_, _ = h.WriteString(lane)
	_, _ = h.Write(form)
	return h.Sum64()
}

// setAside gives the machines whose records were set aside.
func setAside(tx store.ReadTx) (map[effects.Ref]bool, error) {
	list, err := tx.Quarantine(1 << 20)
	aside := make(map[effects.Ref]bool, len(list))
	for _, q := range list {
		aside[effects.Ref{Kind: q.Kind, ID: q.ID}] = true
	}
	return aside, err
}

// missing names what the replay has and the store has not. What was set
// aside as undecodable is not missing: it was reported then.
func (c *comparison) missing() error {
	if c.met == c.states.alive {
		return nil
	}
	aside, err := setAside(c.tx)
	if err != nil {
		return err
	}
	var lost []Divergence // the first ones by their name
	first := func(a, b Divergence) int {
		return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), bytes.Compare(a.Ref.ID[:], b.Ref.ID[:]))
	}
	err = c.states.missed(func(ref effects.Ref, stored []byte) {
		if aside[ref] {
			return
		}
		lost = append(lost, Divergence{Ref: ref, What: "the record is missing", Want: bytes.Clone(stored)})
		if len(lost) > 2*c.limit {
			slices.SortFunc(lost, first)
			lost = lost[:c.limit]
		}
	})
	slices.SortFunc(lost, first)
	for _, d := range lost {
		if err := c.diverge(d); err != nil {
			return err
		}
	}
	return err
}

// replayed gives the state of a machine in the replay, or the stored one of one that the
// journal does not touch; nil where there is none.
func (c *comparison) replayed(ref effects.Ref) (core.State, error) {
	known, err := c.states.knows(ref)
	if err != nil {
		return nil, err
	}
	if known {
		s, _, err := c.states.get(ref)
		return s, errors.Join(err, c.states.trim())
	}
	rec, err := c.tx.Get(ref.Kind, ref.ID)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := core.DecodeState(ref.Kind, rec.State)
	if err != nil {
		return nil, nil // it was named
	}
	return s, nil
}

// due compares the due index.
func (c *comparison) due() error {
	var there sum
	err := c.eachDue(func(d store.DueEntry) error {
		there.add(c.deadline(effects.Ref{Kind: d.Kind, ID: d.Key.ID()}, d.Key.At()))
		return nil
	})
	if err != nil || there == c.waiting {
		return err
	}
	err = c.eachDue(func(d store.DueEntry) error {
		ref, at := effects.Ref{Kind: d.Kind, ID: d.Key.ID()}, effects.Time(0)
		s, err := c.replayed(ref)
		if err != nil {
			return err
		}
		if s != nil {
			at = s.Deadline()
		}
		if at == d.Key.At() {
			return nil
		}
		return c.diverge(Divergence{Ref: ref, What: fmt.Sprintf("it stands in the due index at %s, but waits for %s", d.Key.At(), at)})
	})
	if err != nil {
		return err
	}
	return c.eachReplayed(func(ref effects.Ref, s core.State) error {
		at := s.Deadline()
		if at.IsZero() {
			return nil
		}
		ok, err := c.isDue(ref, at)
		if err != nil || ok {
			return err
		}
		return c.diverge(Divergence{Ref: ref, What: fmt.Sprintf("it waits for %s, but does not stand in the due index", at)})
	})
}

// eachReplayed calls fn for the state in the replay of each machine that is stored.
func (c *comparison) eachReplayed(fn func(ref effects.Ref, s core.State) error) error {
	return c.tx.Records(func(r store.Record) error {
		ref := effects.Ref{Kind: r.Kind, ID: r.ID}
		s, err := c.replayed(ref)
		if err != nil || s == nil {
			return err
		}
		return fn(ref, s)
	})
}

func (c *comparison) eachDue(fn func(store.DueEntry) error) error {
	var after *store.DueKey
	const page = 10_000
	for {
		entries, err := c.tx.Due(nil, after, effects.MaxTime, page)
		if err != nil {
			return err
		}
		for _, d := range entries {
			if err := fn(d); err != nil {
				return err
			}
		}
		if len(entries) < page {
			return nil
		}
		after = &entries[len(entries)-1].Key
	}
}

// isDue reports whether a machine stands in the due index at that time.
func (c *comparison) isDue(ref effects.Ref, at effects.Time) (bool, error) {
	before := store.NewDueKey(at, ref.ID)
	for i := len(before) - 1; i >= 0; i-- { // the key before it
		if before[i]--; before[i] != 0xff {
			break
		}
	}
	entries, err := c.tx.Due(nil, &before, at, 1)
	return slices.ContainsFunc(entries, func(d store.DueEntry) bool { return d.Kind == ref.Kind && d.Key == store.NewDueKey(at, ref.ID) }), err
}

// outbox compares the outbox.
func (c *comparison) outbox() error {
	there, same := sum{}, true
	err := c.tx.Outbox(func(e store.OutboxEntry) error {
		form := e.Effect
		if same && len(form) > 0 && !isRepeatable(form) { // of an earlier build, or wrong
			d, err := c.outboxEntry(e)
			if same = d == nil; err != nil {
				return err
			}
			form = nil
		}
		lane, _ := store.SplitLane(e.Lane) // entries of earlier builds have no share
		there.add(c.effect(e.Key, lane, form))
		return nil
	})
	if err != nil || same && there == c.asked {
		return err
	}
	err = c.tx.Outbox(func(e store.OutboxEntry) error {
		d, err := c.outboxEntry(e)
		if d == nil || err != nil {
			return err
		}
		return c.diverge(*d)
	})
	if err != nil {
		return err
	}
	return c.eachReplayed(func(ref effects.Ref, s core.State) error {
		for _, e := range core.Outstanding(s) {
			_, err := c.tx.OutboxEntry(store.EffectKey{ID: ref.ID, N: e.Number()})
			if errors.Is(err, store.ErrNotFound) {
				err = c.diverge(Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d of %s is missing", e.Number(), ref.ID), Want: e.AppendJSON(nil)})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// isRepeatable reports whether an effect is one that stands in its entry.
func isRepeatable(form []byte) bool {
	e, err := effects.DecodeOuter(form)
	return err == nil && e.Repeatable()
}

// outboxEntry says what is wrong with an entry; nil: nothing.
func (c *comparison) outboxEntry(e store.OutboxEntry) (*Divergence, error) {
	ref := effects.Ref{Kind: e.Kind, ID: e.Key.ID}
	s, err := c.replayed(ref)
	if err != nil {
		return nil, err
	}
	var want effects.Outer
	if s != nil {
		want = core.OutstandingEffect(s, e.Key.N)
	}
	if want == nil {
		return &Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d is not outstanding in the replay", e.Key.N), Found: bytes.Clone(e.Effect)}, nil
	}
	form := want.AppendJSON(nil)
	lane, _ := store.SplitLane(e.Lane)
	switch {
	case (len(e.Effect) > 0 || want.Repeatable()) && !bytes.Equal(form, e.Effect):
		return &Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d differs", e.Key.N), Want: form, Found: bytes.Clone(e.Effect)}, nil
	case lane != want.Lane():
		return &Divergence{Ref: ref, What: fmt.Sprintf("outbox entry %d stands in the wrong lane", e.Key.N), Want: []byte(want.Lane()), Found: []byte(lane)}, nil
	}
	return nil, nil
}
