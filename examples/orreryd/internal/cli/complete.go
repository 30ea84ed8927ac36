package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// completeTimeout bounds how long a Tab waits for the daemon.
const completeTimeout = time.Second

// completing completes an argument with what the newest of a list are called, and what
// there is to say of them. If no daemon answers there is nothing to offer.
func completing[S any](a *app, path, field string, scope *scoped, line func(S) (name, about string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var offers []string
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.close()
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTimeout)
		defer cancel()
		q := scope.query()
		q.Set("limit", "50")
		var answer map[string]json.RawMessage
		var list []S
		if _, err := c.json(ctx, request{method: http.MethodGet, path: path, query: q}, &answer); err == nil {
			_ = json.Unmarshal(answer[field], &list) // what cannot be read is not offered
		}
		for _, s := range list {
			name, about := line(s)
			offers = append(offers, name+"\t"+about)
		}
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
}
