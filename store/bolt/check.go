package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
	"github.com/orrery-go/orrery/store/internal/tables"
)

// MaxFindings is how many findings a Check gives at most.
const MaxFindings = store.MaxFindings

// Finding is one thing that is wrong in a file: in a bucket, or in "pages", which is bbolt's own structure.
type Finding = store.Finding

var _ store.Checker = (*Store)(nil)

// Check reads the whole database in one read transaction and gives what is
// wrong in it, at most [MaxFindings]: bbolt's pages; values whose checksum is
// wrong; due and list entries without a record; counts that are not what the
// lists hold; gaps in the journal; an outbox that disagrees with its waiting
// index. It reads the archive with the journal, too. An empty result says that the file is sound. The error is about the
// reading itself, which is ended as a [Store.View] is, with [store.ErrViewTooOld].
//
// It takes memory for the ids of all records, and it must not run beside an
// Update in a process that needs the memory. Updates wait while it looks at the
// pages, unless the file is open for reading only.
func (s *Store) Check(ctx context.Context) (_ []Finding, err error) {
	// bbolt's look at the pages reads the free list of the last writer: one that
	// writes meanwhile is a data race, one since the transaction began a false
	// finding.
	if err := s.lockWriter(ctx); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	release, err := s.db.Hold(ctx)
	if err != nil {
		s.unlockWriter()
		return nil, fmt.Errorf("check: %w", err)
	}
	letWrite := sync.OnceFunc(func() { release(); s.unlockWriter() })
	defer letWrite()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	ktx, err := s.begin(ctx, "check", false)
	if err != nil {
		return nil, err
	}
	defer guardEnded("check", &err)
	defer s.open.Done()
	defer ktx.Rollback()
	var found []Finding
	t := tables.NewReadTx(ctx, backing{ktx})
	defer t.End()
	full := func() bool { return len(found) >= MaxFindings }
	report := func(where, what string) {
		if !full() {
			found = append(found, Finding{Where: where, What: what})
		}
	}
	checkPages(ktx, func(what string) { report("pages", what) })
	letWrite()
	switch err := t.Check(report, full); {
	case errors.Is(err, store.ErrViewTooOld): // some of what was found may be that
		return nil, fmt.Errorf("check: %w", err)
	case err != nil:
		return found, fmt.Errorf("check: %w", err)
	}
	return found, nil
}

// checkPages is our own look at the pages, and bbolt's, which says more but panics on
// some damage in a goroutine of its own: it runs only on what passed ours.
func checkPages(tx *kv.Tx, report func(what string)) {
	sound := true
	err := walkPages(tx.Base(), true, false, func(what string) {
		sound = false
		report(what)
	})
	if err != nil {
		sound = false
		report(err.Error())
	}
	if !sound || tx.Base().DB().IsReadOnly() { // bbolt's needs the free list, which a reader has not
		return
	}
	for err := range tx.Base().Check() {
		report(err.Error())
	}
}

// Check opens the file at path read-only and checks it: see [Store.Check].
func Check(ctx context.Context, path string) (found []Finding, err error) {
	s, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Check(ctx)
}
