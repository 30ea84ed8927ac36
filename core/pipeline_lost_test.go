package core_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// TestAnAnswerToAPipelineWhoseDefinitionWasLostFailsIt: the answer comes once. The pipeline could not go
// on when the definition is there again, and does by a retry.
func TestAnAnswerToAPipelineWhoseDefinitionWasLostFailsIt(t *testing.T) {
	lock := core.PhaseDef{Name: "lock", Lock: &core.LockPhase{Name: "main", TTLMS: 60_000}}
	for name, tt := range map[string]struct {
		phases []core.PhaseDef
		held   bool // another pipeline has the lock
		answer func(p core.Pipeline) core.Event
	}{
		"an effect": {
			phases: []core.PhaseDef{{Name: "tell", Notify: &core.NotifyPhase{Title: "t"}}},
			answer: func(p core.Pipeline) core.Event { return core.EffectDone{N: p.Waiting.N} },
		},
		"an effect that was not begun": {
			phases: []core.PhaseDef{{Name: "tell", Notify: &core.NotifyPhase{Title: "t"}}},
			answer: func(p core.Pipeline) core.Event { return core.EffectHandedBack{N: p.Waiting.N} },
		},
		"a child": {
			phases: []core.PhaseDef{{Name: "inner", Pipelines: &core.PipelinesPhase{Start: []core.PipelineStartDef{{Definition: manualDef()}}, Wait: true}}},
			answer: func(p core.Pipeline) core.Event {
				return core.ChildEnded{Child: p.Waiting.Children[0].Ref, N: p.Waiting.Children[0].N, Outcome: core.ChildSucceeded}
			},
		},
		"an item": {
			phases: []core.PhaseDef{{Name: "push", Push: &core.PushPhase{Queue: "mail", Wait: true}}},
			answer: func(p core.Pipeline) core.Event {
				return core.ChildEnded{Child: p.Waiting.Children[0].Ref, N: p.Waiting.Children[0].N, Outcome: core.ChildFailed, Reason: "dead"}
			},
		},
		"a lock": {
			held:   true,
			phases: []core.PhaseDef{lock},
			answer: func(p core.Pipeline) core.Event { return core.Granted{N: p.Holds[0].N, Token: 1} },
		},
		"a lock that is lost": {
			phases: []core.PhaseDef{lock, {Name: "look", Manual: &core.ManualPhase{}}},
			answer: func(p core.Pipeline) core.Event { return core.Lost{N: p.Holds[0].N, Reason: "its lease lapsed"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, seq := world{}, new(uint64)
			if tt.held {
				require.Nil(t, w.send(t, pipelineRef(2), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(2), Definition: core.PipelineDef{
					Name: "holder", Phases: []core.PhaseDef{lock, {Name: "look", Manual: &core.ManualPhase{}}},
				}}}, start, seq).Refused)
				w.fire(t, start, seq)
			}
			def := core.PipelineDef{Name: "p", Phases: tt.phases}
			alone(t, w, core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, seq)
			alone(t, w, core.PipelineDue{}, seq)
			was := w.parts(core.KindPipelineDefinition)
			forms := map[effects.Ref]string{}
			for _, ref := range was {
				forms[ref] = w[ref]
				delete(w, ref)
			}
			p := w.pipeline(t, 1)
			require.Equal(t, core.PhaseRunning, p.Phase.Type)

			require.Nil(t, w.send(t, p.Ref(), tt.answer(p), start, seq).Refused)
			p = w.pipeline(t, 1)
			assert.Equal(t, core.PhaseFailure, p.Phase.Type)
			assert.Contains(t, p.Phase.Error, "its definition was lost")
			assert.Empty(t, p.Pending.Open)
			assert.Empty(t, p.Holds)
			assert.Empty(t, p.Abandoned, "what has ended is not waited for")
			require.NotNil(t, w.send(t, p.Ref(), core.PipelineRetry{}, start, seq).Refused, "it is still lost")

			maps.Copy(w, forms)
			alone(t, w, core.PipelineRetry{}, seq)
			assert.Equal(t, core.Phase{Type: core.PhaseRunning, Name: p.Phase.Name}, w.pipeline(t, 1).Phase)
		})
	}
}

// alone sends the pipeline an event, and keeps no other pipeline.
func alone(t *testing.T, w world, e core.Event, seq *uint64) {
	t.Helper()
	require.Nil(t, w.send(t, pipelineRef(1), e, start, seq).Refused)
	for ref := range w.machines() {
		if ref != pipelineRef(1) && ref.Kind == core.KindPipeline {
			delete(w, ref)
		}
	}
}

// TestASignalToAPipelineWhoseDefinitionWasLostIsRefused: the phase that waits for it would not find it
// when the definition is there again.
func TestASignalToAPipelineWhoseDefinitionWasLostIsRefused(t *testing.T) {
	w, seq := world{}, new(uint64)
	def := core.PipelineDef{Name: "p", Phases: []core.PhaseDef{{Name: "wait", Signal: &core.SignalPhase{Name: "go"}}}}
	alone(t, w, core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, seq)
	alone(t, w, core.PipelineDue{}, seq)
	lost := w.parts(core.KindPipelineDefinition)[0]
	was := w[lost]
	delete(w, lost)
	refused := w.send(t, pipelineRef(1), core.PipelineSignal{Name: "go"}, start, seq).Refused
	require.NotNil(t, refused)
	assert.Equal(t, effects.CodeConflict, refused.Code)
	assert.Contains(t, refused.Reason, "its definition was lost")
	w[lost] = was
	require.Nil(t, w.send(t, pipelineRef(1), core.PipelineSignal{Name: "go"}, start, seq).Refused)
	assert.Equal(t, core.PhaseDone, w.pipeline(t, 1).Phase.Type)
}

// TestADefinitionUnderTheIDOfAnotherOneIsNotTaken: half of the hash is in the id, and the record has
// all of it.
func TestADefinitionUnderTheIDOfAnotherOneIsNotTaken(t *testing.T) {
	w, seq := world{}, new(uint64)
	alone(t, w, core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: manualDef()}}, seq)
	ref := w.parts(core.KindPipelineDefinition)[0]
	s, err := w.Load(ref)
	require.NoError(t, err)
	other := s.(core.PipelineDefinition)
	other.Hash, other.Definition = "another", core.PipelineDef{Name: "other", Phases: []core.PhaseDef{{Name: "drop", Manual: &core.ManualPhase{}}}}
	w[ref] = encoded(other)
	require.Nil(t, w.send(t, pipelineRef(2), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(2), Definition: manualDef()}}, start, seq).Refused)
	w.fire(t, start, seq)
	assert.Equal(t, manualDef(), w.pipeline(t, 2).Definition)
	assert.Contains(t, w[pipelineRef(2)], `"ship"`, "it stands in its own record")
	require.Nil(t, w.send(t, pipelineRef(2), core.PipelineCancel{}, start, seq).Refused)
	require.Nil(t, w.send(t, pipelineRef(2), core.PipelineExpire{}, start, seq).Refused)
	assert.Contains(t, w, ref)
}

// TestPipelinesHaveADefinitionThatTheyShareOnceInMemory, also those that are made.
func TestPipelinesHaveADefinitionThatTheyShareOnceInMemory(t *testing.T) {
	batch := core.NewBatch(world{}, core.Clock{Now: start}, 1)
	first := make([]*core.PhaseDef, 2)
	for i := range first {
		n := i + 1
		def := manualDef()
		_, err := batch.Apply(core.Input{To: pipelineRef(n), Event: core.PipelineCreate{Spec: core.PipelineSpec{ID: id(n), Definition: def}}})
		require.NoError(t, err)
		s, err := batch.State(pipelineRef(n))
		require.NoError(t, err)
		require.NotNil(t, s)
		first[i] = &s.(core.Pipeline).Definition.Phases[0]
	}
	assert.Same(t, first[0], first[1])
}
