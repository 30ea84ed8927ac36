package core_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// misfits audits the pipelines.
func (w world) misfits(t require.TestingT) (found []core.Misfit) {
	each := func(visit func(core.State) error) error {
		for _, kind := range core.AuditedKinds() {
			for _, ref := range w.parts(kind) {
				s, err := w.Load(ref)
				if err != nil { // it cannot be decoded
					continue
				}
				if err := visit(s); err != nil {
					return err
				}
			}
		}
		return nil
	}
	load := func(ref effects.Ref) ([]byte, error) {
		stored, ok := w[ref]
		if !ok {
			return nil, nil
		}
		return []byte(stored), nil
	}
	require.NoError(t, core.AuditPipelines(each, load, func(m core.Misfit) error {
		found = append(found, m)
		return nil
	}))
	return found
}

// mend does as the audit says, and gives what it said.
func (w world) mend(t require.TestingT) map[effects.Ref]core.Misfit {
	said := map[effects.Ref]core.Misfit{}
	for _, m := range w.misfits(t) {
		said[m.Ref] = m
		delete(w, m.Ref)
		if m.Should != nil {
			w[m.Ref] = encoded(m.Should)
		}
	}
	return said
}

// audited has three pipelines, of which two share a definition, with pages.
func audited(t *testing.T) world {
	t.Helper()
	w, seq := world{}, new(uint64)
	for n, tenant := range []string{"t", "t", "u"} {
		spec := core.PipelineSpec{ID: id(n + 1), Tenant: tenant, Definition: longDef(60)}
		require.Nil(t, w.send(t, pipelineRef(n+1), core.PipelineCreate{Spec: spec}, start, seq).Refused)
		w.fire(t, start, seq)
		for range 25 {
			require.Nil(t, w.send(t, pipelineRef(n+1), core.PhaseComplete{Phase: w.pipeline(t, n+1).Phase.Name}, start, seq).Refused)
		}
	}
	require.NotEmpty(t, w.parts(core.KindPipelineHistory))
	require.NotEmpty(t, w.parts(core.KindPipelineContext))
	return w
}

func TestAnAuditFindsWhatALostPipelineLeavesBehind(t *testing.T) {
	w := audited(t)
	for n := range 3 {
		delete(w, pipelineRef(n+1))
	}
	said := w.mend(t)
	assert.Empty(t, w, "all of it is told of")
	for ref, m := range said {
		assert.Nil(t, m.Should, ref)
		assert.False(t, m.Harmful, ref)
		assert.NotEmpty(t, m.Why)
	}
}

func TestAnAuditCountsThePipelinesOfADefinition(t *testing.T) {
	w := audited(t)
	shared := func() effects.Ref {
		for _, ref := range w.parts(core.KindPipelineRuns) {
			s, err := w.Load(ref)
			require.NoError(t, err)
			if s.(core.PipelineRuns).Tenant == "t" {
				return ref
			}
		}
		return effects.Ref{}
	}()
	count := func(n uint64) {
		s, err := w.Load(shared)
		require.NoError(t, err)
		r := s.(core.PipelineRuns)
		r.Runs = n
		w[shared] = encoded(r)
	}
	right := w[shared]
	for n, harmful := range map[uint64]bool{1: true, 3: false} {
		count(n)
		said := w.mend(t)
		require.Len(t, said, 1)
		assert.Equal(t, harmful, said[shared].Harmful)
		assert.Contains(t, said[shared].Why, "2 use the definition")
		assert.Equal(t, right, w[shared])
	}
	delete(w, shared)
	said := w.mend(t)
	require.Len(t, said, 1)
	assert.False(t, said[shared].Harmful, "the definition is kept for good")
	assert.Equal(t, right, w[shared])

	delete(w, shared)
	definition := effects.Ref{Kind: core.KindPipelineDefinition, ID: shared.ID}
	delete(w, definition)
	said = w.mend(t)
	require.Len(t, said, 1)
	assert.True(t, said[shared].Harmful, "another pipeline that brings it back would be the only one")
	assert.Equal(t, right, w[shared])
	assert.NotContains(t, w, definition)
}

// TestAnAuditSaysNothingOfThePagesOfAPipelineThatCannotBeDecoded, and does not fail for it.
func TestAnAuditSaysNothingOfThePagesOfAPipelineThatCannotBeDecoded(t *testing.T) {
	w := audited(t)
	w[pipelineRef(1)] = "{"
	said := w.mend(t)
	require.Len(t, said, 1, "two pipelines had its definition, and it has pages")
	for ref, m := range said {
		assert.Equal(t, core.KindPipelineRuns, ref.Kind)
		assert.Contains(t, m.Why, "it counts 2 pipelines, 1 use the definition")
		assert.False(t, m.Harmful)
	}
	w = audited(t)
	for _, kind := range []effects.Kind{core.KindPipelineRuns, core.KindPipelineDefinition} {
		for _, ref := range w.parts(kind) {
			w[ref] = "{"
		}
	}
	said = w.mend(t)
	require.Len(t, said, 2)
	for _, m := range said {
		assert.True(t, m.Harmful, "another pipeline that brings the definition back would be the only one")
	}
}

// TestWhatAnAuditMendsFits loses records, and has some be as they were in a backup.
func TestWhatAnAuditMendsFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, backup, seq := world{}, world{}, new(uint64)
		steps := rapid.IntRange(1, 30).Draw(t, "steps")
		taken := rapid.IntRange(0, steps).Draw(t, "taken")
		for n := range steps {
			to := pipelineRef(rapid.IntRange(1, 3).Draw(t, "pipeline"))
			batch := core.NewBatch(w, core.Clock{Now: start}, *seq+1)
			s, err := batch.State(to)
			require.NoError(t, err)
			e := drawLongEvent(t, s)
			if c, ok := e.(core.PipelineCreate); ok {
				c.Spec.ID = to.ID
				e = c
			}
			*seq++
			_, err = batch.Apply(core.Input{To: to, Event: e})
			require.NoError(t, err)
			w.store(batch)
			if n == taken {
				maps.Copy(backup, w)
			}
		}
		for _, ref := range w.refs() {
			if rapid.IntRange(0, 4).Draw(t, "lost") != 0 {
				continue
			}
			delete(w, ref)
			if form, ok := backup[ref]; ok && rapid.Bool().Draw(t, "backup") {
				w[ref] = form
			}
		}
		before := len(w.machines())
		w.mend(t)
		require.Empty(t, w.misfits(t))
		require.Len(t, w.machines(), before, "no machine is touched")
		used := map[effects.Ref]uint64{}
		for ref := range w.machines() {
			_, err := core.WholeJSON(ref.Kind, []byte(w[ref]), func(part effects.Ref) (core.State, error) {
				used[part]++
				return w.Load(part)
			})
			require.NoError(t, err)
		}
		for _, ref := range w.parts(core.KindPipelineHistory, core.KindPipelineContext, core.KindPipelineDefinition) {
			require.NotZero(t, used[ref], "nobody refers to %s", ref)
		}
		for _, ref := range w.parts(core.KindPipelineRuns) {
			s, err := w.Load(ref)
			require.NoError(t, err)
			require.Equal(t, used[effects.Ref{Kind: core.KindPipelineDefinition, ID: ref.ID}], s.(core.PipelineRuns).Runs)
		}
	})
}
