package cli

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// completeTimeout bounds how long a Tab waits for the daemon.
const completeTimeout = time.Second

// completeActions offers the ids of the newest actions.
func (a *app) completeActions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var page struct {
		Actions []core.Action `json:"actions"`
	}
	a.complete(cmd, args, "/v1/actions", url.Values{"limit": {"50"}}, &page)
	var ids []string
	for _, ac := range page.Actions {
		ids = append(ids, ac.ID.String()+"\t"+text.Clip(string(ac.Status.Type)+" "+ac.Label, 60))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// complete offers the ids of the tenant's recurring actions.
func (r *recurring) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var page struct {
		Recurring []recurringSummary `json:"recurring_actions"`
	}
	q := r.scope()
	q.Set("limit", "50")
	r.a.complete(cmd, args, "/v1/recurring", q, &page)
	var ids []string
	for _, s := range page.Recurring {
		ids = append(ids, s.ID.String()+"\t"+text.Clip(s.CronExpr+" "+s.Description, 60))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// complete asks the daemon; where none answers there is nothing to offer.
func (a *app) complete(cmd *cobra.Command, args []string, path string, q url.Values, page any) {
	if len(args) > 0 {
		return
	}
	c, err := a.client()
	if err != nil {
		return
	}
	defer c.close()
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	_, _ = c.json(ctx, request{method: http.MethodGet, path: path, query: q}, page)
}
