package core_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// sink keeps the compiler from leaving out what is measured.
var sink any

func benchAction(b *testing.B) (pending, running core.Action) {
	b.Helper()
	spec := goldenActionSpec()
	spec.Recurrence, spec.Occurrence, spec.DedupKey = core.Recurrence{}, uuid.Nil, ""
	pending, effs := core.Action{}.Apply(core.ActionCreate{Spec: spec}, core.Clock{Now: start})
	if len(effs) != 0 {
		b.Fatal(effs)
	}
	running, _ = pending.Apply(core.ActionDue{}, core.Clock{Now: start})
	return pending, running
}

// The aim of a transition: under 500 ns, at most 2 allocations.
func BenchmarkAction(b *testing.B) {
	pending, running := benchAction(b)
	child := running
	child.Occurrence, child.DedupKey = id(2), "k"
	periodic := running
	periodic.Recurrence = core.Every(time.Minute)
	result := json.RawMessage(`{"status":200}`)
	for _, row := range []struct {
		name  string
		state core.Action
		event core.ActionEvent
	}{
		{"create", core.Action{}, core.ActionCreate{Spec: pending.ActionSpec}},
		{"due", pending, core.ActionDue{}},
		{"complete", running, core.ActionComplete{Run: 1, Result: result}},
		{"complete of an occurrence with a dedup key", child, core.ActionComplete{Run: 1, Result: result}},
		{"complete of a periodic one", periodic, core.ActionComplete{Run: 1, Result: result}},
		{"fail", running, core.ActionFail{Run: 1, Reason: "exit status 1"}},
		{"cancel", running, core.ActionCancel{Reason: "not needed"}},
		{"hand back", running, core.ActionHandBack{Run: 1}},
		{"refused", running, core.ActionDue{}},
	} {
		b.Run(row.name, func(b *testing.B) { benchApply(b, core.Action.Apply, row.state, row.event, row.name == "refused") })
	}
}

// benchApply measures one transition, and fails where it is not refused as it should be.
func benchApply[S core.State, E core.Event](b *testing.B, apply func(S, E, core.Clock) (S, []effects.Effect), state S, event E, refuses bool) {
	clock := core.Clock{Now: start.Add(time.Second)}
	var after S
	var effs []effects.Effect
	b.ReportAllocs()
	for b.Loop() {
		after, effs = apply(state, event, clock)
	}
	if refusal(effs) != nil != refuses {
		b.Fatal(effs)
	}
	sink = after
}

func BenchmarkRecurringDue(b *testing.B) {
	for _, row := range []struct {
		name string
		late time.Duration
	}{{"in time", 0}, {"after an outage of a day", 24 * time.Hour}} {
		b.Run(row.name, func(b *testing.B) {
			spec := goldenRecurringSpec()
			spec.CronExpr = "*/5 * * * *"
			r, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
			if refusal(effs) != nil {
				b.Fatal(effs)
			}
			clock := core.Clock{Now: r.NextExecutionAt.Add(row.late)}
			b.ReportAllocs()
			for b.Loop() {
				sink, effs = r.Apply(core.RecurringDue{}, clock)
			}
			if refusal(effs) != nil {
				b.Fatal(effs)
			}
		})
	}
}

// BenchmarkBatch starts actions that are due, as a tick does.
func BenchmarkBatch(b *testing.B) {
	pending, _ := benchAction(b)
	for _, n := range []int{1, 256} {
		b.Run(fmt.Sprintf("%d inputs", n), func(b *testing.B) {
			states := loader{}
			inputs := make([]core.Input, n)
			for i := range inputs {
				a := pending
				a.ID = id(i + 1)
				states[a.Ref()] = a
				inputs[i] = core.Input{To: a.Ref(), Actor: "clock", Event: core.ActionDue{}}
			}
			b.ReportAllocs()
			for b.Loop() {
				batch := core.NewBatch(states, core.Clock{Now: start}, 1)
				for _, in := range inputs {
					if res, err := batch.Apply(in); err != nil || !res.Changed {
						b.Fatal(res, err)
					}
				}
				sink = batch.Changes()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/input")
		})
	}
}

func BenchmarkJSON(b *testing.B) {
	pending, _ := benchAction(b)
	stored := pending.AppendJSON(nil)
	b.Run("append an action", func(b *testing.B) {
		buf := make([]byte, 0, 2*len(stored))
		b.SetBytes(int64(len(stored)))
		b.ReportAllocs()
		for b.Loop() {
			buf = pending.AppendJSON(buf[:0])
		}
	})
	b.Run("decode an action", func(b *testing.B) {
		b.SetBytes(int64(len(stored)))
		b.ReportAllocs()
		for b.Loop() {
			s, err := core.DecodeState(core.KindAction, stored)
			if err != nil {
				b.Fatal(err)
			}
			sink = s
		}
	})
	batch := goldenEntry()
	b.Run("append a batch of 3", func(b *testing.B) {
		buf := batch.AppendJSON(nil)
		b.ReportAllocs()
		for b.Loop() {
			buf = batch.AppendJSON(buf[:0])
		}
	})
}
