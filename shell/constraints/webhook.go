package constraints

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpcall"
	"github.com/orrery-go/orrery/shell/internal/pause"
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
	if err := checkHeaders(at+".headers", w.Headers); err != nil {
		return w, err
	}
	if time.Duration(w.Timeout) > maxTimeout {
		return w, fmt.Errorf("%s.timeout: %v is more than %v", at, time.Duration(w.Timeout), maxTimeout)
	}
	if w.Retries != nil && (*w.Retries < 0 || *w.Retries > maxRetries) {
		return w, fmt.Errorf("%s.retries: %d is not between 0 and %d", at, *w.Retries, maxRetries)
	}
	return w, nil
}

// parseURL reads the URL of a web server. It may hold a secret: errors never show
// it.
func parseURL(at, text string) (*url.URL, error) {
	if text == "" {
		return nil, fmt.Errorf("%s: is missing: want one such as \"https://example.com/hook\"", at)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s: it is not the URL of a web server: want one such as \"https://example.com/hook\"", at)
	case u.User != nil:
		return nil, fmt.Errorf("%s: it has a user or password in it: use the header Authorization", at)
	case len(text) > 8<<10:
		return nil, fmt.Errorf("%s: %d bytes is more than %d", at, len(text), 8<<10)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

var (
	headerName  = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")
	headerValue = regexp.MustCompile(`^[\t\x20-\x7e\x80-\xff]*$`)
)

// ownHeaders are those that are not a job's to set.
var ownHeaders = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Upgrade": true, "Te": true, "Trailer": true,
	"Idempotency-Key": true, "Webhook-Id": true, "Webhook-Timestamp": true, "Webhook-Signature": true,
}

func checkHeaders(at string, headers map[string]string) error {
	for name, value := range headers {
		switch {
		case !headerName.MatchString(name):
			return fmt.Errorf("%s: %q is not the name of a header", at, clip(name))
		case ownHeaders[http.CanonicalHeaderKey(name)]:
			return fmt.Errorf("%s: %q cannot be set", at, clip(name))
		case !headerValue.MatchString(value): // which may be a secret
			return fmt.Errorf("%s: the value of %q has a character that no header can have", at, clip(name))
		}
	}
	return nil
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

// Take implements [Action]: it tries again, in the same words and under the same
// key, until it is taken, refused for good, or has been tried often enough.
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
	retries := defaultRetries
	if w.Retries != nil {
		retries = *w.Retries
	}
	p := post{client: w.checker.o.Client, url: w.url, headers: w.Headers, key: in.Key, body: body, timeout: time.Duration(w.Timeout)}
	if w.Secret != "" {
		key := w.checker.keys[w.Secret]
		if key == nil {
			return permanent("webhook: there is no secret %q", clip(w.Secret))
		}
		now := w.checker.o.Now()
		signature, err := key.Sign(in.Key, now, body)
		if err != nil {
			return permanent("webhook: sign it: %w", err)
		}
		p.signature, p.signedAt = signature, now
	}
	for n := 0; ; n++ {
		_, after, err := p.do(ctx)
		if err == nil || isPermanent(err) || n >= retries || ctx.Err() != nil {
			return err
		}
		if err := pause.For(ctx, waitBefore(n, after)); err != nil {
			return fmt.Errorf("webhook: post to %s: %w", host(w.url), err)
		}
	}
}

// waitBefore is the wait before the n-th repetition, from 0: it doubles, and is at
// least what the server asks for, within limits.
func waitBefore(n int, asked time.Duration) time.Duration {
	return min(max(firstWait<<min(n, 10), asked), maxWait)
}

func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// post is a request that may be repeated.
type post struct {
	client    *http.Client
	url       *url.URL
	headers   map[string]string
	key       string
	body      []byte
	signature string
	signedAt  time.Time
	timeout   time.Duration
}

// host names a server without what may be a secret.
func host(u *url.URL) string { return u.Scheme + "://" + u.Host }

// do sends it once. after is how long the server asks to wait.
func (p post) do(ctx context.Context) (answer []byte, after time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("no answer within %v", p.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url.String(), bytes.NewReader(p.body))
	if err != nil {
		return nil, 0, permanent("webhook: %s is no address", host(p.url))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "orrery")
	for name, value := range p.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Idempotency-Key", p.key)
	if p.signature != "" {
		req.Header.Set("webhook-id", p.key)
		req.Header.Set("webhook-timestamp", strconv.FormatInt(p.signedAt.Unix(), 10))
		req.Header.Set("webhook-signature", p.signature)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, 0, p.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch status := resp.StatusCode; {
	case status >= 200 && status <= 299 && err != nil:
		return nil, 0, p.failed(ctx, err)
	case status >= 200 && status <= 299:
		return answer, 0, nil
	case pointless(status):
		return nil, 0, permanent("webhook: %s answered %d %s", host(p.url), status, http.StatusText(status))
	default:
		return nil, retryAfter(resp.Header), fmt.Errorf("webhook: %s answered %d %s", host(p.url), status, http.StatusText(status))
	}
}

// failed says what went wrong without the URL, which [url.Error] has in full.
func (p post) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("webhook: post to %s: %w", host(p.url), cause)
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	err = fmt.Errorf("webhook: post to %s: %w", host(p.url), err)
	if _, ok := errors.AsType[*httpcall.AddressError](err); ok {
		return permanentError{err}
	}
	return err
}

// pointless reports whether a server that answers so will always do.
func pointless(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 300 && status <= 499
}

// retryAfter reads the header in seconds; what it says otherwise is passed over.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(strings.TrimSpace(h.Get("Retry-After")), 10, 20)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}
