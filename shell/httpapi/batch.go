package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// many are the entries of a request that makes many, each as a request of its own would be
// asked for it.
type many[E any] struct {
	s       *Server
	c       *call
	field   string // of the body, that lists them
	entries []E
	all     bool
	refused []*failure // for each entry: why it is refused; nil: it is not
	retry   int        // seconds after which the entries that were limited may come again
	again   bool       // the request has a key, and was carried out before: what it was refused is known
}

// refuse notes that an entry is refused. Where all stand or fall together, the error ends the
// request.
func (m *many[E]) refuse(i int, err error) error {
	f := m.failure(i, err)
	if m.all {
		return f
	}
	m.refused[i] = f
	m.c.noteEntry(f)
	if seconds, err := strconv.Atoi(f.header.Get("Retry-After")); err == nil {
		m.retry = max(m.retry, seconds)
	}
	return nil
}

// failure words the error of an entry: as a request of its own would be answered, but for the
// index of the entry.
func (m *many[E]) failure(i int, err error) *failure {
	f := *told(m.c, err)
	at := fmt.Sprintf("%s[%d]", m.field, i)
	switch first := strings.IndexAny(f.text, ".:["); {
	case strings.HasPrefix(f.text, at):
	case first > 0 && slices.Contains(fieldsOf(reflect.TypeFor[E]()), f.text[:first]):
		f.text = at + "." + f.text
	default:
		f.text = at + ": " + f.text
	}
	return &f
}

// fieldsOf lists the names of the fields of a body.
func fieldsOf(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// taken lists the entries that are not refused, with their indexes.
func (m *many[E]) taken() (at []int) {
	for i := range m.entries {
		if m.refused[i] == nil {
			at = append(at, i)
		}
	}
	return at
}

// said tells the metrics what became of an entry, and gives its status and error.
func (m *many[E]) said(i, status int) (int, string) {
	text := ""
	if f := m.refused[i]; f != nil {
		status, text = f.status, f.text
	}
	m.s.metrics.entries.WithLabelValues(m.c.route, strconv.Itoa(status)).Inc()
	return status, text
}

// answer sends what became of the entries.
func (m *many[E]) answer(w http.ResponseWriter, results any) error {
	if m.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(m.retry))
	}
	return writeJSON(w, http.StatusOK, results)
}

// readMany reads the entries of a request; whole decodes a body, and gives its mode. Of mode
// "each" an entry that is malformed is refused by itself.
func readMany[E any](
	s *Server, w http.ResponseWriter, r *http.Request, c *call, field string, reasons map[string]string, whole func([]byte) (string, []E, error),
) (*many[E], error) {
	if r.ContentLength == 0 {
		return nil, failf(http.StatusBadRequest, "body: is empty: want a JSON object")
	}
	data, err := s.readJSON(w, r)
	if err != nil {
		return nil, err
	}
	var bad []error // of each entry; nil: none is
	mode, entries, err := whole(data)
	if wrong, ok := errors.AsType[*strictjson.Error](err); ok && strings.HasPrefix(wrong.Path, field+"[") {
		if each, ok := looseEntries(field, data); ok {
			mode, err = wire.ModeEach, nil
			entries, bad = oneByOne[E](field, each)
		}
	}
	if err != nil {
		return nil, explainEntry(err, reasons)
	}
	m := &many[E]{s: s, c: c, field: field, entries: entries, all: mode != wire.ModeEach, refused: make([]*failure, len(entries))}
	switch {
	case mode != "" && mode != wire.ModeAll && mode != wire.ModeEach:
		return nil, failf(http.StatusBadRequest, "mode: %q is unknown: use %q or %q", clip(mode), wire.ModeAll, wire.ModeEach)
	case len(entries) == 0:
		return nil, failf(http.StatusBadRequest, "%s: must have 1 to %d elements", field, shell.MaxEntries)
	}
	if m.again, err = m.refusedBefore(r.Context()); err != nil || m.again {
		return m, err
	}
	if err := m.charge(r.Context(), w.Header()); err != nil {
		return nil, err
	}
	for i, err := range bad {
		if err != nil && m.refused[i] == nil {
			_ = m.refuse(i, explainEntry(err, reasons)) // which only notes it
		}
	}
	return m, nil
}

// keptRefusals are what is kept with what a request with a key has changed of the entries that were refused before the engine saw
// them: for what is beyond a limit, or is there already. A second time they might be others.
type keptRefusals struct {
	Refused []keptRefusal `json:"refused"`
	Retry   int           `json:"retry,omitempty"`
}

type keptRefusal struct {
	At     int    `json:"at"`
	Status int    `json:"status"`
	Text   string `json:"text"`
	Quotes bool   `json:"quotes,omitempty"` // the text may quote what was sent: not for the log of requests
}

// note has the refusals kept.
func (m *many[E]) note() error {
	if m.c.once == nil {
		return nil
	}
	b, err := m.toKeep()
	m.c.once.Note(b)
	return err
}

func (m *many[E]) toKeep() ([]byte, error) {
	kept := keptRefusals{Retry: m.retry}
	for i, f := range m.refused {
		if f != nil {
			kept.Refused = append(kept.Refused, keptRefusal{At: i, Status: f.status, Text: f.text, Quotes: f.quotes})
		}
	}
	return json.Marshal(kept)
}

// noted takes over the refusals that were kept.
func (m *many[E]) noted(note []byte) error {
	var kept keptRefusals
	if err := json.Unmarshal(note, &kept); err != nil {
		return fmt.Errorf("the entries that were refused before: %w", err)
	}
	clear(m.refused)
	m.retry = kept.Retry
	for _, r := range kept.Refused {
		if r.At < len(m.refused) {
			m.refused[r.At] = &failure{status: r.Status, text: r.Text, quotes: r.Quotes}
			m.c.noteEntry(m.refused[r.At])
		}
	}
	return nil
}

// refusedBefore takes over the refusals of the first one, of a request with a key that was carried out before, and reports whether it
// was.
func (m *many[E]) refusedBefore(ctx context.Context) (bool, error) {
	before, ok, err := m.s.engine.AnsweredBefore(ctx)
	if err != nil || !ok {
		return false, err
	}
	return true, m.noted(before.Note)
}

// takenFirst gives the indexes of the entries that were taken. Of a request that came with another one of the same key they are those
// of the one that was carried out.
func (m *many[E]) takenFirst() ([]int, error) {
	if note := m.c.once.Noted(); note != nil && m.c.once.Repeated() {
		if err := m.noted(note); err != nil {
			return nil, err
		}
	}
	return m.taken(), nil
}

// looseEntries gives the entries of a body of mode "each" as they are, each JSON but perhaps
// malformed beyond that; ok is false if it is no such body.
func looseEntries(field string, data []byte) (entries []json.RawMessage, ok bool) {
	var b struct {
		Mode    string            `json:"mode"`
		Actions []json.RawMessage `json:"actions" most:"1000"`
		Items   []json.RawMessage `json:"items" most:"1000"`
	}
	if err := strictjson.Decode(data, &b); err != nil || b.Mode != wire.ModeEach {
		return nil, false
	}
	if field == "items" {
		return b.Items, b.Actions == nil
	}
	return b.Actions, b.Items == nil
}

// oneByOne decodes entries some of which are malformed.
func oneByOne[E any](field string, raw []json.RawMessage) (entries []E, bad []error) {
	entries, bad = make([]E, len(raw)), make([]error, len(raw))
	for i := range raw {
		bad[i] = strictjson.DecodeAt(fmt.Sprintf("%s[%d]", field, i), raw[i], &entries[i])
	}
	return entries, bad
}

// explainEntry is [explain] for a field of an entry.
func explainEntry(err error, reasons map[string]string) error {
	e, ok := errors.AsType[*strictjson.Error](err)
	if !ok {
		return err
	}
	_, name, _ := strings.Cut(e.Path, "].")
	if why, ok := reasons[name]; ok && strings.HasPrefix(e.Problem, "unknown field") {
		return failf(http.StatusBadRequest, "%s: %s", e.Path, why)
	}
	return err
}

// charge takes the entries into account, of which the request itself was the first. Of the parts of a request that a router has charged, that holds for one of those that are for its own
// process.
func (m *many[E]) charge(ctx context.Context, h http.Header) error {
	n, more := len(m.entries), 0
	if m.c.part == ownPart && ctx.Value(chargedKey{}) == nil || chargedBefore(ctx) {
		more = 1
	}
	allowed, limited := m.s.chargeEntries(h, m.c.token, n+more, m.all)
	allowed -= more
	if limited != nil && m.all {
		return limited
	}
	for i := allowed; i < n; i++ {
		_ = m.refuse(i, limited) // which only notes it
	}
	return nil
}

// createActions makes many actions: all of them, of one tenant, or each that is not refused.
func (s *Server) createActions(w http.ResponseWriter, r *http.Request, c *call) error {
	m, err := readMany(s, w, r, c, "actions", fromOutside, func(data []byte) (string, []wire.ActionRequest, error) {
		var b wire.ActionBatchRequest
		err := strictjson.Decode(data, &b)
		return b.Mode, b.Actions, err
	})
	if err != nil {
		return err
	}
	specs, err := askedActions(m)
	if err == nil {
		err = mayCreateMany(r.Context(), m, specs)
	}
	var made []core.Action
	if err == nil {
		made, err = createMany(r.Context(), m, specs)
	}
	if err != nil {
		return err
	}
	out := wire.ActionBatch{Results: make([]wire.ActionResult, len(made))}
	for i := range out.Results {
		res := &out.Results[i]
		if res.Status, res.Error = m.said(i, http.StatusCreated); res.Error == "" {
			shown := wire.ActionSummary(omitOfAction(made[i], nil))
			res.Action = &shown
		}
	}
	return m.answer(w, out)
}

// askedActions gives the actions that a token asks for. Those that are made together are of
// one tenant.
func askedActions(m *many[wire.ActionRequest]) ([]core.ActionSpec, error) {
	specs := make([]core.ActionSpec, len(m.entries))
	first := -1
	mixed := false
	for _, i := range m.taken() {
		spec, err := askedAction(m.c, &m.entries[i])
		if err != nil {
			if err := m.refuse(i, err); err != nil {
				return nil, err
			}
			continue
		}
		if specs[i] = spec; first < 0 {
			first = i
		}
		of := specs[first]
		if spec.Namespace == of.Namespace && spec.Tenant == of.Tenant {
			continue
		}
		if mixed = true; m.all {
			return nil, m.refuse(i, failf(http.StatusBadRequest, "tenant: %q of namespace %q is not that of actions[0], %q of %q: with the mode %q all are of one tenant",
				clip(spec.Tenant), clip(spec.Namespace), clip(of.Tenant), clip(of.Namespace), wire.ModeAll))
		}
	}
	if first >= 0 && !mixed {
		m.c.about(specs[first].Namespace, specs[first].Tenant)
	}
	return specs, nil
}

// mayCreateMany refuses actions that the token may not have made, or that are beyond the
// limits of their tenant with those before them.
func mayCreateMany(ctx context.Context, m *many[wire.ActionRequest], specs []core.ActionSpec) error {
	before := map[shell.Scope]want{}
	for _, i := range m.taken() {
		of := shell.Scope{Namespace: specs[i].Namespace, Tenant: specs[i].Tenant}
		if err := m.s.mayCreate(ctx, m.c, &specs[i], before[of]); err != nil {
			if err := m.refuse(i, err); err != nil {
				return err
			}
			continue
		}
		before[of] = before[of].and(actionWanted(&specs[i]))
	}
	return nil
}

// createMany makes the actions that are not refused.
func createMany(ctx context.Context, m *many[wire.ActionRequest], specs []core.ActionSpec) ([]core.Action, error) {
	if err := m.note(); err != nil {
		return nil, err
	}
	if m.all {
		made, err := m.s.engine.Actions().CreateAll(ctx, specs)
		return made, m.named(err)
	}
	at := m.taken()
	asked := make([]core.ActionSpec, len(at))
	for j, i := range at {
		asked[j] = specs[i]
	}
	answers, err := m.s.engine.Actions().CreateEach(ctx, asked)
	if err == nil {
		at, err = m.takenFirst()
	}
	if err != nil {
		return nil, err
	}
	made := make([]core.Action, len(specs))
	for j, i := range at {
		if made[i] = answers[j].Action; answers[j].Err != nil {
			_ = m.refuse(i, answers[j].Err) // which only notes it
		}
	}
	return made, nil
}

// named words the error of the engine's calls that make all or none.
func (m *many[E]) named(err error) error {
	if of, ok := errors.AsType[*shell.EntryError](err); ok {
		return m.failure(of.Index, of.Err)
	}
	return err
}

// pushItems adds many items to a queue: all of them, or each that is not refused.
func (s *Server) pushItems(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := byQueue.of(r, c)
	if err != nil {
		return err
	}
	m, err := readMany(s, w, r, c, "items", inTheQuery, func(data []byte) (string, []wire.PushRequest, error) {
		var b wire.PushBatchRequest
		err := strictjson.Decode(data, &b)
		return b.Mode, b.Items, err
	})
	if err != nil {
		return explain(err, inTheQuery)
	}
	if err := mayPushMany(r.Context(), m, of.Scope); err != nil {
		return err
	}
	pushed, err := pushMany(r.Context(), m, of)
	if err != nil {
		return err
	}
	out := wire.PushBatch{Results: make([]wire.PushResult, len(pushed))}
	for i, p := range pushed {
		res, status := &out.Results[i], http.StatusCreated
		if p.Duplicate {
			status = http.StatusOK
		}
		if res.Status, res.Error = m.said(i, status); res.Error == "" {
			shown := wire.ItemSummary(s.items().omit(p.Item, nil))
			res.Duplicate, res.Item = p.Duplicate, &shown
		}
	}
	return m.answer(w, out)
}

// mayPushMany refuses items that are malformed, or beyond the limits of their tenant with
// those before them.
func mayPushMany(ctx context.Context, m *many[wire.PushRequest], of shell.Scope) error {
	var before want
	for _, i := range m.taken() {
		b := &m.entries[i]
		err := between("delay_ms", b.DelayMS, core.MaxDelayMS)
		if err == nil {
			err = m.s.within(ctx, m.c.token, of, before)
		}
		if err != nil {
			if err := m.refuse(i, err); err != nil {
				return err
			}
			continue
		}
		before.bytes += int64(len(b.Data))
	}
	return nil
}

// pushMany adds the items that are not refused.
func pushMany(ctx context.Context, m *many[wire.PushRequest], of named) ([]shell.PushAnswer, error) {
	at := m.taken()
	items := make([]shell.PushOptions, len(at))
	for j, i := range at {
		items[j] = pushOptions(&m.entries[i])
	}
	if err := m.note(); err != nil {
		return nil, err
	}
	if m.all {
		pushed, err := m.s.engine.Queues().PushAll(ctx, of.Namespace, of.Tenant, of.name, items)
		return pushed, m.named(err)
	}
	answers, err := m.s.engine.Queues().PushEach(ctx, of.Namespace, of.Tenant, of.name, items)
	if err == nil {
		at, err = m.takenFirst()
	}
	if err != nil {
		return nil, err
	}
	pushed := make([]shell.PushAnswer, len(m.entries))
	for j, i := range at {
		if pushed[i] = answers[j]; answers[j].Err != nil {
			_ = m.refuse(i, answers[j].Err) // which only notes it
		}
	}
	return pushed, nil
}

func pushOptions(b *wire.PushRequest) shell.PushOptions {
	return shell.PushOptions{
		Data: b.Data, Priority: b.Priority, Key: or(b.Key, ""), DedupKey: or(b.DedupKey, ""),
		Delay: time.Duration(b.DelayMS) * time.Millisecond,
	}
}
