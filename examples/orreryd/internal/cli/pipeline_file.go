package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/runbook"
)

// runbookApplyCommand declares at the daemon what a runbook file declares.
func (a *app) runbookApplyCommand() *cobra.Command {
	var s scoped
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Declare the queues, semaphores and workers of a runbook at the daemon",
		Long: `Declare at the running daemon what a runbook file declares: queues, semaphores,
workers, and who wakes them. What is declared already is replaced; what is under
way keeps what it began with, and nothing is taken away. Pipelines are not stored:
each run is given its definition by "orreryd pipeline start FILE", which does all
this first.`,
		Example: "  orreryd runbook apply release.toml",
		Args:    oneArg("FILE"),
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, args []string) error {
		book, err := a.loadRunbook(args[0])
		if err != nil {
			return err
		}
		declared, err := applyRunbook(ctx, c, book, s)
		if err != nil {
			return err
		}
		var says strings.Builder
		for _, d := range declared {
			fmt.Fprintln(&says, "declared", text.Clean(d))
		}
		return a.show(map[string][]string{"declared": declared}, says.String())
	})
	return a.addClientFlags(s.addFlags(a, cmd))
}

// applyRunbook declares all but the pipelines, and lists what it declared. Things are
// declared before those that name them.
func applyRunbook(ctx context.Context, c *client, book *runbook.Runbook, s scoped) ([]string, error) {
	declared := []string{}
	var err error
	put := func(kind, path, name string, query url.Values, body any) {
		if err != nil {
			return
		}
		r := request{method: http.MethodPut, path: machine[any]{path: path}.of(name), query: query, body: body}
		if _, err = c.json(ctx, r, &json.RawMessage{}); err != nil {
			err = fmt.Errorf("%s %q: %w", kind, name, err)
			return
		}
		declared = append(declared, kind+" "+name)
	}
	for _, q := range book.Queues {
		put("queue", "/v1/queues", q.Name, s.query(), q.Config)
	}
	for _, sem := range book.Semaphores {
		put("semaphore", semaphoresPath, sem.Name, s.query(), wire.SlotsRequest{Slots: &sem.Slots})
	}
	for _, sub := range book.Subscriptions(s.namespace, s.tenant) {
		put("subscriber", subscribersPath, sub.Name, s.query(), wire.SubscriberRequest{Match: sub.Match, Do: sub.Do})
	}
	for _, w := range book.Workers {
		body := wire.WorkerRequest{Queue: w.Queue, Concurrency: w.Concurrency, PollMS: w.PollMS, Do: w.Do}
		put("worker", "/v1/workers", w.Name, s.query(), body)
	}
	return declared, err
}

// fromRunbook declares what the file declares, and takes the definition of one
// of its pipelines: the one that is named, or the only one there is.
func (a *app) fromRunbook(ctx context.Context, c *client, args []string, s scoped, body map[string]any) error {
	book, err := a.loadRunbook(args[0])
	if err != nil {
		return err
	}
	def, err := config.PipelineOf(book, args[0], strings.Join(args[1:], ""))
	if err != nil {
		return err
	}
	given, _ := body["context"].(map[string]json.RawMessage) // there is none without --input
	if err := checkInputs(def, given); err != nil {
		return err
	}
	body["definition"] = def
	if body["runbook"] == nil {
		body["runbook"] = book.Name
	}
	_, err = applyRunbook(ctx, c, book, s)
	return err
}

// checkInputs refuses a start if an input is missing, or if no phase can read one: phases
// refer only to the inputs that the pipeline declares, and to the item or the event that
// a worker or a subscriber gives.
func checkInputs(def core.PipelineDef, given map[string]json.RawMessage) error {
	names := []string{"item", "event"}
	var declared []string
	for _, in := range def.Inputs {
		names, declared = append(names, in.Name), append(declared, in.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(names, name) {
			continue
		}
		has := "it has " + text.Clean(cmp.Or(strings.Join(declared, ", "), "none"))
		if meant := texts.Nearest(name, declared); meant != "" {
			has = fmt.Sprintf("did you mean %q?", meant)
		}
		return usagef("--input: pipeline %q has no input %q: %s", text.Clip(def.Name, 60), text.Clip(name, 60), has)
	}
	for _, in := range def.Inputs {
		if _, ok := given[in.Name]; !ok && in.Required {
			return usagef("pipeline %q needs an input: give --input %s=VALUE", text.Clip(def.Name, 60), text.Clean(in.Name))
		}
	}
	return nil
}

// runbookArgs are the arguments of pipeline start: none with --definition, else a file and,
// if the file has several pipelines, the name of one.
func runbookArgs(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed("definition")
	switch {
	case given && len(args) > 0:
		return usagef("give either a runbook file or --definition, not both")
	case !given && len(args) == 0:
		return usagef("FILE is missing, as in: %s FILE [PIPELINE]", cmd.CommandPath())
	case len(args) > 2:
		return usagef("%d arguments are too many: want FILE and perhaps PIPELINE", len(args))
	}
	return nil
}
