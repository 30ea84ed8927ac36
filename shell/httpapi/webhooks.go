package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// receiveWebhook stores a request raw, and answers once it is durable (B4). A
// delivery that was taken before is answered as it was then, and not stored
// again.
func (s *Server) receiveWebhook(w http.ResponseWriter, r *http.Request, c *call) error {
	name := r.PathValue("route")
	h, ok := s.hooks[name]
	if !ok {
		return failf(http.StatusNotFound, "webhook route %q not found", clip(name))
	}
	c.actor = "webhook:" + name // of a refusal too, in the log of requests
	if of, ok := s.engine.Webhooks().Route(name); ok {
		c.about(of.Namespace, of.Tenant)
	}
	body, err := readBody(w, r, s.o.MaxWebhookBytes, &c.body)
	if err != nil {
		return err
	}
	delivery, err := h.verify(body, r.Header)
	if err != nil {
		s.metrics.rejected.WithLabelValues(name).Inc()
		return err
	}
	if err := s.admitsWebhook(r.Context(), w.Header(), name); err != nil {
		return err
	}
	ctx := withActor(r.Context(), c.actor)
	store := func() (uuid.UUID, error) {
		// A sender that hangs up leaves no doubt whether its delivery was stored:
		// it will come again, and must find the answer to the first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.RequestTimeout)
		defer cancel()
		return s.engine.Webhooks().Receive(ctx, name, safeHeader(r.Header), body)
	}
	var id uuid.UUID
	if delivery == "" {
		id, err = store()
	} else {
		var replayed bool
		id, replayed, err = s.replays.once(ctx, name+"\x00"+delivery, store)
		if replayed {
			s.metrics.replayed.WithLabelValues(name).Inc()
		}
	}
	if err != nil {
		return notFound("webhook route", err)
	}
	c.made = "/v1/actions/" + id.String()
	return writeJSON(w, http.StatusAccepted, wire.WebhookAccepted{WebhookID: id, ActionID: id})
}

// Headers that are kept with a webhook: what its handler may need to read the
// body. Credentials and cookies are never among them.
var (
	keptHeaders  = []string{"Content-Type", "Content-Encoding", "User-Agent", "X-Request-Id", "X-Correlation-Id", "Traceparent", "X-Hub-Signature-256"}
	keptPrefixes = []string{"Webhook-", "X-Github-", "X-Gitlab-Event", "X-Gitea-", "Ce-"}
)

// maxKeptHeader bounds one kept value.
const maxKeptHeader = 1 << 10

func safeHeader(h http.Header) map[string]string {
	out := make(map[string]string)
	for k, v := range h {
		kept := slices.Contains(keptHeaders, k) || slices.ContainsFunc(keptPrefixes, func(p string) bool { return strings.HasPrefix(k, p) })
		if !kept {
			continue
		}
		value := strings.ToValidUTF8(strings.Join(v, ", "), "\uFFFD")
		if len(value) > maxKeptHeader {
			continue // cut, it would be another value
		}
		out[strings.ToLower(k)] = value
	}
	return out
}

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
	what := "signature: does not match"
	switch {
	case errors.Is(err, standardwebhooks.ErrRequiredHeaders):
		what = "signature: missing: want webhook-id, webhook-timestamp and webhook-signature"
	case errors.Is(err, standardwebhooks.ErrInvalidHeaders):
		what = "webhook-timestamp: is not a number of seconds since 1970"
	case errors.Is(err, standardwebhooks.ErrMessageTooOld):
		what = "webhook-timestamp: is more than five minutes old"
	case errors.Is(err, standardwebhooks.ErrMessageTooNew):
		what = "webhook-timestamp: is more than five minutes ahead"
	}
	return "", unauthorized(`Webhook-Signature scheme="standard"`, "%s", what)
}

func (h *webhook) verifyGitHub(body []byte, header http.Header) (string, error) {
	const challenge = `Webhook-Signature scheme="github"`
	given, ok := strings.CutPrefix(header.Get("X-Hub-Signature-256"), "sha256=")
	if !ok {
		return "", unauthorized(challenge, "signature: missing: want X-Hub-Signature-256: sha256=HEX")
	}
	sum, err := hex.DecodeString(given)
	if err != nil {
		return "", unauthorized(challenge, "signature: X-Hub-Signature-256 is not hexadecimal")
	}
	good := false
	for _, secret := range h.github {
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		good = hmac.Equal(mac.Sum(nil), sum) || good
	}
	if !good {
		return "", unauthorized(challenge, "signature: does not match")
	}
	delivery := header.Get("X-Github-Delivery")
	if delivery == "" {
		return "", failf(http.StatusBadRequest, "X-GitHub-Delivery: missing: without it a repeated delivery cannot be recognised")
	}
	return delivery, nil
}

// Bounds of the memory of deliveries. The window is twice the tolerance of the
// timestamps, so that a signed request cannot outlive its memory.
const (
	replayWindow = 10 * time.Minute
	maxReplays   = 100_000
)

// replayCache remembers deliveries of webhooks, so that one that comes twice is
// stored once and answered the same. It lives in memory, is bounded, and starts
// empty with the process: what a sender repeats after a restart, or after 100 000 other
// deliveries, is stored once more.
type replayCache struct {
	clock shell.Clock
	mu    sync.Mutex
	seen  map[[sha256.Size]byte]*delivery
	order []*delivery // oldest first
}

type delivery struct {
	key  [sha256.Size]byte
	done chan struct{} // closed once id and err stand
	id   uuid.UUID
	err  error
	at   time.Time
}

func newReplayCache(clock shell.Clock) *replayCache {
	return &replayCache{clock: clock, seen: make(map[[sha256.Size]byte]*delivery)}
}

// once calls store for the first of several equal deliveries, and gives its id
// to all of them. If store fails, the next one calls it.
func (c *replayCache) once(ctx context.Context, key string, store func() (uuid.UUID, error)) (id uuid.UUID, replayed bool, err error) {
	sum := sha256.Sum256([]byte(key)) // whatever the length of the sender's id
	for {
		d, mine := c.enter(sum)
		if mine {
			id, err := c.fill(d, store)
			return id, false, err
		}
		select {
		case <-d.done:
		case <-ctx.Done():
			return uuid.Nil, false, ctx.Err()
		}
		if d.err == nil {
			return d.id, true, nil
		}
	}
}

// enter finds a delivery, or makes it the caller's to fill.
func (c *replayCache) enter(key [sha256.Size]byte) (d *delivery, mine bool) {
	now := c.clock.Steady()
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.order) > 0 && (len(c.order) >= maxReplays || now.Sub(c.order[0].at) > replayWindow) {
		old := c.order[0]
		c.order = c.order[1:]
		if c.seen[old.key] == old {
			delete(c.seen, old.key)
		}
	}
	if d, ok := c.seen[key]; ok {
		return d, false
	}
	d = &delivery{key: key, done: make(chan struct{}), at: now}
	c.seen[key] = d
	c.order = append(c.order, d)
	return d, true
}

// fill stores, and forgets the delivery if that failed, also by a panic.
func (c *replayCache) fill(d *delivery, store func() (uuid.UUID, error)) (uuid.UUID, error) {
	d.err = context.Canceled
	defer func() {
		if d.err != nil {
			c.mu.Lock()
			if c.seen[d.key] == d {
				delete(c.seen, d.key)
			}
			c.mu.Unlock()
		}
		close(d.done)
	}()
	d.id, d.err = store()
	return d.id, d.err
}
