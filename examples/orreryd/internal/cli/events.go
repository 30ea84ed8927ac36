package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (a *app) eventsCommand() *cobra.Command {
	return a.addClientFlags(group("events", "Follow and publish events of the bus",
		"All that machines announce goes over the event bus.",
		a.eventsFollow(), a.eventsPublish()))
}

func (a *app) eventsFollow() *cobra.Command {
	var categories []string
	var action string
	var most int
	cmd := &cobra.Command{
		Use:   "follow",
		Short: "Print what the machines announce, as it happens",
		Long: `Print what the machines announce from now on, one line each; with --json, one
JSON value a line. Each is printed at most once: where this program is too slow,
it says how many it has missed.`,
		Example: "  orreryd events follow --category pipeline --category task",
		Args:    noArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		q := url.Values{"category": categories}
		if action != "" {
			q.Set("action", action)
		}
		resp, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/events", query: q})
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		err = a.follow(resp.Body, most)
		switch {
		case ctx.Err() != nil: // Ctrl-C is how one stops following: no failure
			return nil
		case err == nil && most == 0:
			return fmt.Errorf("%s has ended the stream: is the daemon stopping?", c.base)
		}
		return err
	})
	f := cmd.Flags()
	f.StringArrayVar(&categories, "category", nil, "only that `category`, such as pipeline; may be repeated")
	f.StringVar(&action, "action", "", "only that `action`, such as failed")
	f.IntVarP(&most, "number", "n", 0, "end after that `number` of events (default never)")
	return cmd
}

// maxEventBytes bounds one line of the stream.
const maxEventBytes = 8 << 20

// follow prints a stream of server-sent events.
func (a *app) follow(r io.Reader, most int) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEventBytes)
	name, seen := "", 0
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "":
			name = ""
		case "event":
			name = value
		case "data":
			if err := a.printEvent(name, value); err != nil {
				return err
			}
			if seen++; seen == most {
				return nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return &exitError{code: exitNoDaemon, err: fmt.Errorf("the stream broke off: %w: is the daemon gone?", err)}
	}
	return nil
}

func (a *app) printEvent(name, data string) error {
	if name == "dropped" {
		var d struct {
			Dropped uint64 `json:"dropped"`
		}
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		text.Sayf(a.err, "missed %d events so far\n", d.Dropped)
		return nil
	}
	if a.json {
		_, err := fmt.Fprintln(a.out, data)
		return err
	}
	var e effects.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	_, err := fmt.Fprintf(a.out, "%s  %-24s %s %s  %s\n", e.Timestamp, text.Clean(e.Kind.String()), text.Clean(e.Source.Component), e.Source.ID, text.Clip(string(e.Data), 600))
	return err
}

func (a *app) eventsPublish() *cobra.Command {
	data := jsonField("data", "`JSON` that it carries; @FILE or - for stdin")
	of := []field{textField("namespace", "`namespace` whose subscribers hear it; without it and --tenant all hear it"), textField("tenant", "`tenant` whose subscribers hear it")}
	cmd := &cobra.Command{
		Use: "publish CATEGORY ACTION", Short: "Announce an event of a runbook's own",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("want CATEGORY and ACTION, as in: %s deploys wanted", cmd.CommandPath())
			}
			return nil
		},
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			body, err := a.bodyOf([]field{constant("kind", effects.EventKind{Category: args[0], Action: args[1]}), of[0], of[1], data}, args)
			if err != nil {
				return err
			}
			raw, err := c.json(ctx, request{method: http.MethodPost, path: "/v1/events", body: body}, &struct{}{})
			if err != nil {
				return err
			}
			return a.printLine(raw, fmt.Sprintf("announced %s:%s", text.Clean(args[0]), text.Clean(args[1])))
		}),
	}
	for _, f := range append(of, data) {
		f.add(cmd)
	}
	return cmd
}
