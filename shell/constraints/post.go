package constraints

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpcall"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/internal/retryafter"
	"github.com/orrery-go/orrery/shell/internal/webhook"
)

// parseURL reads the URL of a web server. Errors never show it: it may hold a secret.
func parseURL(at, text string) (*url.URL, error) {
	if text == "" {
		return nil, fmt.Errorf("%s: is missing: want one such as \"https://example.com/hook\"", at)
	}
	u, err := webhook.ParseURL(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, err)
	case u.User != nil:
		return nil, fmt.Errorf("%s: it has a user or password in it: use the header Authorization", at)
	case len(text) > 8<<10:
		return nil, fmt.Errorf("%s: %d bytes is more than %d", at, len(text), 8<<10)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// ownHeaders are those that are not a job's to set.
var ownHeaders = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Upgrade": true, "Te": true, "Trailer": true,
	"Idempotency-Key": true, "Webhook-Id": true, "Webhook-Timestamp": true, "Webhook-Signature": true,
}

func checkHeaders(at string, headers map[string]string) error {
	for name, value := range headers {
		if ownHeaders[http.CanonicalHeaderKey(name)] {
			return fmt.Errorf("%s: %q cannot be set", at, clip.Text(name, maxQuoted))
		}
		if err := webhook.CheckHeader(name, value); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

// waitBefore is the wait before the n-th repetition, from 0: it doubles, and is at
// least what the server asks for, within limits.
func waitBefore(n int, asked time.Duration) time.Duration {
	return min(max(firstWait<<min(n, 10), asked), maxWait)
}

// post is a request under a key.
type post struct {
	webhook.Post
	key    string
	signer *standardwebhooks.Webhook // nil: it is not signed
	now    func() time.Time
}

func newPost(c *Checker, to *url.URL, headers map[string]string, key string, body []byte, timeout time.Duration) post {
	p := post{key: key, now: c.o.Now, Post: webhook.Post{
		Client: c.o.Client, URL: to, Header: webhook.NewHeader(headers), Body: body, Timeout: timeout, MaxAnswer: maxAnswer,
	}}
	p.Header.Set("Idempotency-Key", key)
	return p
}

// send repeats the request until it is taken, refused for good, or out of retries.
func (p post) send(ctx context.Context, retries int) (answer []byte, err error) {
	for n := 0; ; n++ {
		answer, after, err := p.try(ctx)
		if err == nil || shell.IsPermanent(err) || n >= retries || ctx.Err() != nil {
			return answer, err
		}
		if cause := pause.For(ctx, waitBefore(n, after)); cause != nil {
			return nil, fmt.Errorf("%w: %w", err, cause)
		}
	}
}

// sign signs the request, if it has a secret.
func (p post) sign() error {
	if p.signer == nil {
		return nil
	}
	return webhook.Sign(p.Header, p.signer, p.key, p.now(), p.Body)
}

// try makes it once. after is how long the server asks to wait.
func (p post) try(ctx context.Context) (answer []byte, after time.Duration, err error) {
	if err := p.sign(); err != nil {
		return nil, 0, permanent("webhook: sign it: %w", err)
	}
	a, err := p.Do(ctx)
	if err == nil && a.OK() {
		err = a.Broken
	}
	switch {
	case err != nil:
		err = fmt.Errorf("webhook: %w", err)
		if _, ok := errors.AsType[*httpcall.AddressError](err); ok {
			err = shell.Permanent(err)
		}
		return nil, 0, err
	case a.OK():
		return a.Body, 0, nil
	case a.Final(true): // it has a key
		return nil, 0, permanent("webhook: %w", a.Refused(p.URL))
	default:
		after, _ := retryafter.Of(a.Header, p.now())
		return nil, after, fmt.Errorf("webhook: %w", a.Refused(p.URL))
	}
}
