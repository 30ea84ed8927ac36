package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// The bounds of what pipeline show asks for beside the pipeline.
const (
	maxAttemptsShown = 500 // of a phase, the oldest first
	maxOutputsShown  = 20  // of the last attempts
	maxOutputLines   = 10  // of one attempt, unless all is to be shown
)

// pipelineShow shows a pipeline, and the attempts of its phases: the pipeline's record counts them, and what they did
// is kept in the actions, tasks and strategies that they were.
func (a *app) pipelineShow(m machine[core.Pipeline]) *cobra.Command {
	return a.addOutput(m.sending(verb{
		use: "show", short: "Show a pipeline, its phases, their attempts, why they failed and what they printed", method: http.MethodGet,
		long: `Show a pipeline and its phases. Of phases that run a tool, a task or a strategy each
attempt is shown that is still kept, with why it failed, and the last lines of what it
printed; -o wide has all lines. With --json it is the pipeline alone.`,
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		var p core.Pipeline
		raw, err := c.json(ctx, r, &p)
		if err != nil {
			return err
		}
		if a.json || a.form == formName {
			return m.print(raw, p)
		}
		attempts, err := attemptsOf(ctx, c, p)
		if err != nil {
			return err
		}
		v := pipelineView(p)
		v.tables = append(v.tables, table{[]string{"ATTEMPT OF:32", "N", "IS", "STATE", "STARTED (UTC)", "TOOK", "WHY:300"}, rowsOf(attempts, attempt.row)})
		outputs, err := outputsOf(ctx, c, attempts, a.screen().whole)
		if err != nil {
			return err
		}
		return a.show(raw, v.text(a.screen())+outputs)
	}), formWide, formJSON, formName)
}

// attempt is one of a phase, or, within one, an approach of its strategy.
type attempt struct {
	phase          string
	n              int // counted from the oldest that is kept; 0: it is an approach of the one above
	kind           effects.Kind
	id             uuid.UUID
	state, why     string
	started, ended effects.Time
}

func (t attempt) row() []string {
	n := "-"
	if t.n > 0 {
		n = number(t.n)
	}
	return []string{t.phase, n, string(t.kind) + " " + t.id.String(), t.state, shortTime(t.started), took(t.started, t.ended), text.OrDash(t.why)}
}

// attemptsOf gives the attempts of the phases of a pipeline, in the order of its definition, the oldest first.
func attemptsOf(ctx context.Context, c *client, p core.Pipeline) (all []attempt, err error) {
	for _, d := range p.Definition.Phases {
		begun := func(h core.PhaseRecord) bool { return h.Name == d.Name && h.Outcome != core.HistorySkipped }
		if p.Phase.Name != d.Name && !slices.ContainsFunc(p.History, begun) {
			continue
		}
		look := lookup{ctx, c, p, p.Definition.Name + "/" + d.Name}
		var found []attempt
		switch {
		case d.Run != nil:
			found, err = look.actions(map[uuid.UUID]bool{p.ID: true}, true)
		case d.Task != nil:
			found, err = look.tasks()
		case d.Strategy != nil:
			found, err = look.strategies()
		}
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			t.phase = d.Name
			all = append(all, t)
		}
	}
	return all, nil
}

// lookup looks for what a phase has started: the API lists it by its tenant, its time and its label.
type lookup struct {
	ctx   context.Context //nolint:containedctx // it lives as long as the call for which it is made
	c     *client
	p     core.Pipeline
	label string
}

// children reads a list of what was made since the pipeline was; of more than can be shown, the oldest.
func children[S any](l lookup, path, field string, narrow url.Values) ([]S, error) {
	q := url.Values{"namespace": {l.p.Namespace}, "tenant": {l.p.Tenant}, "order": {"oldest"}, "since": {l.p.CreatedAt.String()}}
	if !l.p.FinishedAt.IsZero() {
		q.Set("until", l.p.FinishedAt.Add(time.Millisecond).String())
	}
	maps.Copy(q, narrow)
	_, list, _, err := readPages[S](l.ctx, l.c, request{method: http.MethodGet, path: path, query: q}, field, page{limit: maxAttemptsShown})
	return list, err
}

// actions gives the actions that one of the owners has made; whole says whether each is an attempt of the phase.
func (l lookup) actions(owners map[uuid.UUID]bool, whole bool) (found []attempt, err error) {
	list, err := children[core.Action](l, "/v1/actions", "actions", url.Values{"name": {l.label}})
	for _, a := range list {
		if !owners[a.Owner.Ref.ID] || whole && a.Label != l.label {
			continue
		}
		t := attempt{kind: core.KindAction, id: a.ID, state: string(a.Status.Type), why: a.Status.Reason, started: a.StartedAt, ended: a.FinishedAt}
		if whole {
			t.n = len(found) + 1
		}
		found = append(found, t)
	}
	return found, err
}

func (l lookup) tasks() (found []attempt, err error) {
	list, err := children[wire.TaskSummary](l, "/v1/tasks", "tasks", nil)
	for _, k := range list {
		if k.PipelineID == l.p.ID && k.Label == l.label {
			found = append(found, attempt{n: len(found) + 1, kind: core.KindTask, id: k.ID, state: taskState(k.State), why: taskReason(k.State), started: k.CreatedAt, ended: k.FinishedAt})
		}
	}
	return found, err
}

// strategies gives each strategy with the actions of its approaches below it.
func (l lookup) strategies() (found []attempt, err error) {
	list, err := children[wire.StrategySummary](l, "/v1/strategies", "strategies", nil)
	n := 0
	for _, s := range list {
		if err != nil || s.PipelineID != l.p.ID || s.Label != l.label {
			continue
		}
		n++
		found = append(found, attempt{n: n, kind: core.KindStrategy, id: s.ID, state: string(s.Status), why: s.Error, started: s.CreatedAt, ended: s.FinishedAt})
		var approaches []attempt
		approaches, err = l.actions(map[uuid.UUID]bool{s.ID: true}, false)
		found = append(found, approaches...)
	}
	return found, err
}

// outputsOf shows what the last attempts have printed, each below a line that names it.
func outputsOf(ctx context.Context, c *client, attempts []attempt, whole bool) (string, error) {
	var b strings.Builder
	for _, t := range attempts[max(0, len(attempts)-maxOutputsShown):] {
		if t.kind != core.KindAction {
			continue
		}
		var a core.Action
		_, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/actions/" + t.id.String()}, &a)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		lines := printedLines(a.Status.Result)
		if len(lines) == 0 {
			continue
		}
		dropped := ""
		if n := len(lines) - maxOutputLines; n > 0 && !whole {
			lines, dropped = lines[n:], fmt.Sprintf("  … %s before; -o wide shows all\n", counted(n, "line"))
		}
		which := "an approach"
		if t.n > 0 {
			which = fmt.Sprintf("attempt %d", t.n)
		}
		fmt.Fprintf(&b, "\n%s, %s, action %s printed:\n%s", text.Clip(t.phase, 60), which, t.id, dropped)
		for _, line := range lines {
			b.WriteString("  " + text.Clean(line) + "\n")
		}
	}
	return b.String(), nil
}

// printedLines gives what a command has printed, its errors behind the rest; of another tool the result.
func printedLines(result json.RawMessage) []string {
	var r struct {
		Stdout *string `json:"stdout"`
		Stderr string  `json:"stderr"`
	}
	if len(result) == 0 || string(result) == "null" {
		return nil
	}
	if json.Unmarshal(result, &r) != nil || r.Stdout == nil {
		return []string{string(result)}
	}
	var lines []string
	for _, out := range []string{*r.Stdout, r.Stderr} {
		if out = strings.TrimRight(out, "\n"); out != "" {
			lines = append(lines, strings.Split(out, "\n")...)
		}
	}
	return lines
}
