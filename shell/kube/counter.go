package kube

import (
	"net/http"
	"sync/atomic"
)

// counter counts the calls of the API that one operation makes, those included that
// client-go repeats by itself where the server says when.
type counter struct{ n atomic.Int32 }

func (c *counter) calls() int { return int(c.n.Load()) }

type counterKey struct{}

// counting is the transport that counts.
type counting struct{ next http.RoundTripper }

func (t counting) RoundTrip(q *http.Request) (*http.Response, error) {
	if c, ok := q.Context().Value(counterKey{}).(*counter); ok {
		c.n.Add(1)
	}
	return t.next.RoundTrip(q)
}

// WrappedRoundTripper lets client-go reach the transport within.
func (t counting) WrappedRoundTripper() http.RoundTripper { return t.next }
