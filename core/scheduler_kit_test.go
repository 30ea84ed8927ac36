package core_test

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var _ = register(core.KindScheduler, kit{
	typ:     "Scheduler",
	absent:  core.Scheduler{},
	apply:   applying(core.Scheduler.Apply),
	made:    missingScheduler,
	hostile: hostileScheduler,
	draw:    drawSchedulerEvent,
	own:     core.SchedulerForget{Run: id(1)},
	states:  goldenSchedulerStates,
	events:  goldenSchedulerEvents,
	phase:   func(core.State) string { return "tracking" },
	phases:  []string{"absent", "tracking"},
	invariants: []invariant{
		on("Each run is tracked at most once, in the order of the ids.", func(_ step, _, a core.Scheduler) string {
			ordered := slices.IsSortedFunc(a.Runs, func(x, y core.TrackedRun) int {
				if x.Run == y.Run {
					return 1 // not even equal
				}
				return bytes.Compare(x.Run[:], y.Run[:])
			})
			return unless(ordered, "%v", a.Runs)
		}),
		on("A run is told once that it is orphaned, and only by a due event after so many reports in a row had no heartbeat of it; from then on it is not tracked.", func(s step, b, a core.Scheduler) string {
			told := map[uuid.UUID]int{}
			for _, e := range s.effs {
				if send, ok := e.(effects.Send); ok {
					if _, orphan := send.Event.(core.OrchestratorOrphan); orphan {
						told[send.To.ID]++
					}
				}
			}
			for _, r := range b.Runs {
				if n := told[r.Run]; n > 1 || n == 1 && (r.Missed < b.MaxMissed || b.ReportedAt.IsZero() || isTracked(a, r.Run)) {
					return r.Run.String()
				}
				delete(told, r.Run)
			}
			_, due := s.event.(core.SchedulerDue)
			return unless(len(told) == 0 && (due || len(sends[core.OrchestratorOrphan](s)) == 0), "%v", s.effs)
		}),
		on("A run that is not tracked any more, or was forgotten before, is told how many heartbeats there were.", func(s step, b, a core.Scheduler) string {
			want := 0
			for _, r := range b.Runs {
				if !isTracked(a, r.Run) {
					want++
					if !slices.Contains(s.effs, effects.Effect(effects.Send{To: effects.Ref{Kind: core.KindOrchestrator, ID: r.Run}, Event: core.OrchestratorHeartbeats{Sent: r.Sent}})) {
						return r.Run.String()
					}
				}
			}
			if f, ok := s.event.(core.SchedulerForget); ok && !isTracked(b, f.Run) {
				want++
			}
			return unless(len(sends[core.OrchestratorHeartbeats](s)) == want, "%v", s.effs)
		}),
		on("A due event leaves no deadline that has come, unless it has declared as many as it may.", func(s step, _, a core.Scheduler) string {
			if _, due := s.event.(core.SchedulerDue); !due || refusal(s.effs) != nil || len(sends[core.OrchestratorOrphan](s)) == core.MaxOrphansAtOnce {
				return ""
			}
			return unless(a.Deadline().IsZero() || a.Deadline() > s.clock.Now, "due at %s, at %s", a.Deadline(), s.clock.Now)
		}),
	},
})

func isTracked(s core.Scheduler, run uuid.UUID) bool {
	return slices.ContainsFunc(s.Runs, func(r core.TrackedRun) bool { return r.Run == run })
}

func madeScheduler(events ...core.SchedulerEvent) core.Scheduler {
	return afterEvents(core.Scheduler.Apply, core.Scheduler{}, events...)
}

func goldenSchedulerStates() []core.State {
	var before []core.State // as rules before 5 make them
	for _, events := range [][]core.SchedulerEvent{
		{core.SchedulerTrack{Run: id(2)}, core.SchedulerTrack{Run: id(1)}, core.SchedulerHeartbeats{Runs: []uuid.UUID{id(1), id(3)}, IntervalMS: 5000, MaxMissed: 4}},
		{core.SchedulerTrack{Run: id(2)}, core.SchedulerForget{Run: id(2)}},
		{core.SchedulerTrack{Run: id(2)}, core.SchedulerDue{}},
	} {
		var s core.Scheduler
		for i, e := range events {
			now := start
			if i > 0 && e == (core.SchedulerDue{}) {
				now = start.Add(time.Hour)
			}
			s, _ = s.Apply(e, core.Clock{Now: now, Rules: 4})
		}
		before = append(before, s)
	}
	return append(before, madeScheduler(core.SchedulerTrack{Run: id(2)}, core.SchedulerTrack{Run: id(1)}), missingScheduler())
}

// missingScheduler has a run that beats, and one that has missed as many heartbeats as it may.
func missingScheduler() core.State {
	beats := core.SchedulerHeartbeats{Runs: []uuid.UUID{id(2)}, MaxMissed: 1}
	return madeScheduler(core.SchedulerTrack{Run: id(1)}, core.SchedulerTrack{Run: id(2)}, beats, beats)
}

func goldenSchedulerEvents() []core.Event {
	return []core.Event{
		core.SchedulerTrack{Run: id(1)}, core.SchedulerHeartbeats{Runs: []uuid.UUID{id(1), id(2)}}, core.SchedulerHeartbeats{Runs: []uuid.UUID{id(1)}, IntervalMS: 5000, MaxMissed: 4},
		core.SchedulerHeartbeats{All: true}, core.SchedulerHeartbeats{All: true, Except: []uuid.UUID{id(1)}},
		core.SchedulerForget{Run: id(1)}, core.SchedulerDue{},
		core.SchedulerHeartbeats{Runs: []uuid.UUID{id(1)}, Some: true}, core.SchedulerHeartbeats{All: true, Begins: true},
		core.SchedulerHeartbeats{Runs: []uuid.UUID{id(1)}, Unseen: []uuid.UUID{id(2)}}, core.SchedulerDue{Unwatched: true},
	}
}

func drawSchedulerEvent(t *rapid.T, _ core.State, _ core.Clock) core.Event {
	switch rapid.SampledFrom([]string{"track", "track", "beat", "beat", "forget", "due", "due"}).Draw(t, "event") {
	case "track":
		return core.SchedulerTrack{Run: drawID(t, "run")}
	case "beat":
		return core.SchedulerHeartbeats{
			All:        rapid.IntRange(0, 3).Draw(t, "all") == 0,
			Except:     rapid.SliceOfN(rapid.Custom(func(t *rapid.T) uuid.UUID { return drawID(t, "run") }), 0, 2).Draw(t, "except"),
			Runs:       rapid.SliceOfN(rapid.Custom(func(t *rapid.T) uuid.UUID { return drawID(t, "run") }), 0, 4).Draw(t, "runs"),
			IntervalMS: rapid.SampledFrom([]int64{0, 0, 1, 60_000, -1, 86_400_000, math.MaxInt64}).Draw(t, "interval"),
			Some:       rapid.IntRange(0, 3).Draw(t, "some") == 0,
			Begins:     rapid.IntRange(0, 5).Draw(t, "begins") == 0,
			Unseen:     rapid.SliceOfN(rapid.Custom(func(t *rapid.T) uuid.UUID { return drawID(t, "run") }), 0, 2).Draw(t, "unseen"),
			MaxMissed:  rapid.SampledFrom([]uint32{0, 0, 1, 5, 1000, math.MaxUint32}).Draw(t, "max_missed"),
		}
	case "forget":
		return core.SchedulerForget{Run: drawID(t, "run")}
	}
	return core.SchedulerDue{Unwatched: rapid.IntRange(0, 3).Draw(t, "unwatched") == 0}
}

func hostileScheduler(t *rapid.T) core.State {
	c := core.Clock{Now: start}
	return core.Scheduler{
		ID: drawID(t, "id"), IntervalMS: rapid.SampledFrom([]int64{0, 1, 10_000, math.MaxInt64, math.MinInt64}).Draw(t, "interval"),
		MaxMissed: rapid.SampledFrom([]uint32{0, 1, 3, math.MaxUint32}).Draw(t, "max_missed"), CreatedAt: drawTime(t, c), ReportedAt: drawTime(t, c),
		Runs: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) core.TrackedRun {
			return core.TrackedRun{Run: drawID(t, "run"), Last: drawTime(t, c), Sent: math.MaxUint64, SparedAt: drawTime(t, c), Missed: rapid.SampledFrom([]uint32{0, 2, 3, math.MaxUint32}).Draw(t, "missed"), Fresh: rapid.Bool().Draw(t, "fresh")}
		}), 0, 4).Draw(t, "runs"),
	}
}
