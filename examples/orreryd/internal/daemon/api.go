package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/podspec"
)

// addServers builds the API, and the page, on the addresses that were taken.
func (d *daemon) addServers() error {
	c := d.c
	tokens, err := c.APITokens()
	if err != nil {
		return err
	}
	auth, err := c.WebhookAuth()
	if err != nil {
		return err
	}
	var cluster func(context.Context) (wire.Cluster, error)
	if d.term != nil {
		cluster = d.term.roster.tell
	}
	api, err := httpapi.New(httpapi.Options{
		Cluster: cluster,
		Audit:   d.audit, AuditReads: c.Audit.Reads,
		Limits: c.APILimits(),
		Engine: d.engine, Tokens: tokens, Webhooks: auth, WebhookFilters: c.WebhookFilters(), Logger: d.log, Version: version.String(),
		Redact:       c.Redact.Redaction(),
		MaxBodyBytes: c.HTTP.MaxBodyBytes, MaxWebhookBytes: c.HTTP.MaxWebhookBytes,
		MaxWebhookBytesInFlight: c.HTTP.MaxWebhookBytesInFlight, MaxBodyBytesInFlight: c.HTTP.MaxBodyBytesInFlight,
		MaxRequestsPerToken: c.HTTP.MaxRequestsPerToken, MaxListsPerToken: c.HTTP.MaxListsPerToken,
		MaxStreamsPerToken: c.HTTP.MaxStreamsPerToken, MaxConnections: maxConnections(c.HTTP.MaxConnections, descriptors()),
		Settings: func() string { return d.settings().Shown() }, Metrics: d.metrics(),
		Notify: notifier{d},
		Jobs:   d.jobs, OpenRunners: c.OpenRunners(), JobUses: func(spec core.JobSpec) (jobs.Reach, error) { return constraints.Uses(&spec) },
		ParsePodSpec: func(text []byte) (json.RawMessage, error) {
			_, spec, err := podspec.Parse(text)
			return spec, err
		},
	})
	if err != nil {
		return err
	}
	d.server = api
	d.api.listen(api, api.Handler())
	if c.Page.Enabled {
		if err := d.addPage(api); err != nil {
			return err
		}
	}
	return d.addTLS()
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
