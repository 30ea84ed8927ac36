package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (a *app) pipelineCommand() *cobra.Command {
	m := a.pipelines()
	return a.addClientFlags(group("pipeline", "Start, watch and steer pipelines",
		"A pipeline runs the phases of its definition in order, and goes on where it was\nafter a crash.",
		a.pipelineStart(m), a.pipelineList(), m.verb("show", "Show a pipeline and its phases", http.MethodGet, "", nil), a.pipelineWait(m), a.pipelineWatch(m),
		m.verb("begin", "Start a pipeline that is held", http.MethodPost, "start", nil),
		m.verb("retry", "Run the phase again at which a pipeline failed", http.MethodPost, "retry", nil),
		m.verb("unblock", "Let a blocked pipeline run, whatever it waits for", http.MethodPost, "unblock", nil),
		m.cancel("End a pipeline, and all that it runs"),
		a.pipelineSignal(m), a.pipelineCheckpoint(m), a.pipelineAnswer(m, true), a.pipelineAnswer(m, false),
		a.pipelineComplete(m), a.pipelineFail(m)))
}

func (a *app) pipelines() machine[core.Pipeline] {
	return machine[core.Pipeline]{a: a, path: "/v1/pipelines", show: a.printPipeline, args: oneID, arg: "ID"}
}

// pipelineRequest is the body of POST /v1/pipelines.
type pipelineRequest struct {
	ID         string                     `json:"id,omitempty"`
	Namespace  string                     `json:"namespace"`
	Tenant     string                     `json:"tenant"`
	Label      string                     `json:"label,omitempty"`
	Runbook    string                     `json:"runbook,omitempty"`
	Definition json.RawMessage            `json:"definition"`
	Context    map[string]json.RawMessage `json:"context,omitempty"`
	DependsOn  []string                   `json:"depends_on,omitempty"`
	Hold       bool                       `json:"hold,omitempty"`
}

func (a *app) pipelineStart(m machine[core.Pipeline]) *cobra.Command {
	var body pipelineRequest
	var definition string
	var inputs []string
	var wait bool
	cmd := &cobra.Command{
		Use:   "start FILE [PIPELINE] | start --definition FILE",
		Short: "Start a pipeline of a runbook file",
		Long: `Start a pipeline of a runbook file, after what the file declares was declared at
the daemon: queues, semaphores, workers. The name of the pipeline is needed where
the file has several. With --definition the pipeline alone is read, as JSON. A run
keeps its definition as it is now: editing the file never changes it. Inputs are JSON
where they can be read as such, and texts where they cannot: --input n=7 is a number,
--input who=ann a text.`,
		Example: `  orreryd pipeline start release.toml build --input branch=feature --wait
  orreryd pipeline start --definition release.json --input version=7 --wait
  orreryd pipeline start --definition - --label nightly < nightly.json`,
		Args: runbookArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, args []string) error {
		given, err := parsePairs("input", inputs)
		if err != nil {
			return err
		}
		if body.Context, err = contextOf(given); err != nil {
			return err
		}
		if err := body.checkIDs(); err != nil {
			return err
		}
		read := func() error { return a.readDefinition(definition, &body) }
		if len(args) > 0 {
			read = func() error { return a.fromRunbook(ctx, c, args, &body) }
		}
		if err := read(); err != nil {
			return err
		}
		var p core.Pipeline
		raw, err := c.json(ctx, request{method: http.MethodPost, path: m.path, body: body}, &p)
		switch {
		case err != nil:
			return err
		case wait:
			text.Sayf(a.err, "pipeline %s is started: `orreryd pipeline watch` shows how it goes\n", p.ID)
			return a.waitPipeline(ctx, c, m, p.ID.String(), true)
		}
		return a.printPipeline(raw, p)
	})
	a.addScopeFlags(cmd, &body.Namespace, &body.Tenant)
	f := cmd.Flags()
	f.StringVar(&definition, "definition", "", "`FILE` with the definition as JSON, or - for stdin, instead of a runbook")
	f.StringArrayVar(&inputs, "input", nil, "value `NAME=VALUE` that the context begins with; may be repeated")
	f.StringVar(&body.ID, "id", "", "`id` of the pipeline, a UUID (default a fresh one)")
	f.StringVar(&body.Label, "label", "", "`text` that says what it is")
	f.StringVar(&body.Runbook, "runbook", "", "`name` of the runbook that it is of")
	f.StringArrayVar(&body.DependsOn, "depends-on", nil, "`id` of a pipeline that must be done first; may be repeated")
	f.BoolVar(&body.Hold, "hold", false, "do not start before `orreryd pipeline begin`")
	f.BoolVar(&wait, "wait", false, waitUsage)
	return cmd
}

// checkIDs looks at the ids that the user typed.
func (r pipelineRequest) checkIDs() error {
	if err := checkNewID(r.ID); err != nil {
		return err
	}
	for _, id := range r.DependsOn {
		if err := checkID(id); err != nil {
			return fmt.Errorf("--depends-on: %w", err)
		}
	}
	return nil
}

// readDefinition reads the file of --definition.
func (a *app) readDefinition(file string, body *pipelineRequest) error {
	switch file {
	case "":
		return usagef("--definition is missing: name a file with the definition as JSON")
	case "-":
	default:
		file = "@" + file
	}
	var err error
	body.Definition, err = a.jsonArgument("definition", file)
	return err
}

// contextOf reads values: JSON where they are, else texts.
func contextOf(given map[string]string) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(given))
	for k, v := range given {
		if json.Valid([]byte(v)) {
			out[k] = json.RawMessage(v)
			continue
		}
		b, err := text.PlainJSON(v)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", k, err)
		}
		out[k] = b
	}
	return out, nil
}

func (a *app) pipelineWait(m machine[core.Pipeline]) *cobra.Command {
	return &cobra.Command{
		Use: "wait ID", Short: "Wait for a pipeline's end, and end with 1 if it failed or was cancelled", Args: oneID,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			return a.waitPipeline(ctx, c, m, args[0], false)
		}),
	}
}

// waitPipeline prints a pipeline once it has ended; a failure is one of this
// program too.
func (a *app) waitPipeline(ctx context.Context, c *client, m machine[core.Pipeline], id string, known bool) error {
	raw, p, err := m.await(ctx, c, id, known, func(p core.Pipeline) bool { return p.Phase.Type.Ended() })
	if err != nil {
		return err
	}
	if err := a.printPipeline(raw, p); err != nil {
		return err
	}
	return pipelineError(p)
}

// pipelineError is the failure of a pipeline that has ended; nil where it is done.
func pipelineError(p core.Pipeline) error {
	switch p.Phase.Type {
	case core.PhaseFailure:
		return fmt.Errorf("pipeline %s failed: %s", p.ID, p.Phase.Error)
	case core.PhaseCancelled:
		return fmt.Errorf("pipeline %s was cancelled: %s", p.ID, p.Phase.Reason)
	case core.PhaseInit, core.PhaseBlocked, core.PhaseRunning, core.PhaseDone:
	}
	return nil
}

// pipelineSummary is a pipeline as lists show it.
type pipelineSummary struct {
	ID        uuid.UUID    `json:"id"`
	Label     string       `json:"label"`
	Name      string       `json:"name"`
	Phase     core.Phase   `json:"phase"`
	Attempt   uint32       `json:"attempt"`
	WaitsFor  core.WaitFor `json:"waits_for"`
	CreatedAt core.Time    `json:"created_at"`
}

func (a *app) pipelineList() *cobra.Command {
	return listing[pipelineSummary]{
		path: "/v1/pipelines", field: "pipelines", none: "no pipelines", short: "List pipelines, newest first",
		statuses: []string{"init", "blocked", "running", "done", "failed", "cancelled"},
		header:   []string{"ID", "PIPELINE", "LABEL", "STATUS", "PHASE", "WAITS FOR", "CREATED (UTC)", "NOTE"},
		row: func(p pipelineSummary) []string {
			return []string{
				p.ID.String(), text.Clip(p.Name, 24), text.OrDash(text.Clip(p.Label, 24)), string(p.Phase.Type), text.OrDash(text.Clip(p.Phase.Name, 24)),
				text.OrDash(string(p.WaitsFor)), shortTime(p.CreatedAt), text.OrDash(text.Clip(cmp.Or(p.Phase.Error, p.Phase.Reason), 48)),
			}
		},
	}.command(a)
}

func (a *app) pipelineSignal(m machine[core.Pipeline]) *cobra.Command {
	var payload string
	cmd := &cobra.Command{
		Use: "signal ID NAME", Short: "Answer a phase that waits for a signal, now or later", Args: idAnd("NAME"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			v, err := a.jsonArgument("payload", payload)
			if err != nil {
				return err
			}
			body := map[string]any{"name": args[1]}
			if v != nil {
				body["payload"] = v
			}
			return m.tell(ctx, c, http.MethodPost, m.of(args[0], "signal"), body)
		}),
	}
	cmd.Flags().StringVar(&payload, "payload", "", "`JSON` that becomes the phase's result; @FILE or - for stdin")
	return cmd
}

func (a *app) pipelineCheckpoint(m machine[core.Pipeline]) *cobra.Command {
	return &cobra.Command{
		Use: "checkpoint ID MESSAGE", Short: "Note how far a pipeline has come", Args: idAnd("MESSAGE"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			return m.tell(ctx, c, http.MethodPost, m.of(args[0], "checkpoint"), map[string]string{"message": args[1]})
		}),
	}
}

// pipelineAnswer is approve or reject.
func (a *app) pipelineAnswer(m machine[core.Pipeline], approved bool) *cobra.Command {
	name, what := "reject", "Refuse an approval: the phase fails"
	if approved {
		name, what = "approve", "Give an approval that a phase waits for"
	}
	var by, comment string
	cmd := &cobra.Command{
		Use: name + " ID PHASE", Short: what, Args: idAnd("PHASE"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			body := map[string]any{"phase": args[1], "approved": approved, "comment": comment}
			if by != "" {
				body["by"] = by
			}
			return m.tell(ctx, c, http.MethodPost, m.of(args[0], "approve"), body)
		}),
	}
	cmd.Flags().StringVar(&by, "by", "", "`name` of who decided (default the token's)")
	cmd.Flags().StringVar(&comment, "comment", "", "`text` that says why")
	return cmd
}

func (a *app) pipelineComplete(m machine[core.Pipeline]) *cobra.Command {
	var result string
	cmd := &cobra.Command{
		Use: "complete ID PHASE", Short: "Say that a manual phase is done", Args: idAnd("PHASE"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			v, err := a.jsonArgument("result", result)
			if err != nil {
				return err
			}
			body := map[string]any{}
			if v != nil {
				body["result"] = v
			}
			return m.tell(ctx, c, http.MethodPost, m.of(args[0], "phases", args[1], "complete"), body)
		}),
	}
	cmd.Flags().StringVar(&result, "result", "", "`JSON` that becomes the phase's result; @FILE or - for stdin")
	return cmd
}

func (a *app) pipelineFail(m machine[core.Pipeline]) *cobra.Command {
	var reason string
	var permanent bool
	cmd := &cobra.Command{
		Use: "fail ID PHASE", Short: "Say that a manual phase failed", Args: idAnd("PHASE"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			body := map[string]any{"error": reason, "permanent": permanent}
			return m.tell(ctx, c, http.MethodPost, m.of(args[0], "phases", args[1], "fail"), body)
		}),
	}
	cmd.Flags().StringVar(&reason, "error", "", "`text` that says why")
	cmd.Flags().BoolVar(&permanent, "permanent", false, "no retry can help")
	return cmd
}

// idAnd are the arguments of commands about a part of something.
func idAnd(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 || args[1] == "" {
			return usagef("want ID and %s, as in: %s ID %s", name, cmd.CommandPath(), name)
		}
		return checkID(args[0])
	}
}
