package core_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// decodedWorld gives a batch states without decoding them anew.
type decodedWorld struct {
	world
	states map[effects.Ref]core.State
}

func (w decodedWorld) Load(ref effects.Ref) (core.State, error) {
	if s, ok := w.states[ref]; ok {
		return s, nil
	}
	return w.world.Load(ref)
}

// BenchmarkPipelineTransition is one phase of a long pipeline, in a batch: a person completes
// the phase, and what it changes is encoded. "bytes" is that; "cached" finds the pipeline in
// memory, as a batch after the last one does, "read" finds the definition, which runs share,
// and decodes all else.
func BenchmarkPipelineTransition(b *testing.B) {
	for _, phases := range []int{10, 100, core.MaxPhases} {
		b.Run(fmt.Sprintf("%d-phases", phases), func(b *testing.B) {
			def := core.PipelineDef{Name: "long"}
			for n := range phases {
				def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprintf("phase-%d", n), Manual: &core.ManualPhase{
					Instructions: "Look at ${pipeline.id}, do what the list on the wall says, and write down who did it and when.",
				}})
			}
			warm := decodedWorld{world{}, map[effects.Ref]core.State{}}
			clock, seq := core.Clock{Now: start}, uint64(0)
			ref := pipelineRef(1)
			send := func(e core.Event) {
				seq++
				batch := core.NewBatch(warm, clock, seq)
				res, err := batch.Apply(core.Input{To: ref, Event: e})
				require.NoError(b, err)
				require.Nil(b, res.Refused)
				warm.store(batch)
				for _, c := range batch.Changes() {
					if warm.states[c.Ref] = c.After; c.After == nil {
						delete(warm.states, c.Ref)
					}
				}
			}
			send(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}})
			send(core.PipelineDue{})
			for n := range phases / 2 { // half of the way has made half of the history
				send(core.PhaseComplete{Phase: fmt.Sprintf("phase-%d", n), Result: json.RawMessage("1")})
			}
			done := core.PhaseComplete{Phase: fmt.Sprintf("phase-%d", phases/2), Result: json.RawMessage("1")}
			clock.Now = clock.Now.Add(time.Second)
			cold := decodedWorld{warm.world, map[effects.Ref]core.State{}}
			for ref, s := range warm.states {
				if core.Shared(ref.Kind) {
					cold.states[ref] = s
				}
			}
			for name, w := range map[string]decodedWorld{"cached": warm, "read": cold} {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					var buf []byte
					for b.Loop() {
						batch := core.NewBatch(w, clock, seq+1)
						_, err := batch.Apply(core.Input{To: ref, Event: done})
						require.NoError(b, err)
						buf = buf[:0]
						for _, c := range batch.Changes() {
							buf = c.After.AppendJSON(buf)
						}
					}
					b.ReportMetric(float64(len(buf)), "bytes")
				})
			}
		})
	}
}
