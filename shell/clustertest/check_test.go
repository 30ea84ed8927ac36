//go:build unix

package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

// findings collects what is wrong.
type findings struct{ list []string }

func (f *findings) add(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// decision bounds how long the checker looks for an order that explains a history.
const decision = time.Minute

// checkOrder: one order of all operations explains what everybody was told.
func checkOrder(f *findings, what string, model porcupine.Model, ops []porcupine.Operation) {
	switch porcupine.CheckOperationsTimeout(model, ops, decision) {
	case porcupine.Ok:
	case porcupine.Illegal:
		f.add("%s: no order of the %d operations explains the answers", what, len(ops))
	case porcupine.Unknown:
		f.add("%s: no verdict on %d operations within %s", what, len(ops), decision)
	}
}

// checkTokens: of two grants, one after the other, the later one has the greater token. The model says so, too; this says which.
func checkTokens(f *findings, what string, ops []porcupine.Operation) {
	by := make(map[uint64]string)
	type given struct {
		token     uint64
		call, end int64
	}
	var all []given
	for _, o := range ops {
		in, out := o.Input.(lockAsk), o.Output.(lockSaid)
		if in.op != opAcquire || out.unknown || out.code != saidOK {
			continue
		}
		if other, ok := by[out.token]; ok && other != in.holder {
			f.add("%s: token %d was given to %s and to %s", what, out.token, other, in.holder)
		}
		by[out.token] = in.holder
		all = append(all, given{out.token, o.Call, o.Return})
	}
	for _, a := range all {
		for _, b := range all {
			if a.end < b.call && a.token >= b.token {
				f.add("%s: token %d was given out after token %d", what, b.token, a.token)
			}
		}
	}
}

// line is what a run of a tool has written.
type line struct {
	label   string
	retry   bool
	key     string
	attempt string
}

func readLines(file string) (all []line, err error) {
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for s := range strings.Lines(string(b)) {
		w := strings.Fields(s)
		if len(w) != 4 {
			return nil, fmt.Errorf("a line of the side effects is %q", s)
		}
		all = append(all, line{w[0], w[1] == "retry", w[2], w[3]})
	}
	return all, err
}

// checkEffects: no run that must not be repeated was, and no attempt was carried out twice.
func checkEffects(f *findings, lines []line, actions map[uuid.UUID]core.Action) {
	byKey, byAttempt, did := make(map[string]int), make(map[string]int), make(map[string]bool)
	for _, l := range lines {
		id, _, _ := strings.Cut(l.key, "/")
		did[id] = true
		if byKey[l.key]++; !l.retry && byKey[l.key] > 1 {
			f.add("%s: a run with on_interrupt fail has happened %d times", l.label, byKey[l.key])
		}
		if byAttempt[l.key+" "+l.attempt]++; byAttempt[l.key+" "+l.attempt] > 1 {
			f.add("%s: attempt %s has happened %d times", l.label, l.attempt, byAttempt[l.key+" "+l.attempt])
		}
	}
	for id, a := range actions {
		if a.Status.Type == core.StatusCompleted && !did[id.String()] {
			f.add("action %s, %s, has completed without its side effect", id, a.Label)
		}
	}
}

// checkActions: each action that was acknowledged is there, once, has ended, and was not begun again after its end.
func checkActions(f *findings, h *history, actions map[uuid.UUID]core.Action) {
	named := make(map[string][]uuid.UUID)
	for id, a := range actions {
		if a.Label != recurringType {
			named[a.Label] = append(named[a.Label], id)
		}
		if !a.Status.Type.Terminal() {
			f.add("action %s, %s, has not ended: %s", id, a.Label, a.Status.Type)
		}
	}
	for label, o := range h.actions {
		ids := named[label]
		delete(named, label)
		switch {
		case len(ids) > 1:
			f.add("action %s was asked for once, and is there %d times", label, len(ids))
		case o.id == uuid.Nil: // reported already
		case len(ids) == 0:
			f.add("action %s was acknowledged as %s, and is lost", label, o.id)
		case ids[0] != o.id:
			f.add("action %s was acknowledged as %s, and is %s", label, o.id, ids[0])
		case actions[o.id].Tenant != o.tenant:
			f.add("action %s was asked for by tenant %q, and is of %q", label, o.tenant, actions[o.id].Tenant)
		case o.cancelled && actions[o.id].Status.Type != core.StatusCancelled:
			f.add("action %s was cancelled, which was acknowledged, and is %s", label, actions[o.id].Status.Type)
		}
	}
	for label := range named {
		f.add("action %s is there, and nobody has asked for it", label)
	}
}

// waiting is what is read of a pipeline.
type waiting struct {
	ID     uuid.UUID
	Label  string
	Tenant string
	Phase  struct{ Type string }
	taken  []int // the payloads of its signals, in the order of its phases
}

// checkPipelines: each pipeline that was acknowledged is there, once, and each of its phases has the signal that was meant for it.
func checkPipelines(f *findings, h *history, all []waiting) {
	named := make(map[string][]waiting)
	for _, p := range all {
		named[p.Label] = append(named[p.Label], p)
	}
	for label, o := range h.pipelines {
		is := named[label]
		delete(named, label)
		switch {
		case o.id == uuid.Nil: // reported already
		case len(is) != 1:
			f.add("pipeline %s was acknowledged, and is there %d times", label, len(is))
		case is[0].Tenant != o.tenant:
			f.add("pipeline %s was asked for by tenant %q, and is of %q", label, o.tenant, is[0].Tenant)
		case len(is[0].taken) != o.signals:
			f.add("pipeline %s was sent %d signals, and has taken %v", label, o.signals, is[0].taken)
		case !slices.Equal(is[0].taken, []int{0, 1, 2}[:o.signals]):
			f.add("pipeline %s was sent the signals 0 to %d, and has taken %v", label, o.signals-1, is[0].taken)
		case (is[0].Phase.Type == "done") != (o.signals == phases):
			f.add("pipeline %s has taken %d of %d signals, and is %s", label, o.signals, phases, is[0].Phase.Type)
		}
	}
	for label := range named {
		f.add("pipeline %s is there, and nobody has asked for it", label)
	}
}

// verdictMargin is how far the first and the last time may be from when the action was made and paused, by the clock of the test.
const verdictMargin = 5 * time.Second

// verdict is an entry of the history of a recurring action that is due each second.
type verdict struct {
	DueAt     time.Time `json:"due_at"`
	LastDueAt time.Time `json:"last_due_at"`
	Verdict   string    `json:"verdict"`
	Count     int       `json:"count"`
	Manual    bool      `json:"manual"`
	ActionID  uuid.UUID `json:"action_id"`
}

// span is when something happened: between asking for it and the answer.
type span struct{ asked, answered time.Time }

// near reports whether a time is in the span, or next to it.
func (s span) near(t time.Time) bool {
	return !t.Before(s.asked.Add(-verdictMargin)) && !t.After(s.answered.Add(verdictMargin))
}

// checkVerdicts: each second from when the action was made until it was paused has one verdict, and none is left out.
func checkVerdicts(f *findings, what string, all []verdict, made, paused span) {
	has := make(map[int64]int)
	for _, v := range all {
		first, last := v.DueAt.Unix(), v.LastDueAt.Unix()
		if n := int(last - first + 1); n != v.Count {
			f.add("%s: %d times from %s to %s are %s, of %d", what, v.Count, v.DueAt, v.LastDueAt, v.Verdict, n)
		}
		for s := first; s <= last; s++ {
			has[s]++
		}
	}
	if len(has) == 0 {
		f.add("%s: no history", what)
		return
	}
	seconds := slices.Sorted(maps.Keys(has))
	if first := time.Unix(seconds[0], 0); !made.near(first) {
		f.add("%s: it was made at %s, and its first verdict is of %s", what, made.answered.UTC(), first.UTC())
	}
	if last := time.Unix(seconds[len(seconds)-1], 0); !paused.near(last) { // later: somebody goes by a clock that is ahead
		f.add("%s: it was paused at %s, and its last verdict is of %s", what, paused.asked.UTC(), last.UTC())
	}
	for n, s := range seconds {
		if has[s] > 1 {
			f.add("%s: %s has %d verdicts", what, time.Unix(s, 0).UTC(), has[s])
		}
		if n > 0 && s != seconds[n-1]+1 {
			f.add("%s: no verdict between %s and %s", what, time.Unix(seconds[n-1], 0).UTC(), time.Unix(s, 0).UTC())
		}
	}
}

// reader reads what is there at the end.
type reader struct{ c *client }

// page is what lists have in common.
type page struct {
	Next string `json:"next_page_token"`
}

func (r reader) get(ctx context.Context, path string, into any) error {
	a := r.c.do(ctx, http.MethodGet, path, nil)
	if !r.c.into(a, into) {
		return fmt.Errorf("%s: %d %s", path, a.status, a.body)
	}
	return nil
}

func (r reader) actions(ctx context.Context) (map[uuid.UUID]core.Action, error) {
	all := make(map[uuid.UUID]core.Action)
	for token, more := "", true; more; more = token != "" {
		var p struct {
			page
			Actions []core.Action
		}
		if err := r.get(ctx, "/v1/actions?limit=1000&page_token="+token, &p); err != nil {
			return nil, err
		}
		for _, a := range p.Actions {
			all[a.ID] = a
		}
		token = p.Next
	}
	return all, nil
}

func (r reader) pipelines(ctx context.Context) (all []waiting, err error) {
	for token, more := "", true; more; more = token != "" {
		var p struct {
			page
			Pipelines []waiting
		}
		if err := r.get(ctx, "/v1/pipelines?limit=1000&page_token="+token, &p); err != nil {
			return nil, err
		}
		all = append(all, p.Pipelines...)
		token = p.Next
	}
	for n := range all {
		var whole struct {
			Context map[string]json.RawMessage
		}
		if err := r.get(ctx, "/v1/pipelines/"+all[n].ID.String(), &whole); err != nil {
			return nil, err
		}
		for phase := range phases {
			raw, ok := whole.Context[phaseName(phase)]
			if !ok {
				break
			}
			var payload struct{ N int }
			if err := json.Unmarshal(raw, &payload); err != nil {
				return nil, fmt.Errorf("pipeline %s: %s: %w", all[n].ID, raw, err)
			}
			all[n].taken = append(all[n].taken, payload.N)
		}
	}
	return all, nil
}

func (r reader) verdicts(ctx context.Context, of *tenant, id uuid.UUID) (all []verdict, err error) {
	for token, more := "", true; more; more = token != "" {
		var p struct {
			page
			History []verdict
		}
		if err := r.get(ctx, "/v1/recurring/"+id.String()+"/history"+of.scope()+"&limit=1000&page_token="+token, &p); err != nil {
			return nil, err
		}
		all = append(all, p.History...)
		token = p.Next
	}
	return all, nil
}

// owners gives how many owners each partition has had, by its token.
func (r reader) owners(ctx context.Context) (all []uint64, err error) {
	var said struct {
		Partitions []struct{ Token uint64 }
	}
	err = r.get(ctx, "/v1/cluster", &said)
	for _, p := range said.Partitions {
		all = append(all, p.Token)
	}
	return all, err
}

// complaints gives what the log of a daemon holds that no fault is a reason for.
func (m *member) complaints() (found []string) {
	for s := range strings.Lines(m.logged()) {
		if strings.Contains(s, "DATA RACE") || strings.HasPrefix(s, "panic:") || strings.HasPrefix(s, "fatal error:") {
			found = append(found, m.name+": "+strings.TrimSpace(s))
		}
	}
	if m.ahead.Abs() > time.Minute && !strings.Contains(m.logged(), "clock and the database's differ") {
		found = append(found, m.name+" does not say that its clock is "+m.ahead.String()+" ahead")
	}
	return found
}
