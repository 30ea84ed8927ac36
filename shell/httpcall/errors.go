package httpcall

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/retryafter"
	"github.com/orrery-go/orrery/shell/internal/scarce"
)

// StatusError says that a server answered with a status that is none of the
// input's success_codes.
type StatusError struct {
	Method, URL string        // the URL without its query
	Status      int           // such as 503
	Body        string        // the beginning of the answer's body, at most 512 bytes
	RetryAfter  time.Duration // what the server asked for, or 0
	Attempts    int           // how often it was tried
}

// Error names the request, the status and the beginning of the body.
func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s answered %d", e.Method, e.URL, e.Status)
	if text := http.StatusText(e.Status); text != "" {
		b.WriteString(" " + text)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", try again after %v", e.RetryAfter)
	}
	b.WriteString(times(e.Attempts))
	if e.Body != "" {
		fmt.Fprintf(&b, "; body begins with %q", e.Body) // quoted: it must not forge lines of a log
	}
	return b.String()
}

// Permanent reports whether the server says that the request itself is wrong, so that it would
// refuse the same one again: an answer of 400 to 499, but for 408, 425 and 429.
func (e *StatusError) Permanent() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

// RetryDelay is what the server asked for: see [shell.RetryAfter].
func (e *StatusError) RetryDelay() time.Duration { return e.RetryAfter }

// RequestError says that no whole answer came.
type RequestError struct {
	Method, URL string // the URL without its query
	Problem     string
	Attempts    int  // how often it was tried
	MaybeDone   bool // a request was sent: the server may have carried it out
	Unsent      bool // in no attempt was anything sent
	Err         error
}

// Error names the request and the problem.
func (e *RequestError) Error() string {
	return fmt.Sprintf("%s %s: %s%s", e.Method, e.URL, e.Problem, times(e.Attempts))
}

// Unwrap gives the cause.
func (e *RequestError) Unwrap() error { return e.Err }

// NotStarted reports whether the engine is to try again by itself, since there was no file
// descriptor for a connection: see [shell.NotStarted].
func (e *RequestError) NotStarted() bool { return e.Unsent && scarce.What(e.Err) != "" }

// Permanent reports whether the same request would fail the same way again: its address is not
// allowed, a redirect is not followed, or TLS does not hold.
func (e *RequestError) Permanent() bool { return lasting(e.Err) }

func times(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" (tried %d times)", n)
}

// limitReached is the cause of a context that ends by this tool's own limit.
type limitReached struct {
	limit time.Duration
	what  string
}

func (l *limitReached) Error() string {
	return fmt.Sprintf("reached its time limit of %v%s", l.limit, l.what)
}
func (l *limitReached) Unwrap() error { return shell.ErrTimeLimit }

// stopped is an end of the context that is not this tool's own limit.
type stopped struct{ cause error }

func (s *stopped) Error() string {
	if own, ok := errors.AsType[*limitReached](s.cause); ok {
		return own.Error()
	}
	return "was stopped: " + s.cause.Error()
}
func (s *stopped) Unwrap() error { return s.cause }

// redirectedTo is a fault that a redirect led to.
type redirectedTo struct {
	url string
	err error
}

func (r *redirectedTo) Error() string { return "redirected to " + r.url + ": " + r.err.Error() }
func (r *redirectedTo) Unwrap() error { return r.err }

// brokenOff is an answer of which only a part came.
type brokenOff struct {
	bytes int
	err   error
}

func (b *brokenOff) Error() string {
	return fmt.Sprintf("the answer broke off after %d bytes: %v", b.bytes, b.err)
}
func (b *brokenOff) Unwrap() error { return b.err }

// failure is what came of an attempt that was no success.
type failure struct {
	err       error         // a *StatusError, or else the cause
	repeat    bool          // it may be tried again
	after     time.Duration // not before that
	maybeDone bool
	unsent    bool // in no attempt so far was anything sent
}

// final gives the error with which the action fails, and beside it the last
// answer where that is the reason.
func (f *failure) final(p plan, last result) (json.RawMessage, error) {
	var status *StatusError
	var ended *stopped
	if errors.As(f.err, &status) && !errors.As(f.err, &ended) {
		status.Attempts = last.Attempts
		raw, _ := encode(last) // the status matters more
		return raw, status
	}
	return nil, &RequestError{
		Method: p.method, URL: shown(p.url), Problem: problem(f.err), Attempts: last.Attempts, MaybeDone: f.maybeDone, Unsent: f.unsent, Err: f.err,
	}
}

func statusFailure(resp *http.Response, body []byte) *failure {
	const excerpt = 512
	e := &StatusError{Method: resp.Request.Method, URL: shown(resp.Request.URL), Status: resp.StatusCode}
	if body = bytes.TrimSpace(body); len(body) > excerpt {
		body = body[:excerpt]
	}
	e.Body = strings.ToValidUTF8(string(body), "")
	f := &failure{err: e, maybeDone: true}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		f.after, f.repeat = retryafter.Of(resp.Header, time.Now())
		e.RetryAfter = f.after
	}
	return f
}

// connectionFailure judges an attempt that got no whole answer.
func connectionFailure(ctx context.Context, p plan, tr *trip, err error) *failure {
	f := &failure{err: err, maybeDone: tr.sent.Load()}
	if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text has the whole URL, with the query
		f.err = wrapped.Err
		if to, parseErr := url.Parse(wrapped.URL); parseErr == nil && tr.redirected.Load() {
			f.err = &redirectedTo{shown(to), f.err}
		}
	}
	if !errors.Is(err, errRedirect) && ctx.Err() != nil {
		f.err = &stopped{context.Cause(ctx)}
		var own *limitReached
		f.repeat = errors.As(f.err, &own) && (p.repeatable || !f.maybeDone)
		return f
	}
	f.repeat = !lasting(err) && (p.repeatable || !f.maybeDone)
	return f
}

// lasting reports whether the same request would fail the same way again.
func lasting(err error) bool {
	var address *AddressError
	return errors.Is(err, errRedirect) || errors.As(err, &address) || tlsProblem(err) != ""
}

// problem says in words what went wrong with a connection.
func problem(err error) string {
	if ended, ok := errors.AsType[*stopped](err); ok {
		return ended.Error()
	}
	if broken, ok := errors.AsType[*brokenOff](err); ok {
		return broken.Error()
	}
	if to, ok := errors.AsType[*redirectedTo](err); ok {
		return "redirected to " + to.url + ": " + problem(to.err)
	}
	if text := tlsProblem(err); text != "" {
		return text
	}
	var dns *net.DNSError
	var address *AddressError
	var timeout net.Error
	switch {
	case errors.As(err, &address):
		return address.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("host name %q does not exist", dns.Name)
	case errors.As(err, &dns):
		return fmt.Sprintf("host name %q could not be looked up: %s", dns.Name, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "out of file descriptors: raise the daemon's limit (ulimit -n) or run fewer actions at once"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the server reset the connection"
	case errors.Is(err, io.EOF):
		return "the server closed the connection without an answer"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the connection timed out"
	}
	return err.Error()
}

// tlsProblem says what is wrong with the server's TLS, or nothing.
func tlsProblem(err error) string {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		unknown      x509.UnknownAuthorityError
		invalid      x509.CertificateInvalidError
		host         x509.HostnameError
	)
	switch {
	case errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &host), errors.As(err, &verification):
		return "TLS: the server's certificate does not hold: " + strings.TrimPrefix(tail(err, "x509: "), "x509: ")
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "TLS: the server does not speak TLS: is its address http instead of https?"
	case strings.Contains(err.Error(), "tls: "): // crypto/tls has no exported type for the rest
		return "TLS: the handshake failed: " + strings.TrimPrefix(tail(err, "tls: "), "tls: ")
	}
	return ""
}

// tail gives an error's text from mark on.
func tail(err error, mark string) string {
	text := err.Error()
	if i := strings.Index(text, mark); i >= 0 {
		return text[i:]
	}
	return text
}
