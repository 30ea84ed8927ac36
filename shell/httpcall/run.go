package httpcall

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/internal/pause"
)

// Run makes the request and reads the answer. The error is a [*StatusError] or a
// [*RequestError], or names the field of the input that is wrong. With the first
// there is a result: what a server says about a failure is in its answer.
func (t *Tool) Run(ctx context.Context, call shell.Call) (json.RawMessage, error) {
	in, err := t.parse(call.Input)
	if err != nil {
		return nil, shell.Permanent(err)
	}
	p := t.plan(in, call)
	ctx, cancel := context.WithTimeoutCause(ctx, p.total, &limitReached{p.total, " in all"})
	defer cancel()
	unsent := true
	for attempt := 1; ; attempt++ {
		res, failed := t.attempt(ctx, p)
		res.Attempts = attempt
		if failed == nil {
			return encode(res)
		}
		unsent = unsent && !failed.maybeDone
		failed.unsent = unsent
		if attempt > p.retries || !failed.repeat || ctx.Err() != nil {
			return failed.final(p, res)
		}
		wait := max(failed.after, backoff(t.o.Backoff, call.ActionID, call.Attempt, attempt))
		if deadline, ok := ctx.Deadline(); failed.after > maxRetryAfter || ok && time.Until(deadline) < wait {
			return failed.final(p, res) // there would be no time left to try
		}
		if cause := pause.For(ctx, wait); cause != nil {
			failed.err = errors.Join(&stopped{cause}, failed.err)
			return failed.final(p, res)
		}
	}
}

// backoff gives the wait after the n-th attempt: base, doubled with each, spread
// over its upper half by what the action is, never by chance.
func backoff(base time.Duration, action uuid.UUID, attempt uint32, n int) time.Duration {
	d := maxBackoff
	if shift := min(n-1, 30); base < maxBackoff>>shift {
		d = base << shift
	}
	h := fnv.New64a()
	_, _ = h.Write(action[:])
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(attempt)<<32|uint64(uint32(n))))
	half := int64(d / 2)
	if half == 0 {
		return d
	}
	// The low bits of FNV of near inputs are near, so take the remainder of all.
	return time.Duration(half + int64(h.Sum64()%uint64(half)))
}

// attempt sends the request once, with the redirects that follow. An answer of
// the wrong status is given, too, beside the failure.
func (t *Tool) attempt(ctx context.Context, p plan) (result, *failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, &limitReached{p.limit, ""})
	defer cancel()
	tr := &trip{follow: p.follow, public: p.public, classify: t.router.classify}
	req, err := p.request(tr.watch(ctx))
	if err != nil {
		return result{}, &failure{err: err}
	}
	resp, err := t.client.Do(req)
	if err != nil {
		if resp != nil { // a refused redirect: net/http has closed the body
			_ = resp.Body.Close()
		}
		return result{}, connectionFailure(ctx, p, tr, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, truncated, err := read(resp.Body, p.keep)
	switch {
	case !p.succeeds(resp.StatusCode): // also where not all of it came: the status says enough
		return answer(resp, tr, text, truncated || err != nil), statusFailure(resp, text)
	case err != nil:
		return result{}, connectionFailure(ctx, p, tr, &brokenOff{len(text), err})
	}
	return answer(resp, tr, text, truncated), nil
}

// read reads at most keep bytes of a body, and leaves the rest.
func read(body io.Reader, keep int) ([]byte, bool, error) {
	b, err := io.ReadAll(io.LimitReader(body, int64(keep)+1))
	if len(b) > keep {
		return b[:keep], true, nil
	}
	return b, false, err
}
