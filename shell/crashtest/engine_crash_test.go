//go:build unix

package crashtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestAnEngineThatIsKilledAnywhereLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s, n := seedtest.Seed(t), kills(t, 40, 400, 2)
	const perFile = 200 // so that the checks stay quick, and a failure is near its cause
	for round := 0; n > 0; round++ {
		dir, l := workDir(t), newLedger()
		rng := rand.New(rand.NewPCG(s, uint64(round)))
		begin := time.Now()
		short := int64(rng.IntN(2)) * 500
		for life := range min(n, perFile) {
			v := variant{Strict: rng.IntN(4) == 0, MaxBatch: 1 + rng.IntN(64), JournalMS: short}
			liveAndDie(t, childConfig{Dir: dir, Seed: rng.Uint64(), variant: v}, rng, l)
			if t.Failed() {
				t.Fatalf("in life %d of round %d", life, round)
			}
		}
		took := time.Since(begin)
		drainEngine(t, dir, l, variant{MaxBatch: 64, JournalMS: short})
		runs := verdict(t, filepath.Join(dir, dbFile), filepath.Join(dir, effectsFile), l)
		t.Logf("round %d, journal kept %d ms (0: long): %d kills in %s, %d runs: %s", round, short, min(n, perFile), took.Round(time.Second), runs, l.summary())
		if t.Failed() {
			return
		}
		assert.Positive(t, l.total(acked), "no request was acknowledged: the test has tested nothing")
		n -= perFile
	}
}

// liveAndDie runs one child until it is killed: by its own hand before, during
// or after a chosen commit, soon after its start, or in the midst of its work.
func liveAndDie(t *testing.T, c childConfig, rng *rand.Rand, l *ledger) {
	t.Helper()
	const forgotten = 20 * time.Second // of one that is to kill itself
	delay, early := forgotten, true
	switch rng.IntN(8) {
	case 0:
		delay = time.Duration(rng.Int64N(int64(60 * time.Millisecond)))
	case 1:
		c.Death.Before = 1 + rng.IntN(60)
	case 2:
		c.Death.After = 1 + rng.IntN(60)
	case 3, 4:
		c.Death.Before, c.Death.During = 1+rng.IntN(60), 1+rng.IntN(4000)
	default:
		delay, early = time.Duration(rng.Int64N(int64(200*time.Millisecond))), false
	}
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(raw))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	worked, gone := make(chan struct{}), make(chan error, 1)
	go func() { gone <- readNotes(bufio.NewReader(out), l, worked) }()
	ctx, over := context.WithCancel(t.Context())
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		if !early {
			select {
			case <-worked:
			case <-ctx.Done():
			}
		}
		idle(ctx, delay)
		_ = cmd.Process.Kill()
	}()
	err = <-gone
	over()
	<-killed
	_ = cmd.Wait() // it was killed, which is an error
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok && status.Signaled() && status.Signal() == syscall.SIGKILL, "the child ended by itself: %s: %s", cmd.ProcessState, stderr.String())
	require.NoError(t, err)
}

// readNotes reads a child's notes until it is gone, and closes worked after the
// first. A last line that was cut off was never written: the note came too late.
func readNotes(r *bufio.Reader, l *ledger, worked chan<- struct{}) error {
	first := true
	for {
		raw, err := r.ReadBytes('\n')
		if err != nil {
			if first {
				close(worked)
			}
			return nil // the end of the pipe is the end of the child
		}
		var n note
		if err := json.Unmarshal(raw, &n); err != nil {
			return fmt.Errorf("note %q: %w", raw, err)
		}
		l.write(n)
		if first {
			first = false
			close(worked)
		}
	}
}

// drainEngine starts an engine without load on what the killed ones left, ends
// what would go on for ever, and waits for the rest.
func drainEngine(t *testing.T, dir string, l *ledger, v variant) {
	t.Helper()
	st, f, done := reopened(t, dir, bolt.Options{})
	defer done()
	e, err := shell.New(engineOptions(st, f, v))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	endAll(t, engineTarget{e}, l, func() (*snapshot, error) { return take(t.Context(), st) })
	err = poll(2*time.Minute, func() error { return drained(ctx, e) })
	assert.NoError(t, err, "it does not drain") // the verdict says more
}

// endAll pauses and cancels what never ends by itself.
func endAll(t *testing.T, tg target, l *ledger, read func() (*snapshot, error)) {
	t.Helper()
	s, err := read()
	require.NoError(t, err)
	for id, r := range s.recurring {
		state := recDisabled
		if r.Enabled {
			state = recEnabled
		}
		l.write(note{Op: opSeen, Phase: acked, ID: id, State: state})
		require.NoError(t, tg.changeRecurring(t.Context(), id, opPause))
		l.rest(id)
	}
	for _, id := range l.endless() {
		if err := tg.cancel(t.Context(), id); err == nil {
			l.write(note{Op: opCancel, Phase: acked, ID: id})
		} else {
			require.ErrorIs(t, err, errRefused) // it was never made, or has ended
		}
	}
}

func drained(ctx context.Context, e *shell.Engine) error {
	s, err := e.Stats(ctx)
	if err != nil {
		return err
	}
	pending, running := s.ActionsByStatus[core.StatusPending], s.ActionsByStatus[core.StatusRunning]
	if pending+running > 0 {
		return fmt.Errorf("%w: %d actions are pending, %d running", errLater, pending, running)
	}
	return nil
}

// verdict checks what a drained victim has left, and gives how many runs there
// were.
func verdict(t *testing.T, db, effects string, l *ledger) int {
	t.Helper()
	st, err := bolt.Open(db, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	lines, err := readLines(effects)
	require.NoError(t, err)
	s, err := take(t.Context(), st)
	require.NoError(t, err)
	report(t, examine(s, l, lines))
	sound(t, st)
	return len(lines)
}

// sound checks what holds for every database, drained or not: the journal gives
// what is stored, and the file agrees with itself.
func sound(t *testing.T, st *bolt.Store) {
	t.Helper()
	r, err := replay.Verify(t.Context(), st, replay.Options{})
	require.NoError(t, err)
	var bad []string
	for _, d := range r.Divergences {
		bad = append(bad, "replay: "+d.String())
	}
	found, err := st.Check(t.Context())
	require.NoError(t, err)
	for _, f := range found {
		bad = append(bad, "check: "+f.String())
	}
	report(t, bad)
}

// report fails the test with the first findings, which tell the most.
func report(t *testing.T, found []string) {
	t.Helper()
	const most = 20
	for _, s := range found[:min(most, len(found))] {
		t.Error(s)
	}
	if len(found) > most {
		t.Errorf("and %d more", len(found)-most)
	}
}
