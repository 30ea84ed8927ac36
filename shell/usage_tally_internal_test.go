package shell

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

// A count that is made in parts gives what is there, whichever batches are stored and
// told of before, between and while the parts are read.
func TestACountInPartsIsExactWhateverChangesMeanwhile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			stored  = map[effects.Ref]int64{}
			seq     uint64
			untold  []usageChange
			tallied = newTally()
			part    *usagePart
		)
		commit := func(t *rapid.T) {
			seq++
			ref := effects.Ref{Kind: "a", ID: uuid.UUID{byte(rapid.IntRange(1, 9).Draw(t, "id"))}}
			size := rapid.Int64Range(0, 5).Draw(t, "size")
			if size == 0 && stored[ref] == 0 {
				return
			}
			untold = append(untold, usageChange{seq: seq, ref: ref, of: Usage{StoredBytes: size - stored[ref]}, sign: 1})
			if stored[ref] = size; size == 0 {
				delete(stored, ref)
			}
		}
		tell := func(*rapid.T) {
			if len(untold) > 0 {
				tallied.change(untold[0])
				tallied.observed(untold[0].seq)
				untold = untold[1:]
			}
		}
		begin := func(t *rapid.T) {
			if part != nil || tallied.done {
				return
			}
			part = &usagePart{t: tallied, of: map[Scope]Usage{}, base: seq}
			left := rapid.IntRange(1, 4).Draw(t, "records")
			for _, ref := range slices.SortedFunc(maps.Keys(stored), compareRefs) {
				if left > 0 && compareRefs(ref, tallied.at) > 0 {
					part.last, left = ref, left-1
					part.of[Scope{}] = Usage{StoredBytes: part.of[Scope{}].StoredBytes + stored[ref]}
				}
			}
		}
		end := func(*rapid.T) {
			if part != nil {
				tallied.merge(*part)
				part = nil
			}
		}
		t.Repeat(map[string]func(*rapid.T){"commit": commit, "tell": tell, "begin": begin, "end": end})
		for !tallied.done {
			begin(t)
			end(t)
		}
		for len(untold) > 0 {
			tell(t)
		}
		sum := int64(0)
		for _, size := range stored {
			sum += size
		}
		if got := tallied.of[Scope{}].StoredBytes; got != sum {
			t.Fatalf("counted %d, stored are %d", got, sum)
		}
	})
}

func TestWhatChangesWhileAPartIsReadIsKeptOnlySoFarAndTheRestIsAGap(t *testing.T) {
	tallied := newTally()
	for i := range maxPending + 10 {
		tallied.change(usageChange{seq: uint64(i + 1), ref: effects.Ref{Kind: "a"}, of: Usage{StoredBytes: 1}, sign: 1})
	}
	if len(tallied.pending) != maxPending {
		t.Fatalf("%d are kept", len(tallied.pending))
	}
	if tallied.merge(usagePart{t: tallied}); tallied.gaps != 1 || !tallied.done {
		t.Fatalf("gaps: %d", tallied.gaps)
	}
}
