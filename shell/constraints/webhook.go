package constraints

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 10 * time.Minute
	defaultRetries = 3
	maxRetries     = 10
	firstWait      = 500 * time.Millisecond
	maxWait        = 30 * time.Second
	maxAnswer      = 64 << 10
)

// webhookConfig is the action webhook: it posts what happened as JSON.
type webhookConfig struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	// Data is put into the body as it is, under "data".
	Data json.RawMessage `json:"data"`
	// Secret is the name of a key of [Options.Secrets].
	Secret  string `json:"secret"`
	Timeout span   `json:"timeout"` // of one request
	Retries *int   `json:"retries"`

	url     *url.URL
	checker *Checker
}

func newWebhook(at string, raw json.RawMessage) (*webhookConfig, error) {
	w := &webhookConfig{Timeout: span(defaultTimeout)}
	if err := strictjson.DecodeAt(at, raw, w); err != nil {
		return w, err
	}
	var err error
	if w.url, err = parseURL(at+".url", w.URL); err != nil {
		return w, err
	}
	err = checkHeaders(at+".headers", w.Headers)
	switch {
	case err != nil:
		return w, err
	case time.Duration(w.Timeout) > maxTimeout:
		return w, fmt.Errorf("%s.timeout: %v is more than %v", at, time.Duration(w.Timeout), maxTimeout)
	case w.Retries != nil && (*w.Retries < 0 || *w.Retries > maxRetries):
		return w, fmt.Errorf("%s.retries: %d is not between 0 and %d", at, *w.Retries, maxRetries)
	}
	return w, nil
}

// runFacts are what the other side of a webhook is told of a run.
type runFacts struct {
	RunID       string             `json:"run_id"`
	JobID       string             `json:"job_id"`
	JobName     string             `json:"job_name"`
	Namespace   string             `json:"namespace"`
	Tenant      string             `json:"tenant"`
	ScheduledAt core.Time          `json:"scheduled_at"`
	Attempt     uint32             `json:"attempt"`
	Phase       effects.CheckPhase `json:"phase"`
	State       string             `json:"state"`
	ExitCode    *int32             `json:"exit_code"`
}

func factsOf(run core.Orchestrator, phase effects.CheckPhase) runFacts {
	return runFacts{
		RunID: run.RunID, JobID: run.JobID, JobName: run.Config.Name, Namespace: run.Namespace, Tenant: run.Tenant,
		ScheduledAt: run.ScheduledAt, Attempt: run.RetryAttempt, Phase: phase, State: string(run.State), ExitCode: run.Pod.ExitCode,
	}
}

// Take implements [Action]: it repeats the same post under the same key until the
// server takes it or refuses it for good, or there were enough attempts.
func (w *webhookConfig) Take(ctx context.Context, in *ActionInput) error {
	body, err := plainjson.Marshal(struct {
		Type       string          `json:"type"`
		Constraint string          `json:"constraint"`
		Message    string          `json:"message"`
		Run        runFacts        `json:"run"`
		Data       json.RawMessage `json:"data,omitempty"`
	}{"constraint." + metText(in.Met), in.Constraint, in.Message, factsOf(in.Run, in.Phase), w.Data})
	if err != nil {
		return permanent("webhook: encode the body: %w", err)
	}
	p := newPost(w.checker, w.url, w.Headers, in.Key, body, time.Duration(w.Timeout))
	if w.Secret != "" {
		if p.signer = w.checker.signer(in.Job, w.Secret); p.signer == nil {
			return permanent("webhook: there is no secret %q", clip.Text(w.Secret, maxQuoted))
		}
	}
	_, err = p.send(ctx, strictjson.Or(w.Retries, defaultRetries))
	return err
}
