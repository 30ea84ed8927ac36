package store

import (
	"context"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// Stager is a [Store] that lets its caller go on while the disk has not confirmed yet.
//
// What was staged is seen by each Update and Stage that begins later, and by no View until
// it is durable. They become durable in their order. So whoever stages must let nothing out
// that rests on it, no answer, no refusal and no act, before durable has returned nil; an
// Update keeps to that by itself: it returns once all that it has read is durable too, also
// where fn has failed.
type Stager interface {
	// Stage is Update but for the last step: it returns when what fn has written has its
	// place in the order of the commits, and then durable waits for the disk. With an error
	// nothing was written, as with Update ([ErrUnconfirmed]).
	//
	// durable is never nil, and must be called, once at least, from any goroutine; Close
	// waits for it. It returns once all that fn has written and read is durable and seen by
	// every View that begins later. Its error is [ErrUnconfirmed] where fn has written
	// anything: then what was staged later must count as unconfirmed as well, since it rests
	// on that. One wait may serve several, so it pays to stage before waiting; each holds
	// memory until then.
	Stage(ctx context.Context, fn func(Tx) error) (durable func() error, err error)
}

// Logged is a [Store] that commits to a log, which checkpoints bring into a file. Its method
// may be called at any time.
type Logged interface {
	Store
	// LogStats tells what the log holds beyond the file, and how checkpoints go.
	LogStats() LogStats
}

// LogStats are those of a [Logged]; they count from when the store was opened.
type LogStats struct {
	Frames      uint64        // commits that the file does not have yet
	Bytes       int64         // of these
	Memory      int64         // that they take in memory: large values stand in the log alone
	Fill        float64       // how full the log is, from 0 to about 1: then commits wait for a checkpoint
	Written     uint64        // bytes of all commits
	Checkpoints uint64        // that were made
	ViewsEnded  uint64        // Views that were ended with [ErrViewTooOld]
	Failed      uint64        // that failed; each is tried again
	Took        time.Duration // the last one that was made
	Total       time.Duration // all that were made
	Err         error         // of the last one; nil: it was made
	Kept        int64         // bytes of what is kept of the log behind the checkpoints
	Unshipped   int64         // of these, what waits to be shipped
	KeepErr     error         // of the last attempt to keep and to ship; nil: it went well
}

// Checker is a [Store] that can look for what is wrong in it.
type Checker interface {
	Store
	// Check reads all that a View sees, and gives what is wrong, at most [MaxFindings]: nothing if the store is sound. The error is about the
	// reading itself. It takes memory for the ids of all records.
	Check(ctx context.Context) ([]Finding, error)
}

// MaxFindings is how many findings [Checker].Check gives at most.
const MaxFindings = 1000

// Finding is one thing that is wrong in a store.
type Finding struct {
	Where string // the table, or another part of the store
	What  string
}

// String gives "where: what".
func (f Finding) String() string { return f.Where + ": " + f.What }

// Failing is a [Store] that can come to refuse everything for good, until it is opened anew. Its methods may be called at any time.
type Failing interface {
	Store
	// Failed is closed once it does.
	Failed() <-chan struct{}
	// Failure is why; nil: it does not. [ErrFenced]: another process has opened it.
	Failure() error
}

// Claimed is a [Store] that several processes can open, of which one at a time owns it: whoever has opened it last. Its
// method may be called at any time.
type Claimed interface {
	Failing
	// Token is the fencing token of this opening: each one that claims the store has a greater one.
	Token() uint64
}

// Placed is a [Store] that can tell, without a transaction, whether what it has open is
// still what stands in its place.
type Placed interface {
	// InPlace returns nil, or an error with [ErrMoved], [ErrCorrupt] or another reason
	// for which an Update would fail.
	InPlace() error
}

// Walker is a [ReadTx] that can go through the records a part at a time.
type Walker interface {
	// RecordPage calls fn for each of at most limit records that follow the given one
	// by kind, then id; the zero Ref comes before all. last is the last record that was
	// looked at; zero: there was none. What cannot be read is passed over, counts for the
	// limit, and is named by the error as in [ReadTx]; an error of fn ends the page. Where
	// records cannot even be listed the page goes on behind them, and the error names the
	// place with ErrCorrupt; last, behind which the next page begins, may then be the id of
	// no record.
	RecordPage(after effects.Ref, limit int, fn func(Record) error) (last effects.Ref, err error)
}

// Fetcher is a [Tx] that wants to be told beforehand what is going to be read: that of a store behind
// a network, where each read that is made alone is a round trip. What is read as usual afterwards then costs
// none. A store that has all at hand does not implement it, since looking twice costs more there
// than it saves.
type Fetcher interface {
	// Fetch has these records, entries of the outbox and answers ready, in one go; those that are not there or
	// cannot be read are no error, whoever reads them is told. It is no promise that they are read.
	Fetch(refs []effects.Ref, outbox []EffectKey, answers []AnswerKey) error
}
