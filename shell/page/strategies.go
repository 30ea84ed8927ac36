package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

var strategyHead = []string{"Strategy", "Status", "Approach", "Created", "Finished", "Tenant", "Id"}

func (q *visit) strategies() (view, error) {
	var got wire.StrategyList
	t, err := q.read(list{
		api: "/strategies", path: "/strategies", caption: "Strategies, newest first", head: strategyHead,
		filters: append([]field{statusFilter(core.KindStrategy)}, madeOrFailedFilters...), ordered: true,
		empty: "There is no strategy. A strategy tries approaches in order until one succeeds: the button above makes one, and so does a phase of a pipeline.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, s := range got.Strategies {
		t.Rows = append(t.Rows, q.strategyRow(s))
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Strategies", Acts: q.actLinks("/strategies", "new", "cancel-all"), Body: []block{{Table: t}}}, nil
}

func (q *visit) strategyRow(s wire.StrategySummary) []cell {
	href := q.page(pathOf("strategies", s.ID.String()))
	st := badge(string(s.Status))
	st.Hint = clip(s.Error, 160)
	approach := textOf(fmt.Sprintf("%s (%d of %d)", clip(s.Approach, 80), s.Current+1, s.Approaches))
	return []cell{
		textOf(clip(cmp.Or(s.Label, "strategy"), 120)).to(href).wide(), st, approach, q.at(s.CreatedAt), q.at(s.FinishedAt),
		whose(s.Namespace, s.Tenant), codeOf(shortID(s.ID.String())).to(href),
	}
}

func (q *visit) loadStrategy() (s core.Strategy, err error) {
	return s, q.get(pathOf("strategies", q.PathValue("id")), nil, &s)
}

func (q *visit) strategy() (view, error) {
	s, err := q.loadStrategy()
	if err != nil {
		return view{}, err
	}
	st := badge(string(s.Status))
	v := view{Kind: "Strategy", Title: clip(cmp.Or(s.Label, shortID(s.ID.String())), 200), State: &st, Crumbs: []link{{Text: "Strategies", Href: q.page("/strategies")}}}
	v.More = []link{q.changesLink(core.KindStrategy, s.ID.String())}
	if !s.Status.Ended() {
		v.Acts = q.actLinks("/strategies/{id}", "evaluate", "cancel")
	}
	tone := toneBad
	if s.Status == core.StrategyCancelled {
		tone = toneOff
	}
	v.Body = append(v.Body, whyNotice(s.Error, tone)...)
	var pipeline, owner cell
	if s.PipelineID != uuid.Nil {
		pipeline = q.machine(effects.Ref{Kind: core.KindPipeline, ID: s.PipelineID})
	}
	if !s.Owner.IsZero() && s.Owner.Ref.ID != s.PipelineID {
		owner = q.machine(s.Owner.Ref)
	}
	v.Body = append(v.Body, block{Facts: facts(
		fact{"Pipeline", pipeline}, fact{"Made by", owner}, fact{"Took", q.lasted(s.CreatedAt, s.FinishedAt)}, fact{"Finished", q.at(s.FinishedAt)},
		fact{"Whose", whose(s.Namespace, s.Tenant)}, fact{"Created", q.at(s.CreatedAt)}, fact{"Changed", q.at(s.UpdatedAt)}, fact{"Id", codeOf(s.ID.String())},
	)}, block{Title: "Approaches, in their order", Table: q.approachTable(s)})
	v.Body = append(v.Body, result("Result", s.Output)...)
	return withBlocks(v, asJSON("Definition", s.Approaches)), nil
}

func (q *visit) approachTable(s core.Strategy) *table {
	t := &table{Caption: "Approaches, in their order", Head: []string{"No.", "Approach", "What", "State", "Started", "Took", "Why", "After it"}}
	for i, a := range s.Approaches {
		row := []cell{number(i + 1), textOf(clip(a.Name, 120)), textOf(actionOf(a.Action)), badge("not begun"), {}, {}, {}, textOf(fallbackText(a))}
		at := slices.IndexFunc(s.Outcomes, func(o core.ApproachOutcome) bool { return o.Name == a.Name })
		switch {
		case at >= 0:
			o := s.Outcomes[at]
			row[3] = outcomeBadge(o)
			row[4], row[5], row[6] = q.at(o.StartedAt), q.lasted(o.StartedAt, o.FinishedAt), textOf(clip(o.Error, 500)).wide()
		case int(s.Current) == i && !s.Status.Ended():
			row[3], row[4], row[5] = badge("running"), q.at(s.StartedAt), q.lasted(s.StartedAt, 0)
			row[6] = q.machine(s.Child)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// outcomeBadge says how an approach came out.
func outcomeBadge(o core.ApproachOutcome) cell {
	c := badge(map[core.Outcome]string{core.OutcomeTryNext: "failed", core.OutcomeExhausted: "failed"}[o.Outcome])
	if c.Text == "" {
		c = badge(string(o.Outcome))
	}
	switch {
	case o.TimedOut:
		c.Hint = "took too long"
	case o.Interrupted:
		c.Hint = "interrupted: nobody knows how far it came"
	}
	return c
}

func actionOf(a core.ApproachAction) string {
	switch {
	case a.Command != nil:
		return "tool " + a.Command.Tool
	case a.Merge != nil:
		return "merge " + a.Merge.Branch + " into " + a.Merge.Into + ": " + string(a.Merge.Strategy)
	case a.AgentPrompt != nil:
		return "agent"
	}
	return ""
}

// fallbackText says after which failures the next approach is tried.
func fallbackText(a core.Approach) string {
	var on []string
	for _, f := range a.FallbackOn {
		switch {
		case f.AnyError:
			on = append(on, "any failure")
		case f.TimeoutMS > 0:
			on = append(on, "more than "+millis(f.TimeoutMS).Text)
		default:
			on = append(on, strconv.Quote(f.Error))
		}
	}
	if len(on) == 0 {
		return "nothing is tried"
	}
	return "the next on " + strings.Join(on, ", ")
}

func strategyActs() []act {
	const on = "/strategies/{id}"
	return []act{
		{
			on: "/strategies", name: "new", method: "POST", api: "/v1/strategies", label: "New strategy", done: "The strategy was created.",
			says: "Tries approaches in order until one succeeds.", load: (*visit).newStrategy, after: afterMade("/strategies/"),
		},
		{
			on: on, name: "evaluate", method: "POST", api: "/v1/strategies/{id}/evaluate", label: "Say how it came out", done: "The approach was evaluated.",
			says: "Ends the present approach with what you say of it: a success ends the strategy, a failure leads to the next approach if the definition says so. What the approach has started is cancelled.",
			load: (*visit).evaluateFields, amend: amendEvaluation,
		},
		{
			on: on, name: "cancel", method: "POST", api: "/v1/strategies/{id}/cancel", label: "Cancel", danger: true, done: "The strategy was cancelled.",
			says: "It ends now, and so does what its approach has started. No other approach is tried.", fields: []field{reasonField},
		},
	}
}

func (q *visit) newStrategy() ([]field, error) {
	return append(q.scopeFields(), []field{
		{Name: "label", Label: "Label", Help: "What people call it."},
		{Name: "approaches", Label: "Approaches", Type: fieldJSON, Required: true, Help: `A JSON array in the order in which they are tried, such as [{"name":"first","action":{"command":{"tool":"command","input":{"argv":["true"]}}},"fallback_on":[{"any_error":true}]}].`},
	}...), nil
}

// evaluateFields name the approach that the visitor was shown, so that no other one is evaluated meanwhile.
func (q *visit) evaluateFields() ([]field, error) {
	s, err := q.loadStrategy()
	return []field{
		{Name: "n", Type: fieldHidden, Value: strconv.FormatUint(uint64(s.N), 10)},
		{Name: "success", Label: "It came out as", Type: fieldChoice, Options: []option{{"no", "a failure"}, {"yes", "a success"}}},
		{Name: "output", Label: "Output", Type: fieldJSON, Help: "JSON, of a success."}, {Name: "error", Label: "Why it failed", Type: fieldArea},
	}, err
}

func amendEvaluation(_ *visit, body map[string]any, form url.Values) error {
	n, err := strconv.ParseUint(form.Get("n"), 10, 32)
	if err != nil {
		return &apiError{Status: 400, Text: "n: " + strconv.Quote(clip(form.Get("n"), 40)) + " is not a number"}
	}
	body["n"], body["success"] = n, form.Get("success") == "yes"
	return nil
}
