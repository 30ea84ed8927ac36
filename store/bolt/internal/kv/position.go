package kv

import (
	"encoding/hex"
	"fmt"
)

// Position is a place between two commits in the chain of all that a file and its copies
// ever committed: over all logs, each frame names the number and the checksum of the one before it.
type Position struct {
	Log   string `json:"log"`   // the ID of the log that has the frame, hexadecimal; "": there was none
	Frame uint64 `json:"frame"` // the last commit; zero: none
	Sum   uint32 `json:"sum"`   // the checksum of its frame
}

// Position gives that of the last commit that a transaction sees that only reads.
func (tx *Tx) Position() Position { return Position{Log: tx.logID, Frame: tx.last, Sum: tx.sum} }

// State gives what a file has under [StateKey] that was closed there, and has no archive.
func (p Position) State() any { return state{ID: p.Log, Frame: p.Frame, Sum: p.Sum} }

// Moved gives what a closed file has under [StateKey] that had old there, and is to go on behind
// another place: its archive stays its own.
func (p Position) Moved(old []byte, unseal func(key, raw []byte, v any) error) (any, error) {
	var s state
	if err := unseal(stateKey, old, &s); err != nil {
		return nil, err
	}
	if id, err := hex.DecodeString(p.Log); err != nil || len(id) != 0 && len(id) != 16 {
		return nil, fmt.Errorf("the id of the log is %q, no 32 hexadecimal digits", p.Log)
	}
	s.ID, s.Frame, s.Sum = p.Log, p.Frame, p.Sum
	return s, nil
}
