package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// inputs gives a defect of the inputs in every n-th entry of the journal that has at least so many.
func inputs(n, least int, change func([]any) []any) func() defects {
	return within(func(s *spoiling) spoiltTx {
		return spoiltTx{journal: func(tx store.Tx, seq uint64, at effects.Time, entry []byte) error {
			var m map[string]any
			if err := json.Unmarshal(entry, &m); err != nil {
				return err
			}
			if list, ok := m["inputs"].([]any); ok && len(list) >= least && s.every(n) {
				m["inputs"] = change(list)
				entry, _ = json.Marshal(m)
			}
			return tx.AppendJournal(seq, at, entry)
		}}
	})
}

// put gives a defect of every n-th entry of the outbox that is stored and concerns it.
func put(n int, concerns func(store.OutboxEntry) bool, change func(*store.OutboxEntry)) func() defects {
	return within(func(s *spoiling) spoiltTx {
		return spoiltTx{putOutbox: func(tx store.Tx, e store.OutboxEntry) error {
			if concerns(e) && s.every(n) {
				change(&e)
			}
			return tx.PutOutbox(e)
		}}
	})
}

func handedOut(e store.OutboxEntry) bool { return !e.Waiting() }

// brokenToo are defects of claims, of the outbox, of kept answers, and of what is read.
var brokenToo = map[string]defect{
	"a claim that is taken over keeps its token": {shared: true, make: within(func(*spoiling) spoiltTx {
		return spoiltTx{acquire: func(tx store.Tx, name, holder string, ttl time.Duration, now effects.Time) (store.Claim, error) {
			c, err := tx.Acquire(name, holder, ttl, now)
			c.Token = min(c.Token, 1)
			return c, err
		}}
	})},
	"an answer is found now and then": {make: within(func(s *spoiling) spoiltTx {
		return spoiltTx{answer: func(tx store.Tx, key store.AnswerKey) (store.Answer, error) {
			a, err := tx.Answer(key)
			if err == nil && s.every(2) {
				return store.Answer{}, fmt.Errorf("spoilt: %w", store.ErrNotFound)
			}
			return a, err
		}}
	})},
	"an answer is that of another key": {make: within(func(s *spoiling) spoiltTx {
		var last *store.Answer
		return spoiltTx{putAnswer: func(tx store.Tx, key store.AnswerKey, a store.Answer) error {
			last = &store.Answer{At: a.At, Body: slices.Clone(a.Body)}
			return tx.PutAnswer(key, a)
		}, answer: func(tx store.Tx, key store.AnswerKey) (store.Answer, error) {
			if last != nil && s.every(3) {
				return *last, nil
			}
			return tx.Answer(key)
		}}
	})},
	"answers are too old at once": {make: within(func(*spoiling) spoiltTx {
		return spoiltTx{putAnswer: func(tx store.Tx, key store.AnswerKey, a store.Answer) error {
			a.At = a.At.Add(-time.Hour)
			return tx.PutAnswer(key, a)
		}}
	})},
	"what waits for a slot is not found": {make: within(func(*spoiling) spoiltTx {
		return spoiltTx{waiting: func(store.Tx, string, int) ([]store.OutboxEntry, error) { return nil, nil }}
	})},
	"what waits for a slot is found twice": {make: within(func(*spoiling) spoiltTx {
		return spoiltTx{waiting: func(tx store.Tx, lane string, limit int) ([]store.OutboxEntry, error) {
			all, err := tx.Waiting(lane, limit)
			return slices.Concat(all, all), err
		}}
	})},
	"an outbox entry has another's number":  {make: put(5, func(store.OutboxEntry) bool { return true }, func(e *store.OutboxEntry) { e.Key.N++ })},
	"an outbox entry has another's machine": {make: put(5, func(store.OutboxEntry) bool { return true }, func(e *store.OutboxEntry) { e.Key.ID = uuid.UUID{1} })},
	"an outbox entry has another's kind":    {make: put(5, handedOut, func(e *store.OutboxEntry) { e.Kind = core.KindPipeline })},
	"what former owners have in hand is not found": {hands: true, make: within(func(*spoiling) spoiltTx {
		return spoiltTx{outboxEntry: func(store.Tx, store.EffectKey) (store.OutboxEntry, error) {
			return store.OutboxEntry{}, fmt.Errorf("spoilt: %w", store.ErrNotFound)
		}}
	})},
	"a transaction that is given up is committed": {make: spoil(func(s *spoiling) {
		s.update = func(st store.Store, ctx context.Context, fn func(store.Tx) error) error {
			var given error
			err := st.Update(ctx, func(tx store.Tx) error {
				given = fn(tx)
				return nil
			})
			return errors.Join(given, err)
		}
	})},
	"the journal has an input twice": {make: inputs(4, 1, func(list []any) []any { return append(list, list[0]) })},
	"the journal has inputs in another order": {make: inputs(1, 2, func(list []any) []any {
		slices.Reverse(list)
		return list
	})},
	"the journal lacks the last input":         {make: inputs(6, 2, func(list []any) []any { return list[:len(list)-1] })},
	"the holder of a lock is forgotten":        {make: replaced(core.KindLock, 2, `"holder":"h\d"`, `"holder":""`)},
	"the lease of a lock never lapses":         {make: replaced(core.KindLock, 2, `"until":"2026`, `"until":"2999`)},
	"an item has another priority":             {make: replaced(core.KindQueueItem, 3, `"priority":[12]`, `"priority":0`)},
	"an item has other data":                   {make: replaced(core.KindQueueItem, 2, `"data":\d+`, `"data":0`)},
	"an attempt of an item is not counted":     {make: replaced(core.KindQueueItem, 2, `"attempts":1`, `"attempts":0`)},
	"a run of an action has another number":    {make: replaced(core.KindAction, 4, `"run":\d+`, `"run":9`)},
	"a pause of a recurring action is lost":    {make: replaced(core.KindRecurring, 1, `"enabled":false`, `"enabled":true`)},
	"a recurring action is not written":        {make: written(core.KindRecurring, 2, func(w store.Write) (store.Write, bool) { return w, false })},
	"a queue is not written":                   {make: written(core.KindQueue, 3, func(w store.Write) (store.Write, bool) { return w, false })},
	"a recurring action is due never":          {make: written(core.KindRecurring, 2, func(w store.Write) (store.Write, bool) { w.Due = 0; return w, true })},
	"a version is not looked at, and is wrong": {make: written(core.KindAction, 6, func(w store.Write) (store.Write, bool) { w.Prev.Version++; return w, true })},
}
