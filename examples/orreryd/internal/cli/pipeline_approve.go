package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// pipelineVerdict is the command by which a person approves what a pipeline waits for, or rejects it. A pipeline runs
// one phase at a time, so its id is enough; the request names the phase all the same: if the pipeline has gone on
// meanwhile, the daemon refuses the verdict.
func pipelineVerdict(m machine[core.Pipeline], name, short string, approved bool) *cobra.Command {
	return m.sending(verb{
		use: name + " ID [PHASE]", short: short, path: "approve", args: idAndMaybe("PHASE"),
		long: short + `. Without PHASE it is that of the phase that waits, which is named
on stderr; with PHASE it is refused if another phase waits.`,
		fields: []field{
			{name: "phase", value: func(_ *app, args []string) (any, error) {
				if len(args) < 2 {
					return nil, nil
				}
				return args[1], nil
			}},
			constant("approved", approved), textField("by", "`name` of who decided (default the token's)"), textField("comment", "`text` that says why"),
		},
	}, func(ctx context.Context, c *client, r request, args []string) error {
		if len(args) == 2 {
			return m.send(ctx, c, r, args)
		}
		p, err := awaiting(ctx, m, c, args[0], name)
		if err != nil {
			return err
		}
		r.fields["phase"] = p.Phase.Name
		if err := m.send(ctx, c, r, args); err != nil {
			return err
		}
		did := map[bool]string{true: "approved", false: "rejected"}[approved]
		if p.Waiting.Name != "" {
			did += ": " + text.Clip(p.Waiting.Name, 200)
		}
		text.Sayf(m.a.err, "phase %q is %s\n", text.Clip(p.Phase.Name, 60), did)
		return nil
	})
}

// idAndMaybe are the arguments of commands about something, and a part of it that may be left out.
func idAndMaybe(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 1:
			return oneID(cmd, args)
		case 2:
			return idAnd(name)(cmd, args)
		}
		return usagef("want ID and perhaps %s, as in: %s ID", name, cmd.CommandPath())
	}
}

// awaiting gives a pipeline of which a phase waits for an approval. If it waits for other pipelines instead that do,
// the error has the command for each: whoever approves says what.
func awaiting(ctx context.Context, m machine[core.Pipeline], c *client, id, verb string) (p core.Pipeline, err error) {
	if p, err = pipelineOf(ctx, m, c, id); err != nil || p.AwaitsApproval() {
		return p, err
	}
	asking, err := askingBelow(ctx, m, c, p)
	switch {
	case err != nil:
		return p, err
	case len(asking) > 0:
		lines := make([]string, 0, len(asking))
		for _, a := range asking {
			lines = append(lines, "\n  "+text.CommandLine("orreryd pipeline "+verb, []string{a.ID.String(), a.Phase.Name}))
		}
		return p, fmt.Errorf("pipeline %s waits for %s of which a phase waits for an approval:%s", p.ID, counted(len(asking), "pipeline"), strings.Join(lines, ""))
	case p.Phase.Type == core.PhaseRunning:
		return p, fmt.Errorf("pipeline %s waits for no approval: its phase %q waits for %s", p.ID, text.Clip(p.Phase.Name, 60), text.OrDash(waitText(p)))
	}
	return p, fmt.Errorf("pipeline %s waits for no approval: it is %s", p.ID, p.Phase.Type)
}

// maxAskedBelow bounds the pipelines that are looked at below one.
const maxAskedBelow = 200

// askingBelow gives the pipelines that wait for an approval among those that a pipeline waits for, and those below them.
func askingBelow(ctx context.Context, m machine[core.Pipeline], c *client, p core.Pipeline) (asking []core.Pipeline, err error) {
	looked := map[uuid.UUID]bool{p.ID: true}
	for queue := []core.Pipeline{p}; len(queue) > 0; queue = queue[1:] {
		for _, child := range queue[0].Waiting.Children {
			if child.Ref.Kind != core.KindPipeline || child.Ended || looked[child.Ref.ID] || len(looked) > maxAskedBelow {
				continue
			}
			looked[child.Ref.ID] = true
			below, err := pipelineOf(ctx, m, c, child.Ref.ID.String())
			switch {
			case isNotFound(err): // it is gone meanwhile
			case err != nil:
				return nil, err
			case below.AwaitsApproval():
				asking = append(asking, below)
			default:
				queue = append(queue, below)
			}
		}
	}
	return asking, nil
}

// pipelineOf asks for a pipeline.
func pipelineOf(ctx context.Context, m machine[core.Pipeline], c *client, id string) (p core.Pipeline, err error) {
	_, err = c.json(ctx, request{method: http.MethodGet, path: m.of(id)}, &p)
	return p, err
}

// isNotFound reports whether the daemon has answered that there is no such thing.
func isNotFound(err error) bool {
	coded, ok := errors.AsType[*exitError](err)
	return ok && coded.code == exitNotFound
}
