package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// WebhookScheme says how the requests of a route are signed.
type WebhookScheme string

// Webhook schemes.
const (
	// SchemeStandard is Standard Webhooks: webhook-id, webhook-timestamp (at most
	// five minutes off) and webhook-signature. Secrets are base64, with or
	// without "whsec_" in front.
	SchemeStandard WebhookScheme = "standard"
	// SchemeGitHub is X-Hub-Signature-256 with X-GitHub-Delivery. Secrets are
	// taken as they are. GitHub signs neither a time nor the delivery's id, so
	// whoever has seen a request can send it again under another id.
	SchemeGitHub WebhookScheme = "github"
	// SchemeNone takes every request. It must be asked for by name.
	SchemeNone WebhookScheme = "none"
)

// WebhookAuth says how the requests of one webhook route prove where they come
// from.
type WebhookAuth struct {
	Scheme WebhookScheme
	// Secrets are the keys that are accepted; several while one is replaced by
	// another.
	Secrets []string
}

// webhook verifies the requests of one route.
type webhook struct {
	scheme   WebhookScheme
	standard []*standardwebhooks.Webhook
	github   [][]byte
	filter   *filter
	counts   webhookCounts
}

func newWebhook(route string, a WebhookAuth) (*webhook, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("httpapi: Options.Webhooks[%q]%s", clip(route), fmt.Sprintf(format, args...))
	}
	if !plainName(route) {
		return nil, bad(": the route must be 1 to 64 letters, digits, '.', '-' or '_'")
	}
	h := &webhook{scheme: a.Scheme}
	switch a.Scheme {
	case SchemeNone:
		if len(a.Secrets) > 0 {
			return nil, bad(".Secrets are given, but the scheme %q checks none", a.Scheme)
		}
		return h, nil
	case SchemeStandard, SchemeGitHub:
	default:
		return nil, bad(".Scheme %q is unknown: use %q, %q or %q", clip(string(a.Scheme)), SchemeStandard, SchemeGitHub, SchemeNone)
	}
	if len(a.Secrets) == 0 {
		return nil, bad(".Secrets is empty: the scheme %q needs at least one", a.Scheme)
	}
	for i, secret := range a.Secrets {
		if strings.TrimPrefix(secret, "whsec_") == "" {
			return nil, bad(".Secrets[%d] is empty", i)
		}
		if a.Scheme == SchemeGitHub {
			h.github = append(h.github, []byte(secret))
			continue
		}
		wh, err := standardwebhooks.NewWebhook(secret)
		if err != nil { // the error must not show the secret
			return nil, bad(".Secrets[%d] is not base64, with or without whsec_ in front", i)
		}
		h.standard = append(h.standard, wh)
	}
	return h, nil
}

// setFilter says what of the route is taken; on no route it does nothing.
func (h *webhook) setFilter(route string, f WebhookFilter) (err error) {
	if h == nil {
		return nil
	}
	if h.filter, err = f.compile(); err != nil {
		return fmt.Errorf("httpapi: Options.WebhookFilters[%q]: %w", clip(route), err)
	}
	return nil
}

// precheck refuses what the headers alone show to be wrong, before a byte of the body is
// read: headers that are missing, a timestamp that is off, and a signature that cannot be
// one.
func (h *webhook) precheck(header http.Header, now time.Time) *failure {
	switch h.scheme {
	case SchemeStandard:
		return precheckStandard(header, now)
	case SchemeGitHub:
		_, err := gitHubSum(header)
		return err
	case SchemeNone:
	}
	return nil
}

const (
	challengeStandard = `Webhook-Signature scheme="standard"`
	challengeGitHub   = `Webhook-Signature scheme="github"`
	noMatch           = "signature: does not match"
	timestampWindow   = 5 * time.Minute // how far off a timestamp may be, as Standard Webhooks have it
)

func precheckStandard(header http.Header, now time.Time) *failure {
	bad := func(what string) *failure { return unauthorized(challengeStandard, "%s", what) }
	signatures := header.Get(standardwebhooks.HeaderWebhookSignature)
	timestamp := header.Get(standardwebhooks.HeaderWebhookTimestamp)
	if header.Get(standardwebhooks.HeaderWebhookID) == "" || signatures == "" || timestamp == "" {
		return bad("signature: missing: want webhook-id, webhook-timestamp and webhook-signature")
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return bad("webhook-timestamp: is not a number of seconds since 1970")
	}
	switch at := time.Unix(seconds, 0); {
	case at.Before(now.Add(-timestampWindow)):
		return bad("webhook-timestamp: is more than five minutes old")
	case at.After(now.Add(timestampWindow)):
		return bad("webhook-timestamp: is more than five minutes ahead")
	}
	for signature := range strings.FieldsSeq(signatures) {
		version, text, _ := strings.Cut(signature, ",")
		if sum, err := base64.StdEncoding.DecodeString(text); err == nil && version == "v1" && len(sum) == sha256.Size {
			return nil
		}
	}
	return bad("signature: webhook-signature has none of the form v1,BASE64 of 32 bytes")
}

// gitHubSum reads the signature, and makes sure that the delivery has an id.
func gitHubSum(header http.Header) ([]byte, *failure) {
	given, ok := strings.CutPrefix(header.Get("X-Hub-Signature-256"), "sha256=")
	if !ok {
		return nil, unauthorized(challengeGitHub, "signature: missing: want X-Hub-Signature-256: sha256=HEX")
	}
	sum, err := hex.DecodeString(given)
	switch {
	case err != nil:
		return nil, unauthorized(challengeGitHub, "signature: X-Hub-Signature-256 is not hexadecimal")
	case len(sum) != sha256.Size:
		return nil, unauthorized(challengeGitHub, noMatch)
	case header.Get("X-Github-Delivery") == "":
		return nil, failf(http.StatusBadRequest, "X-GitHub-Delivery: missing: without it a repeated delivery cannot be recognised")
	}
	return sum, nil
}

// verify checks the signature, and gives the delivery's id, by which a
// repetition is known; empty if the scheme has none.
func (h *webhook) verify(body []byte, header http.Header) (delivery string, err error) {
	switch h.scheme {
	case SchemeStandard:
		return h.verifyStandard(body, header)
	case SchemeGitHub:
		return h.verifyGitHub(body, header)
	case SchemeNone:
	}
	return "", nil
}

func (h *webhook) verifyStandard(body []byte, header http.Header) (string, error) {
	var err error
	for _, wh := range h.standard {
		if err = wh.Verify(body, header); err == nil {
			return header.Get(standardwebhooks.HeaderWebhookID), nil
		}
	}
	// What it says beside the signature was checked before; the clock may have gone on.
	if early := precheckStandard(header, time.Now()); early != nil {
		return "", early
	}
	return "", unauthorized(challengeStandard, noMatch)
}

func (h *webhook) verifyGitHub(body []byte, header http.Header) (string, error) {
	sum, bad := gitHubSum(header)
	if bad != nil {
		return "", bad
	}
	good := false
	for _, secret := range h.github {
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		good = hmac.Equal(mac.Sum(nil), sum) || good
	}
	if !good {
		return "", unauthorized(challengeGitHub, noMatch)
	}
	return header.Get("X-Github-Delivery"), nil
}
