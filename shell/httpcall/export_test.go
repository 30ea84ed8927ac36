package httpcall

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/google/uuid"
)

// The scopes, for tests that make an address of this machine stand for another.
const (
	Public   = public
	Private  = private
	Loopback = loopback
	Special  = special
)

// Scope is how far an address reaches.
type Scope = scope

// Classify is the real classification.
func Classify(a netip.Addr) (Scope, string) { return classify(a) }

// SetClassify replaces it in one tool.
func (t *Tool) SetClassify(f func(netip.Addr) (Scope, string)) { t.router.classify = f }

// Backoff is the wait after the n-th attempt.
func Backoff(base time.Duration, action uuid.UUID, attempt uint32, n int) time.Duration {
	return backoff(base, action, attempt, n)
}

// MaxResult is how large a result gets as JSON.
const MaxResult = maxResult

// Cut gives the beginning of a text that has room in JSON.
func Cut(s string, room int) string { return cut(s, room) }

// SetTransport replaces the network in one tool.
func (t *Tool) SetTransport(rt http.RoundTripper) { t.client.Transport = rt }
