package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// auditFlags choose entries of the log of requests.
type auditFlags struct {
	since, until                                    string
	by, actor, operation, status, namespace, tenant string
	instance                                        string
	page                                            page
	db                                              string
}

func (a *app) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print who asked the daemon for what, and how it was answered",
		Long: `Print the log of requests, newest first: changes, refusals and, with reads = true in
[audit], reads. Equal refusals of a minute are one line with a count; it is written when
the minute is over, so that its time may be before that of the line below it. With
--json it prints one JSON object a line.

Of daemons on one divided database each has a log of its own: asked for is that of all, or
with --instance that of one; a daemon that does not give its log is named on standard error.

An admin's token sees all of it; another one what it did itself, and what was done in
its tenants. With --db it reads the files beside a database, whether a daemon runs on it
or not.`,
		Example: "  orreryd audit --since 24h --status 4xx --all\n  orreryd audit --db /var/lib/orrery/orrery.db --by shop --json",
		Args:    noArgs,
	}
	listed := a.addListFlags(cmd, formWide, formJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.settleOutput(); err != nil {
			return err
		}
		if f.page.limit < 1 || f.page.limit > 1000 {
			return usagef("--limit: %d is not between 1 and 1000", f.page.limit)
		}
		if err := notURL("--db", f.db); err != nil {
			return err
		}
		if f.db != "" {
			if f.instance != "" {
				return usagef("--instance: is not taken with --db, which reads the files of one daemon")
			}
			return listed.print(cmd.Context(), cmd, func(ctx context.Context) (answered, error) { return a.auditFiles(ctx, cmd, &f) })
		}
		if _, err := f.query(cmd); err != nil {
			return err
		}
		return a.withClient(func(ctx context.Context, c *client, _ []string) error {
			return listed.print(ctx, cmd, func(ctx context.Context) (answered, error) {
				q, err := f.query(cmd) // anew: --since may be a duration before now
				if err != nil {
					return answered{}, err
				}
				f.page.beside = a.sayUnanswered
				_, entries, next, err := readPages[audit.Entry](ctx, c, request{method: http.MethodGet, path: "/v1/audit", query: q}, "entries", f.page)
				return a.auditAnswered(entries, next), err
			})
		})(cmd, nil)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "only from that `time` on, in RFC 3339, or a duration such as 24h before now")
	flags.StringVar(&f.until, "until", "", "only before that `time`, likewise")
	flags.StringVar(&f.by, "by", "", "only with the token of that `name`; empty: without one")
	flags.StringVar(&f.actor, "actor", "", "only of that `actor`, such as webhook:deploys for the requests of a webhook route")
	flags.StringVar(&f.operation, "operation", "", "only that `operation`, by its operationId in /openapi.json")
	flags.StringVar(&f.status, "status", "", "only answers with that `status`, such as 403, or 4xx")
	flags.StringVar(&f.namespace, "namespace", "", "only about that `namespace`")
	flags.StringVar(&f.tenant, "tenant", "", "only about that `tenant`")
	flags.StringVar(&f.instance, "instance", "", "only the log of the daemon with that `name`, as orreryd cluster status lists it")
	f.page.addFlags(cmd)
	flags.StringVar(&f.db, "db", "", "database `file` whose log is read, without a daemon")
	return a.addClientFlags(cmd)
}

// times reads --since and --until.
func (f *auditFlags) times(now time.Time) (since, until effects.Time, err error) {
	for _, flag := range []struct {
		name, v string
		at      *effects.Time
	}{{"since", f.since, &since}, {"until", f.until, &until}} {
		if flag.v == "" {
			continue
		}
		if *flag.at, err = momentOf(flag.name, flag.v, now); err != nil {
			return 0, 0, err
		}
	}
	return since, until, nil
}

// filter is what the flags that were given choose.
func (f *auditFlags) filter(cmd *cobra.Command) (out audit.Filter, err error) {
	out.Status = f.status
	for name, field := range map[string]struct {
		v  *string
		to **string
	}{
		"by": {&f.by, &out.Token}, "actor": {&f.actor, &out.Actor}, "operation": {&f.operation, &out.Operation}, "namespace": {&f.namespace, &out.Namespace}, "tenant": {&f.tenant, &out.Tenant},
	} {
		if cmd.Flags().Changed(name) {
			*field.to = field.v
		}
	}
	if !out.Valid() {
		return out, usagef("--status: %q is unknown: use a status such as 403, or 4xx", text.Clip(f.status, 60))
	}
	return out, nil
}

func (f *auditFlags) query(cmd *cobra.Command) (url.Values, error) {
	since, until, err := f.times(time.Now())
	if err != nil {
		return nil, err
	}
	filter, err := f.filter(cmd)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	for name, v := range map[string]*string{"token": filter.Token, "actor": filter.Actor, "operation": filter.Operation, "namespace": filter.Namespace, "tenant": filter.Tenant} {
		if v != nil {
			q.Set(name, *v)
		}
	}
	for name, v := range map[string]string{"since": timeText(since), "until": timeText(until), "status": filter.Status, "instance": f.instance} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q, nil
}

// sayUnanswered names the daemons whose logs a page does not have.
func (a *app) sayUnanswered(answer map[string]json.RawMessage) error {
	raw, ok := answer["unanswered"]
	if !ok {
		return nil
	}
	var list []wire.AuditUnanswered
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("unanswered: %w", err)
	}
	for _, u := range list {
		text.Sayf(a.err, "The log of %s is not in this: %s\n", text.Clip(u.Instance, 60), text.Clip(u.Error, 200))
	}
	return nil
}

// auditFiles reads the log beside a database file.
func (a *app) auditFiles(ctx context.Context, cmd *cobra.Command, f *auditFlags) (out answered, err error) {
	dir := config.AuditDir(f.db)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return out, &exitError{code: exitNotFound, err: fmt.Errorf("--db: there is no log of requests in %s", dir)}
	}
	filter, err := f.filter(cmd)
	if err != nil {
		return out, err
	}
	q := audit.Query{Limit: f.page.limit, Keep: filter.Keep}
	if q.Since, q.Until, err = f.times(time.Now()); err != nil {
		return out, err
	}
	if f.page.token != "" {
		if q.Before, err = strconv.ParseUint(f.page.token, 10, 64); err != nil {
			return out, usagef("--page-token: %q is not one that this command printed with --db", text.Clip(f.page.token, 60))
		}
	}
	var entries []audit.Entry
	damaged, next := 0, ""
	for {
		p, err := audit.Read(ctx, dir, q)
		if err != nil {
			return out, fmt.Errorf("read the log of requests in %s: %w", dir, err)
		}
		entries, damaged, q.Before = append(entries, p.Entries...), damaged+p.Damaged, p.Next
		if p.Next == 0 {
			break
		}
		if next = strconv.FormatUint(p.Next, 10); !f.page.all && len(entries) > 0 {
			break
		}
		next = ""
	}
	if damaged > 0 {
		text.Sayf(a.err, "%s of the log left out, being damaged: torn by a crash, or changed by somebody\n", counted(damaged, "line"))
	}
	return a.auditAnswered(entries, next), nil
}

// auditAnswered is a part of the log as it can be printed.
func (a *app) auditAnswered(entries []audit.Entry, next string) answered {
	l := listing[audit.Entry]{
		none: "The log has no such requests", row: auditRow,
		header: []string{"TIME", "STATUS", "COUNT", "WHO:30", "FROM:39", "OPERATION:30", "TENANT:40", "PATH:60", "REASON:80"},
	}
	if slices.ContainsFunc(entries, func(e audit.Entry) bool { return e.Instance != "" }) {
		l.header = slices.Insert(l.header, 1, "INSTANCE:30")
		l.row = func(e audit.Entry) []string { return slices.Insert(auditRow(e), 1, text.OrDash(e.Instance)) }
	}
	return answered{next: next, people: func(s screen) string { return l.text(nil, entries, s) }, json: func() error {
		enc := json.NewEncoder(a.out)
		enc.SetEscapeHTML(false)
		for i := range entries {
			if err := enc.Encode(&entries[i]); err != nil {
				return fmt.Errorf("print JSON: %w", err)
			}
		}
		return a.sayMore(next)
	}}
}

func auditRow(e audit.Entry) []string {
	who, tenant := e.Token, ""
	if who == "" {
		who = e.Actor
	}
	if e.Namespace != "" {
		tenant = e.Namespace + "/" + e.Tenant
	}
	return []string{
		shortTime(e.At), strconv.Itoa(e.Status), number(e.Count), text.OrDash(who), text.OrDash(e.Address), text.OrDash(e.Operation), text.OrDash(tenant), text.OrDash(e.Path), text.OrDash(e.Reason),
	}
}
