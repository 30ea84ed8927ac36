package core_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// BenchmarkPipelineTransition is one phase of a long pipeline: the state is read,
// a person completes the phase, and the state is written, with the definition in
// it. "bytes" is what stands in the store then.
func BenchmarkPipelineTransition(b *testing.B) {
	for _, phases := range []int{10, 100, core.MaxPhases} {
		b.Run(fmt.Sprintf("%d-phases", phases), func(b *testing.B) {
			def := core.PipelineDef{Name: "long"}
			for n := range phases {
				def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprintf("phase-%d", n), Manual: &core.ManualPhase{
					Instructions: "Look at ${pipeline.id}, do what the list on the wall says, and write down who did it and when.",
				}})
			}
			clock := core.Clock{Now: start}
			begun, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, clock)
			require.Nil(b, refusal(effs))
			begun, _ = begun.Apply(core.PipelineDue{}, clock)
			half := begun // half of the way has made half of the history
			for n := range phases / 2 {
				half, effs = half.Apply(core.PhaseComplete{Phase: fmt.Sprintf("phase-%d", n), Result: json.RawMessage("1")}, clock)
				require.Nil(b, refusal(effs))
			}
			stored := half.AppendJSON(nil)
			done := core.PhaseComplete{Phase: half.Phase.Name, Result: json.RawMessage("1")}
			clock.Now = clock.Now.Add(time.Second)
			var buf []byte
			b.Run("cached", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					next, _ := half.Apply(done, clock)
					buf = next.AppendJSON(buf[:0])
				}
				b.ReportMetric(float64(len(buf)), "bytes")
			})
			b.Run("read", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s, err := core.DecodeState(core.KindPipeline, stored)
					require.NoError(b, err)
					next, _ := s.(core.Pipeline).Apply(done, clock)
					buf = next.AppendJSON(buf[:0])
				}
				b.ReportMetric(float64(len(buf)), "bytes")
			})
		})
	}
}
