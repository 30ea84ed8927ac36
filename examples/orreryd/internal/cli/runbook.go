package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/runbook"
)

// runbookCommand groups what is done with a runbook file alone, without a daemon
// (003, D1).
func (a *app) runbookCommand() *cobra.Command {
	return group("runbook", "Check, draw, show or apply a runbook file",
		"Check, draw or show a runbook file: pipelines, queues, workers and strategies, in\nTOML. Only apply asks a daemon.",
		a.runbookCheckCommand(), a.runbookGraphCommand(), a.runbookShowCommand(), a.runbookApplyCommand())
}

// checkedRunbook is what check says of a file, for programs.
type checkedRunbook struct {
	File     string          `json:"file"`
	OK       bool            `json:"ok"`
	Contents string          `json:"contents,omitempty"`
	Errors   []runbook.Error `json:"errors"`
	Warnings []runbook.Error `json:"warnings"`
}

func (a *app) runbookCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check runbook files, and say all that is wrong with them",
		Long: `Check runbook files: every key, every value, and every name and reference in them.
Each error stands on a line of its own, as FILE:LINE:COLUMN: FIELD: PROBLEM, which
editors can follow. A warning is about what is allowed, and probably not meant: it
does not change the exit code, which is 1 where a file has an error.`,
		Example: "  orreryd runbook check release.toml",
		Args:    someFiles,
		RunE:    func(_ *cobra.Command, args []string) error { return a.checkRunbooks(args) },
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}

// someFiles wants one argument at least.
func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("FILE is missing, as in: %s FILE", cmd.CommandPath())
	}
	return nil
}

func (a *app) checkRunbooks(files []string) error {
	checked := []checkedRunbook{}
	var bad int
	var unread []error
	for _, file := range files {
		book, err := runbook.Load(file)
		c := checkedRunbook{File: file, OK: err == nil, Errors: []runbook.Error{}, Warnings: []runbook.Error{}}
		switch all := runbook.All(err); {
		case err != nil && len(all) == 0:
			unread = append(unread, err)
			continue
		case err != nil:
			bad++
			c.Errors = all
		default:
			c.Contents = contents(book)
			c.Warnings = append(c.Warnings, book.Warnings...)
		}
		checked = append(checked, c)
	}
	if err := a.show(checked, checkedText(checked)); err != nil {
		return err
	}
	if bad > 0 {
		unread = append(unread, fmt.Errorf("%s cannot be used", counted(bad, "runbook")))
	}
	return errors.Join(unread...)
}

func checkedText(checked []checkedRunbook) string {
	var b strings.Builder
	for _, c := range checked {
		for _, e := range c.Errors {
			fmt.Fprintln(&b, text.Clean(e.Error()))
		}
		for _, w := range c.Warnings {
			w.Problem = "warning: " + w.Problem
			fmt.Fprintln(&b, text.Clean(w.Error()))
		}
		if c.OK {
			fmt.Fprintf(&b, "%s: ok: %s\n", text.Clean(c.File), c.Contents)
		}
	}
	return b.String()
}

// contents says what a runbook has.
func contents(r *runbook.Runbook) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{len(r.Pipelines), "pipeline"}, {len(r.Queues), "queue"}, {len(r.Workers), "worker"}, {len(r.Strategies), "strategy"},
		{len(r.Semaphores), "semaphore"}, {len(r.Subscribers), "subscriber"},
	} {
		if part.n > 0 {
			parts = append(parts, counted(part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return "nothing in it"
	}
	return strings.Join(parts, ", ")
}

// loadRunbook reads a runbook file; if it is wrong, its errors are printed. Warnings are
// printed by check alone.
func (a *app) loadRunbook(file string) (*runbook.Runbook, error) {
	book, err := runbook.Load(file)
	all := runbook.All(err)
	if len(all) == 0 {
		return book, err
	}
	for _, e := range all {
		text.Sayf(a.err, "%s\n", text.Clean(e.Error()))
	}
	return nil, errors.New("1 runbook cannot be used")
}

// graphFormats are the languages of a picture.
var graphFormats = []string{"mermaid", "dot"}

func (a *app) runbookGraphCommand() *cobra.Command {
	var format, pipeline string
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw a runbook as a Mermaid flowchart, or for Graphviz",
		Long: `Draw a runbook: the phases of its pipelines and where they go on, what they start
and push to, the workers of those queues, and what is tried when something fails.
Mermaid is what many pages of documentation show; dot is for Graphviz.`,
		Example: "  orreryd runbook graph release.toml\n  orreryd runbook graph release.toml --format dot --pipeline build | dot -Tsvg > build.svg",
		Args:    oneArg("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkOneOf("format", format, graphFormats); err != nil {
				return err
			}
			book, err := a.loadRunbook(args[0])
			if err != nil {
				return err
			}
			draw := book.Mermaid
			if format == "dot" {
				draw = book.DOT
			}
			text, err := draw(pipeline)
			if err != nil {
				return usagef("--pipeline: %w", err)
			}
			_, err = io.WriteString(a.out, text)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "mermaid", "`language` of the picture: mermaid or dot")
	cmd.Flags().StringVar(&pipeline, "pipeline", "", "only the pipeline of that `name`, and what it reaches")
	fixed(cmd, "format", graphFormats)
	return cmd
}

func (a *app) runbookShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE",
		Short: "Show what a runbook comes to, as JSON",
		Long: `Show the definitions that a runbook file comes to, as JSON: a pipeline has the
strategies, agents and pipelines that it names within itself, as a run keeps them.`,
		Example: "  orreryd runbook show release.toml",
		Args:    oneArg("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			book, err := a.loadRunbook(args[0])
			if err != nil {
				return err
			}
			return a.printJSON(book)
		},
	}
}
