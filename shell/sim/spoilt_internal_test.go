package sim

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// spoilt is a store of which every n-th use of something goes wrong.
type spoilt struct {
	store.Store
	*spoiling
}

// spoiling is what goes wrong; nil: that does not.
type spoiling struct {
	n      int
	update func(st store.Store, ctx context.Context, fn func(store.Tx) error) error
	tx     func(store.Tx) store.Tx
}

// every reports whether this is one of each n times.
func (s *spoiling) every(n int) bool {
	s.n++
	return s.n%n == 0
}

func (s spoilt) Update(ctx context.Context, fn func(store.Tx) error) error {
	if s.update != nil {
		return s.update(s.Store, ctx, fn)
	}
	return s.Store.Update(ctx, func(tx store.Tx) error { return fn(s.tx(tx)) })
}

// spoil gives a defect of the store.
func spoil(make func(*spoiling)) func() defects {
	return func() defects {
		s := &spoiling{}
		make(s)
		return defects{store: func(st store.Store) store.Store { return spoilt{st, s} }}
	}
}

// spoiltTx is a transaction in which some methods do something else.
type spoiltTx struct {
	store.Tx
	put         func(store.Tx, uint64, []store.Write) error
	journal     func(store.Tx, uint64, effects.Time, []byte) error
	putOutbox   func(store.Tx, store.OutboxEntry) error
	delOutbox   func(store.Tx, store.EffectKey) error
	putAnswer   func(store.Tx, store.AnswerKey, store.Answer) error
	due         func(store.Tx, []store.DueEntry, *store.DueKey, effects.Time, int) ([]store.DueEntry, error)
	lanes       func(store.Tx) ([]string, error)
	outbox      func(store.Tx, func(store.OutboxEntry) error) error
	get         func(store.Tx, effects.Kind, uuid.UUID) (store.Record, error)
	outboxEntry func(store.Tx, store.EffectKey) (store.OutboxEntry, error)
	waiting     func(store.Tx, string, int) ([]store.OutboxEntry, error)
	answer      func(store.Tx, store.AnswerKey) (store.Answer, error)
	acquire     func(tx store.Tx, name, holder string, ttl time.Duration, now effects.Time) (store.Claim, error)
}

func (t spoiltTx) Put(seq uint64, w []store.Write) error {
	if t.put != nil {
		return t.put(t.Tx, seq, w)
	}
	return t.Tx.Put(seq, w)
}

func (t spoiltTx) AppendJournal(seq uint64, at effects.Time, entry []byte) error {
	if t.journal != nil {
		return t.journal(t.Tx, seq, at, entry)
	}
	return t.Tx.AppendJournal(seq, at, entry)
}

func (t spoiltTx) PutOutbox(e store.OutboxEntry) error {
	if t.putOutbox != nil {
		return t.putOutbox(t.Tx, e)
	}
	return t.Tx.PutOutbox(e)
}

func (t spoiltTx) DeleteOutbox(k store.EffectKey) error {
	if t.delOutbox != nil {
		return t.delOutbox(t.Tx, k)
	}
	return t.Tx.DeleteOutbox(k)
}

func (t spoiltTx) PutAnswer(k store.AnswerKey, a store.Answer) error {
	if t.putAnswer != nil {
		return t.putAnswer(t.Tx, k, a)
	}
	return t.Tx.PutAnswer(k, a)
}

func (t spoiltTx) Due(dst []store.DueEntry, after *store.DueKey, now effects.Time, limit int) ([]store.DueEntry, error) {
	if t.due != nil {
		return t.due(t.Tx, dst, after, now, limit)
	}
	return t.Tx.Due(dst, after, now, limit)
}

func (t spoiltTx) WaitingLanes() ([]string, error) {
	if t.lanes != nil {
		return t.lanes(t.Tx)
	}
	return t.Tx.WaitingLanes()
}

func (t spoiltTx) Outbox(fn func(store.OutboxEntry) error) error {
	if t.outbox != nil {
		return t.outbox(t.Tx, fn)
	}
	return t.Tx.Outbox(fn)
}

func (t spoiltTx) Get(kind effects.Kind, id uuid.UUID) (store.Record, error) {
	if t.get != nil {
		return t.get(t.Tx, kind, id)
	}
	return t.Tx.Get(kind, id)
}

func (t spoiltTx) OutboxEntry(key store.EffectKey) (store.OutboxEntry, error) {
	if t.outboxEntry != nil {
		return t.outboxEntry(t.Tx, key)
	}
	return t.Tx.OutboxEntry(key)
}

func (t spoiltTx) Waiting(lane string, limit int) ([]store.OutboxEntry, error) {
	if t.waiting != nil {
		return t.waiting(t.Tx, lane, limit)
	}
	return t.Tx.Waiting(lane, limit)
}

func (t spoiltTx) Answer(key store.AnswerKey) (store.Answer, error) {
	if t.answer != nil {
		return t.answer(t.Tx, key)
	}
	return t.Tx.Answer(key)
}

func (t spoiltTx) Acquire(name, holder string, ttl time.Duration, now effects.Time) (store.Claim, error) {
	if t.acquire != nil {
		return t.acquire(t.Tx, name, holder, ttl, now)
	}
	return t.Tx.Acquire(name, holder, ttl, now)
}

// within gives a defect of transactions.
func within(make func(*spoiling) spoiltTx) func() defects {
	return spoil(func(s *spoiling) {
		broken := make(s)
		s.tx = func(tx store.Tx) store.Tx {
			t := broken
			t.Tx = tx
			return t
		}
	})
}

// written gives a defect of what is written of a kind, in every n-th write of it that it concerns.
func written(kind effects.Kind, n int, change func(store.Write) (store.Write, bool)) func() defects {
	return within(func(s *spoiling) spoiltTx {
		return spoiltTx{put: func(tx store.Tx, seq uint64, writes []store.Write) error {
			var out []store.Write
			for _, w := range writes {
				if w.Kind == kind && w.State != nil && s.every(n) {
					var keep bool
					if w, keep = change(w); !keep {
						continue
					}
				}
				out = append(out, w)
			}
			return tx.Put(seq, out)
		}}
	})
}

// replaced has a pattern in the state of every n-th write of a kind that has it say something else.
func replaced(kind effects.Kind, n int, pattern, with string) func() defects {
	re := regexp.MustCompile(pattern)
	return within(func(s *spoiling) spoiltTx {
		return spoiltTx{put: func(tx store.Tx, seq uint64, writes []store.Write) error {
			writes = slices.Clone(writes)
			for i, w := range writes {
				if w.Kind == kind && re.Match(w.State) && s.every(n) {
					writes[i].State = re.ReplaceAll(w.State, []byte(with))
				}
			}
			return tx.Put(seq, writes)
		}}
	})
}

var errSpoilt = errors.New("spoilt")
