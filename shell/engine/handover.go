package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// Handover lets an engine give its store to another process while it goes on with the outer effects that it has in hand. What comes of those it
// reports to whoever owns the store then; and as the owner it takes what the owners before it report. The outbox entries of such effects stay under the claim of
// the engine that carries them out, so that nobody else begins them.
type Handover struct {
	// Through is the database, which the processes share.
	Through store.Handover
	// Partition is the store's number in it, and Owner the name of this process.
	Partition int
	Owner     string
	// Lease is how long a former owner may be silent before its effects count as interrupted; all processes have the same (default 10 s).
	Lease time.Duration
	// Wanted is asked once, as the engine is told to stop: whether anybody is there to take the store. It is called by the loop, and may ask the database. Nil: nobody is.
	Wanted func() bool
	// Ends is closed once the process is told to end. An engine that is told to stop before that gives the store back since another process should have it: then what
	// it carries out on goes on until it ends by itself, and Options.StopTimeout begins once Ends is closed. Nil: the process ends as the engine does.
	Ends <-chan struct{}
	// Holds reports whether no other process can have taken the store over. It is asked before an outer effect is begun, by several goroutines, and
	// answers at once; while it says no, the effect waits. Once the store was given back it says yes. Nil: it always says yes.
	Holds func() bool
	// GiveBack closes the store, which the engine does not touch after that.
	GiveBack func() error
}

// every is the time between two reports of a former owner, and two looks of an owner at what they have reported.
func (h *Handover) every() time.Duration { return min(250*time.Millisecond, h.Lease/10) }

// lasts reports whether the process goes on although the engine is told to stop.
func (h *Handover) lasts() bool {
	if h == nil || h.Ends == nil {
		return false
	}
	select {
	case <-h.Ends:
		return false
	default:
		return true
	}
}

// mostReported bounds the bytes of one report; it has at least one result.
const mostReported = 8 << 20

// fill replaces zero fields by their defaults, and lists what is wrong.
func (h *Handover) fill(st store.Store) (errs []error) {
	h.Lease = cmp.Or(h.Lease, 10*time.Second)
	switch {
	case h.Through == nil:
		errs = append(errs, errors.New("shell: Options.Handover.Through is nil: give the database that the processes share"))
	case h.GiveBack == nil:
		errs = append(errs, errors.New("shell: Options.Handover.GiveBack is nil: give what closes the store"))
	case st.Session() == "":
		errs = append(errs, errors.New("shell: Options.Handover is set, and the store is not this process's alone: leave it nil"))
	case h.Lease < 100*time.Millisecond:
		errs = append(errs, fmt.Errorf("shell: Options.Handover.Lease is %s: it must be at least 100ms", h.Lease))
	}
	return errs
}

// reported is what came of an effect, as a former owner reports it.
type reported struct {
	Kind  effects.Kind    `json:"kind"`
	Event json.RawMessage `json:"event"`
	Wrote []byte          `json:"wrote,omitempty"` // what is stored with it, see [Write.Sent]
}

// former is what an engine does that has given its store back.
type former struct {
	l     *loop
	h     *Handover
	is    store.Former
	owed  []store.FormerResult // reported, and not stored
	next  time.Time            // when to report again
	tried int                  // reports that have failed in a row
}

// handsOver reports whether the store can be given to another process now: nothing is left to decide, and whatever runs may go on
// here. Then it is noted that this process goes on with that.
func (l *loop) handsOver() bool {
	if !l.gives || l.lost != nil || l.cancelled || l.adrift || l.lastErr != nil || l.flight != nil || len(l.running) == 0 || len(l.outcomes) > 0 || len(l.requests) > 0 || l.runsPinned() || l.now().Before(l.giveAgain) {
		return false
	}
	h := l.e.o.Handover
	f := &former{l: l, h: h, is: store.Former{Partition: h.Partition, Session: l.e.store.Session(), Owner: h.Owner}}
	f.count()
	ctx, cancel := l.briefly(h)
	defer cancel()
	err := h.Through.Remain(ctx, f.is)
	if errors.Is(err, store.ErrFenced) {
		l.lose(fmt.Errorf("the store was taken over: %w", err))
		return false
	}
	if err != nil {
		if l.giveAgain.IsZero() {
			l.e.log.Warn("the store cannot be handed over; waiting for what runs", "error", err, "running", len(l.running))
		}
		l.gives, l.giveAgain = l.lasts, l.now().Add(h.every())
		f.depart() // it may have been noted
		return false
	}
	l.former = f
	return true
}

// briefly gives a context for one thing that the database is asked. With a [Scheduler] the database limits that itself, in virtual time.
func (l *loop) briefly(h *Handover) (context.Context, context.CancelFunc) {
	if l.e.o.Scheduler != nil {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), h.Lease/2)
}

// part notes in the store when the engine has stopped, leaves its claim to what it still carries out, and gives the store back.
func (f *former) part() error {
	l := f.l
	err := l.e.store.Update(context.Background(), func(tx store.Tx) error {
		if err := tx.CheckClaim(l.claim, l.token); err != nil {
			return err
		}
		p := l.watch.presence()
		p.Stopped = l.wall()
		return p.note(tx)
	})
	if refusedByFence(err) {
		f.depart()
		l.lose(err)
		return fmt.Errorf("the store was taken over: %w", err)
	}
	if err != nil { // whoever owns the store next knows less of when this one has stopped, nothing more
		l.e.log.Warn("could not note that the engine has stopped", "error", err)
	}
	l.e.log.Info("the store is handed over; what runs here goes on", "running", len(l.running))
	if err := f.h.GiveBack(); err != nil {
		l.e.log.Warn("the store was not given back; another process takes it over after a while", "error", err)
	}
	return nil
}

// serve goes on with what runs, until all has ended and is reported, or the time for that is over.
func (f *former) serve() {
	l := f.l
	for {
		now := l.now()
		if len(l.running) == 0 && len(f.owed) == 0 {
			f.depart()
			return
		}
		switch l.followProcess(); {
		case l.lasts:
		case !l.cancelled && !now.Before(l.stopSoft):
			l.cancelAll()
		case !now.Before(l.stopHard):
			l.e.log.Error("stopping although not all has returned or could be reported; the owner of the store tells the machines", "running", len(l.running), "not_reported", len(f.owed))
			return
		}
		if l.lost == nil && !now.Before(f.next) {
			f.report()
			continue
		}
		f.await()
	}
}

// await waits until an execution returns, somebody asks for something, or it is time for something.
func (f *former) await() {
	l := f.l
	until := l.stopSoft
	if l.cancelled {
		until = l.stopHard
	}
	if l.lasts {
		until = f.next
	} else if l.lost == nil {
		until = earliest(until, f.next)
	}
	timer, stop := l.e.o.Clock.Timer(max(until.Sub(l.now()), 0))
	defer stop()
	l.e.activity.rest(ofWork)
	select {
	case r := <-l.e.inbox:
		l.e.activity.work()
		l.e.activity.message(ofWork, -1)
		r.answer(Reply{Err: ErrStopped})
	case o := <-l.e.result:
		l.e.activity.work()
		l.e.activity.message(ofWork, -1)
		f.returned(o)
	case <-l.processEnds():
		l.e.activity.work()
	case <-timer:
		l.e.activity.work()
	}
}

// returned takes the outcome of an execution, to report it at once.
func (f *former) returned(o outcome) {
	l := f.l
	if l.running[o.of.key] == o.of {
		delete(l.running, o.of.key)
	}
	l.vacate(o.of.queue)
	l.e.stats.running.Add(-1)
	if l.lost == nil && !o.of.dropped {
		r := reported{Kind: o.of.ref.Kind, Event: core.AppendEvent(nil, o.event)}
		if o.write != nil && o.write.Sent != nil {
			r.Wrote = o.write.Sent()
		}
		raw, err := json.Marshal(r)
		if err != nil {
			l.e.log.Error("what came of an effect cannot be reported", "ref", o.of.ref.String(), "error", err)
		} else {
			f.owed = append(f.owed, store.FormerResult{Session: f.is.Session, Key: o.of.key, Data: raw})
		}
	}
	o.write.done()
	if f.tried == 0 {
		f.next = l.now()
	}
}

// count notes what is still carried out.
func (f *former) count() {
	f.is.Running = f.is.Running[:0]
	for key := range f.l.running {
		f.is.Running = append(f.is.Running, key)
	}
	slices.SortFunc(f.is.Running, compareKeys)
}

// report gives a sign of life and what has come of effects, and ends what the owner wants ended.
func (f *former) report() {
	l := f.l
	n, bytes := 0, 0
	for n < len(f.owed) && (n == 0 || bytes+len(f.owed[n].Data) <= mostReported) {
		bytes += len(f.owed[n].Data)
		n++
	}
	f.count()
	for _, r := range f.owed[n:] {
		f.is.Running = append(f.is.Running, r.Key) // it is not over for the owner
	}
	ctx, cancel := l.briefly(f.h)
	defer cancel()
	stops, err := f.h.Through.Report(ctx, f.is, f.owed[:n])
	f.next = l.now().Add(f.h.every())
	switch {
	case errors.Is(err, store.ErrFenced):
		l.lost = err
		l.e.log.Error("the owner of the store took this process for gone, and has told the machines; ending what runs here", "running", len(l.running), "not_reported", len(f.owed))
		f.owed = nil
		l.dropAll()
		l.lasts, l.cancelled, l.stopHard = false, true, l.now().Add(l.e.o.AbandonAfter)
		return
	case err != nil:
		if f.tried++; f.tried == 1 {
			l.e.log.Warn("the database takes no results; trying again", "error", err, "not_reported", len(f.owed))
		}
		return
	}
	f.tried, f.owed = 0, f.owed[n:]
	if len(f.owed) > 0 {
		f.next = l.now()
	}
	for _, s := range stops {
		if x, ok := l.running[s.Key]; ok {
			why := ErrCancelled
			if s.Kill {
				why = ErrKilled
			}
			x.cancel(why)
		}
	}
}

// depart says that nothing is carried out any more.
func (f *former) depart() {
	l := f.l
	if l.lost != nil {
		return
	}
	ctx, cancel := l.briefly(f.h)
	defer cancel()
	if err := f.h.Through.Depart(ctx, f.is.Partition, f.is.Session, f.is.Session); err != nil {
		l.e.log.Warn("could not say that nothing runs here any more; the owner of the store finds out after a while", "error", err)
	}
}
