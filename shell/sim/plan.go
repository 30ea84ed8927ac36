package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// FaultKind is what may go wrong.
type FaultKind string

// The faults.
const (
	// RefuseCommit: the next commit is refused with an error that passes, and nothing is stored.
	RefuseCommit FaultKind = "a commit is refused"
	// LoseAnswer: the next commit is made, its answer is lost, and the store finds out a while later.
	LoseAnswer FaultKind = "the answer of a commit is lost"
	// LoseCommit: the next commit is lost, and the store makes it once it has found out.
	LoseCommit FaultKind = "a commit is lost on its way"
	// LoseBoth: nobody finds out whether the next commit was made; the store refuses everything until it is opened anew.
	LoseBoth FaultKind = "nobody knows of a commit"
	// Unconfirm: the next commit is not confirmed, as by a sync that has failed. It stays, and is confirmed with the one behind it, or it is gone with all that was staged on
	// top of it; the store goes on.
	Unconfirm FaultKind = "a commit is not confirmed"
	// SlowCommit: the answer of the next commit takes a while.
	SlowCommit FaultKind = "a commit is slow"
	// Outage: nobody reaches the store for a while.
	Outage FaultKind = "the store is away"
	// Lag: the store's standby lacks what is committed from now on, until FailOver.
	Lag FaultKind = "the standby lags"
	// FailOver: the store's standby takes over. What it lacks is lost, and the owner of the store is told: it stops the partition, and an operator accepts
	// the loss a while later.
	FailOver FaultKind = "the standby takes over"
	// Crash: an instance is gone, and its process with it.
	Crash FaultKind = "an instance crashes"
	// Freeze: nothing moves on an instance for a while.
	Freeze FaultKind = "an instance is frozen"
	// Stop: the process of an instance is told to end.
	Stop FaultKind = "an instance is stopped"
	// TakeOver: an instance opens the store although another one that works has it.
	TakeOver FaultKind = "an instance takes over"
	// Jump: the wall clock of an instance is set.
	Jump FaultKind = "a wall clock is set"
	// Double: a request that is on its way comes twice.
	Double FaultKind = "a request comes twice"
	// Drain: an instance of a fleet of several partitions is to give back what it owns, for a while.
	Drain FaultKind = "an instance is drained"
	// LoseMessages: some of what processes of a fleet tell next of what runs on after a handover is lost on its way to the database, or the answer is.
	LoseMessages FaultKind = "messages about a handover are lost"
	// LoseReply: a client gives up a request that is on its way, and sends it again later.
	LoseReply FaultKind = "a reply is lost"
)

// Fault is one fault of a plan.
type Fault struct {
	Kind FaultKind
	Step int           // it may happen from that step on
	N    int           // which instance or which request it meets
	For  time.Duration // how long it lasts, or by how much a clock is set
}

// String gives it in one line.
func (f Fault) String() string {
	return fmt.Sprintf("from step %d: %s (%d, %s)", f.Step, f.Kind, f.N, f.For)
}

// faults draws those of a seed.
func faults(r *rand.Rand, o Options) (list []Fault) {
	kinds := []FaultKind{
		RefuseCommit, LoseAnswer, LoseCommit, LoseBoth, Unconfirm, Unconfirm, SlowCommit, SlowCommit, Outage, Crash, Crash, Freeze, Freeze, Stop,
		Jump, Double, LoseReply, LoseReply,
	}
	if !o.Shared {
		kinds = append(kinds, TakeOver, FailOver)
		if o.Losses {
			kinds = append(kinds, Lag, Lag, FailOver, FailOver)
		}
	}
	if o.Fleet {
		kinds = append(kinds, LoseMessages, LoseMessages)
	}
	if o.Partitions > 0 {
		kinds = append(kinds, Drain)
	} else if o.Fleet {
		kinds = append(kinds, Stop, Stop)
	}
	for range r.IntN(o.Faults + 1) {
		f := Fault{Kind: kinds[r.IntN(len(kinds))], Step: 10 + r.IntN(max(1, o.Steps*3/4)), N: r.IntN(64), For: time.Duration(1+r.IntN(40)) * time.Second}
		if f.Kind == Jump {
			f.For = time.Duration(r.IntN(241)-120) * time.Second
		}
		list = append(list, f)
	}
	return list
}

// befall adds the faults that may happen now to what is possible.
func (r *run) befall() (possible []*stimulus) {
	if r.draining {
		return nil
	}
	for n, f := range r.faults {
		if f.Kind == "" || f.Step > r.steps || !r.applies(f) {
			continue
		}
		possible = append(possible, &stimulus{name: fmt.Sprintf("fault %d: %s", n, f.Kind), fire: func() {
			r.faults[n] = Fault{}
			r.counts[string(f.Kind)]++
			r.apply(f)
			r.Add(-1)
		}})
	}
	return possible
}

// one gives the instance that a fault meets.
func (r *run) one(f Fault) *instance { return r.instances[f.N%len(r.instances)] }

// applies reports whether a fault may happen now.
func (r *run) applies(f Fault) bool {
	on := r.one(f)
	switch f.Kind {
	case Crash:
		return on.runs.serves()
	case Freeze:
		return on.runs.serves() && !on.frozen.After(r.now)
	case Stop: // an engine is told while its loop waits
		return on.runs.serves() && !on.runs.told && !on.frozen.After(r.now) && (on.runs.group != nil || !r.commits(on.runs))
	case TakeOver:
		return on.runs == nil && !on.frozen.After(r.now) && r.successor() == nil && !r.isStopped()
	case Drain:
		return on.runs.serves() && r.drains(on.runs.name, true)
	case Double, LoseReply:
		return r.underway(f) != nil
	default:
		return true
	}
}

func (r *run) apply(f Fault) {
	on := r.one(f)
	switch f.Kind {
	case RefuseCommit, LoseAnswer, LoseCommit, LoseBoth, Unconfirm, SlowCommit:
		r.meeting = append(r.meeting, f)
	case Outage:
		r.cutOff(f.For)
	case Lag:
		for _, db := range r.dbs {
			db.lag()
		}
	case FailOver:
		r.failOver()
	case Crash:
		r.crash(on)
	case Freeze:
		on.frozen = r.now.Add(2 * f.For)
		r.after("nothing is frozen any more", 2*f.For, func() {})
	case Stop:
		on.runs.told = true
		r.tell(on.runs)
	case TakeOver:
		r.start(on)
	case LoseMessages:
		r.loses = append(r.loses, f.N, f.N/2, f.N/3)
	case Drain:
		r.drain(on.runs.name, f.For)
	case Jump:
		on.offset += f.For
		r.jumped += max(0, f.For)
	case Double:
		r.send(r.underway(f))
	case LoseReply:
		r.giveUp(r.underway(f))
	}
}
