// Package memory is a [store.Store] that keeps everything in memory: for tests,
// simulations and trials. Nothing survives the process, unless [Store.Backup]
// wrote it and [Restore] reads it.
//
// It is stricter than a durable store: a write whose Prev does not say truly what
// the record was is refused, so that tests find a wrong Prev at once.
//
// memory.go has the store and its data, tree.go the ordered maps of which snapshots are
// free, read.go and write.go the transactions, backup.go whole stores, and cluster.go partitions
// that several processes share.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

var _ store.Store = (*Store)(nil)

// Store is a store in memory. Its methods are safe for concurrent use; a View
// never waits for an Update, nor an Update for a View.
type Store struct {
	session string
	writer  chan struct{} // holds one value while an Update runs

	mu      sync.Mutex
	closed  bool
	open    sync.WaitGroup // transactions under way
	data    *data          // the last commit; never changed, only replaced
	failure error          // what the next commit fails with
	fence   fence          // nil: the store is in no cluster
}

// fence stands before what an owner of a partition does.
type fence interface {
	// wait returns once the process is not frozen; nobody holds a lock meanwhile.
	wait()
	// pass fails unless the partition is still the owner's and the database answers; then a commit, if it is one, is made.
	pass(next *data) error
}

// New makes an empty store with a random session.
func New() *Store { return NewSession(rand.Text()) }

// NewSession makes an empty store with that session, for runs that must be the
// same byte for byte.
func NewSession(session string) *Store { return newStore(session, newData()) }

func newStore(session string, d *data) *Store {
	return &Store{session: session, writer: make(chan struct{}, 1), data: d}
}

// Reopen closes the store and gives one with the same data and another session,
// as after a restart of the process.
func (s *Store) Reopen(session string) *Store {
	_ = s.Close() // it never fails
	return newStore(session, s.data)
}

// Copy gives another store with what was committed until now, and with that session. Neither sees what the other one commits from
// then on. It costs next to nothing.
func (s *Store) Copy(session string) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return newStore(session, s.data)
}

// FailNextCommit makes the next Update whose function succeeds fail with err
// instead of committing, as on a full disk. A nil err takes that back.
func (s *Store) FailNextCommit(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// Session implements [store.Store].
func (s *Store) Session() string { return s.session }

// begin gives the last commit, unless ctx has ended, and counts a transaction that
// Close waits for.
func (s *Store) begin(ctx context.Context, op string) (*data, error) {
	s.wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%s: %w", op, store.ErrClosed)
	}
	if s.fence != nil {
		if err := s.fence.pass(nil); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	s.open.Add(1)
	return s.data, nil
}

// View implements [store.Store].
func (s *Store) View(ctx context.Context, fn func(store.ReadTx) error) error {
	d, err := s.begin(ctx, "view")
	if err != nil {
		return err
	}
	defer s.open.Done()
	tx := &readTx{ctx: ctx, data: d}
	defer tx.end()
	return fn(tx)
}

// Update implements [store.Store].
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	select {
	case s.writer <- struct{}{}:
		defer func() { <-s.writer }()
	case <-ctx.Done():
		return fmt.Errorf("update: %w", context.Cause(ctx))
	}
	d, err := s.begin(ctx, "update")
	if err != nil {
		return err
	}
	defer s.open.Done()
	mine := *d // trees and slices in it are never changed, only replaced, but for what is made here
	mine.own()
	t := &tx{readTx: readTx{ctx: ctx, data: &mine}, session: s.session}
	defer t.end()
	if err := fn(t); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("commit: %w", context.Cause(ctx))
	}
	if err := t.unappended(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failure; err != nil {
		s.failure = nil
		return fmt.Errorf("commit: %w", err)
	}
	mine.commits++
	mine.disown()
	if s.fence != nil {
		if err := s.fence.pass(&mine); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	s.data = &mine
	return nil
}

func (s *Store) wait() {
	if s.fence != nil {
		s.fence.wait()
	}
}

// Close implements [store.Store]. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.open.Wait()
	return nil
}

var errEnded = errors.New("the transaction has ended")

// data is all that is stored. A committed value is never changed.
type data struct {
	commits    uint64
	records    tree[recordKey, indexedRecord]
	due        tree[dueKey, uint32] // with the share
	lists      tree[listKey, struct{}]
	counts     tree[countKey, uint64]
	seq        uint64
	journal    tree[uint64, []byte]
	changes    tree[uint64, changes]
	epochs     []store.Epoch
	base       tree[baseKey, store.Record]
	outbox     tree[store.EffectKey, store.OutboxEntry]
	waiting    tree[waitKey, struct{}]
	webhooks   tree[uuid.UUID, store.Webhook]
	claims     tree[string, store.Claim]
	token      uint64 // the last one that was given
	quarantine tree[quarantineKey, store.Quarantined]
	meta       tree[string, []byte]
	logs       tree[store.EffectKey, []byte] // of a run's attempt
	answers    tree[store.AnswerKey, store.Answer]
	answered   tree[answeredKey, struct{}] // by time
}

// answeredKey is a place in the order of the answers.
type answeredKey struct {
	at  effects.Time
	key store.AnswerKey
}

func compareAnswered(a, b answeredKey) int {
	return cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(a.key[:], b.key[:]))
}

// changes is what a batch has changed.
type changes struct {
	digest uint64
	list   []store.Changed
}

// indexedRecord is a record with what the indexes have of it.
type indexedRecord struct {
	store.Record
	Due   effects.Time
	Share uint32 // of its entry in the due index
	Terms []store.Term
}

type (
	recordKey struct {
		kind effects.Kind
		id   uuid.UUID
	}
	dueKey struct {
		store.DueKey
		kind effects.Kind // of several records with the same id that are due at the same time
	}
	countKey struct {
		kind effects.Kind
		term string
	}
	listKey struct {
		kind effects.Kind
		term string
		at   effects.Time
		id   uuid.UUID
	}
	baseKey struct {
		epoch uint64
		recordKey
	}
	waitKey struct {
		lane string
		seq  uint64
		key  store.EffectKey
	}
	quarantineKey struct {
		at effects.Time
		recordKey
		n uint32
	}
)

// own gives the trees of which an Update changes much an owner.
func (d *data) own() {
	d.records.own()
	d.due.own()
	d.lists.own()
	d.counts.own()
	d.outbox.own()
}

// disown ends that: nobody changes what is committed.
func (d *data) disown() {
	d.records.disown()
	d.due.disown()
	d.lists.disown()
	d.counts.disown()
	d.outbox.disown()
}

func newData() *data {
	return &data{
		records:    tree[recordKey, indexedRecord]{cmp: compareRecords},
		due:        tree[dueKey, uint32]{cmp: compareDue},
		lists:      tree[listKey, struct{}]{cmp: compareLists},
		counts:     tree[countKey, uint64]{cmp: compareCounts},
		journal:    tree[uint64, []byte]{cmp: cmp.Compare[uint64]},
		changes:    tree[uint64, changes]{cmp: cmp.Compare[uint64]},
		epochs:     []store.Epoch{{Number: 1, First: 1}},
		base:       tree[baseKey, store.Record]{cmp: compareBase},
		outbox:     tree[store.EffectKey, store.OutboxEntry]{cmp: compareEffects},
		waiting:    tree[waitKey, struct{}]{cmp: compareWaiting},
		webhooks:   tree[uuid.UUID, store.Webhook]{cmp: compareIDs},
		claims:     tree[string, store.Claim]{cmp: cmp.Compare[string]},
		quarantine: tree[quarantineKey, store.Quarantined]{cmp: compareQuarantine},
		meta:       tree[string, []byte]{cmp: cmp.Compare[string]},
		logs:       tree[store.EffectKey, []byte]{cmp: compareEffects},
		answers:    tree[store.AnswerKey, store.Answer]{cmp: func(a, b store.AnswerKey) int { return bytes.Compare(a[:], b[:]) }},
		answered:   tree[answeredKey, struct{}]{cmp: compareAnswered},
	}
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

func compareRecords(a, b recordKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), compareIDs(a.id, b.id))
}

func compareDue(a, b dueKey) int {
	return cmp.Or(bytes.Compare(a.DueKey[:], b.DueKey[:]), cmp.Compare(a.kind, b.kind))
}

func compareCounts(a, b countKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.term, b.term))
}

func compareLists(a, b listKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.term, b.term), cmp.Compare(a.at, b.at), compareIDs(a.id, b.id))
}

func compareBase(a, b baseKey) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), compareRecords(a.recordKey, b.recordKey))
}

func compareEffects(a, b store.EffectKey) int {
	return cmp.Or(compareIDs(a.ID, b.ID), cmp.Compare(a.N, b.N))
}

func compareWaiting(a, b waitKey) int {
	return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.seq, b.seq), compareEffects(a.key, b.key))
}

func compareQuarantine(a, b quarantineKey) int {
	return cmp.Or(cmp.Compare(a.at, b.at), compareRecords(a.recordKey, b.recordKey), cmp.Compare(a.n, b.n))
}
