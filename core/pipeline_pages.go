package core

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// partsRules are the rules since which a pipeline has parts.
const partsRules = 7

// applyIn carries out one transition of a pipeline, and writes those of its parts that it
// changes. A pipeline that an earlier build wrote gets parts as soon as it changes; a replay of
// what such a build decided leaves it as it is.
func (p Pipeline) applyIn(b *Batch, e Event) (State, []effects.Effect, error) {
	own, ok := e.(PipelineEvent)
	if !ok || p.parts == nil && b.clock.Rules.before(partsRules) {
		next, effs := kinds[KindPipeline].apply(p, e, b.clock)
		return next, effs, nil
	}
	t := p.transition(own, b.clock, p.dependenciesDone(b))
	next, effs := concluded(p, t.Pipeline, t.transition)
	if t.refusal != nil {
		return next, effs, nil
	}
	w := partsWriter{records: records{t: b}, of: t}
	next = w.write(next)
	return next, effs, w.err
}

// definitionLost says why a pipeline cannot go on.
const definitionLost = "its definition was lost: the record could not be read"

// partsWriter writes the parts of a pipeline that a transition has changed.
type partsWriter struct {
	records
	of    *pipelineTransition
	next  Pipeline
	parts *pipelineParts
}

func (w *partsWriter) write(next Pipeline) Pipeline {
	w.next = next
	if next.ID == uuid.Nil {
		if w.of.before.parts != nil {
			w.dropAll()
		}
		return next
	}
	recorded, values, known := w.of.recorded, w.of.values, w.of.before.Context
	if w.of.before.parts != nil {
		parts := *w.of.before.parts
		w.parts = &parts
	} else { // all of it is new
		w.parts = &pipelineParts{ID: ChildID(next.ID, "parts", w.of.clock.Step, 0)}
		recorded, values, known = len(next.History), sortedKeys(next.Context), nil
		w.shareDefinition()
	}
	w.next.parts = w.parts
	w.writeHistory(recorded)
	w.writeContext(values, known)
	return w.next
}

// shareDefinition has the pipeline refer to the record of its definition, which the first one
// writes.
func (w *partsWriter) shareDefinition() {
	d := hashedDefinition(w.next.PipelineSpec.scope(), w.next.Definition)
	if d.ID == uuid.Nil {
		return
	}
	shared, exists := w.record(KindPipelineDefinition, d.ID).(PipelineDefinition)
	runs, counted := w.record(KindPipelineRuns, d.ID).(PipelineRuns)
	switch {
	case w.err != nil || exists && shared.Hash != d.Hash:
		return // the definition stays in the record of the pipeline
	case exists:
		w.next.Definition = shared.Definition
	default:
		w.put(d)
		runs, counted = PipelineRuns{ID: d.ID, Namespace: d.Namespace, Tenant: d.Tenant, Runs: runs.Runs}, true
	}
	w.parts.Definition = d.ID
	if counted { // else nobody knows how many there are: the definition is kept for good
		increment(&runs.Runs)
		w.put(runs)
	}
}

// releaseDefinition drops the definition with the last pipeline that refers to it.
func (w *partsWriter) releaseDefinition(id uuid.UUID) {
	runs, counted := w.record(KindPipelineRuns, id).(PipelineRuns)
	switch {
	case !counted:
	case runs.Runs > 1:
		runs.Runs--
		w.put(runs)
	default:
		w.drop(KindPipelineDefinition, id)
		w.drop(KindPipelineRuns, id)
	}
}

// writeHistory writes the pages that the new records have filled, and drops those that
// are too old.
func (w *partsWriter) writeHistory(recorded int) {
	parts, history := w.parts, w.next.History
	parts.records += recorded
	for ; parts.records >= historyPage; parts.records -= historyPage {
		from := len(history) - parts.records
		w.put(HistoryPage{
			ID: w.next.historyPage(parts.HistoryTo).ID, Namespace: w.next.Namespace, Tenant: w.next.Tenant, Pipeline: w.next.ID,
			Page: parts.HistoryTo, Records: history[from : from+historyPage],
		})
		parts.HistoryTo++
	}
	for int(parts.HistoryTo-parts.HistoryFrom-1)*historyPage+parts.records >= MaxHistory && parts.HistoryFrom < parts.HistoryTo {
		w.dropPage(w.next.historyPage(parts.HistoryFrom))
		parts.HistoryFrom++
	}
}

// writeContext notes which values have changed. Where there are too many for the record of the
// pipeline, they go to pages.
func (w *partsWriter) writeContext(names []string, before map[string]json.RawMessage) {
	parts := w.parts
	recent, rewritten, size := slices.Clone(parts.recent), slices.Clone(parts.Rewritten), 0
	for _, name := range names {
		v, is := w.next.Context[name]
		old, was := before[name]
		if !is || was && bytes.Equal(v, old) {
			continue // the phase has taken it back
		}
		at, known := slices.BinarySearch(recent, name)
		if known {
			continue
		}
		recent = slices.Insert(recent, at, name)
		if was {
			rewritten = append(rewritten, name)
		}
	}
	slices.Sort(rewritten)
	for _, name := range recent {
		size += len(name) + len(w.next.Context[name])
	}
	if len(recent) > contextPage || size > contextPageBytes {
		w.writeValues(recent, rewritten)
		recent, rewritten = nil, nil
	}
	parts.recent, parts.Rewritten = nilIfEmpty(recent, len(recent)), nilIfEmpty(rewritten, len(rewritten))
}

// writeValues writes the values into pages: those that stand in one already into that, the
// others into new ones.
func (w *partsWriter) writeValues(names, rewritten []string) {
	for n := uint32(0); n < w.parts.ContextPages && len(rewritten) > 0; n++ {
		id := w.next.contextPage(n)
		page, ok := w.record(id.Kind, id.ID).(ContextPage)
		if !ok {
			continue
		}
		here := func(name string) bool { _, is := page.Values[name]; return is }
		if !slices.ContainsFunc(rewritten, here) {
			continue
		}
		page.Values = maps.Clone(page.Values)
		rewritten = slices.DeleteFunc(rewritten, func(name string) bool {
			if !here(name) {
				return false
			}
			page.Values[name] = w.next.Context[name]
			names = slices.DeleteFunc(names, func(n string) bool { return n == name })
			return true
		})
		w.put(page)
	}
	values, size := map[string]json.RawMessage{}, 0
	for _, name := range names {
		v := w.next.Context[name]
		if len(values) == contextPage || len(values) > 0 && size+len(name)+len(v) > contextPageBytes {
			w.putValues(values)
			values, size = map[string]json.RawMessage{}, 0
		}
		values[name] = v
		size += len(name) + len(v)
	}
	if len(values) > 0 {
		w.putValues(values)
	}
}

// putValues writes a new page.
func (w *partsWriter) putValues(values map[string]json.RawMessage) {
	n := w.parts.ContextPages
	w.put(ContextPage{
		ID: w.next.contextPage(n).ID, Namespace: w.next.Namespace, Tenant: w.next.Tenant, Pipeline: w.next.ID, Page: n, Values: values,
	})
	w.parts.ContextPages++
}

// dropAll drops all parts of a pipeline that is forgotten.
func (w *partsWriter) dropAll() {
	parts := w.of.before.parts
	for n := parts.HistoryFrom; n < parts.HistoryTo; n++ {
		w.dropPage(w.of.before.historyPage(n))
	}
	for n := range parts.ContextPages {
		w.dropPage(w.of.before.contextPage(n))
	}
	if parts.Definition != uuid.Nil {
		w.releaseDefinition(parts.Definition)
	}
}

func (w *partsWriter) dropPage(page effects.Ref) { w.drop(page.Kind, page.ID) }
