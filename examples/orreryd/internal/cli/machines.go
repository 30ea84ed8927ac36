package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// machineCommands are the commands about the machines of runbooks (003).
func (a *app) machineCommands() []*cobra.Command {
	return []*cobra.Command{
		a.pipelineCommand(), a.taskCommand(), a.strategyCommand(), a.workerCommand(),
		a.lockCommand(), a.semaphoreCommand(), a.eventsCommand(), a.subscriberCommand(),
	}
}

// machine is what the commands about one kind of machine share.
type machine[S any] struct {
	a    *app
	path string // of the API: "/v1/pipelines"
	show func(json.RawMessage, S) error
	// query is added to each request: the tenant of machines that go by a name.
	query func() url.Values
	args  cobra.PositionalArgs
	arg   string // what the argument is called: "ID"
}

func (m machine[S]) of(name string, more ...string) string {
	parts := []string{url.PathEscape(name)}
	for _, p := range more {
		parts = append(parts, url.PathEscape(p))
	}
	return m.path + "/" + strings.Join(parts, "/")
}

func (m machine[S]) values() url.Values {
	if m.query == nil {
		return nil
	}
	return m.query()
}

// tell sends something about a machine, and prints the machine.
func (m machine[S]) tell(ctx context.Context, c *client, method, path string, body any) error {
	var s S
	raw, err := c.json(ctx, request{method: method, path: path, query: m.values(), body: body}, &s)
	switch {
	case err != nil:
		return err
	case len(raw) == 0: // 204
		if m.a.json {
			return nil
		}
		_, err := fmt.Fprintln(m.a.out, "gone")
		return err
	}
	return m.show(raw, s)
}

// verb is a command about one machine; body gives what it sends, nil: nothing.
func (m machine[S]) verb(name, short, method, verb string, body func() (any, error)) *cobra.Command {
	return &cobra.Command{
		Use: name + " " + m.arg, Short: short, Args: m.args,
		RunE: m.a.withClient(func(ctx context.Context, c *client, args []string) error {
			var b any
			if body != nil {
				var err error
				if b, err = body(); err != nil {
					return err
				}
			}
			path := m.of(args[0])
			if verb != "" {
				path = m.of(args[0], verb)
			}
			return m.tell(ctx, c, method, path, b)
		}),
	}
}

// cancel is the command that ends a machine with a reason.
func (m machine[S]) cancel(short string) *cobra.Command {
	var reason string
	cmd := m.verb("cancel", short, http.MethodPost, "cancel", func() (any, error) {
		return map[string]string{"reason": reason}, nil
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	return cmd
}

// listing says how machines of one kind are listed.
type listing[S any] struct {
	path, field, none, short string
	statuses                 []string
	header                   []string
	row                      func(S) []string
}

// command is the command that lists them.
func (l listing[S]) command(a *app) *cobra.Command {
	var namespace, tenant, status, token string
	var limit int
	var all bool
	cmd := &cobra.Command{Use: "list", Short: l.short, Args: noArgs}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		q := url.Values{}
		for _, f := range []string{"namespace", "tenant", "status"} {
			if cmd.Flags().Changed(f) {
				q.Set(f, cmd.Flags().Lookup(f).Value.String())
			}
		}
		if q.Has("status") {
			if err := checkOneOf("status", status, l.statuses); err != nil {
				return err
			}
		}
		raws, list, next, err := pages[S](ctx, c, l.path, l.field, q, limit, token, all)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]any{l.field: raws, "next_page_token": next})
		}
		rows := make([][]string, 0, len(list))
		for _, s := range list {
			rows = append(rows, l.row(s))
		}
		return a.printPage(l.header, rows, l.none, next)
	})
	f := cmd.Flags()
	f.StringVar(&namespace, "namespace", "", "only of that `namespace`")
	f.StringVar(&tenant, "tenant", "", "only of that `tenant`")
	if len(l.statuses) > 0 {
		f.StringVar(&status, "status", "", "only in that `status`: "+strings.Join(l.statuses, ", "))
		fixed(cmd, "status", l.statuses)
	}
	addPageFlags(cmd, &limit, &token, &all)
	return cmd
}

// waitStep is how many seconds one request waits for the end of something.
const waitStep = "50"

// await asks again and again until a machine has ended. known: the daemon has
// answered before.
func (m machine[S]) await(ctx context.Context, c *client, id string, known bool, ended func(S) bool) (raw json.RawMessage, s S, err error) {
	for ; ; known = true {
		raw, err = m.look(ctx, c, id, url.Values{"wait_seconds": {waitStep}}, &s, known)
		if err != nil || ended(s) {
			return raw, s, err
		}
	}
}

// restartTime is how long a daemon that has answered before may be away: somebody
// restarts it, and what is waited for goes on then.
const restartTime = time.Minute

// look asks for a machine; where a daemon is known, also again while it is away.
func (m machine[S]) look(ctx context.Context, c *client, id string, q url.Values, s *S, known bool) (json.RawMessage, error) {
	end := time.Now().Add(restartTime)
	for {
		raw, err := c.json(ctx, request{method: http.MethodGet, path: m.of(id), query: q}, s)
		coded, _ := errors.AsType[*exitError](err)
		if coded == nil || coded.code != exitNoDaemon || !known || time.Now().After(end) {
			return raw, err
		}
		select {
		case <-ctx.Done():
			return raw, err
		case <-time.After(watchEvery):
		}
	}
}

// jsonArgument reads a value of JSON that may be given as @FILE or as - for
// stdin; nil where it is empty.
func (a *app) jsonArgument(flag, v string) (json.RawMessage, error) {
	return a.readJSON(flag, v, "is not JSON: a text stands in quotes")
}

// readJSON is jsonArgument with other words for what is no JSON.
func (a *app) readJSON(flag, v, wrong string) (json.RawMessage, error) {
	if v == "" {
		return nil, nil
	}
	b, err := a.readArgument(flag, v)
	if err != nil {
		return nil, err
	}
	if !json.Valid(b) {
		return nil, usagef("--%s: %q %s", flag, text.Clip(string(b), 60), wrong)
	}
	return b, nil
}

// checkNewID checks the flag --id of what is to be made; without it the id is a
// fresh one.
func checkNewID(id string) error {
	if id == "" {
		return nil
	}
	if err := checkID(id); err != nil {
		return fmt.Errorf("--id: %w", err)
	}
	return nil
}

// idOr shows an id; empty where there is none.
func idOr(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// took is the time between two instants; "-" where one is not there.
func took(from, to effects.Time) string {
	if from.IsZero() || to.IsZero() {
		return "-"
	}
	return to.Sub(from).String()
}
