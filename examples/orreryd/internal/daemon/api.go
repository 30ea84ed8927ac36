package daemon

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/podspec"
)

// addServers builds the API, and the page, on the addresses that were taken.
func (d *daemon) addServers() error {
	o, err := apiOptions(d.c, d.log, d.audit)
	if err != nil {
		return err
	}
	o.Engine, o.Notify, o.Jobs, o.Metrics = d.engine, notifier{d}, d.jobs, d.metrics()
	o.Settings = func() string { return d.settings().Shown() }
	if d.term != nil {
		o.Cluster, o.Ready = d.term.roster.tell, d.term.ready
	}
	if d.hosted() {
		o.Drain, o.AcceptLoss, o.Partitions, o.Shared = d.term.roster.drain, d.term.roster.acceptLoss, d.term.host.layout.Partitions, &d.term.host.shared
		o.PageKey, o.Rebalance, o.Placings = d.term.host.pageKey, d.term.host.rebalance, d.term.host.placings
	}
	if d.server, err = httpapi.New(o); err != nil || d.hosted() {
		return err
	}
	d.api.listen(d.server, d.server.Handler())
	if d.c.Page.Enabled {
		if err := d.addPage(d.server); err != nil {
			return err
		}
	}
	return d.addTLS()
}

// apiOptions are those of the API that the settings say, and that are the same for each partition of a database.
func apiOptions(c config.Config, log *slog.Logger, audit *audit.Log) (o httpapi.Options, err error) {
	tokens, err := c.APITokens()
	if err != nil {
		return o, err
	}
	auth, err := c.WebhookAuth()
	if err != nil {
		return o, err
	}
	return httpapi.Options{
		Audit: audit, AuditReads: c.Audit.Reads,
		Limits: c.APILimits(),
		Tokens: tokens, Webhooks: auth, WebhookFilters: c.WebhookFilters(), Logger: log, Version: version.String(),
		Redact:       c.Redact.Redaction(),
		MaxBodyBytes: c.HTTP.MaxBodyBytes, MaxWebhookBytes: c.HTTP.MaxWebhookBytes,
		MaxWebhookBytesInFlight: c.HTTP.MaxWebhookBytesInFlight, MaxBodyBytesInFlight: c.HTTP.MaxBodyBytesInFlight,
		MaxRequestsPerToken: c.HTTP.MaxRequestsPerToken, MaxListsPerToken: c.HTTP.MaxListsPerToken,
		MaxStreamsPerToken: c.HTTP.MaxStreamsPerToken, MaxConnections: maxConnections(c.HTTP.MaxConnections, descriptors()),
		Store:       storeKind(c),
		OpenRunners: c.OpenRunners(), JobUses: func(spec core.JobSpec) (jobs.Reach, error) { return constraints.Uses(&spec) },
		ParsePodSpec: func(text []byte) (json.RawMessage, error) {
			_, spec, err := podspec.Parse(text)
			return spec, err
		},
	}, nil
}

// What the records are in, as GET /readyz says.
const (
	storeFile     = "file"
	storePostgres = "postgres"
)

func storeKind(c config.Config) string {
	if c.Database != "" {
		return storePostgres
	}
	return storeFile
}

// openAudit opens the log of requests; nil if there is to be none.
func openAudit(c config.Config, log *slog.Logger) (*audit.Log, error) {
	if !c.Audit.Enabled {
		return nil, nil
	}
	l, err := audit.Open(audit.Options{
		Dir: config.AuditDir(c.DB), MaxAge: config.Days(c.Audit.Days), MaxBytes: c.Audit.MaxBytes, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: without a log of requests: enabled = false in [audit]", err)
	}
	return l, nil
}
