package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) webhookList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the webhook routes, and what became of their requests",
		Long: `List the webhook routes whose actions the token sees: how their requests are signed, what
they take, and how many requests were stored, refused for their signature, left out by the
filter, and answered as before since they came again. The counts are those of the instance
that answers, since it began.

What a route has stored is among the actions (--route), what it has refused or left out in
the log of requests (audit --actor webhook:ROUTE).`,
		Example: "  orreryd webhook list\n  orreryd actions list --route deploys\n  orreryd audit --actor webhook:deploys --status 4xx",
		Args:    noArgs,
	}
	l := listing[wire.WebhookRoute]{
		none: "No webhook route", name: func(r wire.WebhookRoute) string { return r.Name },
		header: []string{"ROUTE", "SIGNATURE", "TOOL", "TENANT:40", "STORED", "REFUSED", "LEFT OUT", "AGAIN", "TAKES:120"}, row: webhookRow,
	}
	listWhole(a, cmd, l, "/v1/webhooks", func(list wire.WebhookRouteList) []wire.WebhookRoute { return list.Routes })
	return cmd
}

func webhookRow(r wire.WebhookRoute) []string {
	return []string{
		r.Name, r.Signature, r.Tool, r.Namespace + "/" + r.Tenant, number(r.Accepted), number(r.Rejected), number(r.Ignored), number(r.Replayed), text.OrDash(takes(r)),
	}
}

// takes says which requests a route takes; "" is all.
func takes(r wire.WebhookRoute) string {
	var out []string
	if len(r.Events) > 0 {
		out = append(out, strings.Join(r.Events, ", "))
	}
	for _, m := range r.Match {
		condition := m.Path
		if len(m.Values) > 0 {
			condition += " is " + strings.Join(m.Values, " or ")
		}
		out = append(out, condition)
	}
	return strings.Join(out, "; ")
}
