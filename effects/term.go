package effects

// Term enters a record in a list index: all records of one kind with the same
// Name stand there ordered by At, then id. Names are at most 1024 bytes, such as
// "all", "ended", "status:pending\x1fns\x1ftenant".
type Term struct {
	Name string
	At   Time
	// Counted terms keep a running total that is read in O(1), under [Term.CountName].
	// Give it only to terms of few such names: each costs a write per batch.
	Counted bool
}

// CountName is the name under which a counted term is counted: Name up to the first
// byte 0x1f. So the terms of one status in all tenants share a total.
func (t Term) CountName() string { return CountName(t.Name) }

// CountName gives [Term.CountName] of a term with that name.
func CountName[T string | []byte](name T) T {
	for i := range len(name) {
		if name[i] == countEnd {
			return name[:i]
		}
	}
	return name
}

const countEnd = 0x1f
