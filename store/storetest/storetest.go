// Package storetest is the conformance suite of [store.Store]: what the
// interface promises, as tests that every implementation passes.
//
// storetest.go has [Run]; records.go, journal.go, outbox.go, kept.go and
// transactions.go with staged.go have the cases; model.go compares a store with a plain one under
// random operations, model_lists.go its list indexes,
// copy.go its copies; handover.go has [RunHandover].
package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Run holds the stores that open makes to the interface. Each call of open must
// give an empty store of its own; the suite closes it. A store that shares its
// data with others gives a name space of its own instead.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, part := range []struct {
		name  string
		cases []testCase
	}{
		{"transactions", transactionCases},
		{"staged transactions", stagedCases},
		{"records", recordCases},
		{"due index", dueCases},
		{"lists", listCases},
		{"journal", journalCases},
		{"epochs", epochCases},
		{"outbox", outboxCases},
		{"claims", claimCases},
		{"what else is kept", keptCases},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, c := range part.cases {
				t.Run(c.name, func(t *testing.T) { c.run(newSuite(t, open)) })
			}
		})
	}
	runCopies(t, open)
	t.Run("any run of operations gives what the model gives", func(t *testing.T) { runModel(t, open) })
}

type testCase struct {
	name string
	run  func(s *suite)
}

// suite is one test on one store. It only begins transactions: each test shows
// its own assertions.
type suite struct {
	*testing.T
	store store.Store
	seq   uint64 // the last batch
}

func newSuite(t *testing.T, open func(t *testing.T) store.Store) *suite {
	s := &suite{T: t, store: open(t)}
	t.Cleanup(func() { require.NoError(t, s.store.Close()) })
	return s
}

// update runs fn in an Update that must succeed.
func (s *suite) update(fn func(tx store.Tx)) {
	s.Helper()
	require.NoError(s, s.store.Update(context.Background(), func(tx store.Tx) error {
		fn(tx)
		return nil
	}))
}

// view runs fn in a View that must succeed.
func (s *suite) view(fn func(tx store.ReadTx)) {
	s.Helper()
	require.NoError(s, s.store.View(context.Background(), func(tx store.ReadTx) error {
		fn(tx)
		return nil
	}))
}

// write commits writes as the next batch.
func (s *suite) write(writes ...store.Write) {
	s.Helper()
	s.update(func(tx store.Tx) { s.writeIn(tx, writes...) })
}

// writeIn puts writes as the next batch of a transaction.
func (s *suite) writeIn(tx store.Tx, writes ...store.Write) {
	s.Helper()
	require.NoError(s, tx.Put(s.seq+1, writes))
	require.NoError(s, tx.AppendJournal(s.seq+1, 1, []byte(`{}`)))
	s.seq++
}

// refused runs fn in an Update that must fail, and gives the error.
func (s *suite) refused(fn func(tx store.Tx) error) error {
	s.Helper()
	err := s.store.Update(context.Background(), fn)
	require.Error(s, err)
	return err
}

var errAbort = errors.New("the test gives up this transaction")

const kind = effects.Kind("action")

// id makes an id whose order is that of n.
func id(n int) uuid.UUID {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[8:], uint64(n)+1)
	return u
}

// created is a write of a new record.
func created(n int, due effects.Time, terms ...store.Term) store.Write {
	return store.Write{Kind: kind, ID: id(n), State: []byte(`{"n":1}`), Due: due, Terms: terms}
}

// ofKinds gives the write once for each kind.
func ofKinds(w store.Write, kinds ...effects.Kind) (writes []store.Write) {
	for _, w.Kind = range kinds {
		writes = append(writes, w)
	}
	return writes
}

// changed is a write of a record that the write old made in that batch.
func changed(old store.Write, batch uint64, due effects.Time, terms ...store.Term) store.Write {
	return store.Write{
		Kind: old.Kind, ID: old.ID, State: []byte(`{"n":2}`), Due: due, Terms: terms,
		Prev: store.Prev{Version: old.Prev.Version + 1, Seq: batch, Due: old.Due, Terms: old.Terms},
	}
}

// deleted deletes the record that the write old made in that batch.
func deleted(old store.Write, batch uint64) store.Write {
	w := changed(old, batch, 0)
	w.State = nil
	return w
}

func term(name string, at effects.Time) store.Term { return store.Term{Name: name, At: at} }

func counted(name string, at effects.Time) store.Term {
	return store.Term{Name: name, At: at, Counted: true}
}

// requireFirst checks that there is one record, in version 1, which is due by now and
// counted.
func (s *suite) requireFirst(tx store.ReadTx, now effects.Time, limit int) {
	s.Helper()
	assert.Equal(s, uint64(1), must(tx.Get(kind, id(1)))(s).Version)
	assert.Len(s, must(tx.Due(nil, nil, now, limit))(s), 1)
	assert.Equal(s, uint64(1), must(tx.Count(kind, "all"))(s))
}

// must gives the value of a call that must succeed: must(tx.Seq())(s). The test comes in a
// second call, since Go passes two results on only to a call without other arguments.
func must[T any](v T, err error) func(t require.TestingT) T {
	return func(t require.TestingT) T {
		require.NoError(t, err)
		return v
	}
}

// errOf gives the error of a call that is expected to fail.
func errOf[T any](_ T, err error) error { return err }
