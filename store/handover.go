package store

import "context"

// Former is a former owner of a partition: it has given the partition back while outer effects were being carried out, goes on with those,
// and tells whoever owns the partition then what comes of them.
type Former struct {
	Partition int
	Session   string      // of its opening ([Store.Session]): that of its claims within the partition
	Owner     string      // its name
	Beat      uint64      // grows with each [Handover.Report]
	Running   []EffectKey // what it carries out, as of its last report
}

// FormerResult is what came of an effect that a former owner has carried out.
type FormerResult struct {
	Session string // of the former owner
	Key     EffectKey
	Data    []byte // as the engine that carried it out writes it
}

// FormerStop has a former owner end what it carries out.
type FormerStop struct {
	Key  EffectKey
	Kill bool // without time to end by itself
}

// Handover is a [Cluster] through which a former owner of a partition and its owner reach each other. All stands in the database, beside the partition,
// and none of it in a commit. Its methods are safe for concurrent use.
//
// What an owner does is fenced, as its commits are: the partition is its own, by the session of its opening, at the moment when it takes place, or it changes nothing
// and fails with [ErrFenced]. An owner that was frozen, and was replaced meanwhile, would else undo what its successor has said.
type Handover interface {
	// Remain notes a former owner, which does so before it gives the partition back: whoever opens the partition then finds it. [ErrFenced]: the
	// session owns the partition no more. One that is noted already gives a sign of life so, and what it was to end is forgotten.
	Remain(ctx context.Context, f Former) error
	// Report gives a sign of life of a former owner, says what it carries out from now on, and stores what came of the rest, in one step. A result that is there
	// already is left as it is. It gives what is to be ended. [ErrFenced]: the former owner is noted no more, and nothing was stored.
	Report(ctx context.Context, f Former, results []FormerResult) ([]FormerStop, error)
	// Depart takes a former owner out. What it has reported stays. By is the session of who says so: that of the former owner itself, or of the partition's
	// owner, which takes it for gone. [ErrFenced]: by is neither.
	Depart(ctx context.Context, partition int, by, session string) error
	// Formers gives the former owners of a partition, by session, and what came of what they have carried out, at most so many of that. All that
	// one who has departed has reported is there, unless the most are given.
	Formers(ctx context.Context, partition, most int) ([]Former, []FormerResult, error)
	// Stop has the partition's owner, of the session by, say what a former owner is to end, instead of what was said before. Nothing happens if that is noted no
	// more. [ErrFenced]: by owns the partition no more.
	Stop(ctx context.Context, partition int, by, session string, stops []FormerStop) error
	// Taken has the partition's owner, of the session by, delete results, of which Data is not looked at. [ErrFenced]: by owns the partition no more.
	Taken(ctx context.Context, partition int, by string, results []FormerResult) error
}
