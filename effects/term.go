package effects

// Term enters a record in a list index: all records of one kind with the same
// Name stand there ordered by At, then id. Names are opaque, at most 512 bytes,
// such as "all", "status:pending", "scope:ns\x1ftenant".
type Term struct {
	Name string
	At   Time
	// Counted terms keep a running total that is read in O(1). Give it only to
	// terms of few distinct names: each costs a write per batch.
	Counted bool
}
