package runnertest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// Scripts are pod specs, as JSON objects, that do on the Runner under test what
// their names say.
type Scripts struct {
	// Prints writes the lines to its output, each with a line end, and exits with the
	// code.
	Prints func(exit int, lines ...string) json.RawMessage
	// Waits writes the line "begun", and then runs until it is killed.
	Waits func() json.RawMessage
	// LastWords writes the line "begun", and then runs until it is told to end: a second later
	// it writes the line "saved" and ends; nil: that is not tested. Nothing kills it before.
	LastWords func() json.RawMessage
	// Bad cannot be run here; nil: that is not tested. BadField is what the error of
	// Check must name.
	Bad      json.RawMessage
	BadField string
	// Lose takes the attempt away behind the Runner's back, as somebody does who
	// deletes it by hand; nil: that is not tested.
	Lose func(t *testing.T, a jobs.Attempt)
	// Patience bounds each wait (default 2 min).
	Patience time.Duration
}

// Run holds a Runner against its contract, see [jobs.Runner]. newRunner makes one
// with nothing in it; Run starts its Watch and ends it. Where the cluster is shared,
// what newRunner gives must see none of the others' pods.
func Run(t *testing.T, newRunner func(t *testing.T) jobs.Runner, s Scripts) {
	t.Helper()
	s.Patience = cmp.Or(s.Patience, 2*time.Minute)
	for _, c := range []struct {
		name string
		test func(*bench)
	}{
		{"a pod runs and ends with exit code 0", (*bench).succeeds},
		{"a pod ends with its exit code", (*bench).exits},
		{"an attempt that is created twice is there once", (*bench).createdTwice},
		{"two attempts of one run are two", (*bench).attempts},
		{"the logs are the lines that were written", (*bench).logs},
		{"following the logs ends with the pod", (*bench).follows},
		{"what a pod writes as it is deleted reaches who follows its logs", (*bench).lastWords},
		{"what is not there has no logs", (*bench).noLogs},
		{"deleting returns once it is gone", (*bench).deletes},
		{"deleting what is not there is no error", (*bench).deletesNothing},
		{"what is held is what was created and not deleted", (*bench).held},
		{"a new watch tells first of all that there is", (*bench).watchedAgain},
		{"a pod that is taken away is lost or ended", (*bench).lost},
		{"a runner that works beats", (*bench).beats},
		{"a creation that nobody wants any more ends", (*bench).unwanted},
		{"a pod spec that cannot be run is refused", (*bench).bad},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &bench{t: t, s: s, r: newRunner(t)}
			t.Cleanup(func() { b.stop() }) // last: to delete, a runner may need its watch
			b.watch()
			c.test(b)
		})
	}
}

// bench is one Runner under test.
type bench struct {
	t    *testing.T
	s    Scripts
	r    jobs.Runner
	seen *seen
	stop func() // ends the watch
}

// seen is what a watch has told.
type seen struct {
	mu      sync.Mutex
	list    []jobs.Observation
	changed chan struct{}
}

// Observe implements [jobs.Sink].
func (s *seen) Observe(_ context.Context, o jobs.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, o)
	close(s.changed)
	s.changed = make(chan struct{})
}

// watch starts a watch, which goes on until stop.
func (b *bench) watch() {
	b.t.Helper()
	b.seen = &seen{changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	sink := b.seen
	go func() {
		defer close(done)
		_ = b.r.Watch(ctx, sink) // it ends with ctx alone, and says so
	}()
	b.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), b.s.Patience)
	b.t.Cleanup(cancel)
	return ctx
}

// run is an attempt of a fresh run.
func (b *bench) run(podSpec json.RawMessage) jobs.Run {
	id := uuid.New()
	at := core.Time(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return jobs.Run{
		Attempt: jobs.Attempt{Run: id}, RunID: core.RunID("conformance", at), JobID: "conformance",
		Namespace: "default", Tenant: "default", ScheduledAt: at,
		Spec: core.JobSpec{
			ID: "conformance", Namespace: "default", Tenant: "default", PodSpec: podSpec,
			PodStartTimeoutMS: b.s.Patience.Milliseconds(), Labels: map[string]string{"suite": "conformance"},
		},
	}
}

// create creates an attempt that is deleted when the test ends.
func (b *bench) create(r jobs.Run) {
	b.t.Helper()
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.s.Patience)
		defer cancel()
		_, err := b.r.Delete(ctx, r.Attempt)
		assert.NoError(b.t, err, "clean up")
	})
	require.NoError(b.t, b.r.Check(r.Spec))
	_, err := b.r.Create(b.ctx(), r)
	require.NoError(b.t, err)
}

// await waits until an observation of the attempt is one of the phases.
func (b *bench) await(a jobs.Attempt, phases ...jobs.Phase) jobs.Observation {
	b.t.Helper()
	ctx := b.ctx()
	for {
		b.seen.mu.Lock()
		list, changed := b.seen.list, b.seen.changed
		b.seen.mu.Unlock()
		for _, o := range list {
			if o.Attempt == a && slices.Contains(phases, o.Phase) {
				return o
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(b.t, "not observed", "attempt %s never was %v within %s; observed: %+v", a.Name(), phases, b.s.Patience, list)
		}
	}
}

// phases lists the phases of an attempt as they were observed, each once where it
// was told several times in a row.
func (b *bench) phases(a jobs.Attempt) (list []jobs.Phase) {
	b.seen.mu.Lock()
	defer b.seen.mu.Unlock()
	for _, o := range b.seen.list {
		if o.Attempt == a && (len(list) == 0 || list[len(list)-1] != o.Phase) {
			list = append(list, o.Phase)
		}
	}
	return list
}

// startRunning creates an attempt that waits, and returns once its pod runs.
func (b *bench) startRunning() jobs.Run {
	b.t.Helper()
	r := b.run(b.s.Waits())
	b.create(r)
	b.await(r.Attempt, jobs.PhaseRunning)
	return r
}

// runToEnd creates an attempt that prints the lines, and returns once it has ended with the
// exit code.
func (b *bench) runToEnd(exit int, lines ...string) jobs.Run {
	b.t.Helper()
	r := b.run(b.s.Prints(exit, lines...))
	b.create(r)
	b.awaitEnd(r.Attempt, exit)
	return r
}

// awaitEnd waits until an attempt has ended, and checks its exit code.
func (b *bench) awaitEnd(a jobs.Attempt, exit int) jobs.Observation {
	b.t.Helper()
	o := b.await(a, jobs.PhaseEnded)
	require.NotNil(b.t, o.Pod.ExitCode, "%+v", o.Pod)
	assert.EqualValues(b.t, exit, *o.Pod.ExitCode)
	return o
}

// delete deletes an attempt.
func (b *bench) delete(a jobs.Attempt) {
	b.t.Helper()
	_, err := b.r.Delete(b.ctx(), a)
	require.NoError(b.t, err)
}

// checkHeld checks which attempts the Runner holds.
func (b *bench) checkHeld(want ...jobs.Attempt) {
	b.t.Helper()
	held, err := b.r.Held(b.ctx())
	require.NoError(b.t, err)
	assert.ElementsMatch(b.t, want, held)
}

// readLogs gives the logs of an attempt.
func (b *bench) readLogs(a jobs.Attempt) string {
	b.t.Helper()
	var w bytes.Buffer
	_, err := b.r.Logs(b.ctx(), a, jobs.LogOptions{}, &w)
	require.NoError(b.t, err)
	return w.String()
}

// checkNoLogs checks that there is no pod whose logs could be read.
func (b *bench) checkNoLogs(a jobs.Attempt) {
	b.t.Helper()
	var w bytes.Buffer
	_, err := b.r.Logs(b.ctx(), a, jobs.LogOptions{}, &w)
	require.ErrorIs(b.t, err, jobs.ErrNoPod)
	assert.Empty(b.t, w.String())
}

func (b *bench) succeeds() {
	r := b.run(b.s.Prints(0, "hello"))
	b.create(r)
	assert.NotEmpty(b.t, b.awaitEnd(r.Attempt, 0).Pod.Name)
	order := []jobs.Phase{jobs.PhaseCreated, jobs.PhaseRunning, jobs.PhaseEnded}
	last := -1
	for _, p := range b.phases(r.Attempt) { // some may be passed too quickly to be seen
		i := slices.Index(order, p)
		assert.Greater(b.t, i, last, "phases come in their order: %v", b.phases(r.Attempt))
		last = i
	}
}

func (b *bench) exits() {
	b.runToEnd(1)
	b.runToEnd(42)
}

func (b *bench) createdTwice() {
	r := b.run(b.s.Waits())
	b.create(r)
	first := b.await(r.Attempt, jobs.PhaseRunning)
	_, err := b.r.Create(b.ctx(), r)
	require.NoError(b.t, err)
	b.checkHeld(r.Attempt)
	require.NoError(b.t, b.r.Beat(b.ctx()))
	b.seen.mu.Lock()
	defer b.seen.mu.Unlock()
	for _, o := range b.seen.list {
		if o.Pod.UID != "" && first.Pod.UID != "" {
			assert.Equal(b.t, first.Pod.UID, o.Pod.UID, "there was one pod only")
		}
	}
}

func (b *bench) attempts() {
	r := b.runToEnd(7, "first")
	again := r
	again.N, again.Spec.PodSpec = 1, b.s.Prints(0, "second")
	b.create(again)
	b.awaitEnd(again.Attempt, 0)
	assert.Equal(b.t, "first\n", b.readLogs(r.Attempt))
	assert.Equal(b.t, "second\n", b.readLogs(again.Attempt))
}

func (b *bench) logs() {
	var lines []string
	for n := range 500 {
		lines = append(lines, fmt.Sprintf("line %d of many, with some text behind it", n))
	}
	r := b.runToEnd(0, lines...)
	assert.Equal(b.t, strings.Join(lines, "\n")+"\n", b.readLogs(r.Attempt))
}

func (b *bench) follows() {
	r := b.startRunning()
	ctx := b.ctx()
	out, in := io.Pipe()
	go func() {
		_, err := b.r.Logs(ctx, r.Attempt, jobs.LogOptions{Follow: true}, in)
		_ = in.CloseWithError(err)
	}()
	defer context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })()
	lines := bufio.NewReader(out)
	for line := ""; line != "begun\n"; {
		var err error
		line, err = lines.ReadString('\n')
		require.NoError(b.t, err, "following ended while the pod runs, or nothing was written within %s", b.s.Patience)
	}
	b.delete(r.Attempt)
	_, err := lines.WriteTo(io.Discard) // with an error or without: the pod was killed
	b.t.Logf("following ended: %v", err)
	require.NoError(b.t, ctx.Err(), "following went on after the pod had ended")
}

func (b *bench) lastWords() {
	if b.s.LastWords == nil {
		b.t.Skip("no pod spec that writes at its end")
	}
	r := b.run(b.s.LastWords())
	b.create(r)
	b.await(r.Attempt, jobs.PhaseRunning)
	require.Eventually(b.t, func() bool { return b.readLogs(r.Attempt) == "begun\n" }, b.s.Patience, 50*time.Millisecond, "it traps no signal yet")
	var w bytes.Buffer
	opened, read := make(chan struct{}), make(chan error, 1)
	ctx := b.ctx()
	go func() {
		_, err := b.r.Logs(ctx, r.Attempt, jobs.LogOptions{Follow: true, Opened: func() { close(opened) }}, &w)
		read <- err
	}()
	select {
	case <-opened:
	case err := <-read:
		require.FailNow(b.t, "following ended before the deletion", "%v", err)
	}
	b.delete(r.Attempt)
	require.NoError(b.t, <-read)
	assert.Equal(b.t, "begun\nsaved\n", w.String())
}

func (b *bench) noLogs() { b.checkNoLogs(jobs.Attempt{Run: uuid.New()}) }

func (b *bench) deletes() {
	r := b.startRunning()
	b.delete(r.Attempt)
	b.checkHeld()
	b.checkNoLogs(r.Attempt)
}

func (b *bench) deletesNothing() { b.delete(jobs.Attempt{Run: uuid.New(), N: 3}) }

func (b *bench) held() {
	running, ended := b.startRunning(), b.runToEnd(0)
	b.checkHeld(running.Attempt, ended.Attempt)
	b.delete(ended.Attempt)
	b.checkHeld(running.Attempt)
}

func (b *bench) watchedAgain() {
	running, ended := b.startRunning(), b.runToEnd(9)
	b.stop()
	b.watch()
	b.await(running.Attempt, jobs.PhaseRunning)
	b.awaitEnd(ended.Attempt, 9)
}

func (b *bench) lost() {
	if b.s.Lose == nil {
		b.t.Skip("nothing is taken away behind this runner's back")
	}
	r := b.startRunning()
	b.s.Lose(b.t, r.Attempt)
	o := b.await(r.Attempt, jobs.PhaseLost, jobs.PhaseEnded)
	if o.Phase == jobs.PhaseLost {
		assert.NotEmpty(b.t, o.Pod.Reason)
	}
}

func (b *bench) beats() { require.NoError(b.t, b.r.Beat(b.ctx())) }

func (b *bench) unwanted() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := b.run(b.s.Waits())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = b.r.Create(ctx, r) // it may be there nonetheless
	}()
	select {
	case <-done:
	case <-b.ctx().Done():
		require.FailNow(b.t, "Create did not return", "after its context had ended")
	}
	b.delete(r.Attempt)
	b.checkHeld()
}

func (b *bench) bad() {
	if b.s.Bad == nil {
		b.t.Skip("no pod spec is given that is bad here")
	}
	err := b.r.Check(b.run(b.s.Bad).Spec)
	require.Error(b.t, err)
	assert.Contains(b.t, err.Error(), b.s.BadField)
}
