package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// occurrencesUpcoming lists what comes next.
func (a *app) occurrencesUpcoming() *cobra.Command {
	l := listing[wire.UpcomingSchedule]{
		none: "nothing is due by then", name: func(u wire.UpcomingSchedule) string { return u.ID },
		header: []string{"DUE (UTC)", "KIND", "NAME:60", "WHEN:60", "TENANT", "ID:40"},
		row: func(u wire.UpcomingSchedule) []string {
			return []string{shortTime(u.DueAt), string(u.Kind), u.Name, whenDue(u), u.Namespace + "/" + u.Tenant, u.ID}
		},
	}
	cmd := &cobra.Command{
		Use: "upcoming", Short: "List the schedules that are due next, of all kinds; those that are late come first", Args: noArgs,
		Example: "  orreryd occurrences upcoming\n  orreryd occurrences upcoming --within 24h --kind job",
	}
	flags := a.addListFlags(cmd, formWide, formJSON, formName)
	var within time.Duration
	var kind, namespace, tenant string
	var limit int
	f := cmd.Flags()
	f.DurationVar(&within, "within", time.Hour, "how far to look ahead, a `duration`")
	f.StringVar(&kind, "kind", "", "only schedules of that `kind`: recurring, job, action")
	f.StringVar(&namespace, "namespace", "", "only of that `namespace`")
	f.StringVar(&tenant, "tenant", "", "only of that `tenant`")
	f.IntVar(&limit, "limit", 50, "at most so many `schedules`, up to 1000")
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		return flags.print(ctx, cmd, func(ctx context.Context) (answered, error) {
			q := url.Values{"until": {time.Now().UTC().Add(within).Format(time.RFC3339)}, "limit": {strconv.Itoa(limit)}}
			for name, v := range map[string]string{"kind": kind, "namespace": namespace, "tenant": tenant} {
				if v != "" {
					q.Set(name, v)
				}
			}
			var got struct {
				Schedules []json.RawMessage `json:"schedules"`
				More      bool              `json:"more"`
			}
			if _, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/upcoming", query: q}, &got); err != nil {
				return answered{}, err
			}
			list := make([]wire.UpcomingSchedule, len(got.Schedules))
			for i, raw := range got.Schedules {
				if err := json.Unmarshal(raw, &list[i]); err != nil {
					return answered{}, fmt.Errorf("read what comes next: %w", err)
				}
			}
			out := l.answered(a, nil, got.Schedules, list, "")
			out.json = func() error { return a.printJSON(map[string]any{"schedules": got.Schedules, "more": got.More}) }
			people := out.people
			out.people = func(s screen) string {
				if got.More {
					return people(s) + "there is more: --limit shows up to 1000\n"
				}
				return people(s)
			}
			return out, nil
		})
	})
	return cmd
}

// whenDue says in words when a schedule fires.
func whenDue(u wire.UpcomingSchedule) string {
	if u.CronExpr == "" {
		return "every " + (time.Duration(u.PeriodMS) * time.Millisecond).String()
	}
	return inWords(u.CronExpr, u.Timezone, u.DayMatch)
}
