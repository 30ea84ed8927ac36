package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
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
		admitted, limited := rt.front.chargeEntries(w.Header(), c.token, len(asked.IDs), false)
		results := make([]wire.BulkResult, len(asked.IDs))
		refuse := func(i int, err error) {
			f := told(c, err)
			results[i] = wire.BulkResult{ID: asked.IDs[i], Status: f.status, Error: f.text}
		}
		for i := admitted; i < len(results); i++ {
			refuse(i, limited)
		}
		if limited != nil {
			w.Header().Set("Retry-After", told(c, limited).header.Get("Retry-After"))
		}
		at := rt.sortBulk(r, c, kind, asked.IDs[:admitted], refuse)
		if err := rt.actInBulk(r, &asked, at, results); err != nil {
			return err
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

// sortBulk gives for each partition the places of the ids that it has. What is refused before is in none.
func (rt *Router) sortBulk(r *http.Request, c *call, kind string, ids []string, refuse func(int, error)) [][]int {
	at := make([][]int, rt.o.Partitions)
	q := r.URL.Query()
	decided := make([]*decision, len(ids))
	for first := 0; first < len(ids); first += maxLookups / 2 {
		var all sync.WaitGroup
		for i := first; i < min(first+maxLookups/2, len(ids)); i++ {
			all.Go(func() {
				decided[i] = &decision{r: r, token: c.token}
				rt.placeMachine(decided[i], kind, ids[i], optional(q, "namespace"), optional(q, "tenant"))
			})
		}
		all.Wait()
	}
	for i, d := range decided {
		switch {
		case d.err != nil:
			refuse(i, d.err)
		case d.known:
			at[d.to] = append(at[d.to], i)
		default: // it is nowhere: one says so
			p := core.Partition(shell.Scope{Namespace: kind, Tenant: ids[i]}, rt.o.Partitions)
			at[p] = append(at[p], i)
		}
	}
	return at
}

// actInBulk has each partition act on what it has, and fills in the results.
func (rt *Router) actInBulk(r *http.Request, asked *wire.BulkRequest, at [][]int, results []wire.BulkResult) error {
	ctx, cancel := context.WithCancel(r.Context())
	var group, all sync.WaitGroup
	defer group.Wait()
	defer cancel()
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
			return fmt.Errorf("a bulk act for partition %d: %w", p, err)
		}
		all.Go(func() {
			failed := rt.oneBulk(ctx, &group, r, p, body, places, results)
			if failed == nil {
				return
			}
			for _, i := range places { // of what was begun nobody knows more: the same request may be sent again
				results[i] = wire.BulkResult{ID: asked.IDs[i], Status: failed.status, Error: failed.text}
			}
		})
	}
	all.Wait()
	return context.Cause(r.Context())
}

// oneBulk has one partition act.
func (rt *Router) oneBulk(ctx context.Context, group *sync.WaitGroup, r *http.Request, partition int, body []byte, places []int, results []wire.BulkResult) *failure {
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
	switch {
	case got.status != http.StatusOK && err == nil:
		return failf(got.status, "%s", answer.Error)
	case err != nil || len(answer.Results) != len(places):
		return failf(http.StatusBadGateway, "partitions: the answer of partition %d has broken off: this may have been carried out; send the request again with the same Idempotency-Key", partition)
	}
	for j, i := range places {
		results[i] = answer.Results[j]
	}
	return nil
}
