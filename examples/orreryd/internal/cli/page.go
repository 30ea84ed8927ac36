package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func addPageFlags(cmd *cobra.Command, limit *int, token *string, all *bool) {
	f := cmd.Flags()
	f.IntVar(limit, "limit", 50, "`rows` of one page, at most 1000")
	f.StringVar(token, "page-token", "", "go on where the page that printed that `token` ended")
	f.BoolVar(all, "all", false, "all pages")
}

// pages reads one page of a list, or all that follow too.
func pages[T any](ctx context.Context, c *client, path, field string, q url.Values, limit int, token string, all bool) (raws []json.RawMessage, list []T, next string, err error) {
	if limit < 1 || limit > 1000 {
		return nil, nil, "", usagef("--limit: %d is not between 1 and 1000", limit)
	}
	q.Set("limit", strconv.Itoa(limit))
	raws = []json.RawMessage{} // an empty list is [] and not null
	for {
		if token != "" {
			q.Set("page_token", token)
		}
		var page map[string]json.RawMessage
		if _, err := c.json(ctx, request{method: http.MethodGet, path: path, query: q}, &page); err != nil {
			return nil, nil, "", err
		}
		var some []json.RawMessage
		if err := json.Unmarshal(page[field], &some); err != nil {
			return nil, nil, "", fmt.Errorf("read the answer of %s: %s: %w", c.base, field, err)
		}
		for _, raw := range some {
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, nil, "", fmt.Errorf("read the answer of %s: %w", c.base, err)
			}
			raws, list = append(raws, raw), append(list, v)
		}
		next = ""
		if t, ok := page["next_page_token"]; ok {
			if err := json.Unmarshal(t, &next); err != nil {
				return nil, nil, "", fmt.Errorf("read the answer of %s: next_page_token: %w", c.base, err)
			}
		}
		// A page may be short, and even empty, while there is more.
		if next == "" || next == token || !all && len(list) > 0 {
			return raws, list, next, nil
		}
		token = next
	}
}

// printPage prints a list for people, and how to go on.
func (a *app) printPage(header []string, rows [][]string, none, next string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.out, none)
		return err
	}
	if err := a.printTable(header, rows); err != nil {
		return err
	}
	if next != "" {
		_, err := fmt.Fprintf(a.err, "There is more: --page-token %s, or --all\n", text.Clean(next))
		return err
	}
	return nil
}

// shortTime shows a time in a table, to the second.
func shortTime(t effects.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Std().Format(time.DateTime)
}

// timeText shows a time by itself; empty where there is none.
func timeText(t effects.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.String()
}

// pairs shows a map in the order of its keys.
func pairs(m map[string]string) string {
	list := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return strings.Join(list, ", ")
}
