package kv

import (
	"context"

	"github.com/orrery-go/orrery/store/internal/gaps"
)

// OnWrite has fn called after each transaction that was written to the file.
func (db *DB) OnWrite(fn func()) { db.file.wrote = fn }

// Alone ends the goroutine that makes checkpoints: the test makes them.
func (db *DB) Alone() {
	db.stop()
	<-db.stopped
	<-db.keeper
}

// Last gives the number of the last commit.
func (db *DB) Last() uint64 { return db.last }

// Tidy ships what was kept, and removes what is beyond the bounds.
func (db *DB) Tidy() error { return db.tidyKept(context.Background()) }

// Wrote reports whether it is a commit of its own.
func (s Staged) Wrote() bool { return s.wrote }

// LeastGap sets how many deleted keys make a gap, until the function that it gives is called.
func LeastGap(n int) (back func()) {
	old := gaps.Least
	gaps.Least = n
	return func() { gaps.Least = old }
}

// Gaps are the ranges of keys of which it is known that none is there.
func (t *Table) Gaps() (found []string) {
	for _, g := range t.gaps(false).All() {
		found = append(found, string(g.From)+"-"+string(g.To))
	}
	return found
}

// WarmGaps are those of cursors that pass over the past.
func (t *Table) WarmGaps() (n int) { return len(t.gaps(true).All()) }
