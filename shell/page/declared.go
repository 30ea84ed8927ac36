package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/setfile"
)

// What a set of files owns is changed in its files. The form of an act that would change or delete it shows the text that stands
// there, and has its own fields behind that, for who takes it over from the set.

// declarations read what the API answers of a thing as the declaration of a file, by the path of the API. A test compares
// the paths with the acts.
var declarations = map[string]func(json.RawMessage) (shell.SetEntry, error){ // read-only: a table
	"/v1/recurring/{id}": declaredAs(func(a wire.RecurringAction, e *shell.SetEntry) {
		spec := a.RecurringSpec
		spec.Description, spec.Labels = or(a.Description), a.Labels
		spec.ActionTemplate = a.ActionTemplate.RecurringActionTemplate
		spec.ActionTemplate.Metadata, spec.ActionTemplate.DedupKey = a.ActionTemplate.Metadata, or(a.ActionTemplate.DedupKey)
		spec.Enabled = a.Enabled || !a.DisabledByDefinition() // no file says that it is paused, or has ended
		e.Recurring = &spec
	}),
	"/v1/jobs/{id}": declaredAs(func(j wire.Job, e *shell.SetEntry) { e.Job = &j.JobSpec }),
	"/v1/queues/{name}": declaredAs(func(u wire.Queue, e *shell.SetEntry) {
		e.Queue = &shell.QueueSpec{Namespace: u.Namespace, Tenant: u.Tenant, Name: u.Name, Config: u.Config}
	}),
	"/v1/semaphores/{name}": declaredAs(func(m core.Semaphore, e *shell.SetEntry) {
		e.Semaphore = &shell.SemaphoreSpec{Namespace: m.Namespace, Tenant: m.Tenant, Name: m.Name, Slots: m.Total}
	}),
	"/v1/workers/{name}":   declaredAs(func(w core.Worker, e *shell.SetEntry) { e.Worker = &w.WorkerSpec }),
	"/v1/calendars/{name}": declaredAs(func(c wire.Calendar, e *shell.SetEntry) { e.Calendar = &c.CalendarSpec }),
	"/v1/subscribers/{name}": declaredAs(func(s wire.Subscriber, e *shell.SetEntry) {
		e.Subscriber = &shell.SubscriberSpec{Namespace: s.Namespace, Tenant: s.Tenant, Subscription: s.Subscription}
	}),
}

func declaredAs[T any](put func(T, *shell.SetEntry)) func(json.RawMessage) (shell.SetEntry, error) {
	return func(raw json.RawMessage) (e shell.SetEntry, err error) {
		var v T
		if err = json.Unmarshal(raw, &v); err == nil {
			put(v, &e)
		}
		return e, err
	}
}

// defines reports whether the act changes or deletes what a set of files may own.
func (a act) defines() bool {
	return (a.edits() || a.method == http.MethodDelete) && declarations[a.api] != nil
}

// Of the form of what a set owns.
const (
	takeOverField = "take_over"
	behindSet     = "Change it here all the same"
)

// ofSet changes the form of an act on what a set of files owns: what the file has comes first.
func (q *visit) ofSet(a act, f *actForm) {
	if !a.defines() {
		return
	}
	got, err := q.call(http.MethodGet, withQuery(q.filledIn(a.api), q.scopeQuery()), nil, nil)
	if err != nil { // the form itself says what is wrong
		return
	}
	var of struct {
		Declared *wire.DeclaredBy `json:"declared"`
	}
	if json.Unmarshal(got.body.Bytes(), &of) != nil || of.Declared == nil {
		return
	}
	by := of.Declared
	f.Notes = slices.Concat([]block{{Notice: &notice{Text: ownedText(by, a.method == http.MethodDelete), Tone: toneWait}}}, q.fileText(a, got.body.Bytes()), f.Notes)
	take := field{
		Name: takeOverField, Label: "Take it over from the set", Type: fieldCheck, Value: q.PostForm.Get(takeOverField),
		Help: "It belongs to no set any more then. Applied again, the set declares it anew, and changes it back.",
	}
	f.Fields = append([]field{take}, f.Fields...)
	if a.edits() {
		for i := range f.Fields {
			f.Fields[i].Group = behindSet
		}
	}
}

// ownedText says whose a thing is, and how it is changed.
func ownedText(by *wire.DeclaredBy, deleted bool) string {
	where := fmt.Sprintf("The set %s declares it", by.Set)
	if by.File != "" {
		where += ", in " + by.File
	}
	if deleted {
		return fmt.Sprintf("%s. Take it out there, and apply the set: orreryd apply -f FOLDER --set %s --prune", where, by.Set)
	}
	return fmt.Sprintf("%s. Change it there, and apply the set: orreryd apply -f FOLDER --set %s", where, by.Set)
}

// fileText shows the declaration as it stands in a file. What is hidden from a visitor would be missing in it.
func (q *visit) fileText(a act, raw json.RawMessage) []block {
	if q.who.ReadOnly() || a.method == http.MethodDelete {
		return nil
	}
	e, err := declarations[a.api](raw)
	var data []byte
	if err == nil {
		data, err = setfile.MarshalOne(e)
	}
	b := block{Title: "As it stands in the file", Note: "With its present values, those of variables filled in, and without what has its default."}
	if err != nil {
		b.Empty = "It cannot be shown as a file has it: " + err.Error()
	} else {
		b.Text = longText(string(data))
	}
	return []block{b}
}

// declaredFact says which set of files owns a thing, and since when; nothing if none does.
func (q *visit) declaredFact(by *wire.DeclaredBy) fact {
	if by == nil {
		return fact{Name: "Set of files"}
	}
	c := codeOf(by.Set)
	c.More = []cell{q.at(by.Since)}
	if by.File != "" {
		c.Hint = "in " + by.File
	}
	return fact{"Set of files", c}
}
