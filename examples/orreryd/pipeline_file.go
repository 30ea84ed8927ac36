package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/runbook"
)

// runbookApplyCommand declares at the daemon what a runbook file declares.
func (a *app) runbookApplyCommand() *cobra.Command {
	var namespace, tenant string
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
		declared, err := applyRunbook(ctx, c, book, namespace, tenant)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string][]string{"declared": declared})
		}
		for _, d := range declared {
			sayf(a.out, "declared %s\n", clean(d))
		}
		return nil
	})
	a.addScopeFlags(cmd, &namespace, &tenant)
	return a.addClientFlags(cmd)
}

// applyRunbook declares all but pipelines, in an order in which nobody misses
// what it names, and lists what it declared.
func applyRunbook(ctx context.Context, c *client, book *runbook.Runbook, namespace, tenant string) ([]string, error) {
	declared := []string{}
	scope := url.Values{"namespace": {namespace}, "tenant": {tenant}}
	put := func(what, path, name string, query url.Values, body any) error {
		full, err := url.JoinPath(path, url.PathEscape(name))
		if err != nil {
			return err
		}
		if _, err := c.json(ctx, request{method: http.MethodPut, path: full, query: query, body: body}, &json.RawMessage{}); err != nil {
			return fmt.Errorf("%s %q: %w", what, name, err)
		}
		declared = append(declared, what+" "+name)
		return nil
	}
	for _, q := range book.Queues {
		if err := put("queue", "/v1/queues", q.Name, scope, q.Config); err != nil {
			return declared, err
		}
	}
	for _, s := range book.Semaphores {
		if err := put("semaphore", "/v1/semaphores", s.Name, scope, map[string]uint32{"slots": s.Slots}); err != nil {
			return declared, err
		}
	}
	for _, s := range book.Subscriptions(namespace, tenant) {
		body := struct {
			Match core.EventMatch `json:"match"`
			Do    core.Reaction   `json:"do"`
		}{s.Match, s.Do}
		if err := put("subscriber", "/v1/subscribers", s.Name, nil, body); err != nil {
			return declared, err
		}
	}
	for _, w := range book.Workers {
		body := struct {
			Queue       string        `json:"queue"`
			Concurrency uint32        `json:"concurrency,omitempty"`
			PollMS      int64         `json:"poll_ms,omitempty"`
			Do          core.WorkerDo `json:"do"`
		}{w.Queue, w.Concurrency, w.PollMS, w.Do}
		if err := put("worker", "/v1/workers", w.Name, scope, body); err != nil {
			return declared, err
		}
	}
	return declared, nil
}

// fromRunbook declares what the file declares, and takes the definition of one
// of its pipelines: the one that is named, or the only one there is.
func (a *app) fromRunbook(ctx context.Context, c *client, args []string, body *pipelineRequest) error {
	book, err := a.loadRunbook(args[0])
	if err != nil {
		return err
	}
	def, err := pipelineOf(book, args[0], strings.Join(args[1:], ""))
	if err != nil {
		return err
	}
	if err := checkInputs(def, body.Context); err != nil {
		return err
	}
	if body.Definition, err = plainJSON(def); err != nil {
		return err
	}
	if body.Runbook == "" {
		body.Runbook = book.Name
	}
	_, err = applyRunbook(ctx, c, book, body.Namespace, body.Tenant)
	return err
}

// pipelineOf gives the pipeline of that name, or without one the only one there is.
func pipelineOf(book *runbook.Runbook, file, name string) (core.PipelineDef, error) {
	def, ok := book.Pipeline(name)
	switch {
	case ok:
		return def, nil
	case name != "":
		return def, usagef("%s has no pipeline %q: it has %s", short(file, 80), short(name, 60), pipelineNames(book))
	case len(book.Pipelines) != 1:
		return def, usagef("%s has %s: name one of them", short(file, 80), pipelineNames(book))
	}
	return book.Pipelines[0], nil
}

// runbooksIn reads pipelines from the runbook files of the workspace: the tool
// "pipeline" can name no other file.
func runbooksIn(workspace string) func(context.Context, string, string) (core.PipelineDef, string, error) {
	return func(_ context.Context, file, name string) (def core.PipelineDef, runbookName string, err error) {
		if workspace == "" {
			return def, "", errors.New("tool_input.file: the daemon has no workspace in which it could lie: start it with --workspace, or give definition")
		}
		root, err := os.OpenRoot(workspace)
		if err != nil {
			return def, "", fmt.Errorf("workspace: %w", err)
		}
		defer func() { _ = root.Close() }() // reading loses nothing
		data, err := root.ReadFile(filepath.FromSlash(file))
		if err != nil {
			return def, "", fmt.Errorf("tool_input.file: %w", err)
		}
		book, err := runbook.Parse(file, data)
		if err != nil {
			return def, "", err
		}
		def, err = pipelineOf(book, file, name)
		return def, book.Name, err
	}
}

// checkInputs says which inputs are missing, and which nothing can read: a
// runbook's phases refer to none but those that it declares, and to what a
// worker or a subscriber would give.
func checkInputs(def core.PipelineDef, given map[string]json.RawMessage) error {
	names := []string{"item", "event"}
	var declared []string
	for _, in := range def.Inputs {
		names, declared = append(names, in.Name), append(declared, in.Name)
		if _, ok := given[in.Name]; !ok && in.Required {
			return usagef("pipeline %q needs an input: give --input %s=VALUE", short(def.Name, 60), clean(in.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return usagef("--input: pipeline %q has no input %q: it has %s", short(def.Name, 60), short(name, 60), clean(or(strings.Join(declared, ", "), "none")))
		}
	}
	return nil
}

func pipelineNames(book *runbook.Runbook) string {
	if len(book.Pipelines) == 0 {
		return "no pipeline"
	}
	names := make([]string, 0, len(book.Pipelines))
	for _, p := range book.Pipelines {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// runbookArgs are those of pipeline start: none with --definition, else a file
// and, where it has several, the name of a pipeline.
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
