package core_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

// BenchmarkOrchestrator measures each transition of 004's happy path.
func BenchmarkOrchestrator(b *testing.B) {
	job := goldenJobSpec()
	at := runPhases(job)
	done := json.RawMessage(`{"api_calls":1,"logs":{"stored":true,"bytes":2048}}`)
	n := func(o core.Orchestrator) uint32 { return core.Outstanding(o)[0].Number() }
	logs := at[core.OrchestratorTerminating]
	deleting, _ := logs.Apply(core.EffectDone{N: n(logs), Result: done}, core.Clock{Now: start})
	checking, _ := deleting.Apply(core.EffectDone{N: n(deleting), Result: done}, core.Clock{Now: start})
	met := report(true, core.ConstraintCheck{Name: "timeWindow", Met: true})
	for _, row := range []struct {
		name  string
		state core.Orchestrator
		event core.OrchestratorEvent
	}{
		{"create", core.Orchestrator{}, core.OrchestratorCreate{Spec: runSpec(job, start)}},
		{"due to pending", at[core.OrchestratorPreRun], core.OrchestratorDue{}},
		{"admit to condition_running", at[core.OrchestratorPending], core.OrchestratorAdmit{Occurrence: id(5)}},
		{"checked to container_creating", at[core.OrchestratorConditionRunning], core.EffectDone{N: 1, Result: met}},
		{"pod running", at[core.OrchestratorContainerCreating], core.PodRunning{Pod: podAt()}},
		{"pod ended", at[core.OrchestratorRunning], core.PodEnded{Pod: podAt(0)}},
		{"logs stored", logs, core.EffectDone{N: n(logs), Result: done}},
		{"deleted", deleting, core.EffectDone{N: n(deleting), Result: done}},
		{"checked to completed", checking, core.EffectDone{N: n(checking), Result: met}},
		{"refused", at[core.OrchestratorPreRun], core.OrchestratorExpire{}},
	} {
		b.Run(row.name, func(b *testing.B) {
			benchApply(b, core.Orchestrator.Apply, row.state, row.event, row.name == "refused")
		})
	}
}

// BenchmarkOrchestratorState measures what a run takes in the store: most of it is
// the configuration that it carries.
func BenchmarkOrchestratorState(b *testing.B) {
	plain := byHand()
	large := plain
	large.PodSpec = json.RawMessage(`{"a":"` + strings.Repeat("a", 16<<10) + `"}`)
	for _, row := range []struct {
		name string
		job  core.JobSpec
	}{{"smallest pod spec", plain}, {"pod spec of the golden file", goldenJobSpec()}, {"pod spec of 16 KiB", large}} {
		o := madeRun(row.job, core.OrchestratorDue{}, core.OrchestratorAdmit{Occurrence: id(5)})
		stored := o.AppendJSON(nil)
		b.Run("append/"+row.name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = o.AppendJSON(buf[:0])
			}
			b.ReportMetric(float64(len(stored)), "bytes/run")
		})
		b.Run("decode/"+row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := core.DecodeState(core.KindOrchestrator, stored)
				if err != nil {
					b.Fatal(err)
				}
				sink = s
			}
		})
	}
}

// BenchmarkSchedulerHeartbeats measures the heartbeats of one scheduler's runs, of
// 10,000 in all.
func BenchmarkSchedulerHeartbeats(b *testing.B) {
	var s core.Scheduler
	var runs []uuid.UUID
	for n := range 40 {
		runs = append(runs, id(n+1))
		s, _ = s.Apply(core.SchedulerTrack{Run: id(n + 1)}, core.Clock{Now: start})
	}
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink, _ = s.Apply(core.SchedulerHeartbeats{Runs: runs}, core.Clock{Now: start.Add(time.Second)})
		}
	})
	b.Run("append", func(b *testing.B) {
		var buf []byte
		b.ReportAllocs()
		for b.Loop() {
			buf = s.AppendJSON(buf[:0])
		}
		b.ReportMetric(float64(len(buf)), "bytes/scheduler")
	})
}

// BenchmarkJob measures a job with many runs: it rewrites their list with each.
func BenchmarkJob(b *testing.B) {
	for _, row := range []struct {
		name string
		runs int
	}{{"1 run", 1}, {"499 runs", core.MaxActiveRuns - 1}} {
		j := madeJob(byHand())
		for range row.runs {
			j, _ = j.Apply(core.JobTrigger{}, core.Clock{Now: start})
		}
		b.Run("trigger beside "+row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = j.Apply(core.JobTrigger{By: "ann"}, core.Clock{Now: start})
			}
			b.ReportMetric(float64(len(j.AppendJSON(nil))), "bytes/job")
		})
		b.Run("admit one of "+row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = j.Apply(core.JobAdmit{Run: j.Active[0].Run}, core.Clock{Now: start})
			}
		})
	}
}
