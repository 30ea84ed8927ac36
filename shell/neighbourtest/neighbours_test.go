//go:build linux

package neighbourtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// quick is how late the victim's actions and answers may be, at the 99th percentile,
// where the machine is fast; slower is how many times as slow as without a bully they
// may be where it is not.
const (
	quick  = 250 * time.Millisecond
	slower = 5
)

// TestATenantThatDoesItsWorstDoesNotReachAnother tries each way on a daemon of its
// own, and then all ways at once on another one.
func TestATenantThatDoesItsWorstDoesNotReachAnother(t *testing.T) {
	long, measure := measured(t)
	var usual service
	if measure {
		d := launch(t)
		v := newVictim(t, d)
		v.work(t.Context(), max(long, 5*time.Second))
		usual = v.served(t)
		t.Logf("without a bully: %s, %d MB", usual, d.peak()>>20)
		d.stop()
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) { endure(t, long, measure, usual, []way{w}) })
		}
	}
	t.Run("all at once", func(t *testing.T) { endure(t, long, measure, usual, ways) })
}

// tries is how often a way is measured before it counts as slow: what else the machine
// does is not the bully's doing, and does not come three times in a row.
const tries = 3

// endure lets the bully go some ways at once while the victim works, and looks at how
// well the victim was served.
func endure(t *testing.T, long time.Duration, measure bool, usual service, together []way) {
	late, api := max(quick, slower*usual.lateness), max(quick, slower*usual.api)
	var s service
	for n := range tries {
		s = suffer(t, long, together)
		if t.Failed() || !measure || s.lateness <= late && s.api <= api {
			return
		}
		t.Logf("try %d of %d was too slow", n+1, tries)
	}
	assert.LessOrEqual(t, s.lateness, late, "lateness of the victim's actions")
	assert.LessOrEqual(t, s.api, api, "the victim's answers")
}

// suffer is one try, on a daemon of its own. Whatever the machine does, nothing of the
// victim's may be refused or lost, the daemon's memory is bounded, and its journal replays.
func suffer(t *testing.T, long time.Duration, together []way) service {
	t.Helper()
	d := launch(t)
	v, b := newVictim(t, d), newBully(t, d)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var wg sync.WaitGroup
	for _, w := range together {
		wg.Go(func() { w.do(ctx, b) })
	}
	v.work(ctx, long)
	s := v.served(t)
	end()
	wg.Wait()
	if !assert.True(t, d.alive(), "the daemon died: %s", d.log()) {
		return s
	}
	t.Logf("%s, %d MB; %s", s, d.peak()>>20, b.summary())
	assert.Less(t, d.peak(), int64(maxMemory), "the daemon's memory")
	d.stop()
	return s
}
