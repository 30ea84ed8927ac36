package httpapi

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

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
	if err := h.precheck(r.Header, time.Now()); err != nil {
		h.counts.rejected.Add(1)
		return err.with("Connection", "close") // nobody reads the body
	}
	body, err := s.readUnverified(w, r, c)
	if err != nil {
		return err
	}
	delivery, err := h.verify(body, r.Header)
	if err != nil {
		h.counts.rejected.Add(1)
		return err
	}
	c.body.verified()
	defer s.conns.work(r, false)()
	if why := h.filter.ignores(r.Header, body); why != "" {
		h.counts.ignored.Add(1)
		return writeJSON(w, http.StatusOK, wire.WebhookIgnored{Ignored: why})
	}
	if err := s.admitsWebhook(r.Context(), w.Header(), name, len(body)); err != nil {
		return err
	}
	ctx := withActor(r.Context(), c.actor)
	store := func() (uuid.UUID, bool, error) {
		// A sender that hangs up leaves no doubt whether its delivery was stored:
		// it will come again, and must find the answer to the first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.RequestTimeout)
		defer cancel()
		return s.engine.Webhooks().ReceiveDelivery(ctx, name, delivery, safeHeader(r.Header), body)
	}
	var id uuid.UUID
	var again bool
	if delivery == "" {
		id, _, err = store()
	} else {
		id, again, err = s.replays.once(ctx, name+"\x00"+delivery, store)
	}
	if err != nil {
		return notFound("webhook route", err)
	}
	if again {
		h.counts.replayed.Add(1)
	} else {
		h.counts.accepted.Add(1)
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

// Bounds of the memory of deliveries. The window is twice the tolerance of the
// timestamps, so that a signed request cannot outlive its memory.
const (
	replayWindow = shell.DeliveryWindow
	maxReplays   = 100_000
)

// replayCache remembers the latest deliveries of webhooks, so that several that come at
// once are stored once, and one that comes again is answered without a look into the
// store. What it has forgotten, or never knew because the process was restarted, the
// store knows: see [shell.Ingress.ReceiveDelivery].
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
func (c *replayCache) once(ctx context.Context, key string, store func() (uuid.UUID, bool, error)) (id uuid.UUID, replayed bool, err error) {
	sum := sha256.Sum256([]byte(key)) // whatever the length of the sender's id
	for {
		d, mine := c.enter(sum)
		if mine {
			return c.fill(d, store)
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
func (c *replayCache) fill(d *delivery, store func() (uuid.UUID, bool, error)) (id uuid.UUID, again bool, err error) {
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
	d.id, again, d.err = store()
	return d.id, again, d.err
}
