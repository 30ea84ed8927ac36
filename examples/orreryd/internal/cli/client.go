package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// maxAnswer bounds the bytes of an answer that are read.
const maxAnswer = 256 << 20

// client talks to a running daemon.
type client struct {
	base  *url.URL
	token string
	whose url.Values // parameters of each request that does not have them: namespace and tenant, as far as flags name them
	http  *http.Client
}

// addClientFlags adds what [app.client] reads to a command and all below it.
func (a *app) addClientFlags(cmd *cobra.Command) *cobra.Command {
	f := cmd.PersistentFlags()
	f.StringVar(&a.server, "server", "", "`URL` of the daemon (default $ORRERY_SERVER, else "+config.DefaultServer+")")
	f.StringVar(&a.token, "token", "", "bearer `token` (default $ORRERY_TOKEN, which other users cannot see)")
	f.StringVar(&a.ca, "ca", "", "`FILE` of the authorities, PEM, that sign the daemon's certificate (default $ORRERY_CA, else the system's)")
	f.BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}

func (a *app) client() (*client, error) {
	server := cmp.Or(a.server, cmp.Or(a.env("ORRERY_SERVER"), config.DefaultServer))
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	base, err := url.Parse(server)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, usagef("--server: %q is not a URL such as %s", server, config.DefaultServer)
	}
	base.User, base.RawQuery, base.Fragment = nil, "", ""
	token := cmp.Or(a.token, a.env("ORRERY_TOKEN"))
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, usagef("the token has white space or characters that are not ASCII: was it copied whole?")
	}
	trust, err := trusted(cmp.Or(a.ca, a.env("ORRERY_CA")))
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		TLSClientConfig:       trust,
		ForceAttemptHTTP2:     true,
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
	}
	return &client{base: base, token: token, whose: url.Values{}, http: &http.Client{
		Transport: t,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the API redirects nobody, and a token must not travel
		},
	}}, nil
}

// trusted gives what certificates of a daemon are trusted: those of the system, or those that the authorities of a file have
// signed.
func trusted(file string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return c, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--ca: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(b) {
		return nil, usagef("--ca: %s has no certificate in PEM form", file)
	}
	return c, nil
}

// close drops the idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// request is one call of the API.
type request struct {
	method, path string
	query        url.Values
	body         any            // sent as JSON; nil: none
	fields       map[string]any // the body, where it is one of fields
	raw          []byte
	header       http.Header
	revision     *string // gets that of what the answer shows; nil: nobody asks
}

// do sends a request and gives the body of a good answer, which the caller
// closes. Any other answer is an error with the daemon's words.
func (c *client) do(ctx context.Context, r request) (*http.Response, error) {
	body := r.raw
	if r.body != nil {
		var err error
		if body, err = text.PlainJSON(r.body); err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
	}
	u := c.base.JoinPath(r.path)
	query := maps.Clone(c.whose)
	maps.Copy(query, r.query)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, r.header)
	req.Header.Set("User-Agent", "orreryd/"+version.String())
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		defer func() { _ = resp.Body.Close() }()
		return nil, c.refused(resp)
	}
	return resp, nil
}

// json sends a request and decodes the answer into out, unless that is nil. It
// also gives the answer as it came.
func (c *client) json(ctx context.Context, r request, out any) (json.RawMessage, error) {
	resp, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if r.revision != nil {
		*r.revision = strings.Trim(resp.Header.Get("ETag"), `"`)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	if resp.StatusCode == http.StatusNoContent || out == nil {
		return b, nil
	}
	if !isJSON(resp) {
		return nil, fmt.Errorf("%s does not answer as orreryd does (content type %q): is --server right?", c.base, text.Clean(resp.Header.Get("Content-Type")))
	}
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	return b, nil
}

func isJSON(resp *http.Response) bool {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && t == "application/json"
}

// unreachable explains a request that got no answer.
func (c *client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted while waiting for %s: %w", c.base, context.Cause(ctx))
	}
	if errors.Is(err, syscall.ECONNREFUSED) { // the machine is there, and nobody listens
		return &exitError{code: exitNoDaemon, err: fmt.Errorf("no daemon answers at %s: start one with `orreryd orchestrate`", c.base)}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &exitError{code: exitNoDaemon, err: fmt.Errorf("no answer from %s: %w", c.base, err)}
}

// isNoDaemon reports whether an error is that no daemon answers.
func isNoDaemon(err error) bool {
	coded, ok := errors.AsType[*exitError](err)
	return ok && coded.code == exitNoDaemon
}

// conflictError says that the state of something does not allow the request now; it may
// later.
type conflictError struct{ error }

func (e conflictError) Unwrap() error { return e.error }

// setRefusedError says which declarations of a set are refused.
type setRefusedError struct {
	error
	refused []wire.SetRefused
}

// ofAFlag matches what the API says can be done, for which the command line has a flag.
var ofAFlag = regexp.MustCompile(`take it over\b|\(most\)|name namespace and tenant\b`)

// inFlags names the flags of the command line in what the API says.
func inFlags(said string) string {
	return ofAFlag.ReplaceAllStringFunc(said, func(what string) string {
		switch what {
		case "(most)":
			return "(--most)"
		case "name namespace and tenant":
			return what + " (--namespace, --tenant)"
		}
		return what + " (--take-over)"
	})
}

// refused turns an answer that is an error into one.
func (c *client) refused(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	var e wire.Error
	if !isJSON(resp) || json.Unmarshal(b, &e) != nil || e.Error == "" {
		return fmt.Errorf("%s answered %q, not as orreryd does: is --server right?", c.base, resp.Status)
	}
	err := errors.New(inFlags(e.Error))
	if len(e.Refused) > 0 {
		err = &setRefusedError{err, e.Refused}
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return &exitError{code: exitNotFound, err: err}
	case http.StatusConflict:
		return conflictError{err}
	case http.StatusUnauthorized:
		if strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
			return fmt.Errorf("%w: give the right one with --token or ORRERY_TOKEN", err)
		}
	}
	return err
}

// withClient runs a command's work with a client.
func (a *app) withClient(run func(ctx context.Context, c *client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.settleOutput(); err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		defer c.close()
		return run(cmd.Context(), c, args)
	}
}
