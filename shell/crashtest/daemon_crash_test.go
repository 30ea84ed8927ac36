//go:build unix

package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
)

var usual = timing{recoverAfter: 1, lease: 5}

func TestADaemonThatIsKilledAtAnyMomentLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s, n := seedtest.Seed(t), kills(t, 8, 200, 1)
	const perFile = 150
	for round := 0; n > 0; round++ {
		h, l := newHome(t, "", usual), newLedger()
		load := startLoad(t, h, l, s+uint64(round), 6)
		rng := rand.New(rand.NewPCG(s, uint64(round)))
		begin := time.Now()
		for range min(n, perFile) {
			p := h.launch(t)
			delay := time.Duration(rng.Int64N(int64(120 * time.Millisecond))) // while it starts, mostly
			if rng.IntN(5) > 0 {
				load.link.set(p.url(t, h))
				delay = time.Duration(rng.Int64N(int64(700 * time.Millisecond)))
				if rng.IntN(5) == 0 { // long enough to settle what the one before has left
					delay += 1500 * time.Millisecond
				}
			}
			idle(t.Context(), delay)
			p.kill()
			load.link.set("")
		}
		took := time.Since(begin)
		load.stop()
		runs := drainDaemon(t, h, l)
		t.Logf("round %d: %d kills in %s, %d runs: %s", round, min(n, perFile), took.Round(time.Second), runs, l.summary())
		assert.Positive(t, l.total(acked), "no request was acknowledged: the test has tested nothing")
		if t.Failed() {
			return
		}
		n -= perFile
	}
}

// load is a crowd of clients that outlives the daemon.
type load struct {
	link   *link
	target *httpTarget
	stop   func() // waits for the clients; a second call does nothing
}

// startLoad sets clients to work. They wait while there is no daemon.
func startLoad(t *testing.T, h daemonHome, l *ledger, seed uint64, callers int) *load {
	t.Helper()
	at := newLink()
	target := newHTTPTarget(at, h.effects(), l)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for n := range callers {
		c := &caller{
			t: target, book: l, rng: rand.New(rand.NewPCG(seed, uint64(n)+1000)),
			now: time.Now, pause: 20 * time.Millisecond, most: 2, slow: 300,
			waited: func(ctx context.Context) error { idle(ctx, 10*time.Millisecond); return nil },
		}
		wg.Go(func() { c.run(ctx) })
	}
	ld := &load{link: at, target: target}
	ld.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		target.close()
	})
	t.Cleanup(ld.stop)
	return ld
}

// drainDaemon starts a daemon without load, ends what would go on for ever,
// waits for the rest, stops it politely, and checks what it has left. It gives
// how many runs there were.
func drainDaemon(t *testing.T, h daemonHome, l *ledger) int {
	t.Helper()
	p := h.launch(t)
	at := newLink()
	at.set(p.url(t, h))
	target := newHTTPTarget(at, h.effects(), l)
	defer target.close()
	defer p.kill() // a no-op where all went well
	endAll(t, target, l, func() (*snapshot, error) { return target.snapshot(t.Context()) })
	err := poll(time.Minute, func() error {
		s, err := target.snapshot(t.Context())
		if err == nil && len(s.actions) > 0 {
			err = fmt.Errorf("%w: %d actions have not ended, such as %+v", errLater, len(s.actions), first(s))
		}
		return err
	})
	assert.NoError(t, err, "it does not drain") // the verdict says more
	p.stop(t, h)
	runs := verdict(t, h.db, h.effects(), l)
	report(t, h.complaints(t))
	require.Contains(t, h.mustRun(t, "replay", "--verify", "--db", h.db), "divergences")
	h.mustRun(t, "check", "--db", h.db)
	return runs
}

func first(s *snapshot) any {
	for _, a := range s.actions {
		return a
	}
	return nil
}
