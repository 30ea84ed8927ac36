//go:build linux

package neighbourtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// quick is how late the victim's actions and answers may be, at the percentile of [service],
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
	if !measure {
		t.Run("all at once", func(t *testing.T) { suffer(t, long, nil, ways) })
		return
	}
	calm := launch(t)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { endure(t, long, calm, []way{w}) })
	}
	t.Run("all at once", func(t *testing.T) { endure(t, long, calm, ways) })
	calm.stop()
}

// tries is how often a way is measured before it counts as slow: what else the machine
// does is not the bully's doing, and does not come five times in a row.
const tries = 5

// factor is how many times as slow the victim may be served while the bully goes these ways.
func factor(together []way) int {
	if len(together) == 1 {
		return max(slower, together[0].slower)
	}
	return slower
}

// endure lets the bully go some ways at once while the victim works, and compares how
// well the victim was served with how well it is served by a calm daemon, which has no
// bully, at the same time on the same machine: what the bully's own clients, or anybody
// else, take of the processors is missing there as well.
func endure(t *testing.T, long time.Duration, calm *daemon, together []way) {
	var s, usual, most service
	for n := range tries {
		s, usual = suffer(t, long, calm, together)
		times := factor(together)
		most = service{max(quick, usual.lateness*time.Duration(times)), max(quick, usual.api*time.Duration(times))}
		if t.Failed() || s.lateness <= most.lateness && s.api <= most.api {
			return
		}
		t.Logf("try %d of %d was too slow: at most %s", n+1, tries, most)
	}
	assert.LessOrEqual(t, s.lateness, most.lateness, "lateness of the victim's actions")
	assert.LessOrEqual(t, s.api, most.api, "the victim's answers")
}

// suffer is one try, on a daemon of its own, beside a calm one if there is one. Whatever
// the machine does, nothing of the victim's may be refused or lost, the daemon's memory is
// bounded, and its journal replays.
func suffer(t *testing.T, long time.Duration, calm *daemon, together []way) (s, usual service) {
	t.Helper()
	d := launch(t)
	v, b := newVictim(t, d), newBully(t, d)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var bullies, beside sync.WaitGroup
	for _, w := range together {
		bullies.Go(func() { w.do(ctx, b) })
	}
	other := &victim{}
	if calm != nil {
		other = newVictim(t, calm)
		beside.Go(func() { other.work(ctx, long) })
	}
	v.work(ctx, long)
	s = v.served(t)
	beside.Wait()
	end()
	bullies.Wait()
	if calm != nil {
		usual = other.served(t)
	}
	if !assert.True(t, d.alive(), "the daemon died: %s", d.log()) {
		return s, usual
	}
	t.Logf("%s, %d MB (without a bully %s); %s", s, d.peak()>>20, usual, b.summary())
	assert.Less(t, d.peak(), int64(maxMemory), "the daemon's memory")
	d.stop()
	return s, usual
}
