package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// MetaAt gives what a small value of the store is to be in a copy of what the store had after an
// earlier batch, whose records stand in the lists of this version; nil: it is not to be there.
// decidedBy is the core of that batch; empty: it is not known.
func MetaAt(name string, value []byte, decidedBy string) []byte {
	switch name {
	case metaCore:
		if decidedBy == "" {
			return nil // the first start begins an epoch
		}
		return []byte(strconv.Quote(decidedBy))
	case metaPresence:
		return nil // the daemon of that batch is gone
	case reindexMeta:
		if raw, err := json.Marshal(indexes{Version: core.IndexVersion, Done: true}); err == nil {
			return raw
		}
		return nil // the lists are built once more
	}
	return value
}

// MetaOfPartition gives what a small value of the store is to be in a partition of that number that is made of the records of
// several partitions, or of a part of one; nil: it is not to be there. Of each of them it gets the value; nil: it has none. known is false for
// a name that is not the engine's. seen is when an engine that has not ended cleanly gave its last sign of life; zero: none has.
func MetaOfPartition(name string, of [][]byte, partition int, seen effects.Time) (value []byte, known bool) {
	switch name {
	case metaPartition:
		if partition == 0 {
			return nil, true
		}
		return []byte(strconv.Itoa(partition)), true
	case metaCore, reindexMeta: // as far as they agree: else the first start begins an epoch, or builds the lists once more
		value = CommonMeta(of)
		var x indexes
		if name == reindexMeta && (json.Unmarshal(value, &x) != nil || !x.Done) {
			return nil, true // it says how far that partition is
		}
		return value, true
	case metaPresence:
		return mergedPresence(of, seen), true
	case scrubMeta:
		return nil, true // the walk begins anew
	}
	return nil, false
}

// CommonMeta gives the small value that all partitions have; nil: they differ, or have none.
func CommonMeta(of [][]byte) []byte {
	for _, v := range of {
		if !bytes.Equal(v, of[0]) {
			return nil
		}
	}
	return of[0]
}

// MetasOfPartition are the names of the small values that [MetaOfPartition] may give although no partition has one.
func MetasOfPartition() []string { return []string{metaPartition, metaPresence} }

// mergedPresence gives the absences of several partitions as those of one. It ended when the first of them did: what was due
// afterwards is decided already where an engine was there.
func mergedPresence(of [][]byte, seen effects.Time) []byte {
	all := presence{Stopped: seen}
	for n, raw := range of {
		var p presence
		if raw == nil || json.Unmarshal(raw, &p) != nil {
			continue
		}
		if all.Stopped == 0 || p.Stopped != 0 && p.Stopped < all.Stopped {
			all.Stopped = p.Stopped
		}
		all.Absences = append(all.Absences, p.Absences...)
		if n == 0 {
			all.Off, all.Paused = p.Off, p.Paused
		}
	}
	slices.SortStableFunc(all.Absences, func(a, b core.Absence) int { return cmp.Compare(a.From, b.From) })
	all.Absences = slices.Compact(all.Absences)
	if n := len(all.Absences); n > maxAbsences {
		all.Absences = all.Absences[n-maxAbsences:]
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return raw
}
