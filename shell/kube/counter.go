package kube

import (
	"context"
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
	countCall(q.Context())
	return t.next.RoundTrip(q)
}

func countCall(ctx context.Context) {
	if c, ok := ctx.Value(counterKey{}).(*counter); ok {
		c.n.Add(1)
	}
}

// count counts a call if the transport cannot.
func (r *Runner) count(ctx context.Context) {
	if !r.counts {
		countCall(ctx)
	}
}

// WrappedRoundTripper lets client-go reach the transport within.
func (t counting) WrappedRoundTripper() http.RoundTripper { return t.next }
