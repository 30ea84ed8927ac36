package core

import "github.com/orrery-go/orrery/effects"

// ScanEntry reads only what this package writes.
func ScanEntry(b []byte) (Entry, bool) { return scanEntry(b) }

// DecodeEntryByJSON reads with encoding/json alone.
func DecodeEntryByJSON(b []byte) (Entry, error) { return decodeEntry(b) }

// ScanState is nil for what it does not know.
func ScanState(kind effects.Kind, b []byte) State {
	if read := kinds[kind].scanState; read != nil {
		return read(&scan{b: b})
	}
	return nil
}

// DecodeStateByJSON reads with encoding/json alone.
func DecodeStateByJSON(kind effects.Kind, b []byte) (State, error) { return kinds[kind].decode(b) }

// ScanTime reads a time in quotes as this package writes it.
func ScanTime(b []byte) (effects.Time, bool) {
	s := &scan{b: b}
	t := s.time()
	return t, s.done()
}
