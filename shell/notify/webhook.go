package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/retryafter"
	"github.com/orrery-go/orrery/shell/internal/webhook"
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

// Webhook is a channel that posts {"title":…,"message":…,"sound":…} as JSON; with "id", which is
// the same for what comes again, and, of an event, "event" and "commands". An
// answer from 200 to 299 is a success. Redirects are not followed. Most answers
// from 400 to 499 say that it will never work; after others it may be tried
// again.
type Webhook struct{ post webhook.Post }

// NewWebhook makes a Webhook. The error names the option that cannot be right.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	u, err := webhook.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("URL: %w", err)
	}
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Timeout < 0 {
		return nil, fmt.Errorf("Timeout: %v is negative", o.Timeout)
	}
	for name, value := range o.Headers {
		if err := webhook.CheckHeader(name, value); err != nil {
			return nil, fmt.Errorf("Headers: %w", err)
		}
	}
	transport := o.Transport
	if transport == nil {
		transport = http.DefaultTransport
		if own, ok := transport.(*http.Transport); ok {
			transport = own.Clone()
		}
	}
	return &Webhook{webhook.Post{
		Client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		URL: u, Header: webhook.NewHeader(o.Headers), Timeout: o.Timeout, MaxAnswer: 4 << 10,
	}}, nil
}

// Notify posts the notification.
func (w *Webhook) Notify(ctx context.Context, n effects.Notify) error {
	return w.Tell(ctx, Message{Title: n.Title, Text: n.Message, Sound: n.Sound})
}

// Tell posts a message.
func (w *Webhook) Tell(ctx context.Context, m Message) error {
	body, err := json.Marshal(struct {
		ID       string         `json:"id,omitempty"`
		Title    string         `json:"title"`
		Message  string         `json:"message"`
		Sound    bool           `json:"sound"`
		Event    *effects.Event `json:"event,omitempty"`
		Commands []Hint         `json:"commands,omitempty"`
	}{m.ID, m.Title, m.Text, m.Sound, m.Event, m.Commands})
	if err != nil {
		return shell.Permanent(fmt.Errorf("encode the notification: %w", err))
	}
	return deliver(ctx, w.post, body)
}

// deliver posts a body once. The error says whether trying again is pointless, and for how
// long the server asks to be left alone.
func deliver(ctx context.Context, p webhook.Post, body []byte) error {
	p.Body = body
	a, err := p.Do(ctx)
	if err != nil || a.OK() { // what it says then matters to nobody
		return err
	}
	err = a.Refused(p.URL)
	if text := strings.TrimSpace(string(a.Body)); text != "" {
		err = fmt.Errorf("%w: %q", err, quoted(text))
	}
	if a.Final(false) { // it has no key
		return shell.Permanent(err)
	}
	if wait, ok := retryafter.Of(a.Header, time.Now()); ok {
		return shell.RetryAfter(err, wait)
	}
	return err
}
