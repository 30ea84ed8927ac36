package core

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// Misfit is a record beside pipelines that does not fit to them, as it happens where records are lost.
type Misfit struct {
	Ref effects.Ref
	// Should is how it should be; nil: nothing refers to it, and it can be removed.
	Should State
	// Harmful says that it takes something from a pipeline: a definition that is counted too low goes
	// before the last pipeline that uses it.
	Harmful bool
	Why     string
}

// AuditedKinds are the kinds that [AuditPipelines] looks at, in the order of their names.
func AuditedKinds() []effects.Kind {
	return []effects.Kind{KindPipeline, KindPipelineContext, KindPipelineDefinition, KindPipelineHistory, KindPipelineRuns}
}

// AuditPipelines compares the pipelines of a store with the records that stand beside them, and
// calls found for each that does not fit: counts of definitions, definitions and pages to which no pipeline
// refers. each visits the states of [AuditedKinds], all pipelines before the others; load gives the stored form of one, nil if
// there is none. Nothing is said of the pages of a pipeline that cannot be decoded. Its memory grows with the definitions.
func AuditPipelines(each func(visit func(State) error) error, load func(effects.Ref) ([]byte, error), found func(Misfit) error) error {
	a := pipelineAudit{load: load, found: found, runs: map[uuid.UUID]*PipelineRuns{}}
	if err := each(a.visit); err != nil {
		return err
	}
	return a.uncounted()
}

// pipelineAudit is one AuditPipelines.
type pipelineAudit struct {
	load  func(effects.Ref) ([]byte, error)
	found func(Misfit) error
	runs  map[uuid.UUID]*PipelineRuns // as they should be; nil: there is such a record, which has been compared
}

func (a *pipelineAudit) visit(s State) error {
	switch s := s.(type) {
	case Pipeline:
		a.pipeline(s)
	case PipelineRuns:
		return a.count(s)
	case PipelineDefinition:
		if _, used := a.runs[s.ID]; !used {
			return a.found(Misfit{Ref: s.Ref(), Why: "no pipeline uses it"})
		}
	case HistoryPage:
		return a.page(s, s.Pipeline)
	case ContextPage:
		return a.page(s, s.Pipeline)
	}
	return nil
}

func (a *pipelineAudit) pipeline(p Pipeline) {
	if p.parts == nil || p.parts.Definition == uuid.Nil {
		return
	}
	r := a.runs[p.parts.Definition]
	if r == nil {
		r = &PipelineRuns{ID: p.parts.Definition, Namespace: p.Namespace, Tenant: p.Tenant}
		a.runs[r.ID] = r
	}
	r.Runs++
}

func (a *pipelineAudit) count(r PipelineRuns) error {
	used := a.runs[r.ID]
	if used == nil {
		return a.found(Misfit{Ref: r.Ref(), Why: "no pipeline uses the definition that it counts"})
	}
	a.runs[r.ID] = nil
	if r.Runs == used.Runs {
		return nil
	}
	why := fmt.Sprintf("it counts %d pipelines, %d use the definition", r.Runs, used.Runs)
	should := r
	should.Runs = used.Runs
	return a.found(Misfit{Ref: r.Ref(), Should: should, Harmful: r.Runs < used.Runs, Why: why})
}

// uncounted finds the definitions in use that no record counts: they would be kept for good, or, if
// the definition itself is lost, counted too low as soon as another pipeline brings it back.
func (a *pipelineAudit) uncounted() error {
	for _, id := range slices.SortedFunc(maps.Keys(a.runs), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		r := a.runs[id]
		if r == nil {
			continue
		}
		d, _, err := a.state(refOf(KindPipelineDefinition, id))
		if err != nil {
			return err
		}
		err = a.found(Misfit{Ref: r.Ref(), Should: *r, Harmful: d == nil, Why: fmt.Sprintf("it is not there, and %d pipelines use the definition", r.Runs)})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *pipelineAudit) page(s State, of uuid.UUID) error {
	ref := refOf(KindPipeline, of)
	owner, there, err := a.state(ref)
	if err != nil {
		return err
	}
	p, ok := owner.(Pipeline)
	switch {
	case !ok && there: // nobody knows what it refers to
	case !ok:
		return a.found(Misfit{Ref: s.Ref(), Why: fmt.Sprintf("its pipeline, %s, is not there", of)})
	case !p.hasPage(s):
		return a.found(Misfit{Ref: s.Ref(), Why: fmt.Sprintf("its pipeline, %s, does not refer to it", of)})
	}
	return nil
}

// state gives a state; nil: it is not there, or it cannot be decoded.
func (a *pipelineAudit) state(ref effects.Ref) (s State, there bool, err error) {
	stored, err := a.load(ref)
	if err != nil || stored == nil {
		return nil, false, err
	}
	if s, err = DecodeState(ref.Kind, stored); err != nil {
		return nil, true, nil //nolint:nilerr // whoever meets it sets it aside
	}
	return s, true, nil
}

// hasPage reports whether a page is one of the pipeline's.
func (p Pipeline) hasPage(s State) bool {
	if p.parts == nil {
		return false
	}
	switch page := s.(type) {
	case HistoryPage:
		return page.Page >= p.parts.HistoryFrom && page.Page < p.parts.HistoryTo && p.historyPage(page.Page) == page.Ref()
	case ContextPage:
		return page.Page < p.parts.ContextPages && p.contextPage(page.Page) == page.Ref()
	}
	return false
}
