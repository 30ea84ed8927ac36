package core_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

// partKinds are the kinds of what a pipeline keeps as records of their own.
var partKinds = []effects.Kind{core.KindPipelineDefinition, core.KindPipelineRuns, core.KindPipelineHistory, core.KindPipelineContext}

// parts lists the records of those kinds.
func (w world) parts(kinds ...effects.Kind) []effects.Ref {
	return slices.DeleteFunc(w.refs(), func(r effects.Ref) bool { return !slices.Contains(kinds, r.Kind) })
}

// shown gives each machine as it is shown: a pipeline with its parts.
func (w world) shown(t require.TestingT) map[effects.Ref]string {
	out := map[effects.Ref]string{}
	for ref := range w.machines() {
		b, err := core.WholeJSON(ref.Kind, []byte(w[ref]), w.Load)
		require.NoError(t, err)
		out[ref] = string(b)
	}
	return out
}

// longDef has phases of people, which may fail and be tried again, and values that are written
// again and again.
func longDef(phases int) core.PipelineDef {
	def := core.PipelineDef{Name: "long", ContextLimit: 64 << 10, OnFailure: "clean"}
	for n := range phases {
		p := core.PhaseDef{Name: fmt.Sprint("p", n), Manual: &core.ManualPhase{Instructions: "look"}}
		switch n % 4 {
		case 1:
			p = core.PhaseDef{Name: p.Name, Output: "again", Set: &core.SetPhase{Values: map[string]json.RawMessage{
				fmt.Sprint("v", n%7): json.RawMessage(fmt.Sprint(n)), fmt.Sprint("w", n): json.RawMessage(`"${phase.name}"`),
			}}}
		case 2:
			p.Output = fmt.Sprint("o", n%5)
		case 3:
			p.When = &core.When{Ref: "v1", Equals: json.RawMessage("1")}
		}
		def.Phases = append(def.Phases, p)
	}
	def.Phases = append(def.Phases, core.PhaseDef{Name: "clean", Manual: &core.ManualPhase{}, IgnoreFailure: true})
	return def
}

// drawLongEvent draws what may be sent to the pipeline with that state.
func drawLongEvent(t *rapid.T, s core.State) core.Event {
	if s == nil {
		return core.PipelineCreate{Spec: core.PipelineSpec{
			Namespace: "n", Tenant: rapid.SampledFrom([]string{"t", "t", "u"}).Draw(t, "tenant"),
			Definition: longDef(rapid.SampledFrom([]int{2, 40}).Draw(t, "phases")),
			Context:    map[string]json.RawMessage{"given": json.RawMessage(`"` + strings.Repeat("g", rapid.SampledFrom([]int{0, 3000}).Draw(t, "given")) + `"`)},
		}}
	}
	phase := s.(core.Pipeline).Phase
	result := json.RawMessage(`"` + strings.Repeat("r", rapid.SampledFrom([]int{1, 1, 100, 900, 5000, 70_000}).Draw(t, "result")) + `"`)
	done := core.PhaseComplete{Phase: phase.Name, Result: result}
	return rapid.SampledFrom([]core.Event{
		done, done, done, done, done, done, done, done, core.PhaseFailed{Phase: phase.Name, Error: "no"}, core.PipelineRetry{}, core.PipelineDue{},
		core.PipelineCheckpoint{Message: "here"}, core.PipelineCancel{Reason: "enough"}, core.PipelineExpire{}, core.PipelineExpire{},
	}).Draw(t, "event")
}

// TestAPipelineWithPartsDoesWhatOneWithoutDoes sends the same inputs to pipelines in the form of
// version 6, all in one record, and to those with parts: what comes out and what is shown is the
// same, and after each batch the parts are those that the pipelines refer to.
func TestAPipelineWithPartsDoesWhatOneWithoutDoes(t *testing.T) {
	var pages, shared int
	rapid.Check(t, func(t *rapid.T) {
		whole, apart := world{}, world{}
		now := start
		for seq := uint64(1); seq < 40; seq++ {
			now += core.Time(rapid.IntRange(0, 2).Draw(t, "ms"))
			was := core.NewBatch(whole, core.Clock{Now: now, Rules: 6}, seq)
			is := core.NewBatch(apart, core.Clock{Now: now}, seq)
			for range rapid.IntRange(1, 4).Draw(t, "inputs") {
				to := pipelineRef(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "pipeline"))
				s, err := is.State(to)
				require.NoError(t, err)
				e := drawLongEvent(t, s)
				if c, ok := e.(core.PipelineCreate); ok {
					c.Spec.ID = to.ID
					e = c
				}
				want, err := was.Apply(core.Input{To: to, Event: e})
				require.NoError(t, err)
				got, err := is.Apply(core.Input{To: to, Event: e})
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			require.Equal(t, was.Outer(), is.Outer())
			require.Equal(t, was.Events(), is.Events())
			for _, c := range is.Changes() {
				if c.Before != nil {
					require.Equal(t, apart[c.Ref], encoded(c.Before), "what was before is written to")
				}
			}
			whole.store(was)
			apart.store(is)
			require.Equal(t, whole.shown(t), apart.shown(t))
			requireNoOrphans(t, apart)
			pages += len(apart.parts(core.KindPipelineHistory, core.KindPipelineContext))
			for _, ref := range apart.parts(core.KindPipelineRuns) {
				s, err := apart.Load(ref)
				require.NoError(t, err)
				shared = max(shared, int(s.(core.PipelineRuns).Runs))
			}
		}
	})
	assert.Greater(t, pages, 1000)
	assert.Greater(t, shared, 1, "runs share a definition")
}

// requireNoOrphans: a part stands there while a pipeline refers to it, and no longer; a value
// stands in one page at most, so that no older one comes back if a page is lost.
func requireNoOrphans(t require.TestingT, w world) {
	used := map[effects.Ref]uint64{}
	for ref := range w.machines() {
		_, err := core.WholeJSON(ref.Kind, []byte(w[ref]), func(part effects.Ref) (core.State, error) {
			require.Contains(t, w, part, "%s refers to it", ref)
			used[part]++
			return w.Load(part)
		})
		require.NoError(t, err)
	}
	type value struct {
		pipeline uuid.UUID
		name     string
	}
	pages := map[value]effects.Ref{}
	for _, ref := range w.parts(core.KindPipelineContext) {
		s, err := w.Load(ref)
		require.NoError(t, err)
		page := s.(core.ContextPage)
		for name := range page.Values {
			v := value{page.Pipeline, name}
			require.NotContains(t, pages, v, "%s stands in %s", name, ref)
			pages[v] = ref
		}
	}
	for _, ref := range w.parts(partKinds...) {
		if ref.Kind == core.KindPipelineRuns {
			s, err := w.Load(ref)
			require.NoError(t, err)
			require.Equal(t, used[effects.Ref{Kind: core.KindPipelineDefinition, ID: ref.ID}], s.(core.PipelineRuns).Runs)
			continue
		}
		require.NotZero(t, used[ref], "nobody refers to %s", ref)
	}
	require.Empty(t, w.misfits(t))
}

// TestAPipelineOfAnEarlierVersionGetsPartsWhenItChanges: it is read as it is, and converted by
// the next event that it takes.
func TestAPipelineOfAnEarlierVersionGetsPartsWhenItChanges(t *testing.T) {
	old := core.Clock{Now: start, Rules: 6}
	p, effs := core.Pipeline{}.Apply(core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: longDef(120)}}, old)
	require.Nil(t, refusal(effs))
	p, _ = p.Apply(core.PipelineDue{}, old)
	for range 40 {
		p, effs = p.Apply(core.PhaseComplete{Phase: p.Phase.Name, Result: json.RawMessage(`"done"`)}, old)
		require.Nil(t, refusal(effs))
	}
	w, seq := world{p.Ref(): encoded(p)}, uint64(5)
	batch := core.NewBatch(w, old, 4)
	_, err := batch.Apply(core.Input{To: p.Ref(), Event: core.PipelineCheckpoint{Message: "replayed"}})
	require.NoError(t, err)
	require.Len(t, batch.Changes(), 1, "a replay of what version 6 decided makes its form")
	stored, _ := p.Apply(core.PipelineCheckpoint{Message: "replayed"}, core.Clock{Now: start, Rules: 6, Step: 4 << 20})
	require.Equal(t, encoded(stored), encoded(batch.Changes()[0].After))

	was := w.shown(t)[p.Ref()]
	require.NotNil(t, w.send(t, p.Ref(), core.PipelineStart{}, start, &seq).Refused)
	require.Len(t, w, 1, "a refusal changes nothing")
	require.Nil(t, w.send(t, p.Ref(), core.PipelineCheckpoint{Message: "now"}, start, &seq).Refused)
	assert.Len(t, w.parts(core.KindPipelineDefinition, core.KindPipelineRuns), 2)
	assert.NotEmpty(t, w.parts(core.KindPipelineHistory))
	assert.NotEmpty(t, w.parts(core.KindPipelineContext))
	assert.Less(t, len(w[p.Ref()]), len(was)/5)
	after, _ := p.Apply(core.PipelineCheckpoint{Message: "now"}, core.Clock{Now: start})
	assert.JSONEq(t, encoded(after), w.shown(t)[p.Ref()])
	requireNoOrphans(t, w)
}

// TestALongHistoryKeepsItsLastRecordsAndNoMorePages: a phase that fails over and over makes more
// records than a history has.
func TestALongHistoryKeepsItsLastRecordsAndNoMorePages(t *testing.T) {
	w, seq := world{}, uint64(0)
	def := core.PipelineDef{Name: "stubborn", Phases: []core.PhaseDef{{Name: "try", Manual: &core.ManualPhase{}}}}
	require.Nil(t, w.send(t, pipelineRef(1), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, start, &seq).Refused)
	w.fire(t, start, &seq)
	most := 0
	for n := range core.MaxHistory + 100 {
		require.Nil(t, w.send(t, pipelineRef(1), core.PhaseFailed{Phase: "try", Error: fmt.Sprint(n)}, start, &seq).Refused)
		require.Nil(t, w.send(t, pipelineRef(1), core.PipelineRetry{}, start, &seq).Refused)
		most = max(most, len(w.parts(core.KindPipelineHistory)))
	}
	p := w.pipeline(t, 1)
	require.Len(t, p.History, core.MaxHistory)
	for i, r := range p.History {
		require.Equal(t, fmt.Sprint(100+i), r.Reason)
	}
	assert.Equal(t, (core.MaxHistory+15)/16, most)
	requireNoOrphans(t, w)
}

// TestALostPartLeavesTheRestOfThePipeline: its record was set aside as unreadable, and does not
// exist any more.
func TestALostPartLeavesTheRestOfThePipeline(t *testing.T) {
	fill := func(t *testing.T) (world, *uint64) {
		w, seq := world{}, new(uint64)
		require.Nil(t, w.send(t, pipelineRef(1), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: longDef(120)}}, start, seq).Refused)
		w.fire(t, start, seq)
		for range 40 {
			require.Nil(t, w.send(t, pipelineRef(1), core.PhaseComplete{Phase: w.pipeline(t, 1).Phase.Name}, start, seq).Refused)
		}
		return w, seq
	}
	ends := func(t *testing.T, w world, seq *uint64) {
		t.Helper()
		for p := w.pipeline(t, 1); p.Phase.Type == core.PhaseRunning; p = w.pipeline(t, 1) {
			require.Nil(t, w.send(t, pipelineRef(1), core.PhaseComplete{Phase: p.Phase.Name}, start, seq).Refused)
		}
		assert.Equal(t, core.PhaseDone, w.pipeline(t, 1).Phase.Type)
		require.Nil(t, w.send(t, pipelineRef(1), core.PipelineExpire{}, start, seq).Refused)
		assert.Empty(t, w, "nothing is left")
	}
	t.Run("a page of the history", func(t *testing.T) {
		w, seq := fill(t)
		was := w.pipeline(t, 1)
		delete(w, w.parts(core.KindPipelineHistory)[0])
		is := w.pipeline(t, 1)
		assert.Len(t, is.History, len(was.History)-16)
		assert.Equal(t, was.Context, is.Context)
		ends(t, w, seq)
	})
	t.Run("a page of the context", func(t *testing.T) {
		w, seq := fill(t)
		was := w.pipeline(t, 1)
		lost := w.parts(core.KindPipelineContext)[0]
		s, err := w.Load(lost)
		require.NoError(t, err)
		delete(w, lost)
		is := w.pipeline(t, 1)
		assert.Equal(t, was.History, is.History)
		want := maps.Clone(was.Context)
		for name := range s.(core.ContextPage).Values {
			if _, newer := is.Context[name]; !newer {
				delete(want, name)
			}
		}
		assert.Equal(t, want, is.Context)
		assert.Less(t, len(is.Context), len(was.Context))
		ends(t, w, seq)
	})
	t.Run("the definition", func(t *testing.T) {
		w, seq := fill(t)
		delete(w, w.parts(core.KindPipelineDefinition)[0])
		p := w.pipeline(t, 1)
		refused := w.send(t, p.Ref(), core.PhaseComplete{Phase: p.Phase.Name}, start, seq).Refused
		require.NotNil(t, refused)
		assert.Contains(t, refused.Reason, "its definition was lost")
		require.Nil(t, w.send(t, pipelineRef(2), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(2), Definition: longDef(120)}}, start, seq).Refused)
		require.Nil(t, w.send(t, p.Ref(), core.PhaseComplete{Phase: p.Phase.Name}, start, seq).Refused, "another run has brought it back")
		require.Nil(t, w.send(t, pipelineRef(2), core.PipelineCancel{}, start, seq).Refused)
		require.Nil(t, w.send(t, pipelineRef(2), core.PipelineExpire{}, start, seq).Refused)
		ends(t, w, seq)
	})
	t.Run("the count of its runs", func(t *testing.T) {
		w, seq := fill(t)
		delete(w, w.parts(core.KindPipelineRuns)[0])
		for _, n := range []int{2, 3} {
			require.Nil(t, w.send(t, pipelineRef(n), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(n), Definition: longDef(120)}}, start, seq).Refused)
			require.Nil(t, w.send(t, pipelineRef(n), core.PipelineCancel{}, start, seq).Refused)
			require.Nil(t, w.send(t, pipelineRef(n), core.PipelineExpire{}, start, seq).Refused)
		}
		assert.Len(t, w.parts(core.KindPipelineDefinition), 1, "nobody knows how many need it")
		assert.Equal(t, longDef(120), w.pipeline(t, 1).Definition)
	})
}

// TestAPipelineThatMayNotBeMadeLeavesNothing: a limit refuses it after it was decided.
func TestAPipelineThatMayNotBeMadeLeavesNothing(t *testing.T) {
	w := world{}
	batch := core.NewBatch(w, core.Clock{Now: start}, 1)
	def := core.PipelineDef{Name: "outer", Phases: []core.PhaseDef{{Name: "start", Pipelines: &core.PipelinesPhase{
		Start: []core.PipelineStartDef{{Definition: manualDef()}}, Wait: true,
	}}}}
	_, err := batch.Apply(core.Input{To: pipelineRef(1), Event: core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}})
	require.NoError(t, err)
	w.store(batch)
	batch = core.NewBatch(w, core.Clock{Now: start}, 2)
	batch.Bound(func(_ core.Scope, kind effects.Kind) core.Allowance {
		return map[effects.Kind]core.Allowance{core.KindPipeline: {Most: 1, What: "pipelines"}}[kind]
	})
	_, err = batch.Apply(core.Input{To: pipelineRef(1), Event: core.PipelineDue{}})
	require.NoError(t, err)
	w.store(batch)
	assert.Len(t, w.machines(), 1, "the inner one was refused")
	requireNoOrphans(t, w)
}

func TestPipelinesOfTwoTenantsShareNoDefinition(t *testing.T) {
	w, seq := world{}, uint64(0)
	for n, tenant := range []string{"a", "a", "b"} {
		spec := core.PipelineSpec{ID: id(n + 1), Namespace: "n", Tenant: tenant, Definition: manualDef()}
		require.Nil(t, w.send(t, pipelineRef(n+1), core.PipelineCreate{Spec: spec}, start, &seq).Refused)
	}
	runs := map[core.Scope]uint64{}
	for _, ref := range w.parts(core.KindPipelineRuns) {
		s, err := w.Load(ref)
		require.NoError(t, err)
		runs[core.ScopeOf(s)] = s.(core.PipelineRuns).Runs
	}
	assert.Equal(t, map[core.Scope]uint64{{Namespace: "n", Tenant: "a"}: 2, {Namespace: "n", Tenant: "b"}: 1}, runs)
}

// TestTheStoredFormsOfAPipelineWithPartsAreTheGoldenOnes; those of earlier versions are in
// state_pipeline.jsonl.
func TestTheStoredFormsOfAPipelineWithPartsAreTheGoldenOnes(t *testing.T) {
	w, seq := world{}, uint64(0)
	spec := core.PipelineSpec{ID: id(1), Namespace: "n", Tenant: "t", Definition: longDef(40)}
	require.Nil(t, w.send(t, pipelineRef(1), core.PipelineCreate{Spec: spec}, start, &seq).Refused)
	w.fire(t, start, &seq)
	for range 20 {
		now := start.Add(time.Duration(seq) * time.Second)
		require.Nil(t, w.send(t, pipelineRef(1), core.PhaseComplete{Phase: w.pipeline(t, 1).Phase.Name, Result: json.RawMessage(`{"by":"<ann>"}`)}, now, &seq).Refused)
	}
	refs := append([]effects.Ref{pipelineRef(1)}, w.parts(partKinds...)...)
	var lines [][]byte
	for _, ref := range refs {
		lines = append(lines, []byte(w[ref]))
	}
	for i, line := range golden(t, "state_pipeline_parts.jsonl", lines) {
		s, err := core.DecodeState(refs[i].Kind, line)
		require.NoError(t, err)
		assert.Equal(t, refs[i], s.Ref())
		assert.Equal(t, string(line), encoded(s), "read and written again")
		scope, err := core.StoredScope(refs[i].Kind, line)
		require.NoError(t, err)
		assert.Equal(t, core.Scope{Namespace: "n", Tenant: "t"}, scope)
	}
}

// TestAValueThatIsWrittenAgainGoesBackIntoItsPage: no older one is left in another.
func TestAValueThatIsWrittenAgainGoesBackIntoItsPage(t *testing.T) {
	w, seq := world{}, uint64(0)
	def := core.PipelineDef{Name: "again"}
	for n := range 90 {
		def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprint("p", n), Output: fmt.Sprint("o", n%30), Manual: &core.ManualPhase{}})
	}
	require.Nil(t, w.send(t, pipelineRef(1), core.PipelineCreate{Spec: core.PipelineSpec{ID: id(1), Definition: def}}, start, &seq).Refused)
	w.fire(t, start, &seq)
	for n := range 89 {
		require.Nil(t, w.send(t, pipelineRef(1), core.PhaseComplete{Phase: fmt.Sprint("p", n), Result: json.RawMessage(fmt.Sprint(n))}, start, &seq).Refused)
		requireNoOrphans(t, w)
	}
	p := w.pipeline(t, 1)
	for n := 59; n < 89; n++ {
		assert.Equal(t, fmt.Sprint(n), string(p.Context[fmt.Sprint("o", n%30)]))
	}
}
