package core

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Heartbeats of runs (004 Heartbeat Mechanism, E6).
const (
	DefaultHeartbeatIntervalMS = 10_000 // OrchestratorHeartbeatInterval
	DefaultMaxMissedHeartbeats = 3      // MaxMissedOrchestratorHeartbeats

	schedulerShards        = 256
	maxHeartbeatIntervalMS = 24 * 60 * 60 * 1000
	maxMissedHeartbeats    = 1000
)

// MaxOrphansAtOnce bounds how many runs one due event declares orphaned, see
// [MaxDeliveries]; the others follow.
const MaxOrphansAtOnce = 256

// Scheduler keeps the heartbeats of the runs that have not ended, and declares
// those orphaned whose heartbeats are missing (004 Scheduler). There are 256, each
// with the runs whose ids begin with its number, so that a heartbeat rewrites
// little. The occurrences of a job are its own concern: see [Job].
//
//	(absent) ── track ──▶ tracking ◀──┐
//	                       └──────────┘ track, heartbeats, forget, due
//
// Once made it stays, also without runs: it keeps the interval. A due event that
// comes late says that nobody was there to hear a heartbeat: the computer slept, or
// the disk was stuck. A run is then spared: it has one more silence to beat in, but
// only one until it beats again.
//
// Invariants, held by property tests:
//   - Each run is tracked at most once, in the order of the ids.
//   - A run is told once that it is orphaned, and only after the time of the missed
//     heartbeats, by a due event in time or after it was spared; from then on it is
//     not tracked.
//   - A run that is not tracked any more, or was forgotten before, is told how many
//     heartbeats there were.
//   - A due event leaves no deadline that has come, unless it has declared as many
//     as it may.
type Scheduler struct {
	ID         uuid.UUID    `json:"id"`
	IntervalMS int64        `json:"interval_ms"` // between heartbeats
	MaxMissed  uint32       `json:"max_missed"`
	Runs       []TrackedRun `json:"runs"` // in the order of their ids
	CreatedAt  Time         `json:"created_at"`
}

// TrackedRun is a run that has not ended.
type TrackedRun struct {
	Run  uuid.UUID `json:"run"`
	Last Time      `json:"last"` // heartbeat, or the beginning
	Sent uint64    `json:"sent"` // heartbeats
	// SparedAt is when a late due event spared it; zero: none did since the last
	// heartbeat.
	SparedAt Time `json:"spared_at"`
}

// SchedulerEvent is an event of [Scheduler]. The set is closed.
//
//sumtype:decl
type SchedulerEvent interface {
	Event
	schedulerEvent()
}

type (
	// SchedulerTrack begins to track a run, which made itself known.
	SchedulerTrack struct {
		Run uuid.UUID `json:"run"`
	}
	// SchedulerHeartbeats are the heartbeats of several runs at one time (004
	// OrchestratorHeartbeatMsg), which is that of the clock. Those that are not
	// tracked are passed over.
	SchedulerHeartbeats struct {
		Runs []uuid.UUID `json:"runs,omitempty"`
		// All: instead of Runs, those of all runs that are tracked but for the Except,
		// see [Scheduler.Shortened].
		All    bool        `json:"all,omitempty"`
		Except []uuid.UUID `json:"except,omitempty"`
		// IntervalMS and MaxMissed are as the daemon is configured; 0: as they were.
		IntervalMS int64  `json:"interval_ms,omitempty"`
		MaxMissed  uint32 `json:"max_missed,omitempty"`
	}
	// SchedulerForget says that a run has ended.
	SchedulerForget struct {
		Run uuid.UUID `json:"run"`
	}
	// SchedulerDue says that heartbeats are missing, or that their time has passed.
	SchedulerDue struct{}
)

func (SchedulerTrack) schedulerEvent()      {}
func (SchedulerHeartbeats) schedulerEvent() {}
func (SchedulerForget) schedulerEvent()     {}
func (SchedulerDue) schedulerEvent()        {}

// EventType gives the discriminator in the journal.
func (SchedulerTrack) EventType() string      { return "track" }
func (SchedulerHeartbeats) EventType() string { return "heartbeats" }
func (SchedulerForget) EventType() string     { return "forget" }
func (SchedulerDue) EventType() string        { return typeDue }

// schedulerEvents are the events of Scheduler, as the journal has them.
var schedulerEvents = []eventType{
	event[SchedulerTrack](), event[SchedulerHeartbeats](), event[SchedulerForget](), event[SchedulerDue](),
}

// SchedulerRef names the scheduler that tracks a run.
func SchedulerRef(run uuid.UUID) effects.Ref {
	return effects.Ref{Kind: KindScheduler, ID: namedID("scheduler", "", "", string(binary.BigEndian.AppendUint16(nil, uint16(run[0])%schedulerShards)))}
}

// Apply carries out one transition.
func (s Scheduler) Apply(e SchedulerEvent, c Clock) (Scheduler, []effects.Effect) {
	switch e := e.(type) {
	case SchedulerTrack:
		return s.track(e, c)
	case SchedulerHeartbeats:
		return s.heartbeats(e, c)
	case SchedulerForget:
		return s.forget(e)
	case SchedulerDue:
		return s.due(e, c)
	}
	return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("a scheduler takes no event %q", e.EventType()))
}

func (s Scheduler) find(run uuid.UUID) (int, bool) {
	return slices.BinarySearchFunc(s.Runs, run, func(t TrackedRun, id uuid.UUID) int { return bytes.Compare(t.Run[:], id[:]) })
}

func (s Scheduler) track(e SchedulerTrack, c Clock) (Scheduler, []effects.Effect) {
	if e.Run == uuid.Nil {
		return s, s.refuse(e, effects.CodeInvalid, "run: must be the id of a run")
	}
	i, tracked := s.find(e.Run)
	if tracked {
		return s, s.refuse(e, effects.CodeExists, fmt.Sprintf("run: %s is tracked already", e.Run))
	}
	if s.ID == uuid.Nil {
		i, s = 0, Scheduler{ID: SchedulerRef(e.Run).ID, IntervalMS: DefaultHeartbeatIntervalMS, MaxMissed: DefaultMaxMissedHeartbeats, CreatedAt: c.Now}
	}
	s.Runs = slices.Insert(slices.Clone(s.Runs), i, TrackedRun{Run: e.Run, Last: c.Now})
	return s, nil
}

func (s Scheduler) heartbeats(e SchedulerHeartbeats, c Clock) (Scheduler, []effects.Effect) {
	switch {
	case s.ID == uuid.Nil:
		return s, s.refuse(e, effects.CodeNotFound, "none of the runs is tracked")
	case e.IntervalMS < 0 || e.IntervalMS > maxHeartbeatIntervalMS:
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("interval_ms: %d is not between 0 and %d", e.IntervalMS, maxHeartbeatIntervalMS))
	case e.MaxMissed > maxMissedHeartbeats:
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("max_missed: %d is not between 0 and %d", e.MaxMissed, maxMissedHeartbeats))
	}
	n := s
	n.Runs = slices.Clone(s.Runs)
	beating := s.beating(e)
	for _, i := range beating {
		n.Runs[i].Last, n.Runs[i].SparedAt = c.Now, 0
		n.Runs[i].Sent = saturatingAdd(n.Runs[i].Sent, 1)
	}
	if len(beating) == 0 {
		return s, s.refuse(e, effects.CodeNotFound, "none of the runs is tracked")
	}
	if e.IntervalMS > 0 {
		n.IntervalMS = e.IntervalMS
	}
	if e.MaxMissed > 0 {
		n.MaxMissed = e.MaxMissed
	}
	return n, nil
}

// beating gives the places of the runs that beat, in order.
func (s Scheduler) beating(e SchedulerHeartbeats) []int {
	var out []int
	if e.All {
		for i, r := range s.Runs {
			if !slices.Contains(e.Except, r.Run) {
				out = append(out, i)
			}
		}
		return out
	}
	for _, run := range e.Runs {
		if i, tracked := s.find(run); tracked {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out) // one that is named twice beats once
}

// Shortened says the same in fewer words, for this very state. Usually all runs
// beat that are tracked: the journal, which has each event of every few seconds,
// need not name them.
func (s Scheduler) Shortened(e SchedulerHeartbeats) SchedulerHeartbeats {
	if e.IntervalMS == s.IntervalMS {
		e.IntervalMS = 0
	}
	if e.MaxMissed == s.MaxMissed {
		e.MaxMissed = 0
	}
	beating := s.beating(e)
	if n := len(beating); n == 0 || len(s.Runs)-n >= n {
		return e
	}
	short := SchedulerHeartbeats{All: true, IntervalMS: e.IntervalMS, MaxMissed: e.MaxMissed}
	for i, r := range s.Runs {
		if _, beats := slices.BinarySearch(beating, i); !beats {
			short.Except = append(short.Except, r.Run)
		}
	}
	if !slices.Equal(s.beating(short), beating) {
		return e // the record is damaged: a run stands in it twice, and beats in one place
	}
	return short
}

// forget: the run has ended, and is told of its heartbeats: its metrics wait for
// that, also where the record was lost.
func (s Scheduler) forget(e SchedulerForget) (Scheduler, []effects.Effect) {
	var sent uint64
	if i, tracked := s.find(e.Run); tracked {
		sent = s.Runs[i].Sent
		s.Runs = slices.Concat(s.Runs[:i], s.Runs[i+1:])
	}
	return s, []effects.Effect{effects.Send{To: runRef(e.Run), Event: OrchestratorHeartbeats{Sent: sent}}}
}

// silence is how long a run may be silent.
func (s Scheduler) silence() int64 {
	interval := min(max(s.IntervalMS, 1), maxHeartbeatIntervalMS)
	return interval * int64(min(max(s.MaxMissed, 1), maxMissedHeartbeats))
}

// due declares the runs orphaned that were silent for too long.
func (s Scheduler) due(e SchedulerDue, c Clock) (Scheduler, []effects.Effect) {
	at := s.Deadline()
	if at.IsZero() || at.After(c.Now) {
		return s, s.refuse(e, effects.CodeConflict, "no heartbeat is missing yet")
	}
	late := betweenMS(at, c.Now) > s.IntervalMS/2
	var effs []effects.Effect
	var left []TrackedRun
	for _, r := range s.Runs {
		switch {
		case s.silentAt(r).After(c.Now):
			left = append(left, r)
			continue
		case late && r.SparedAt.IsZero():
			r.SparedAt = max(c.Now, effects.MinTime)
			left = append(left, r)
			continue
		case len(effs) == 2*MaxOrphansAtOnce:
			left = append(left, r)
			continue
		}
		effs = append(effs,
			effects.Send{To: runRef(r.Run), Event: OrchestratorOrphan{LastHeartbeat: r.Last, Missed: s.MaxMissed}},
			effects.Send{To: runRef(r.Run), Event: OrchestratorHeartbeats{Sent: r.Sent}},
		)
	}
	s.Runs = left
	return s, effs
}

// silentAt is when the run will have been silent for too long.
func (s Scheduler) silentAt(r TrackedRun) Time {
	return laterMS(max(r.Last, r.SparedAt), s.silence())
}

// Ref names the scheduler.
func (s Scheduler) Ref() effects.Ref {
	if s.ID == uuid.Nil {
		return effects.Ref{}
	}
	return effects.Ref{Kind: KindScheduler, ID: s.ID}
}

// Deadline is when the first run will have been silent for too long.
func (s Scheduler) Deadline() Time {
	var first Time
	for _, r := range s.Runs {
		if at := s.silentAt(r); first.IsZero() || at < first {
			first = at
		}
	}
	return first
}

// Terms lists the scheduler under all.
func (s Scheduler) Terms() []effects.Term {
	return []effects.Term{{Name: TermAll, At: s.CreatedAt}}
}

// AppendJSON appends the stored form.
func (s Scheduler) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

func (s Scheduler) apply(e Event, c Clock) (State, []effects.Effect) {
	own, ok := e.(SchedulerEvent)
	if !ok {
		return s, s.refuse(e, effects.CodeInvalid, fmt.Sprintf("a scheduler takes no event %q", e.EventType()))
	}
	return s.Apply(own, c)
}

func (s Scheduler) refuse(e Event, code effects.Code, reason string) []effects.Effect {
	return refused(effects.Ref{Kind: KindScheduler, ID: s.ID}, e, code, reason)
}

// shortenedFor: see [Shortened].
func (e SchedulerHeartbeats) shortenedFor(s State) Event {
	if s, ok := s.(Scheduler); ok {
		return s.Shortened(e)
	}
	return e
}
