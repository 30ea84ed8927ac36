package kv

// Position is a place between two commits in the chain of all that a file and its copies
// ever committed: over all logs, each frame names the number and the checksum of the one before it.
type Position struct {
	Log   string // the ID of the log that has the frame, hexadecimal; "": there was none
	Frame uint64 // the last commit; zero: none
	Sum   uint32 // the checksum of its frame
}

// Position gives that of the last commit that a transaction sees that only reads.
func (tx *Tx) Position() Position { return Position{Log: tx.logID, Frame: tx.last, Sum: tx.sum} }

// State gives what a file has under [StateKey] that was closed there, and has no archive.
func (p Position) State() any { return state{ID: p.Log, Frame: p.Frame, Sum: p.Sum} }
