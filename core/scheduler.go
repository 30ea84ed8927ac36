package core

import (
	"bytes"
	"cmp"
	"encoding/binary"
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
// only one until its next heartbeat.
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

// SchedulerRef names the scheduler that tracks a run.
func SchedulerRef(run uuid.UUID) effects.Ref {
	return effects.Ref{Kind: KindScheduler, ID: namedID("scheduler", "", "", string(binary.BigEndian.AppendUint16(nil, uint16(run[0])%schedulerShards)))}
}

// schedulerTransition is the application of one event to a scheduler.
type schedulerTransition struct {
	transition
	Scheduler
}

// Apply carries out one transition.
func (s Scheduler) Apply(e SchedulerEvent, c Clock) (Scheduler, []effects.Effect) {
	t := &schedulerTransition{transition{clock: c, event: e}, s}
	switch e := e.(type) {
	case SchedulerTrack:
		t.track(e)
	case SchedulerHeartbeats:
		t.heartbeats(e)
	case SchedulerForget:
		t.forget(e)
	case SchedulerDue:
		t.due()
	}
	return concluded(s, t.Scheduler, t.transition)
}

// track: (absent), tracking → tracking.
func (t *schedulerTransition) track(e SchedulerTrack) {
	if e.Run == uuid.Nil {
		t.refuse(effects.CodeInvalid, "run: must be the id of a run")
		return
	}
	i, tracked := t.find(e.Run)
	if tracked {
		t.refuse(effects.CodeExists, "run: %s is tracked already", e.Run)
		return
	}
	if t.ID == uuid.Nil {
		i, t.Scheduler = 0, Scheduler{ID: SchedulerRef(e.Run).ID, IntervalMS: DefaultHeartbeatIntervalMS, MaxMissed: DefaultMaxMissedHeartbeats, CreatedAt: t.clock.Now}
	}
	t.Runs = slices.Insert(slices.Clone(t.Runs), i, TrackedRun{Run: e.Run, Last: t.clock.Now})
}

// heartbeats notes that runs live, and takes the configuration of the daemon.
func (t *schedulerTransition) heartbeats(e SchedulerHeartbeats) {
	beating := t.beating(e)
	err := cmp.Or(
		checkBetween("interval_ms", e.IntervalMS, 0, maxHeartbeatIntervalMS),
		checkBetween("max_missed", int64(e.MaxMissed), 0, maxMissedHeartbeats),
	)
	switch {
	case t.ID != uuid.Nil && err != nil:
		t.refuse(effects.CodeInvalid, "%s", err)
		return
	case len(beating) == 0:
		t.refuse(effects.CodeNotFound, "none of the runs is tracked")
		return
	}
	t.Runs = slices.Clone(t.Runs)
	for _, i := range beating {
		r := &t.Runs[i]
		r.Last, r.SparedAt, r.Sent = t.clock.Now, 0, saturatingAdd(r.Sent, 1)
	}
	t.IntervalMS, t.MaxMissed = cmp.Or(e.IntervalMS, t.IntervalMS), cmp.Or(e.MaxMissed, t.MaxMissed)
}

// forget: the run has ended, and is told of its heartbeats: its metrics wait for
// that, also if the record was lost.
func (t *schedulerTransition) forget(e SchedulerForget) {
	var sent uint64
	if i, tracked := t.find(e.Run); tracked {
		sent = t.Runs[i].Sent
		t.Runs = slices.Concat(t.Runs[:i], t.Runs[i+1:])
	}
	t.send(runRef(e.Run), OrchestratorHeartbeats{Sent: sent})
}

// due declares the runs orphaned that were silent for too long.
func (t *schedulerTransition) due() {
	at, now := t.Deadline(), t.clock.Now
	if at.IsZero() || at.After(now) {
		t.refuse(effects.CodeConflict, "no heartbeat is missing yet")
		return
	}
	late := betweenMS(at, now) > t.IntervalMS/2
	orphans := 0
	var tracked []TrackedRun
	for _, r := range t.Runs {
		switch {
		case t.silentAt(r).After(now):
		case late && r.SparedAt.IsZero():
			r.SparedAt = max(now, effects.MinTime)
		case orphans < MaxOrphansAtOnce:
			orphans++
			t.send(runRef(r.Run), OrchestratorOrphan{LastHeartbeat: r.Last, Missed: t.MaxMissed})
			t.send(runRef(r.Run), OrchestratorHeartbeats{Sent: r.Sent})
			continue
		}
		tracked = append(tracked, r)
	}
	t.Runs = tracked
}

func (s Scheduler) find(run uuid.UUID) (int, bool) {
	return slices.BinarySearchFunc(s.Runs, run, func(t TrackedRun, id uuid.UUID) int { return bytes.Compare(t.Run[:], id[:]) })
}

// beating gives the indexes of the runs whose heartbeats the event brings, in order.
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

// Shortened says the same in fewer words, for this very state. Usually the event brings
// the heartbeats of all runs that are tracked: the journal, which has each event of
// every few seconds, need not name them.
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
		return e // the record is damaged: a run stands in it twice
	}
	return short
}

// silence is how long a run may be silent.
func (s Scheduler) silence() int64 {
	interval := min(max(s.IntervalMS, 1), maxHeartbeatIntervalMS)
	return interval * int64(min(max(s.MaxMissed, 1), maxMissedHeartbeats))
}

// silentAt is when the run will have been silent for too long.
func (s Scheduler) silentAt(r TrackedRun) Time {
	return laterMS(max(r.Last, r.SparedAt), s.silence())
}

// Ref names the scheduler.
func (s Scheduler) Ref() effects.Ref { return refOf(KindScheduler, s.ID) }

// Deadline is when the first run will have been silent for too long.
func (s Scheduler) Deadline() Time {
	var first Time
	for _, r := range s.Runs {
		first = earliest(first, s.silentAt(r))
	}
	return first
}

// Terms lists the scheduler under all.
func (s Scheduler) Terms() []effects.Term {
	return []effects.Term{{Name: TermAll, At: s.CreatedAt}}
}

// AppendJSON appends the stored form.
func (s Scheduler) AppendJSON(b []byte) []byte { return appendMarshaled(b, s) }

// shortenedFor: see [Shortened].
func (e SchedulerHeartbeats) shortenedFor(s State) Event {
	if s, ok := s.(Scheduler); ok {
		return s.Shortened(e)
	}
	return e
}
