package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// Options say what is simulated. The zero value is Orrery's own workload on one to three instances, as the seed says.
type Options struct {
	// Instances is how many there are, from 1 to 3; 0: the seed says.
	Instances int
	// Shared has all instances work on the store at the same time, with claims between them; otherwise one owns it, and
	// another one takes it over.
	Shared bool
	// Fleet has each instance run [fleet.Run]: who owns the store gives signs of life, and who stands by takes it over after a lease without one, and
	// passes on the requests that come to it. Otherwise the simulation says who takes over, at once.
	Fleet bool
	// Partitions has the instances of a Fleet run [fleet.Group.Run] on that many partitions, at most 16, each with an engine of its own ([Request].Partition). 0:
	// the store is one partition.
	Partitions int
	// Faults is how many faults a run has at most; 0: 8; negative: none.
	Faults int
	// Losses allows failovers to a standby that lacks what was acknowledged. What clients were told meanwhile is not checked then.
	Losses bool
	// Steps is how many things happen before no fault and no new request does any more; 0: 400. Within MaxSteps (0: 20,000)
	// of them all must have ended.
	Steps, MaxSteps int
	// Engine, if there is one, sets the options of each engine that begins, tools included. Store, Clock, Scheduler and Instance
	// are the simulation's. Each tool and each interpreter has its turn before it runs and before its result is there, and may
	// crash in between; it must not wait by itself, and start no goroutine. A tool that takes its time is a [Script].
	Engine func(*shell.Options)
	// Requests gives what clients ask for in this run; nil: Orrery's own.
	Requests func(r *rand.Rand) []Request
	// Check looks at the store once all has ended, and says what is wrong, if anything is.
	Check func(store.ReadTx) []string
	// Keep has only these parts of the plan happen, by their numbers: see [Report].Plan. nil: all.
	Keep []int

	broken func() defects // of tests of the simulation itself
}

// defects are what a test breaks. Each is made anew for a run.
type defects struct {
	store   func(store.Store) store.Store // what engines see of the database
	amnesia bool                          // a new owner does not find the last commit
	hasty   bool                          // staged commits are durable before they are
	untold  bool                          // nobody is told of what a failover has lost
	noKeys  bool                          // clients do not say which request it is

	unaccepted bool // nobody accepts a loss
}

// Request is what a client asks of whichever engine it reaches, again if the answer is lost: then it is the same request for
// the engine ([shell.WithOnce]).
type Request struct {
	// Name stands in the trace.
	Name string
	// Partition is the number of the one whose engine is asked, with [Options].Partitions: that of the tenant whom the request is about.
	Partition int
	// Do asks. It may be called several times, and at the same time; ids in it must be fixed.
	Do func(ctx context.Context, e *shell.Engine) error
	// After is the number of another request in the list, from 1, that must have been answered before; 0: none. If the plan leaves
	// that one out, it leaves out this one.
	After int
	// Last has the request come once no fault happens any more, such as what ends a schedule.
	Last bool
	// Check looks at the store once all has ended, if Do was answered with nil; nil: nothing.
	Check func(tx store.ReadTx) error
}

// Violation is something that must not be.
type Violation struct {
	Rule string
	What string
}

// String gives it in one line.
func (v Violation) String() string { return v.Rule + ": " + v.What }

// Report is what became of a run.
type Report struct {
	Seed       uint64
	Steps      int
	Took       time.Duration // of virtual time
	Plan       []string      // requests and faults, by number
	Kept       []int         // those that happened
	Trace      string        // what happened, step by step, and the journal
	Counts     map[string]int
	Violations []Violation
}

// Failed reports whether anything was violated.
func (r *Report) Failed() bool { return len(r.Violations) > 0 }

// String tells what was violated, and the parts of the plan that were needed for it.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d steps, %s, %d violations\n", r.Seed, r.Steps, r.Took, len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "  %s\n", v)
	}
	fmt.Fprintf(&b, "plan, to repeat it with Options.Keep: %#v\n", r.Kept)
	for _, n := range r.Kept {
		fmt.Fprintf(&b, "  %d %s\n", n, r.Plan[n])
	}
	return b.String()
}

// run is one run.
type run struct {
	*world
	o          Options
	defects    defects
	dbs        []*database               // by the number of the partition
	away       time.Time                 // until then nobody reaches the store
	severed    [2]time.Time              // from when until when nobody did, the last time that that took a lease or longer
	meeting    []Fault                   // what the next commits meet
	jumped     time.Duration             // how far wall clocks were set forward in all
	loses      []int                     // which messages about handovers are lost next: after how many more, and whether it is the answer that is lost
	listed     map[string]store.Instance // what a cluster has beside the data
	formers    *memory.Formers           // likewise, of former owners
	conflicts  []string                  // what the store has refused although nobody else writes
	calm       time.Time                 // since when all has ended and nothing comes late; zero: it does
	taken      []string                  // partitions that were taken from owners that lived
	unopened   []string                  // what was stored in partitions that were stopped
	crowded    []string                  // what was begun beyond the slots of its engine
	gone       []string                  // former owners that were taken for gone and lived
	stays      string                    // the name of an instance that stays drained; empty: none does
	sparse     bool                      // who is gone comes back only if nobody else is there
	every      time.Duration             // TickRate of each engine
	carried    map[formerKey]*carried    // what is known of each that there was
	drained    time.Time                 // when draining began: no fault happens any more
	placed     time.Time                 // since when each partition is where it should be; zero: not all are
	instances  []*instance
	all        []*incarnation
	stages     bool // the store is a [store.Stager]
	places     int  // DefaultConcurrency of each engine
	last       int  // number of the instance that has opened the store last
	succession bool // somebody is about to begin
	requests   []*request
	faults     []Fault
	calls      []called
	grants     []grant
	replies    []reply // of the present step
	counts     map[string]int
	draining   bool
	lost       [][2]int // steps from which on, and until, commits were lost
	bereft     []bereft
	broken     error // the simulation itself
}

// Run runs a seed. The error says that it could not be; what is wrong with what happened stands in the report.
func Run(seed uint64, o Options) (*Report, error) {
	if o.Fleet && o.Shared {
		return nil, errors.New("fleet: true, with shared: true: want one of the two, since a fleet has one owner")
	}
	switch {
	case o.Partitions < 0 || o.Partitions > 16:
		return nil, fmt.Errorf("partitions: %d: must be from 1 to 16, or 0 for a store that is not divided", o.Partitions)
	case o.Partitions > 0 && !o.Fleet:
		return nil, fmt.Errorf("partitions: %d, with fleet: false: want a fleet, since it divides the partitions", o.Partitions)
	}
	if o.Instances < 0 || o.Instances > 3 {
		return nil, fmt.Errorf("instances: %d: must be from 1 to 3, or 0 for what the seed says", o.Instances)
	}
	r := newRun(seed, o)
	for _, q := range r.requests {
		if q.After < 0 || q.After > q.n {
			return nil, fmt.Errorf("request %d (%s): after: %d: must be the number of an earlier one, from 1 to %d", q.n+1, q.Name, q.After, q.n)
		}
	}
	for _, q := range r.requests {
		if q.Partition < 0 || q.Partition >= len(r.dbs) {
			return nil, fmt.Errorf("request %d (%s): partition: %d: must be from 0 to %d", q.n+1, q.Name, q.Partition, len(r.dbs)-1)
		}
	}
	plan, kept := r.cut()
	for range r.o.MaxSteps {
		if r.step(); r.broken != nil {
			break
		}
		if r.draining && r.over() {
			break
		}
	}
	rep := &Report{Seed: seed, Steps: r.steps, Took: r.now.Sub(begin), Plan: plan, Kept: kept, Counts: r.counts}
	if r.broken == nil {
		rep.Violations = r.check()
		r.journal()
		rep.Trace = r.trace.String()
	}
	return rep, errors.Join(r.broken, r.leave())
}

func newRun(seed uint64, o Options) *run {
	r := &run{world: newWorld(seed), o: o, counts: map[string]int{}, listed: map[string]store.Instance{}, carried: map[formerKey]*carried{}}
	r.formers = memory.NewFormers(func(partition int) string { return r.dbs[partition].row.Session })
	draw := rand.New(rand.NewPCG(seed, 1<<63)) //nolint:gosec // a seed is a run
	n := 1 + draw.IntN(3)
	r.places = []int{1, 2, 64}[draw.IntN(3)]
	r.stages = draw.IntN(2) == 0 && !o.Shared
	r.sparse = draw.IntN(2) == 0 && o.Shared
	r.every = 10 * time.Second
	if draw.IntN(2) == 0 && o.Fleet { // then an owner that does nothing commits less often than it must give signs of life
		r.every = time.Minute
	}
	if o.Instances > 0 {
		n = o.Instances
	}
	for i := range n {
		r.instances = append(r.instances, &instance{name: fmt.Sprintf("i%d", i), offset: time.Duration(draw.IntN(4001)-2000) * time.Millisecond})
	}
	if r.o.Faults == 0 {
		r.o.Faults = 8
	}
	r.o.Faults = max(r.o.Faults, 0)
	many := 1
	switch {
	case o.Partitions > 0: // each gives signs of life of its own
		many = 10
	case o.Fleet: // most of what happens is that somebody looks
		many = 5
	}
	if r.o.Steps == 0 {
		r.o.Steps = 400 * many
	}
	if r.o.MaxSteps == 0 {
		r.o.MaxSteps = 20_000 * many
	}
	if o.broken != nil {
		r.defects = o.broken()
	}
	for n := range max(1, o.Partitions) {
		r.dbs = append(r.dbs, newDatabase(r, n))
	}
	if o.Requests == nil {
		o.Requests = r.workload
	}
	for k, q := range o.Requests(draw) {
		r.requests = append(r.requests, newRequest(seed, k, q))
	}
	r.faults = faults(draw, r.o)
	return r
}

// cut leaves of the plan what is kept.
func (r *run) cut() (plan []string, kept []int) {
	keep := func(text string) bool {
		n := len(plan)
		plan = append(plan, text)
		if r.o.Keep != nil && !slices.Contains(r.o.Keep, n) {
			return false
		}
		kept = append(kept, n)
		return true
	}
	for _, q := range r.requests {
		q.dropped = !keep("request "+q.Name) || q.After > 0 && r.requests[q.After-1].dropped
	}
	for n, f := range r.faults {
		if !keep(f.String()) {
			r.faults[n] = Fault{}
		}
	}
	return plan, kept
}

// calmFor is how long a fleet goes on once all has ended, with nothing that comes late: for so long no lease lapses, but for what was late before.
const calmFor = 3 * lease

// over reports whether the run is.
func (r *run) over() bool {
	if !r.calm.IsZero() && r.now.Sub(r.calm) < calmFor || !r.done() { // in this order: to see whether all has ended is much work
		return false
	}
	if r.o.Fleet && r.calm.IsZero() {
		r.calm, r.prompt = r.now, true
	}
	return !r.o.Fleet || r.now.Sub(r.calm) >= calmFor
}

// step has one thing happen.
func (r *run) step() {
	r.look()
	more := append(r.befall(), r.sendable()...)
	if !r.next(more) {
		r.broken = errors.New("nothing can happen any more")
		return
	}
	r.hear()
	r.notePlaces()
	if r.steps >= r.o.Steps && !r.draining {
		r.draining, r.drained = true, r.now
		r.meeting, r.away = nil, time.Time{}
		if r.severed[1].After(r.now) {
			r.severed[1] = r.now
		}
		r.undrain()
		for _, on := range r.instances {
			on.frozen = time.Time{}
		}
	}
}

// What [Report].Counts has of a Fleet: claims of the partition, those of which the owner's lease had lapsed, and requests that were passed on.
const (
	CountClaims    = "the partition is claimed"
	CountLapsed    = "a lease has lapsed"
	CountForwarded = "a request is passed on"
)

// What it has of handovers: partitions that were given back while tools ran, and results of those tools that were reported to the next owner.
const (
	CountHandedOver = "a partition is handed over while tools run"
	CountReported   = "a result is reported to the next owner"
)

// CountLost counts in [Report].Counts the failovers that have lost commits.
const CountLost = "commits are lost by a failover"

// bereft is a process that owned the store when a failover lost commits.
type bereft struct {
	*incarnation
	had  *handle
	step int
}

func (r *run) failOver() {
	r.cutOff(3 * time.Second)
	for _, db := range r.dbs {
		if from := db.lagging; db.failOver() {
			r.lost = append(r.lost, [2]int{from, r.steps})
		}
	}
}

// cutOff has nobody reach the store for a while.
func (r *run) cutOff(d time.Duration) {
	if until := r.now.Add(d); until.After(r.away) {
		r.away = until
		if d >= lease {
			r.severed = [2]time.Time{r.now, until}
		}
	}
}

// silence is for how long somebody has given no sign of life since the last one while the store could be reached: that is what others may count.
func (r *run) silence(last time.Time) time.Duration {
	if r.severed[1].After(last) {
		return max(r.severed[0].Sub(last), r.now.Sub(r.severed[1]))
	}
	return r.now.Sub(last)
}

// wasLost reports whether what happened from a step on until another one may have been lost by a failover.
func (r *run) wasLost(from, until int) bool {
	return slices.ContainsFunc(r.lost, func(l [2]int) bool { return l[0] <= until && from <= l[1] })
}
