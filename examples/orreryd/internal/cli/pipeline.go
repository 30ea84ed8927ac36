package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) pipelineCommand() *cobra.Command {
	m := machine[core.Pipeline]{
		a: a, path: "/v1/pipelines", arg: "ID", args: oneID, view: pipelineView,
		ids:   finder{path: "/v1/pipelines", field: "pipelines", what: "pipeline"},
		id:    func(p core.Pipeline) string { return p.ID.String() },
		ended: func(p core.Pipeline) bool { return p.Phase.Type.Ended() }, fails: pipelineError,
	}
	return withMore(a.addClientFlags(m.ids.addFlags(group("pipeline", "Start, watch and steer pipelines",
		"A pipeline runs the phases of its definition in order, and goes on where it was\nafter a crash.",
		append(pipelineAnswers(m), a.pipelineStart(m), a.pipelineList(), a.pipelineShow(m), a.pipelineLogs(m),
			m.wait("Wait for a pipeline's end, and end with 1 if it failed or was cancelled"), a.pipelineWatch(m),
			m.post("begin", "start", "Start a pipeline that is held"),
			m.post("retry", "retry", "Run the phase again at which a pipeline failed"),
			m.post("unblock", "unblock", "Let a blocked pipeline run, whatever it waits for"),
			m.reasoned("cancel", "End a pipeline, and all that it runs"))...))),
		a.pipelinesAll()...)
}

// startedText says that a pipeline, by its id, is started.
const startedText = "pipeline %s is started: `orreryd pipeline watch` shows how it goes\n"

func (a *app) pipelineStart(m machine[core.Pipeline]) *cobra.Command {
	var s scoped
	var definition string
	cmd := m.creating(verb{
		use:   "start FILE [PIPELINE] | start --definition FILE",
		short: "Start a pipeline of a runbook file",
		long: `Start a pipeline of a runbook file, after what the file declares was declared at
the daemon: queues, semaphores, workers. The name of the pipeline is needed where
the file has several. With --definition the pipeline alone is read, as JSON. A run
keeps its definition as it is now: editing the file never changes it. Inputs are JSON
where they can be read as such, and texts where they cannot: --input n=7 is a number,
--input who=ann a text.`,
		example: `  orreryd pipeline start release.toml build --input branch=feature --wait
  orreryd pipeline start --definition release.json --input version=7 --wait
  orreryd pipeline start --definition - --label nightly < nightly.json`,
		args: runbookArgs,
		fields: []field{
			listField("input", "value `NAME=VALUE` that the context begins with; may be repeated", readInputs).as("context"),
			newIDField("pipeline"), labelField(), textField("runbook", "`name` of the runbook that it is of"),
			listField("depends-on", "`id` of a pipeline that must be done first; may be repeated", checkIDs),
			boolField("hold", "do not start before orreryd pipeline begin"),
		},
	}, &s, startedText, func(ctx context.Context, c *client, r request, args []string) error {
		if len(args) > 0 {
			return a.fromRunbook(ctx, c, args, s, r.fields)
		}
		return a.readDefinition(definition, r.fields)
	})
	cmd.Flags().StringVar(&definition, "definition", "", "`FILE` with the definition as JSON, or - for stdin, instead of a runbook")
	return cmd
}

// readDefinition reads the file of --definition. The daemon says what is wrong with what is in it.
func (a *app) readDefinition(file string, body map[string]any) error {
	switch file {
	case "":
		return usagef("--definition is missing: name a file with the definition as JSON")
	case "-":
	default:
		file = "@" + file
	}
	definition, err := a.needJSON("definition", file)
	body["definition"] = definition
	return err
}

// checkIDs looks at the ids of a flag.
func checkIDs(flag string, ids []string) ([]string, error) {
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
	}
	return ids, nil
}

// readInputs reads the values of --input.
func readInputs(flag string, values []string) (map[string]json.RawMessage, error) {
	given, err := parsePairs(flag, values)
	if err != nil {
		return nil, err
	}
	return contextOf(given)
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

// pipelineError is the failure of a pipeline that has ended; nil if it is done.
func pipelineError(p core.Pipeline) error {
	return failed(p.ID, "pipeline", map[core.PhaseType]string{
		core.PhaseFailure: "failed", core.PhaseCancelled: "was cancelled",
	}[p.Phase.Type], cmp.Or(p.Phase.Error, p.Phase.Reason))
}

// waitsFor narrows a list to the pipelines that wait for somebody.
var waitsFor = filter{
	flag: "waits-for", param: "waits_for", words: wordsOf(core.AnsweredWaits()...),
	usage: "only those that wait for an answer from outside, `what`: " + strings.Join(wordsOf(core.AnsweredWaits()...), ", "),
}

func (a *app) pipelineList() *cobra.Command {
	return listing[wire.PipelineSummary]{
		path: "/v1/pipelines", field: "pipelines", none: "no pipelines", timed: true, fails: true, short: "List pipelines, newest first",
		filters: []filter{byStatus(core.Statuses(core.KindPipeline)...), waitsFor},
		name:    func(p wire.PipelineSummary) string { return p.ID.String() },
		header:  []string{"ID", "PIPELINE:24", "LABEL:24", "STATUS", "PHASE:24", "WAITS FOR", "CREATED (UTC)", "NOTE:48"},
		row: func(p wire.PipelineSummary) []string {
			return []string{
				p.ID.String(), p.Name, text.OrDash(p.Label), string(p.Phase.Type), text.OrDash(p.Phase.Name),
				text.OrDash(string(p.WaitsFor)), shortTime(p.CreatedAt), text.OrDash(cmp.Or(p.Phase.Error, p.Phase.Reason)),
			}
		},
	}.command(a)
}

// pipelineAnswers are the commands by which people and programs answer a phase that waits.
func pipelineAnswers(m machine[core.Pipeline]) []*cobra.Command {
	return append(m.verbs(
		verb{
			use: "signal ID NAME", short: "Answer a phase that waits for a signal, now or later", args: idAnd("NAME"), path: "signal",
			fields: []field{argument("name"), jsonField("payload", "`JSON` that becomes the phase's result; @FILE or - for stdin")},
		},
		verb{
			use: "checkpoint ID MESSAGE", short: "Note how far a pipeline has come", args: idAnd("MESSAGE"), path: "checkpoint",
			fields: []field{argument("message")},
		},
		verb{
			use: "complete ID PHASE", short: "Say that a phase is done that waits for an answer from outside", args: idAnd("PHASE"), path: "phases/{}/complete",
			fields: []field{jsonField("result", "`JSON` that becomes the phase's result; @FILE or - for stdin")},
		},
		verb{
			use: "fail ID PHASE", short: "Say that a phase failed that waits for an answer from outside", args: idAnd("PHASE"), path: "phases/{}/fail",
			fields: []field{textField("error", "`text` that says why"), boolField("permanent", "no retry can help")},
		},
	), pipelineVerdict(m, "approve", "Give an approval that a phase waits for", true),
		pipelineVerdict(m, "reject", "Refuse an approval: the phase fails", false))
}

// idAnd are the arguments of commands about a part of something.
func idAnd(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 || args[1] == "" {
			return usagef("want ID and %s, as in: %s ID %s", name, cmd.CommandPath(), name)
		}
		return checkIDOrPrefix(args[0])
	}
}
