package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/effects/texts"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// Bounds of commands about all that match.
const (
	maxAll  = 10_000 // things that one command acts on
	allPage = 1000   // that are counted with one request
	allSent = 500    // that are acted on with one request
)

// all is a command that does one act to all things that its filters choose: to those that it has counted, after it
// has asked.
type all struct {
	use, short, long, example string
	act                       string // of POST path/bulk
	path, field               string // of the list
	one, many                 string // what the things are called
	filters                   []filter
	statuses                  []string   // that --status takes, the first of them if it is not given; nil: there is none
	fixed                     url.Values // further parameters of the list
	scope                     *scoped    // that of the requests; nil: --namespace and --tenant narrow the list
	fields                    []field    // of the body of the request for one
	timed                     bool

	yes, dry bool
}

const allLong = `
It counts what the filters choose, %s at most, says how many that are, and asks;
--yes does not ask, --dry-run prints their ids and does nothing. What comes to match
later is not taken, and what has left its status since it was counted is left alone.
Each that cannot be done is told on the standard error with its reason, and the
command ends with 1 if there is one.`

// command makes the command.
func (l all) command(a *app) *cobra.Command {
	own := map[string]string{}
	if l.scope == nil {
		l.filters = append(slices.Clone(inScopes), l.filters...)
		own[ownScope] = "yes"
	}
	if len(l.statuses) > 0 {
		l.filters = append(l.filters, filter{flag: "status", usage: fmt.Sprintf("only in that `status`: %s (default %s)", strings.Join(l.statuses, ", "), l.statuses[0]), words: l.statuses})
	}
	if l.timed {
		l.filters = append(l.filters, madeBetween...)
	}
	cmd := &cobra.Command{
		Use: l.use, Short: l.short, Example: l.example, Args: noArgs, Annotations: own,
		Long: l.short + ".\n" + l.long + fmt.Sprintf(allLong, texts.Thousands(maxAll)),
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		q := l.scope.query()
		for _, f := range l.filters {
			if err := f.set(cmd, q); err != nil {
				return err
			}
		}
		if len(l.statuses) > 0 {
			q.Set("status", cmp.Or(q.Get("status"), l.statuses[0]))
		}
		body, err := a.bodyOf(l.fields, nil)
		if err != nil {
			return err
		}
		return l.run(ctx, a, c, q, body)
	})
	for _, f := range l.filters {
		f.add(cmd)
	}
	cmd.Flags().BoolVar(&l.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&l.dry, "dry-run", false, "only print the ids of what would be taken")
	return addFlags(cmd, l.fields)
}

// number gives a number of the things in words.
func (l *all) number(n int) string {
	if n == 1 {
		return "1 " + l.one
	}
	return texts.Thousands(n) + " " + l.many
}

func (l *all) run(ctx context.Context, a *app, c *client, q url.Values, body map[string]any) error {
	ids, more, err := l.count(ctx, c, q)
	if err != nil {
		return err
	}
	if more {
		text.Sayf(a.err, "more than %s match: the first of them are taken\n", l.number(len(ids)))
	}
	switch {
	case l.dry && a.json:
		return a.printJSON(map[string]any{"ids": ids})
	case l.dry:
		return a.printNames(ids)
	case len(ids) == 0:
		text.Sayf(a.err, "no %s match\n", l.many)
		return a.tellAll(nil)
	case !l.yes:
		if err := a.goOn(ctx, fmt.Sprintf("%s: %s in all.", l.short, l.number(len(ids)))); err != nil {
			return err
		}
	}
	asked := map[string]any{"act": l.act, "body": body}
	if status := q.Get("status"); status != "" {
		asked["status"] = status
	}
	return l.do(ctx, a, c, ids, asked)
}

// count lists the ids of what the filters choose; more says that there are others.
func (l *all) count(ctx context.Context, c *client, q url.Values) (ids []string, more bool, err error) {
	params := maps.Clone(q)
	maps.Copy(params, l.fixed)
	ids = []string{}
	for {
		params.Set("limit", strconv.Itoa(min(allPage, max(maxAll-len(ids), 1))))
		var answer map[string]json.RawMessage
		if _, err := c.json(ctx, request{method: http.MethodGet, path: l.path, query: params}, &answer); err != nil {
			return nil, false, err
		}
		var page []struct{ ID string }
		var next string
		if err := json.Unmarshal(answer[l.field], &page); err != nil {
			return nil, false, fmt.Errorf("read the answer of %s: %s: %w", c.base, l.field, err)
		}
		if token, ok := answer["next_page_token"]; ok {
			if err := json.Unmarshal(token, &next); err != nil {
				return nil, false, fmt.Errorf("read the answer of %s: next_page_token: %w", c.base, err)
			}
		}
		for _, thing := range page {
			if len(ids) == maxAll {
				return ids, true, nil
			}
			ids = append(ids, thing.ID)
		}
		if next == "" {
			return ids, false, nil
		}
		params.Set("page_token", next)
	}
}

// goOn prints what the command is about to do, and asks the caller whether to do it. An error says that the command must not.
func (a *app) goOn(ctx context.Context, what string) error {
	text.Sayf(a.err, "%s Go on? [y/N] ", what)
	answer := make(chan string, 1) // of a reader that nothing ends but an answer, or the process
	go func() {
		line, err := bufio.NewReader(a.in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return errors.New("interrupted: nothing was done")
	case line := <-answer:
		if line == "y" || line == "yes" {
			return nil
		}
	}
	return errors.New("nothing was done: answer y, or give --yes")
}

// do acts on the things, some with each request, and tells what became of them.
func (l *all) do(ctx context.Context, a *app, c *client, ids []string, asked map[string]any) error {
	results, failed, before := []json.RawMessage{}, 0, 0
	for some := range slices.Chunk(ids, allSent) {
		asked["ids"] = some
		var answer struct{ Results []json.RawMessage }
		if _, err := c.json(ctx, request{method: http.MethodPost, path: l.path + "/bulk", query: l.scope.query(), body: asked}, &answer); err != nil {
			text.Sayf(a.err, "%s of %s asked for, of which %s were done, before this failed:\n", texts.Thousands(len(results)), l.number(len(ids)), texts.Thousands(len(results)-failed))
			return err
		}
		for _, raw := range answer.Results {
			var r wire.BulkResult
			if err := json.Unmarshal(raw, &r); err != nil {
				return fmt.Errorf("read the answer of %s: %w", c.base, err)
			}
			if r.Error != "" {
				failed++
				text.Sayf(a.err, "%s: %s\n", text.Clean(r.ID), text.Clean(r.Error))
			} else if r.Made != "" && r.Status == http.StatusOK {
				before++
			}
		}
		results = append(results, answer.Results...)
	}
	if a.json {
		if err := a.tellAll(results); err != nil {
			return err
		}
	} else {
		line := "done to " + l.number(len(ids)-failed-before)
		if before > 0 {
			line += fmt.Sprintf("; to %s it had been done before", texts.Thousands(before))
		}
		if err := a.printLine(nil, line); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s of %s could not be done", texts.Thousands(failed), l.number(len(ids)))
	}
	return nil
}

// tellAll prints the results as JSON, if that is asked for.
func (a *app) tellAll(results []json.RawMessage) error {
	if !a.json {
		return nil
	}
	return a.printJSON(map[string]any{"results": append([]json.RawMessage{}, results...)})
}
