package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// loop is the state of the one goroutine that decides and commits. Nothing in
// it is shared.
type loop struct {
	e *Engine

	claim   string // the claim of this instance, and
	token   uint64 // its fencing token (R5)
	lastSeq uint64 // the batch that this instance last saw: another number means that another one wrote
	cache   cache

	paused bool  // nothing is begun by itself, see [Engine.Resume]
	watch  watch // when it was there
	pulse  pulse // beside it, while it is busy

	lanes    map[string]*lane
	reserved []*share // of which the batch that is being built takes slots
	running  map[store.EffectKey]*execution
	requests []*request // gathered, not yet decided
	outcomes []outcome  // gathered, not yet decided

	stager store.Stager // the store, if it is one; else nil
	logged store.Logged // likewise
	staged uint64       // batches that were staged so far
	flight *flight      // the sync under way; nil: none is
	ahead  *stagedBatch // staged behind it; nil: none is
	pace   pace
	full   bool // what is gathered makes a batch

	nextTick    time.Time
	nextPaced   time.Time
	nextRenew   time.Time
	nextRecover time.Time    // zero: nobody to recover from
	nextDue     effects.Time // zero: nothing waits
	last        effects.Time // of the last batch, see wall
	own         []time.Time  // when the next of each of [Options.Own] is due; zero: none follows
	sightings   map[string]sighting
	sweep       sweep
	backlog     backlog
	formers     formers
	freed       chan struct{}  // told when another engine has given back a slot of [Options.Slots]
	weights     map[uint32]int // of tenants, by [DueShare]
	webhooks    bool           // raw webhooks wait to be read
	retention   retention
	giveWay     time.Time // not before that, see gatherMore
	retryAt     time.Time // after a failed commit, nothing but requests before that
	failures    int
	adrift      bool             // batches are stored and were not confirmed
	lastErr     error            // why the last commit failed; nil once one went well
	lost        error            // why the store is lost; nil: it is not
	storeGone   <-chan struct{}  // see watchStore
	due         []store.DueEntry // room for a sweep
	free        []*batch         // whose memory serves other ones

	stopping  bool
	stopSoft  time.Time // until then executions may end by themselves
	stopHard  time.Time // until then cancelled executions may return and be stored
	cancelled bool
	gives     bool      // the store is handed over as soon as it can be
	giveAgain time.Time // the database has refused that: not before then
	lasts     bool      // the process goes on: what can go on without the store has no end of time
	former    *former   // what goes on once the store is handed over; nil: it is not
}

// sweep is a walk over the due index that may take several batches.
type sweep struct {
	active bool
	paced  bool // only the kinds that are [core.Paced]: a check between two strict ticks
	after  *store.DueKey
	ended  bool // the due index was read to its end
	left   bool // a batch has left machines that it made due itself
}

func (l *loop) init(e *Engine) {
	l.e = e
	l.lanes = make(map[string]*lane)
	l.running = make(map[store.EffectKey]*execution)
	l.sightings = make(map[string]sighting)
	l.stager, _ = e.store.(store.Stager)
	l.logged, _ = e.store.(store.Logged)
	l.weights = weightsByShare(e.o.Weights)
	l.cache.init()
	l.formers.init(l)
	l.freed = make(chan struct{}, 1)
}

// ClaimPrefix begins the names of the claims of instances.
const ClaimPrefix = "instance/"

func (l *loop) run(ctx context.Context) {
	now := l.now()
	if l.e.o.Scheduler == nil { // else no time passes while the loop is busy
		defer l.pulse.start(l.e.o.Clock)()
	}
	l.pulse.work(now)
	l.look(time.Time{})
	l.beginOwn()
	l.webhooks = true
	if l.paused {
		l.retention.due = true // for the epoch alone
	} else {
		l.beginAll(now)
	}
	l.formers.begin(now)
	done := ctx.Done()
	l.storeGone = l.watchStore()
	for !l.stopping || !l.finished() {
		l.gather(done)
		l.gatherMore()
		if done != nil && ctx.Err() != nil {
			done = nil
			l.e.activity.add(-1) // the one that whoever has ended ctx counted for the loop
			if !l.stopping {
				l.beginStop()
			}
		}
		if l.lost != nil {
			l.refuseAll()
			continue
		}
		l.step()
	}
	l.formers.end()
	l.endDeciding()
	if l.former == nil {
		l.giveSlots()
	}
}

// beginOwn has the engine's own inputs told in the next batch.
func (l *loop) beginOwn() { l.own = slices.Repeat([]time.Time{l.now()}, len(l.e.o.Own)) }

// now is the steady time by which the loop plans its own waking; wall is the
// time that the machines see.
func (l *loop) now() time.Time { return l.e.o.Clock.Steady() }

func (l *loop) wall() effects.Time {
	wall := effects.TimeOf(l.e.o.Clock.Now())
	if l.e.o.Handover != nil && wall.Before(l.last) && !wall.Before(l.last.Add(-mostBack)) {
		return l.last
	}
	return wall
}

// mostBack is by how much the clock of a store that processes have in turn may be behind its last batch and count as imprecise: time stands still then until it has
// caught up. Their measuring of that clock differs, and servers that follow one another have clocks of their own. One that is further behind was set back, which is
// followed, or a clock that was wrong once would stop all that is due.
const mostBack = time.Minute

// gather collects what has arrived, and lets go what has become durable. It waits only
// while there is nothing to do, or nothing may be done before the disk has answered.
func (l *loop) gather(done <-chan struct{}) {
	l.answerHealth()
	for {
		l.formers.ask()
		if l.flight.hasEnded() {
			l.land()
		}
		work := l.drain() || l.busy()
		wait := l.mustLand()
		if work && !wait && (l.flight == nil || l.aheadPays()) || l.await(done, wait) {
			return
		}
	}
}

// aheadPays reports whether what is there to do is better decided while a sync goes on: what
// goes on by itself over several batches is, and what was gathered if it is much.
func (l *loop) aheadPays() bool {
	many := len(l.requests) + len(l.outcomes)
	return l.full || l.sweep.active || l.retention.goesOn(l.now()) || many > 0 && l.pays(many)
}

// onePays reports whether it would be with one thing more.
func (l *loop) onePays() bool { return l.pays(len(l.requests) + len(l.outcomes) + 1) }

// await waits until something happens: for the disk only, or for anything. It reports
// whether it is time for a batch.
func (l *loop) await(done <-chan struct{}, diskOnly bool) bool {
	inbox, result, timer, planned := l.e.inbox, l.e.result, (<-chan time.Time)(nil), time.Time{}
	freed := l.freed
	awaited := []messageKind{ofSync, ofFormers, ofWork}
	defer func() { l.look(planned) }()
	if diskOnly || l.flight != nil && !l.onePays() { // to be woken for each costs more than it brings
		inbox, result, freed, awaited = nil, nil, nil, awaited[:2]
	}
	if !diskOnly {
		now := l.now()
		d := l.untilNext(now)
		if d <= 0 {
			return true
		}
		planned = now.Add(d)
		l.pulse.rest(now)
		defer func() { l.pulse.work(l.now()) }()
		var stop func()
		timer, stop = l.e.o.Clock.Timer(d)
		defer stop()
	}
	l.e.activity.rest(awaited...)
	select {
	case r := <-inbox:
		l.e.activity.work()
		l.e.activity.message(ofWork, -1)
		l.requests = append(l.requests, r)
	case o := <-result:
		l.e.activity.work()
		l.e.activity.message(ofWork, -1)
		l.returned(o)
		return l.stopping // else the store is given time
	case err := <-l.landing():
		l.e.activity.work()
		l.flight.ends(err)
		l.land()
		return l.stopping
	case a := <-l.formers.told:
		l.e.activity.work()
		return l.formers.hear(a) && !diskOnly || l.stopping
	case c := <-l.e.health: // no reason to try a commit
		l.e.activity.work()
		c <- l.lastErr
	case c := <-l.e.resume:
		l.e.activity.work()
		c <- l.goOn()
		return !diskOnly
	case <-freed:
		l.e.activity.work()
		return true
	case <-l.storeGone:
		l.e.activity.work()
		l.storeFailed()
		return l.lost != nil || l.stopping
	case <-timer:
		l.e.activity.work()
		return true
	case <-done:
		l.e.activity.work()
		return true
	case <-l.processEnds():
		l.e.activity.work()
		return true
	}
	return false
}

// gatherMore lets those run who are about to ask, for as long as any do: who was
// answered by the last commit and asks again then shares the next one. Syncing to
// disk takes a thousand times as long as it does to give way once. Where it takes
// long all the same, as all processors are busy, the loop does so rarely.
func (l *loop) gatherMore() {
	const long, part = time.Millisecond, 10
	for {
		had, begin := len(l.requests)+len(l.outcomes), l.now()
		if had == 0 || begin.Before(l.giveWay) {
			return
		}
		runtime.Gosched()
		l.drain()
		end := l.now()
		if took := end.Sub(begin); took > long {
			l.giveWay = end.Add(part * took)
		}
		if len(l.requests)+len(l.outcomes) == had {
			return
		}
	}
}

// answerHealth answers who asks while the loop is busy.
func (l *loop) answerHealth() {
	for {
		select {
		case c := <-l.e.health:
			c <- l.lastErr
		case c := <-l.e.resume:
			c <- l.goOn()
		default:
			return
		}
	}
}

// drain takes what is there, up to a batch, and reports whether there was any.
func (l *loop) drain() bool {
	bytes, ended := 0, false
	for _, r := range l.requests {
		bytes += r.size()
	}
	for _, o := range l.outcomes {
		bytes += o.write.size()
	}
	for {
		if l.full = len(l.requests)+len(l.outcomes) >= l.e.o.MaxBatch || bytes >= maxBatchBytes; l.full {
			return len(l.requests) > 0 || !l.now().Before(l.retryAt)
		}
		select {
		case r := <-l.e.inbox:
			l.e.activity.message(ofWork, -1)
			l.requests = append(l.requests, r)
			bytes += r.size()
		case o := <-l.e.result:
			l.e.activity.message(ofWork, -1)
			l.returned(o)
			ended = l.stopping // which may be over, though a result that is dropped is nothing to decide
			bytes += o.write.size()
		case a := <-l.formers.told:
			l.formers.hear(a)
		default:
			return ended || len(l.requests) > 0 || ((len(l.outcomes) > 0 || l.formers.toDecide()) && !l.now().Before(l.retryAt))
		}
	}
}

// busy reports whether work is left over from the batch before.
func (l *loop) busy() bool {
	if l.stopping || l.now().Before(l.retryAt) {
		return false
	}
	webhooks := l.webhooks && !l.e.o.StrictTick
	return webhooks || !l.paused && (l.sweep.active || l.canStartWaiting() || l.retention.goesOn(l.now()))
}

// untilNext is how long the loop may sleep.
func (l *loop) untilNext(now time.Time) time.Duration {
	if now.Before(l.retryAt) {
		return l.retryAt.Sub(now)
	}
	next := l.nextRenew
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	if l.stopping {
		earlier(l.stopNext())
		return next.Sub(now)
	}
	if !l.formers.asking {
		earlier(l.formers.next)
	}
	for i, at := range l.own {
		if !l.withholds(l.e.o.Own[i]) {
			earlier(at)
		}
	}
	if l.paused {
		return next.Sub(now)
	}
	earlier(l.nextTick)
	earlier(l.nextRecover)
	if l.retention.hasMore() {
		earlier(l.retention.rests)
	}
	if !l.e.o.DisablePaced && l.e.o.StrictTick {
		earlier(l.nextPaced)
	}
	if !l.e.o.StrictTick && !l.nextDue.IsZero() {
		if !l.nextDue.After(l.wall()) {
			return 0
		}
		return min(next.Sub(now), l.nextDue.Std().Sub(l.e.o.Clock.Now()))
	}
	return next.Sub(now)
}

// step decides one batch: what was gathered and what is due.
func (l *loop) step() {
	if l.mustLand() {
		l.settle()
	}
	now := l.now()
	l.e.wait.lookNow(now)
	l.beginTick(now)
	l.requests = inTurns(l.requests)
	rest := l.leaveHalf()
	b := l.newBatch()
	durable, err := l.commit(func(tx store.Tx) error {
		l.last = l.look(time.Time{})
		b.begin(tx, l.last, now)
		return b.build()
	})
	nothing := errors.Is(err, errNothing)
	if err == nil || nothing {
		s := l.carryOver(b)
		s.durable, s.nothing = durable, nothing
		l.pace.decided(len(s.requests)+len(s.outcomes), l.now().Sub(now))
		l.takeUp(rest)
		l.stage(s)
		return
	}
	l.unreserve()
	l.takeUp(rest)
	l.settle() // what was decided before goes its way
	unknown := durable()
	switch fenced := errors.Is(err, store.ErrFenced); {
	case fenced && unknown == nil:
		l.fenced(err)
	case fenced:
		l.failed(unknown)
	default:
		l.failed(err)
	}
}

// gathered is what was asked for and what has come back.
type gathered struct {
	requests []*request
	outcomes []outcome
}

// leaveHalf takes away what is to be decided while the disk takes the batch that begins. A batch that finds out what the one before it has begun
// (catchUp) has to know of each outcome, or it has an effect carried out again that has an outcome.
func (l *loop) leaveHalf() (rest gathered) {
	if l.stager == nil || l.flight != nil || l.adrift || !l.splits(len(l.requests)+len(l.outcomes)) {
		return gathered{}
	}
	r, o := (len(l.requests)+1)/2, (len(l.outcomes)+1)/2
	rest = gathered{slices.Clone(l.requests[r:]), slices.Clone(l.outcomes[o:])}
	l.requests, l.outcomes = slices.Delete(l.requests, r, len(l.requests)), slices.Delete(l.outcomes, o, len(l.outcomes))
	return rest
}

// takeUp puts it back, behind what the batch has left.
func (l *loop) takeUp(rest gathered) {
	l.requests, l.outcomes = append(l.requests, rest.requests...), append(l.outcomes, rest.outcomes...)
}

// beginTick opens a tick where one is due (B1): after it the loop waits
// tick_rate - elapsed, and where it took longer the next one follows at once,
// without a backlog (B2).
func (l *loop) beginTick(now time.Time) {
	if l.stopping || l.paused || now.Before(l.retryAt) {
		return
	}
	switch {
	case !now.Before(l.nextTick):
		l.nextTick = now.Add(l.e.o.TickRate)
		l.nextPaced = now.Add(l.e.o.PacedEvery)
		l.sweep = sweep{active: true}
		l.backlog.clear() // what it has is still due: the sweep reads it anew
		l.webhooks = true
		l.retention.due = true
		l.e.stats.ticks.Add(1)
	case l.e.o.StrictTick && !now.Before(l.nextPaced):
		l.nextPaced = now.Add(l.e.o.PacedEvery)
		if !l.sweep.active && !l.e.o.DisablePaced {
			l.sweep = sweep{active: true, paced: true}
		}
	case !l.e.o.StrictTick && !l.sweep.active && !l.nextDue.IsZero() && !l.nextDue.After(l.wall()):
		l.sweep = sweep{active: true}
	}
}

// failed answers who waits, and backs off. What executions have come to stays
// gathered: the next batch takes it.
func (l *loop) failed(err error) {
	if refusedByFence(err) {
		l.lose(err)
		return
	}
	l.e.stats.commitErrors.Add(1)
	l.lastErr = err
	if now := l.now(); !now.Before(l.retryAt) { // a request in between does not put it off
		l.failures++
		l.retryAt = now.Add(min(time.Second<<min(l.failures-1, 6), l.e.o.TickRate, 30*time.Second))
	}
	became, retry := "not stored", l.retryAt.Sub(l.now())
	if errors.Is(err, store.ErrUnconfirmed) {
		became = "not confirmed"
		l.setAdrift()
		l.e.log.Error("commit written and not confirmed; nothing of it is acknowledged", "error", err, "retry_in", retry)
	} else {
		l.e.log.Error("commit failed; what was not acknowledged is undone", "error", err, "retry_in", retry)
	}
	l.watch.open, l.watch.unsaved = false, len(l.watch.absences) > 0 // the daemon is there, and cannot decide
	for _, r := range l.requests {
		r.answer(Reply{Err: fmt.Errorf("%s: %w", became, err)})
	}
	clear(l.requests)
	l.requests = l.requests[:0]
	l.cache.init()
	l.lastSeq = 0
}
