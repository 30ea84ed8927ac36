package core

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/effects"
)

// What a pipeline keeps as records of their own, so that a transition writes what it
// changes and not all that the pipeline is. The pipeline's own record has the newest
// entries of history and context, until they fill a page; in memory a pipeline is whole.

// Bounds of what stands in the record of the pipeline itself.
const (
	historyPage      = 16      // records of one page
	contextPage      = 16      // values of one page
	contextPageBytes = 1 << 10 // of their names and values, but for one that is longer
)

// PipelineDefinition is a definition that the pipelines of one tenant share. It never
// changes; [PipelineRuns] says how long it is kept.
type PipelineDefinition struct {
	ID         uuid.UUID   `json:"id"` // of tenant and hash
	Namespace  string      `json:"namespace"`
	Tenant     string      `json:"tenant"`
	Hash       string      `json:"hash"` // SHA-256 of the definition's JSON
	Definition PipelineDef `json:"definition"`
}

// PipelineRuns counts the pipelines that refer to the definition with the same id. With the
// last of them both records go.
type PipelineRuns struct {
	ID        uuid.UUID `json:"id"`
	Namespace string    `json:"namespace"`
	Tenant    string    `json:"tenant"`
	Runs      uint64    `json:"runs"`
}

// HistoryPage is a part of a pipeline's history. It never changes.
type HistoryPage struct {
	ID        uuid.UUID     `json:"id"`
	Namespace string        `json:"namespace"`
	Tenant    string        `json:"tenant"`
	Pipeline  uuid.UUID     `json:"pipeline"`
	Page      uint32        `json:"page"`
	Records   []PhaseRecord `json:"records"`
}

// ContextPage is a part of a pipeline's context. A name stands in one page at most.
type ContextPage struct {
	ID        uuid.UUID                  `json:"id"`
	Namespace string                     `json:"namespace"`
	Tenant    string                     `json:"tenant"`
	Pipeline  uuid.UUID                  `json:"pipeline"`
	Page      uint32                     `json:"page"`
	Values    map[string]json.RawMessage `json:"values"`
}

// pipelineParts says where the parts of a pipeline are. It is replaced, never written to.
type pipelineParts struct {
	// ID is what the ids of the pages are derived from: a pipeline that was forgotten and
	// made again under its id has others.
	ID         uuid.UUID `json:"id"`
	Definition uuid.UUID `json:"definition,omitzero"` // zero: it stands in the pipeline's record
	// HistoryFrom and HistoryTo are the pages of the history, the last one exclusive.
	HistoryFrom  uint32 `json:"history_from,omitempty"`
	HistoryTo    uint32 `json:"history_to,omitempty"`
	ContextPages uint32 `json:"context_pages,omitempty"`
	// Rewritten are the values in the pipeline's record of which a page has an older one.
	Rewritten []string `json:"rewritten,omitempty"`

	recent  []string // the names of the context that stand in the pipeline's record, sorted
	records int      // the last ones of the history: those that stand there
	apart   bool     // the parts have not been read
}

// storedPipeline is the stored form of a pipeline with parts.
type storedPipeline struct {
	Pipeline
	Parts *pipelineParts `json:"parts"`
}

// AppendJSON appends the stored form: without what stands in records of its own.
func (p Pipeline) AppendJSON(b []byte) []byte {
	if p.parts == nil { // an earlier build wrote it
		return appendMarshaled(b, p)
	}
	if !p.parts.apart {
		p = p.header()
	}
	return appendMarshaled(b, storedPipeline{p, p.parts})
}

// header is the pipeline without what stands in records of its own.
func (p Pipeline) header() Pipeline {
	if p.parts.Definition != uuid.Nil {
		p.Definition = PipelineDef{Name: p.Definition.Name}
	}
	p.History = p.History[len(p.History)-p.parts.records:]
	p.History = nilIfEmpty(p.History, len(p.History))
	var recent map[string]json.RawMessage
	if len(p.parts.recent) > 0 {
		recent = make(map[string]json.RawMessage, len(p.parts.recent))
	}
	for _, name := range p.parts.recent {
		recent[name] = p.Context[name]
	}
	p.Context = recent
	return p
}

// decodePipeline reads a stored form. Of one with parts they are missing, see [Whole].
func decodePipeline(b []byte) (State, error) {
	var stored storedPipeline
	err := json.Unmarshal(b, &stored)
	p := stored.Pipeline
	if p.parts = stored.Parts; p.parts != nil {
		p.parts.recent, p.parts.records, p.parts.apart = sortedKeys(p.Context), len(p.History), true
	}
	return p, err
}

// apart reports whether the parts are missing.
func (p Pipeline) apart() bool { return p.parts != nil && p.parts.apart }

// lacksDefinition reports whether the definition is not there: it has not been read, or its record
// is gone.
func (p Pipeline) lacksDefinition() bool {
	return p.parts != nil && p.parts.Definition != uuid.Nil && len(p.Definition.Phases) == 0
}

// whole gives the pipeline with its parts. One of which the record is gone is left out; a
// definition that was brought back by another pipeline is found again.
func (p Pipeline) whole(load func(effects.Ref) (State, error)) (State, error) {
	if p.lacksDefinition() {
		s, err := load(refOf(KindPipelineDefinition, p.parts.Definition))
		if err != nil {
			return p, err
		}
		if d, ok := s.(PipelineDefinition); ok {
			p.Definition = d.Definition
		}
	}
	if !p.apart() {
		return p, nil
	}
	parts := *p.parts
	parts.apart = false
	history, err := p.wholeHistory(load)
	if err != nil {
		return p, err
	}
	context, err := p.wholeContext(load)
	if err != nil {
		return p, err
	}
	p.History, p.Context, p.parts = history, context, &parts
	return p, nil
}

func (p Pipeline) wholeHistory(load func(effects.Ref) (State, error)) ([]PhaseRecord, error) {
	if p.parts.HistoryFrom == p.parts.HistoryTo {
		return p.History, nil
	}
	history := make([]PhaseRecord, 0, int(p.parts.HistoryTo-p.parts.HistoryFrom)*historyPage+len(p.History))
	for n := p.parts.HistoryFrom; n < p.parts.HistoryTo; n++ {
		s, err := load(p.historyPage(n))
		if err != nil {
			return nil, err
		}
		if page, ok := s.(HistoryPage); ok {
			history = append(history, page.Records...)
		}
	}
	history = append(history, p.History...)
	return history[max(len(history)-MaxHistory, 0):], nil
}

func (p Pipeline) wholeContext(load func(effects.Ref) (State, error)) (map[string]json.RawMessage, error) {
	if p.parts.ContextPages == 0 {
		return p.Context, nil
	}
	context := make(map[string]json.RawMessage, int(p.parts.ContextPages)*contextPage)
	for n := range p.parts.ContextPages {
		s, err := load(p.contextPage(n))
		if err != nil {
			return nil, err
		}
		if page, ok := s.(ContextPage); ok {
			maps.Copy(context, page.Values)
		}
	}
	maps.Copy(context, p.Context)
	return nilIfEmpty(context, len(context)), nil
}

// historyPage names the record of a page.
func (p Pipeline) historyPage(n uint32) effects.Ref {
	return refOf(KindPipelineHistory, p.pageID("history", n))
}

// contextPage names the record of a page.
func (p Pipeline) contextPage(n uint32) effects.Ref {
	return refOf(KindPipelineContext, p.pageID("context", n))
}

// pageID derives the id of a page. It begins as that of the pipeline does, so that in the
// store the pages of pipelines that were made together lie together.
func (p Pipeline) pageID(role string, n uint32) uuid.UUID {
	id := partID(p.parts.ID, role, strconv.FormatUint(uint64(n), 10))
	copy(id[:6], p.ID[:6])
	id[6] = id[6]&0x0f | 0x80
	return id
}

// held: see [Held].
func (p Pipeline) held() (bytes int, shares effects.Ref) {
	if p.parts == nil || p.parts.apart {
		return 0, effects.Ref{}
	}
	if p.parts.Definition != uuid.Nil {
		shares = refOf(KindPipelineDefinition, p.parts.Definition)
	}
	return contextSize(p.Context) + 128*len(p.History), shares
}

// hashedDefinition gives the record in which a definition stands; no id if it cannot be
// encoded.
func hashedDefinition(of Scope, d PipelineDef) PipelineDefinition {
	b, err := json.Marshal(d)
	if err != nil {
		return PipelineDefinition{}
	}
	hash := sha256.Sum256(b)
	named := sha256.Sum256(slices.Concat([]byte(of.Namespace+"\x1f"+of.Tenant+"\x1f"), hash[:]))
	id := uuid.UUID(named[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return PipelineDefinition{ID: id, Namespace: of.Namespace, Tenant: of.Tenant, Hash: hex.EncodeToString(hash[:]), Definition: d}
}

// Ref names the definition's record.
func (d PipelineDefinition) Ref() effects.Ref { return refOf(KindPipelineDefinition, d.ID) }

// Ref names the count's record.
func (r PipelineRuns) Ref() effects.Ref { return refOf(KindPipelineRuns, r.ID) }

// Ref names the page's record.
func (h HistoryPage) Ref() effects.Ref { return refOf(KindPipelineHistory, h.ID) }

// Ref names the page's record.
func (c ContextPage) Ref() effects.Ref { return refOf(KindPipelineContext, c.ID) }

// Deadline is none.
func (d PipelineDefinition) Deadline() Time { return 0 }

// Deadline is none.
func (r PipelineRuns) Deadline() Time { return 0 }

// Deadline is none.
func (h HistoryPage) Deadline() Time { return 0 }

// Deadline is none.
func (c ContextPage) Deadline() Time { return 0 }

// Terms are none: who refers to the definition knows its id.
func (d PipelineDefinition) Terms() []effects.Term { return nil }

// Terms are none: it has the id of the definition.
func (r PipelineRuns) Terms() []effects.Term { return nil }

// Terms are none: its pipeline knows the id.
func (h HistoryPage) Terms() []effects.Term { return nil }

// Terms are none: its pipeline knows the id.
func (c ContextPage) Terms() []effects.Term { return nil }

// AppendJSON appends the stored form.
func (d PipelineDefinition) AppendJSON(b []byte) []byte { return appendMarshaled(b, d) }

// AppendJSON appends the stored form.
func (r PipelineRuns) AppendJSON(b []byte) []byte { return appendMarshaled(b, r) }

// AppendJSON appends the stored form.
func (h HistoryPage) AppendJSON(b []byte) []byte { return appendMarshaled(b, h) }

// AppendJSON appends the stored form.
func (c ContextPage) AppendJSON(b []byte) []byte { return appendMarshaled(b, c) }

func (d PipelineDefinition) scope() Scope { return Scope{d.Namespace, d.Tenant} }
func (r PipelineRuns) scope() Scope       { return Scope{r.Namespace, r.Tenant} }
func (h HistoryPage) scope() Scope        { return Scope{h.Namespace, h.Tenant} }
func (c ContextPage) scope() Scope        { return Scope{c.Namespace, c.Tenant} }
