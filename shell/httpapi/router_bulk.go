package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// mergeBulk gives what serves a bulk act on things of all partitions: each partition acts on those that it has, as one request, and
// the results are put into the order of the ids. What is in no partition, one of them refuses.
func mergeBulk(kind string) func(*Router, http.ResponseWriter, *http.Request, *call) error {
	return func(rt *Router, w http.ResponseWriter, r *http.Request, c *call) error {
		all := rt.front.bulks()
		b := all[slices.IndexFunc(all, func(b bulk) bool { return b.path+"/" == kind })]
		if _, err := readQuery(r, "namespace", "tenant"); err != nil {
			return err
		}
		var asked wire.BulkRequest
		if err := rt.front.decode(w, r, &asked, false); err != nil {
			return err
		}
		if err := b.check(&asked); err != nil {
			return err
		}
		leave, err := rt.front.takeBulk(c)
		if err != nil {
			return err
		}
		defer leave()
		results, retry := make([]wire.BulkResult, len(asked.IDs)), 0
		at := rt.sortBulk(w.Header(), r, c, kind, asked.IDs, func(i int, err error) {
			f := told(c, err)
			results[i] = wire.BulkResult{ID: asked.IDs[i], Status: f.status, Error: f.text}
			retry = max(retry, retryAfter(f.header))
		})
		later, err := rt.actInBulk(r, &asked, at, results)
		if err != nil {
			return err
		}
		if retry = max(retry, later); retry > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retry))
		}
		out := newPageWriter(w, "results")
		out.damaged = func() int { return 0 }
		if wantsLines(r) {
			out.lines()
		}
		for _, res := range results {
			if res.Status == http.StatusNotFound { // if it was remembered, it is not there any more
				rt.found.forget(rememberedOf(c.token, kind, res.ID, optional(r.URL.Query(), "namespace"), optional(r.URL.Query(), "tenant")))
			}
			if err := out.add(res); err != nil {
				return err
			}
		}
		return out.end("", true)
	}
}

// sortBulk gives for each partition the places of the ids that it has, and charges those of this process: what another process has, that charges as it comes. What is refused before
// is in none. Once the token has no inputs left here, the ids that follow are refused, and nobody looks for them.
func (rt *Router) sortBulk(h http.Header, r *http.Request, c *call, kind string, ids []string, refuse func(int, error)) [][]int {
	at := make([][]int, rt.o.Partitions)
	more := 0 // than the ids: the first one of this process is the request, which is charged
	for first := 0; first < len(ids); first += maxLookups / 2 {
		end := min(first+maxLookups/2, len(ids))
		var mine []int // the places of this process's
		in := make(map[int]int)
		for n, d := range rt.placeBulk(r, c, kind, ids[first:end]) {
			i := first + n
			if d.err != nil {
				refuse(i, d.err)
				continue
			}
			p := d.to
			if !d.known { // it is nowhere: one says so
				p = core.Partition(shell.Scope{Namespace: kind, Tenant: ids[i]}, rt.o.Partitions)
			}
			if _, local := rt.o.Local(p); local {
				mine, in[i] = append(mine, i), p
				continue
			}
			at[p] = append(at[p], i)
		}
		if len(mine) == 0 {
			continue
		}
		admitted, limited := rt.front.chargeEntries(h, c.token, len(mine)+more, false)
		admitted -= more
		more = 1
		for n, i := range mine {
			if n >= admitted {
				refuse(i, limited)
				continue
			}
			at[in[i]] = append(at[in[i]], i)
		}
		if limited != nil {
			for i := end; i < len(ids); i++ {
				refuse(i, limited)
			}
			break
		}
	}
	return at
}

// placeBulk finds out where things are, of all at a time.
func (rt *Router) placeBulk(r *http.Request, c *call, kind string, ids []string) []*decision {
	q := r.URL.Query()
	decided := make([]*decision, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			decided[i] = &decision{r: r, token: c.token}
			rt.placeMachine(decided[i], kind, id, optional(q, "namespace"), optional(q, "tenant"))
		})
	}
	all.Wait()
	return decided
}

// actInBulk has each partition act on what it has, and fills in the results. retry is after how many seconds what was refused may come again; 0: none of the partitions says so.
func (rt *Router) actInBulk(r *http.Request, asked *wire.BulkRequest, at [][]int, results []wire.BulkResult) (retry int, err error) {
	ctx, cancel := context.WithCancel(r.Context())
	var group, all sync.WaitGroup
	defer group.Wait()
	defer cancel()
	later := make([]int, len(at))
	for p, places := range at {
		if len(places) == 0 {
			continue
		}
		own := *asked
		own.IDs = make([]string, len(places))
		for j, i := range places {
			own.IDs[j] = asked.IDs[i]
		}
		body, err := json.Marshal(own)
		if err != nil {
			return 0, fmt.Errorf("a bulk act for partition %d: %w", p, err)
		}
		all.Go(func() {
			var failed *failure
			later[p], failed = rt.oneBulk(ctx, &group, r, p, body, places, results)
			if failed == nil {
				return
			}
			for _, i := range places { // of what was begun nobody knows more: the same request may be sent again
				results[i] = wire.BulkResult{ID: asked.IDs[i], Status: failed.status, Error: failed.text}
			}
		})
	}
	all.Wait()
	return slices.Max(later), context.Cause(r.Context())
}

// oneBulk has one partition act. retry is as of [Router.actInBulk].
func (rt *Router) oneBulk(ctx context.Context, group *sync.WaitGroup, r *http.Request, partition int, body []byte, places []int, results []wire.BulkResult) (retry int, failed *failure) {
	q := rt.part(ctx, r, http.MethodPost, partition, r.URL.Query())
	q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	q.Header.Set("Content-Type", "application/json")
	if key := r.Header.Values(onceHeader); len(key) > 0 {
		q.Header[onceHeader] = key
	}
	got := rt.ask(group, q, partition)
	defer func() { _ = got.body.Close() }()
	var answer struct {
		Results []wire.BulkResult `json:"results"`
		Error   string            `json:"error"`
	}
	err := json.NewDecoder(io.LimitReader(got.body, maxGathered)).Decode(&answer)
	retry = retryAfter(got.header)
	switch {
	case got.status != http.StatusOK && err == nil:
		return retry, failf(got.status, "%s", answer.Error)
	case err != nil || len(answer.Results) != len(places):
		return 0, brokenOff(r, partition)
	}
	for j, i := range places {
		results[i] = answer.Results[j]
	}
	return retry, nil
}
