package forward

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/raced"
)

// ask has a client ask a process, and again under its key until it is answered.
func (s *storm) ask(a *ask) {
	rng := s.draw(3, a.n)
	for try := 0; ; try++ {
		to := s.nodes[rng.IntN(len(s.nodes))]
		if to.isDead() {
			pass(time.Second)
			continue
		}
		s.mu.Lock()
		was := s.counts(a.n)
		s.mu.Unlock()
		began := time.Now()
		w := to.serve(s.request(a))
		if w != nil {
			s.answered(a, w, time.Since(began), was)
		}
		ok := w != nil && w.StatusCode == http.StatusOK
		if a.key != "" && !ok && try > 200 {
			s.find("request %d is never answered", a.n)
		}
		if ok || a.key == "" || try > 200 {
			return
		}
		pass(time.Second)
	}
}

func (s *storm) request(a *ask) *http.Request {
	method, path := http.MethodPost, "/v1/things"
	switch a.kind {
	case askRead:
		method = http.MethodGet
	case askWebhook, askBare:
		path = "/v1/webhooks/x"
	default:
	}
	r := httptest.NewRequestWithContext(context.Background(), method, fmt.Sprintf("http://orrery.example%s?n=%d", path, a.n), nil)
	r.Body = http.NoBody
	if a.size > 0 {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(a.body)), a.size
	}
	r.Header.Set("Authorization", fmt.Sprint("Bearer ", a.n))
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	r.RemoteAddr = clientIP + ":1"
	if a.proxied {
		r.RemoteAddr = proxyIP + ":1"
	}
	if a.key != "" {
		r.Header.Set("Idempotency-Key", a.key)
	}
	return r
}

// counts is how often a request was tried, and what became of that.
type counts struct{ tried, sent, unsure int }

// counts is called with s.mu held.
func (s *storm) counts(n int) counts { return counts{s.tried[n], s.sent[n], s.unsure[n]} }

// answered checks an answer against what had been sent before the request came.
func (s *storm) answered(a *ask, w *http.Response, took time.Duration, was counts) {
	text, _ := io.ReadAll(w.Body)
	s.mu.Lock()
	is, carriedNow := s.counts(a.n), s.carried[a.n]
	s.mu.Unlock()
	bad := func(format string, args ...any) {
		s.find("request %d of kind %d: %d after %s: %s", a.n, a.kind, w.StatusCode, took, fmt.Sprintf(format, args...))
	}
	ours := len(text) > 0
	switch {
	case w.StatusCode == http.StatusOK && a.kind != askRead:
		if string(text) != strconv.Itoa(a.n) {
			bad("it is answered with %q", text)
		}
		if carriedNow == 0 {
			bad("it was not carried out")
		}
	case w.StatusCode == http.StatusServiceUnavailable && w.Header.Get("Retry-After") == "":
		bad("without Retry-After")
	case w.StatusCode == http.StatusServiceUnavailable && a.kind != askRead && a.key == "" && carriedNow > 0: // else a try before may have been late
		bad("it was carried out")
	case w.StatusCode == http.StatusBadGateway && is.unsure == was.unsure:
		bad("what became of it is known")
	}
	if w.StatusCode != http.StatusOK && ours && took < waits && (a.harmless() || is.tried == was.tried || is.sent == was.sent && a.kind == askBare) {
		bad("it could have been sent again")
	}
	if took > 2*longest+2*waits {
		bad("that is too long")
	}
}

// blow lets the storm blow: clients ask while owners change and processes die.
func (s *storm) blow() []string {
	rng := s.draw(1)
	var late, clients sync.WaitGroup
	s.owns(rng.IntN(3), rng, &late)
	const many = 40
	for n := range many {
		a := &ask{n: n, kind: askKind(rng.IntN(int(askKinds))), proxied: rng.IntN(4) == 0}
		switch a.kind {
		case askChange, askWebhook:
			a.body = fmt.Sprintf("%d %s", n, strings.Repeat("x", rng.IntN(maxBody/2)))
		case askLarge:
			a.body = fmt.Sprintf("%d %s", n, strings.Repeat("x", 2*maxBody))
		default:
		}
		if a.size = int64(len(a.body)); a.kind == askLarge || a.kind == askChange && rng.IntN(2) == 0 {
			a.key = fmt.Sprint("key-", n)
		}
		s.asked[n] = a
	}
	for n := range many {
		after := time.Duration(rng.IntN(90_000)) * time.Millisecond
		clients.Go(func() {
			pass(after)
			s.ask(s.asked[n])
		})
	}
	for range 8 {
		pass(time.Duration(rng.IntN(20_000)) * time.Millisecond)
		s.happens(rng, &late)
	}
	for _, n := range s.nodes {
		n.dies(false)
	}
	s.owns(rng.IntN(3), rng, &late)
	clients.Wait()
	pass(10 * time.Minute) // what is on its way arrives
	s.mu.Lock()
	s.token++ // whoever owns it ends
	s.mu.Unlock()
	late.Wait()
	for _, n := range s.nodes {
		if kept, slots := n.by.kept.Load(), len(n.by.slots); kept != 0 || slots != 0 {
			s.find("%d bytes and %d slots of n%d are not given back", kept, slots, n.n)
		}
	}
	for n, times := range s.carried {
		if times > 1 {
			s.find("request %d of kind %d is carried out %d times", n, s.asked[n].kind, times)
		}
	}
	return s.findings
}

// happens has the partition move, or its owner die.
func (s *storm) happens(rng *rand.Rand, late *sync.WaitGroup) {
	s.mu.Lock()
	owner := s.owner
	s.mu.Unlock()
	switch rng.IntN(4) {
	case 0: // for a while nobody has it
		s.owns(-1, rng, late)
	case 1:
		if owner >= 0 {
			for _, n := range s.nodes {
				n.dies(n.n == owner)
			}
		}
	default:
		to := rng.IntN(3)
		s.nodes[to].dies(false)
		s.owns(to, rng, late)
	}
}

func (n *node) dies(is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead = is
}

// weather has the storm of a seed blow.
func weather(t *testing.T, seed uint64) (findings []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := newStorm(seed)
		require.NoError(t, err)
		findings = s.blow()
		synctest.Wait()
	})
	return findings
}

func TestWhateverHappensToMessagesNothingIsLostOrDoneTwiceAndNobodyIsToldWhatIsNotSo(t *testing.T) {
	first, n := seedtest.Seed(t), uint64(300)
	if checks, err := strconv.ParseUint(os.Getenv("RAPID_CHECKS"), 10, 64); err == nil {
		n = max(n, 10*checks) // as in a soak
	}
	if raced.Detector {
		n = 10
	}
	t.Logf("%d seeds", n)
	for seed := first; seed < first+n; seed++ {
		require.Empty(t, weather(t, seed), "repeat: %s=%d go test ./shell/fleet/forward -run '^%s$'", seedtest.Env, seed, t.Name())
	}
}
