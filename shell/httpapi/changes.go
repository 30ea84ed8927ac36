package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
)

// Bounds of a list of changes: each may have what a state has.
const (
	defaultChanges = 20
	maxChanges     = 100
	// maxChangesBytes is how much of states is read at most, beside the present one.
	maxChangesBytes = 16 << 20
)

// listChanges tells what has changed a machine, from the journal.
func (s *Server) listChanges(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "limit", "before", "asked")
	if err != nil {
		return err
	}
	o := replay.HistoryOptions{MaxBytes: maxChangesBytes}
	if o.Limit, err = q.number("limit", defaultChanges, maxChanges); err != nil {
		return err
	}
	if o.From, err = q.batch("before"); err != nil {
		return err
	}
	if asked, err := q.bool("asked"); err != nil {
		return err
	} else if or(asked, false) {
		o.Keep = askedFor
	}
	text := r.PathValue("id")
	id, err := idOf("id", &text)
	if err != nil {
		return err
	}
	ref := effects.Ref{Kind: effects.Kind(r.PathValue("kind")), ID: id}
	if err := s.mayReadChanges(r, c, ref); err != nil {
		return err
	}
	trail, err := replay.History(r.Context(), s.engine.Store(), ref, o)
	if errors.Is(err, replay.ErrFrom) {
		return failf(http.StatusBadRequest, "before: %v: take that of an answer", replay.ErrFrom)
	}
	if err != nil {
		return err
	}
	out := wire.ChangeList{Changes: []wire.Change{}, Before: trail.Before, JournalEnds: trail.Reached}
	var hidden []Redaction
	if s.redacts(c.token) {
		hidden = append(hidden, s.o.Redact)
	}
	if (ref.Kind == core.KindLock || ref.Kind == core.KindSemaphore) && !c.token.Admin {
		hidden = append(hidden, fencingTokens)
	}
	for _, step := range trail.Steps {
		change := changeOf(step)
		for _, r := range hidden {
			r.hideChange(&change)
		}
		out.Changes = append(out.Changes, change)
	}
	return writeJSON(w, http.StatusOK, out)
}

// fencingTokens hides those of leases: whoever knows one can give the lease back, and who took it is not known for each
// that there was. See [call.seesLease].
var fencingTokens = Redaction{Paths: []string{"token"}}

// hideChange hides in a change what is hidden in a state and in an event.
func (r Redaction) hideChange(c *wire.Change) {
	for i := range c.Inputs {
		c.Inputs[i].Data = r.redactor().pass(c.Inputs[i].Data)
	}
	for i := range c.Effects {
		c.Effects[i].Data = r.redactor().pass(c.Effects[i].Data)
	}
	for i := range c.Fields {
		f := &c.Fields[i]
		f.Before, f.After = r.hideField(f.Field, f.Before), r.hideField(f.Field, f.After)
	}
}

// hideField hides what is hidden in the value of a field: the names that lead to it begin with the field's.
func (r Redaction) hideField(field string, v json.RawMessage) json.RawMessage {
	whole, err := plainjson.Marshal(map[string]json.RawMessage{field: v})
	var shown map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(r.redactor().pass(whole), &shown)
	}
	if err != nil { // it came out of a state, which is JSON
		return json.RawMessage(redactedValue)
	}
	return shown[field]
}

func changeOf(s replay.Step) wire.Change {
	out := wire.Change{Batch: s.Seq, At: s.At, Instance: s.Instance, Inputs: []wire.ChangeInput{}, Fields: []wire.ChangedField{}, Effects: []wire.ChangeEffect{}}
	for _, in := range s.Inputs {
		out.Inputs = append(out.Inputs, wire.ChangeInput{Actor: in.Actor, BySet: wire.ChangeSetOf(in.BySet), Event: in.Event.EventType(), Data: core.AppendEvent(nil, in.Event)})
	}
	for _, e := range s.Effects {
		out.Effects = append(out.Effects, wire.ChangeEffect{What: e.What, Effect: e.Type(), Number: e.Effect.Number(), Data: e.Effect.AppendJSON(nil)})
	}
	for _, f := range s.Fields {
		out.Fields = append(out.Fields, wire.ChangedField{Field: f.Name, Before: f.Before, After: f.After}) // nil is written as null
	}
	return out
}

// mayReadChanges refuses the changes of a machine that does not exist for the token: one of another tenant, and, for a token
// that is bound to tools, any but the actions and recurring actions of its tools.
func (s *Server) mayReadChanges(r *http.Request, c *call, ref effects.Ref) error {
	gone := notFound(cmp.Or(string(ref.Kind), "machine"), shell.ErrNotFound)
	if !plainName(string(ref.Kind)) {
		return failf(http.StatusNotFound, "kind: %q is no kind of machine", clip(string(ref.Kind)))
	}
	var rec store.Record
	err := s.engine.Store().View(r.Context(), func(tx store.ReadTx) (err error) {
		rec, err = tx.Get(ref.Kind, ref.ID)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return gone
	case err != nil:
		return err
	}
	state, err := core.DecodeState(ref.Kind, rec.State)
	if err != nil {
		return err
	}
	if !c.token.seesMachine(state) {
		return gone
	}
	of := core.ScopeOf(state)
	c.about(of.Namespace, of.Tenant)
	return nil
}

// seesMachine reports whether a machine of whatever kind exists for the holder of a token.
func (t *Token) seesMachine(state core.State) bool {
	of := core.ScopeOf(state)
	if of == (core.Scope{}) { // it belongs to all tenants
		return t.unbound()
	}
	switch v := state.(type) {
	case core.Action:
		return t.sees(of.Namespace, of.Tenant, v.ToolName)
	case core.RecurringAction:
		return t.sees(of.Namespace, of.Tenant, v.ActionTemplate.Provider)
	default:
		return t.seesScope(of.Namespace, of.Tenant) && len(t.Tools) == 0
	}
}
