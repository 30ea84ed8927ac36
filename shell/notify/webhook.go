package notify

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
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
)

// WebhookOptions say where a webhook posts to.
type WebhookOptions struct {
	// URL is http or https. It may hold a secret: errors name its host alone.
	URL string
	// Headers are added to each request.
	Headers map[string]string
	// Timeout bounds one request. Zero means 10 seconds.
	Timeout time.Duration
	// Transport makes the requests; nil means a clone of
	// [http.DefaultTransport].
	Transport http.RoundTripper
}

// Webhook is a channel that posts {"title":…,"message":…,"sound":…} as JSON. An
// answer from 200 to 299 is a success. Redirects are not followed. Most answers
// from 400 to 499 say that it will never work; after others it may be tried
// again.
type Webhook struct {
	url    *url.URL
	header http.Header
	client *http.Client
}

var (
	headerName  = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")
	headerValue = regexp.MustCompile(`^[\t\x20-\x7e\x80-\xff]*$`)
)

// NewWebhook makes a Webhook. The error names the option that cannot be right.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("URL: it is not the URL of a web server: want one such as https://example.com/hook")
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("Timeout: %v is negative", o.Timeout)
	}
	w := &Webhook{url: u, header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"orrery"}}}
	for name, value := range o.Headers {
		if !headerName.MatchString(name) {
			return nil, fmt.Errorf("Headers: %q is not the name of a header", clip(name))
		}
		if !headerValue.MatchString(value) {
			return nil, fmt.Errorf("Headers: the value of %q has a character that no header can have", name)
		}
		w.header.Set(name, value)
	}
	transport := o.Transport
	if transport == nil {
		transport = http.DefaultTransport
		if own, ok := transport.(*http.Transport); ok {
			transport = own.Clone()
		}
	}
	w.client = &http.Client{
		Transport: transport, Timeout: o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w, nil
}

// Notify posts the notification.
func (w *Webhook) Notify(ctx context.Context, n effects.Notify) error {
	body, err := json.Marshal(struct {
		Title   string `json:"title"`
		Message string `json:"message"`
		Sound   bool   `json:"sound"`
	}{n.Title, n.Message, n.Sound})
	if err != nil {
		return permanentError{fmt.Errorf("encode the notification: %w", err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return permanentError{err}
	}
	req.Header = w.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return w.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // also lets the connection be used again
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	err = fmt.Errorf("%s answered %d %s", w.host(), resp.StatusCode, http.StatusText(resp.StatusCode))
	if text := strings.TrimSpace(string(said)); text != "" {
		err = fmt.Errorf("%w: %q", err, clip(text))
	}
	if pointless(resp.StatusCode) {
		return permanentError{err}
	}
	return err
}

// host names the server without what may be a secret.
func (w *Webhook) host() string { return w.url.Scheme + "://" + w.url.Host }

// failed names what went wrong without the URL, which [url.Error] has in full.
func (w *Webhook) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("post to %s: %w", w.host(), cause)
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		if ue.Timeout() {
			return fmt.Errorf("post to %s: no answer within %v", w.host(), w.client.Timeout)
		}
		err = ue.Err
	}
	return fmt.Errorf("post to %s: %w", w.host(), err)
}

// pointless reports whether a server that answers so will always do.
func pointless(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 300 && status <= 499
}
