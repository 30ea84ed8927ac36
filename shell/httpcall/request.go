package httpcall

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
	"github.com/orrery-go/orrery/shell/internal/told"
)

// keyHeader is how an Idempotency-Key is written into the header's map unless
// the request may be repeated. net/http repeats a POST by itself, when a kept
// connection turns out closed, if it finds the key under its canonical name;
// HTTP does not mind the case, so this spelling sends the key without that.
const keyHeader = "idempotency-key"

// plan is a request that is ready to be sent as often as need be.
type plan struct {
	method     string
	url        *url.URL
	header     http.Header
	body       []byte // nil: none
	repeatable bool   // may be repeated although a server may have carried it out
	follow     bool
	public     bool // only public addresses are reached
	success    []codes
	keep       int // bytes of the answer's body
	retries    int
	limit      time.Duration // of an attempt
	total      time.Duration
}

func (t *Tool) plan(in input, call shell.Call) plan {
	p := plan{
		method: in.Method, url: in.url, header: http.Header{}, success: in.SuccessCodes,
		follow: strictjson.Or(in.FollowRedirects, true),
		public: t.o.DenyPrivateFor != nil && t.o.DenyPrivateFor(call.Namespace, call.Tenant),
		keep:   int(strictjson.Or(in.MaxResponseBytes, int64(t.o.MaxResponse))), retries: int(strictjson.Or(in.Retries, int64(t.o.Retries))),
		limit: strictjson.Seconds(in.TimeoutSeconds, t.o.TimeLimit), total: strictjson.Seconds(in.TotalTimeoutSeconds, t.o.TotalLimit),
	}
	if p.success == nil {
		p.success = []codes{{200, 299}}
	}
	var contentType string
	p.body, contentType = body(in, call)
	if p.method == "" {
		p.method = http.MethodGet
		if p.body != nil {
			p.method = http.MethodPost
		}
	}
	p.header.Set("User-Agent", t.o.UserAgent)
	if p.body != nil {
		p.header.Set("Content-Type", contentType)
	}
	for name, value := range in.Headers {
		p.header.Set(name, value)
	}
	for _, h := range told.Headers(call) {
		p.header.Set(h.Name, h.Value)
	}
	p.setKey(in, call)
	return p
}

// body gives what is sent and its content type; nil stands for no body.
func body(in input, call shell.Call) ([]byte, string) {
	switch {
	case in.Body != nil:
		return in.Body, "application/json"
	case in.BodyText != nil:
		return []byte(*in.BodyText), "text/plain; charset=utf-8"
	case len(call.Payload) > 0 && !slices.Contains(bodiless, in.Method):
		return call.Payload, payloadType(call.Header)
	default:
		return nil, ""
	}
}

// payloadType finds the content type among a webhook's kept headers, whose
// values are strings or lists of strings.
func payloadType(kept json.RawMessage) string {
	const unknown = "application/octet-stream"
	var header map[string]any
	if json.Unmarshal(kept, &header) != nil {
		return unknown
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if textproto.CanonicalMIMEHeaderKey(name) != "Content-Type" {
			continue
		}
		v := header[name]
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		if s, ok := v.(string); ok && s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return s
		}
	}
	return unknown
}

// setKey decides whether the request may be repeated, and adds the key.
func (p *plan) setKey(in input, call shell.Call) {
	ownKey := p.header.Get("Idempotency-Key") != ""
	p.repeatable = in.Idempotent || ownKey || !slices.Contains([]string{http.MethodPost, http.MethodPatch}, p.method)
	if ownKey || call.IdempotencyKey == "" || slices.Contains(bodiless, p.method) {
		return
	}
	if p.repeatable {
		p.header.Set("Idempotency-Key", call.IdempotencyKey)
	} else {
		p.header[keyHeader] = []string{call.IdempotencyKey}
	}
}

// request makes the request of one attempt.
func (p plan) request(ctx context.Context) (*http.Request, error) {
	var body io.Reader // stays nil without a body: a reader of nothing is not the same
	if p.body != nil {
		body = bytes.NewReader(p.body)
	}
	req, err := http.NewRequestWithContext(ctx, p.method, p.url.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header = p.header.Clone()
	return req, nil
}

func (p plan) succeeds(status int) bool {
	return slices.ContainsFunc(p.success, func(c codes) bool { return c.from <= status && status <= c.to })
}

// shown is a URL as it may stand in an error or a list: its query may hold a
// secret.
func shown(u *url.URL) string {
	if u == nil {
		return ""
	}
	return clip.Text((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), maxQuoted)
}
