// Package webhook posts JSON to the web servers of others. It shows no URL, as
// there may be a secret in it: errors name the server alone.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/shell/internal/clip"
)

var (
	headerName  = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")
	headerValue = regexp.MustCompile(`^[\t\x20-\x7e\x80-\xff]*$`)
)

// ParseURL reads the URL of a web server. The error does not show it.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("it is not the URL of a web server: want one such as \"https://example.com/hook\"")
	}
	return u, nil
}

// maxQuoted is how much of a header's name is quoted in an error.
const maxQuoted = 96

// CheckHeader reports why a request cannot have the header. The error does not show
// the value, which may be a secret.
func CheckHeader(name, value string) error {
	switch {
	case !headerName.MatchString(name):
		return fmt.Errorf("%q is not the name of a header", clip.Text(name, maxQuoted))
	case !headerValue.MatchString(value):
		return fmt.Errorf("the value of %q has a character that no header can have", clip.Text(name, maxQuoted))
	}
	return nil
}

// NewHeader is the header of a post, with what is to stand in it beside or instead.
func NewHeader(more map[string]string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"orrery"}}
	for name, value := range more {
		h.Set(name, value)
	}
	return h
}

// Sign puts into a header which delivery a body is, and, if there is a signer, its
// signature (Standard Webhooks). It is done each time that the request is made: whoever
// gets it refuses what was signed minutes ago.
func Sign(h http.Header, signer *standardwebhooks.Webhook, id string, now time.Time, body []byte) error {
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if signer == nil {
		return nil
	}
	signature, err := signer.Sign(id, now, body)
	if err == nil {
		h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	return err
}

// Server names a server without what may be a secret.
func Server(u *url.URL) string { return u.Scheme + "://" + u.Host }

// Post is a request that may be made again and again.
type Post struct {
	// Client makes it; whether it follows redirects is the client's.
	Client *http.Client
	URL    *url.URL
	// Header is that of [NewHeader]. Host is the name by which the server is asked.
	Header http.Header
	Body   []byte
	// Timeout bounds all of one request.
	Timeout time.Duration
	// MaxAnswer is how many bytes of the answer are read.
	MaxAnswer int64
}

// Answer is what a server said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // no more than was wanted
	// Broken is why the body may not be whole, or nil.
	Broken error
}

// permanent is an error that trying again does not mend.
type permanent struct{ error }

func (permanent) Permanent() bool { return true }

// Do makes the request once. The error says that no server has answered.
func (p Post) Do(ctx context.Context) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, fmt.Errorf("no answer within %v", p.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL.String(), bytes.NewReader(p.Body))
	if err != nil {
		return Answer{}, permanent{fmt.Errorf("%s is no address", Server(p.URL))}
	}
	req.Header = p.Header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := p.Client.Do(req)
	if err != nil {
		return Answer{}, p.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := Answer{Status: resp.StatusCode, Header: resp.Header}
	a.Body, err = io.ReadAll(io.LimitReader(resp.Body, p.MaxAnswer)) // also lets the connection be used again
	if err != nil {
		a.Broken = p.failed(ctx, err)
	}
	return a, nil
}

// failed says what went wrong without the URL, which [url.Error] has in full.
func (p Post) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	} else if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return fmt.Errorf("post to %s: %w", Server(p.URL), err)
}

// OK reports whether the server has taken the request.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status <= 299 }

// Refused says what the server of a URL answered in place of taking the request.
func (a Answer) Refused(u *url.URL) error {
	return fmt.Errorf("%s answered %d %s", Server(u), a.Status, http.StatusText(a.Status))
}

// Final reports whether a server that answers so will always do: a redirect, and
// what is wrong with the request itself. Whether 409 is, only the caller knows: one
// whose requests have a key is told by it that the server had the request already;
// without a key it says no more than that something else is under way there.
func (a Answer) Final(keyed bool) bool {
	switch a.Status {
	case http.StatusConflict:
		return keyed
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return a.Status >= 300 && a.Status <= 499
}
