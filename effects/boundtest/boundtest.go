// Package boundtest bounds what one input may cost a fuzz target in time and memory,
// so that the search finds inputs that explode, not only those that panic.
package boundtest

import (
	"fmt"
	"runtime/metrics"
	"testing"
	"time"
)

// What one input may cost. The bounds are far above what any input of the seed corpora
// costs, and far below what an input does whose cost is exponential.
const (
	// MaxTime is for a machine that is busy with other things, and for the race detector.
	MaxTime = 10 * time.Second
	// MaxBytes is allocated whatever the size of the input, and MaxPerByte for each
	// byte of it.
	MaxBytes   = 64 << 20
	MaxPerByte = 16 << 10
)

// hang is when an input is given up that does not come to an end. The fuzzer has no
// such bound of its own: the process ends, and the fuzzer keeps the input.
const hang = 6 * MaxTime

// Within is to be called at the start of a fuzz target's body, and what it gives at the
// end: defer boundtest.Within(t, len(input))(). The test fails if the input, of that
// many bytes, took more time or memory than the bounds allow. What other goroutines
// allocate meanwhile counts too.
func Within(t testing.TB, size int) func() {
	t.Helper()
	return within(t, MaxTime, MaxBytes+MaxPerByte*uint64(size), size)
}

func within(t testing.TB, limit time.Duration, most uint64, size int) func() {
	t.Helper()
	watchdog := time.AfterFunc(hang, func() { panic(fmt.Sprintf("an input of %d bytes does not end within %s", size, hang)) })
	begin, before := time.Now(), allocated()
	return func() {
		t.Helper()
		watchdog.Stop()
		if took := time.Since(begin); took > limit {
			t.Errorf("an input of %d bytes took %s: more than %s", size, took, limit)
		}
		if bytes := allocated() - before; bytes > most {
			t.Errorf("for an input of %d bytes %d were allocated: more than %d", size, bytes, most)
		}
	}
}

// allocated gives how many bytes the program has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
