package core

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
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
// Once made it stays, also without runs: it keeps the interval.
//
// Time alone orphans nobody. Whoever sends the heartbeats reports once in an interval
// of all runs, and a run is orphaned after MaxMissed reports in a row without a
// heartbeat of it. So a process that did not run, a computer that slept and a clock that
// was set are no silence of a run: there were no reports. A report begins the count of
// a run anew, at the next report, where it is the first of a process, or says that the
// run's runner has not looked at the run in this process. What comes between two reports
// does so too: the next report is less than an interval later.
//
// Invariants, held by property tests:
//   - Each run is tracked at most once, in the order of the ids.
//   - A run is told once that it is orphaned, and only by a due event after so many reports
//     in a row had no heartbeat of it; from then on it is not tracked.
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
	// ReportedAt is when the last report came; before, when it was made. Zero: rules
	// before 5 made it, by which the time since the last heartbeat decides.
	ReportedAt Time `json:"reported_at,omitempty"`
}

// TrackedRun is a run that has not ended.
type TrackedRun struct {
	Run  uuid.UUID `json:"run"`
	Last Time      `json:"last"` // heartbeat, or the beginning
	Sent uint64    `json:"sent"` // heartbeats
	// SparedAt is when a late due event spared it by rules before 5; zero: none did since
	// the last heartbeat.
	SparedAt Time `json:"spared_at"`
	// Missed is how many reports in a row had no heartbeat of it.
	Missed uint32 `json:"missed,omitempty"`
	// Fresh says that the next report is not counted: less than an interval passes until then.
	Fresh bool `json:"fresh,omitempty"`
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
		t.due(e)
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
	r := TrackedRun{Run: e.Run, Last: t.clock.Now, Fresh: t.countsReports()}
	t.Runs = slices.Insert(slices.Clone(t.Runs), i, r)
}

// countsReports reports whether reports decide rather than the time. A scheduler that rules
// before 5 have made begins with that.
func (t *schedulerTransition) countsReports() bool {
	if t.clock.Rules.before(5) {
		return false
	}
	if t.ReportedAt.IsZero() {
		t.ReportedAt = max(t.clock.Now, effects.MinTime)
	}
	return true
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
	case len(beating) == 0 && (e.Some || len(t.Runs) == 0 || t.clock.Rules.before(5)):
		t.refuse(effects.CodeNotFound, "none of the runs is tracked")
		return
	}
	t.Runs = slices.Clone(t.Runs)
	if t.countsReports() && !e.Some {
		t.count(e)
	}
	for _, i := range beating {
		r := &t.Runs[i]
		r.Last, r.SparedAt, r.Sent = t.clock.Now, 0, saturatingAdd(r.Sent, 1)
		r.Missed, r.Fresh = 0, (e.Some || e.Begins) && !t.clock.Rules.before(5)
	}
	t.IntervalMS, t.MaxMissed = cmp.Or(e.IntervalMS, t.IntervalMS), cmp.Or(e.MaxMissed, t.MaxMissed)
}

// count counts a report against all runs; those that beat are taken out afterwards.
func (t *schedulerTransition) count(e SchedulerHeartbeats) {
	t.ReportedAt = max(t.clock.Now, effects.MinTime)
	for i := range t.Runs {
		r := &t.Runs[i]
		switch {
		case e.Begins, slices.Contains(e.Unseen, r.Run):
			r.Missed, r.Fresh = 0, true
		case r.Fresh:
			r.Fresh = false
		default:
			r.Missed = min(r.Missed, math.MaxUint32-1) + 1
		}
	}
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
func (t *schedulerTransition) due(e SchedulerDue) {
	at, now := t.Deadline(), t.clock.Now
	if at.IsZero() || at.After(now) {
		t.refuse(effects.CodeConflict, "no heartbeat is missing yet")
		return
	}
	silent := t.silent
	switch {
	case t.clock.Rules.before(5):
		silent = t.silentForLong(at)
	case t.ReportedAt.IsZero() || e.Unwatched:
		silent = t.spare // nobody has counted since
	}
	t.countsReports()
	orphans := 0
	var tracked []TrackedRun
	for _, r := range t.Runs {
		if silent(&r) && orphans < MaxOrphansAtOnce {
			orphans++
			t.send(runRef(r.Run), OrchestratorOrphan{LastHeartbeat: r.Last, Missed: cmp.Or(r.Missed, t.MaxMissed)})
			t.send(runRef(r.Run), OrchestratorHeartbeats{Sent: r.Sent})
			continue
		}
		tracked = append(tracked, r)
	}
	t.Runs = tracked
}

// spare has the count of a run begin anew.
func (t *schedulerTransition) spare(r *TrackedRun) bool {
	r.Missed, r.Fresh = 0, true
	return false
}

// silentForLong is how rules before 5 find the runs whose last heartbeat is too long ago: of
// a due event that comes late they take it that nobody was there to hear a heartbeat, and
// spare each run one more silence, but only one until its next heartbeat.
func (t *schedulerTransition) silentForLong(at Time) func(r *TrackedRun) bool {
	now := t.clock.Now
	late := betweenMS(at, now) > t.IntervalMS/2
	return func(r *TrackedRun) bool {
		switch {
		case t.silentAt(*r).After(now):
			return false
		case late && r.SparedAt.IsZero():
			r.SparedAt = max(now, effects.MinTime)
			return false
		}
		return true
	}
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
	e.Begins, e.Unseen = s.shortenedUnseen(e, beating)
	if n := len(beating); n == 0 || len(s.Runs)-n >= n {
		return e
	}
	short := e
	short.All, short.Runs, short.Except = true, nil, nil
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

// shortenedUnseen says for which runs the count begins anew: usually of all, or of none.
func (s Scheduler) shortenedUnseen(e SchedulerHeartbeats, beating []int) (all bool, unseen []uuid.UUID) {
	if e.Some || e.Begins || len(e.Unseen) == 0 {
		return e.Begins, nil
	}
	for i, r := range s.Runs {
		if _, beats := slices.BinarySearch(beating, i); !beats && slices.Contains(e.Unseen, r.Run) && !slices.Contains(unseen, r.Run) {
			unseen = append(unseen, r.Run)
		}
	}
	if len(beating) == 0 && len(unseen) == len(s.Runs) {
		return true, nil
	}
	return false, unseen
}

// orphanedAfter is how many reports in a row without a heartbeat of a run orphan it.
func (s Scheduler) orphanedAfter() uint32 { return min(max(s.MaxMissed, 1), maxMissedHeartbeats) }

// silent reports whether as many heartbeats of a run are missing as may be.
func (s Scheduler) silent(r *TrackedRun) bool { return r.Missed >= s.orphanedAfter() }

// silence is how long a run may be silent by rules before 5.
func (s Scheduler) silence() int64 {
	return min(max(s.IntervalMS, 1), maxHeartbeatIntervalMS) * int64(s.orphanedAfter())
}

// silentAt is when the run will have been silent for too long by rules before 5.
func (s Scheduler) silentAt(r TrackedRun) Time {
	return laterMS(max(r.Last, r.SparedAt), s.silence())
}

// Ref names the scheduler.
func (s Scheduler) Ref() effects.Ref { return refOf(KindScheduler, s.ID) }

// Deadline is when the report came that found the first run silent for too long; zero: none
// is.
func (s Scheduler) Deadline() Time {
	var first Time
	for _, r := range s.Runs {
		switch {
		case s.ReportedAt.IsZero():
			first = earliest(first, s.silentAt(r))
		case s.silent(&r):
			return s.ReportedAt
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

// shortenedFor: see [Shortened].
func (e SchedulerHeartbeats) shortenedFor(s State) Event {
	if s, ok := s.(Scheduler); ok {
		return s.Shortened(e)
	}
	return e
}
