package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// modeOf gives the mode of a batch; ok is false if it has none that there is, for which a partition refuses it.
func modeOf(of map[string]json.RawMessage) (mode string, ok bool) {
	if raw, given := of["mode"]; given && json.Unmarshal(raw, &mode) != nil {
		return "", false
	}
	return mode, mode == "" || mode == wire.ModeAll || mode == wire.ModeEach
}

// batchPart is what one partition is asked for of a batch.
type batchPart struct {
	partition int
	scope     *shell.Scope // of its first entry that lives there; nil: its entries are refused wherever they go
	places    []int        // of its entries in the batch
	entries   []json.RawMessage
}

// dividedBatch is a batch of the mode "each" as it was placed.
type dividedBatch struct {
	of      map[string]json.RawMessage // its members
	parts   []*batchPart
	entries int
}

// divideEntries gives what each partition is asked for, in the order in which the batch comes to it. An entry that is refused wherever it goes, goes with the
// entries of the first partition.
func (rt *Router) divideEntries(t *Token, entries []json.RawMessage) (parts []*batchPart) {
	at := make([]*decision, len(entries))
	first := 0
	for i, raw := range slices.Backward(entries) {
		of, ok := members(raw)
		if !ok {
			continue
		}
		if at[i] = rt.placeEntry(&decision{token: t, of: &routed{}}, of); at[i] != nil {
			first = at[i].to
		}
	}
	by := make(map[int]*batchPart)
	for i, raw := range entries {
		p := first
		if at[i] != nil {
			p = at[i].to
		}
		if by[p] == nil {
			by[p] = &batchPart{partition: p}
			parts = append(parts, by[p])
		}
		part := by[p]
		if at[i] != nil && part.scope == nil {
			part.scope = &at[i].scope
		}
		part.places, part.entries = append(part.places, i), append(part.entries, raw)
	}
	return parts
}

// placeBatch has a batch go where its entries live, if they are made all or none, or each by itself.
func (rt *Router) placeBatch(d *decision, of map[string]json.RawMessage) {
	switch mode, ok := modeOf(of); {
	case !ok:
		d.anywhere = true
	case mode == wire.ModeEach:
		rt.placeEach(d, of)
	default:
		rt.placeEntries(d, of)
	}
}

// placeEach has a batch whose entries are made each by itself go where they live: to one partition, or to several, which is merged.
func (rt *Router) placeEach(d *decision, of map[string]json.RawMessage) {
	var entries []json.RawMessage
	if json.Unmarshal(of[d.of.entries], &entries) != nil || len(entries) > shell.MaxEntries {
		d.anywhere = true
		return
	}
	parts := rt.divideEntries(d.token, entries)
	d.batch = &dividedBatch{of: of, parts: parts, entries: len(entries)}
	switch {
	case len(parts) == 0 || len(parts) == 1 && parts[0].scope == nil:
		d.anywhere = true
	case len(parts) == 1:
		rt.toTenant(d, *parts[0].scope)
	case d.isPart():
		d.refuse(failf(http.StatusMisdirectedRequest, "%s: %s[%d] and %s[%d] live in different partitions, %d and %d: nothing was done",
			HeaderPartition, d.of.entries, parts[0].places[0], d.of.entries, parts[1].places[0], parts[0].partition, parts[1].partition))
	}
}

// batchAnswer is the answer of a partition to its part of a batch.
type batchAnswer struct {
	Results []batchResult `json:"results"`
	Error   string        `json:"error"`

	refused    *relayed // nil: it has results
	retry      int      // seconds
	repeated   bool
	unreadable bool // it broke off
}

// batchResult is [wire.ActionResult] as a partition has sent it.
type batchResult struct {
	Status int             `json:"status"`
	Action json.RawMessage `json:"action"`
	Error  string          `json:"error"`
}

// mergeBatch makes the actions of a batch of mode "each" in the partitions of their tenants, as one request to each of these, and puts the results into the order of the
// batch. Each partition charges what it is asked for, and keeps its answer under the key of the request.
func mergeBatch(rt *Router, w http.ResponseWriter, r *http.Request, c *call) error {
	d, _, err := rt.readAgain(w, r)
	if err != nil {
		return err
	}
	parts := d.batch.parts
	answers, err := rt.askBatch(r, d.batch.of, parts)
	if err != nil {
		return err
	}
	results, retry, repeated := make([]batchResult, d.batch.entries), 0, true
	for n, part := range parts {
		got := answers[n]
		retry, repeated = max(retry, got.retry), repeated && got.repeated
		for j, i := range part.places {
			results[i] = got.result(j, i)
		}
	}
	if refusal := oneRefusal(answers); refusal != nil {
		return refusal
	}
	for _, res := range results {
		if res.Error != "" {
			c.noteEntry(&failure{status: res.Status, text: res.Error, quotes: res.Status != http.StatusTooManyRequests})
		}
	}
	if _, err := rt.front.chargeEntries(w.Header(), c.token, 1, false); err != nil { // it tells what the parts have left
		return err
	}
	if retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retry))
	}
	if repeated {
		w.Header().Set(repeatedHeader, "true")
	}
	return writeJSON(w, http.StatusOK, struct {
		Results []batchResult `json:"results"`
	}{results})
}

// oneRefusal gives the refusal that is true of the whole batch, as if one server had refused it; nil: there is none, so that each entry has its own status. A status below 500
// says that nothing was done. Others may say that the part may have been carried out, so they are true of the batch only if all parts were answered with the same.
func oneRefusal(answers []*batchAnswer) error {
	first, sure, alike, retry := answers[0], true, true, 0
	for _, a := range answers {
		retry = max(retry, a.retry)
		if a.refused == nil {
			return nil
		}
		sure = sure && a.refused.status < http.StatusInternalServerError
		alike = alike && !a.unreadable && a.refused.status == first.refused.status && a.Error == first.Error
	}
	if !sure && !alike {
		return nil
	}
	if first.retry > 0 {
		first.refused.header.Set("Retry-After", strconv.Itoa(retry))
	}
	return first.refused
}

// askBatch asks the partitions for their parts, all at a time. The first one of this process is told that its first entry is the request that was charged.
func (rt *Router) askBatch(r *http.Request, of map[string]json.RawMessage, parts []*batchPart) ([]*batchAnswer, error) {
	ctx, cancel := context.WithCancel(r.Context())
	var group, all sync.WaitGroup
	defer group.Wait()
	defer cancel()
	answers := make([]*batchAnswer, len(parts))
	whole, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("a batch for %d partitions: %w", len(parts), err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(whole))
	charged := false
	for n, part := range parts {
		own := make(map[string]any, len(of))
		for name, raw := range of { // order-free: it becomes an object
			own[name] = raw
		}
		own["actions"] = part.entries
		body, err := json.Marshal(own)
		if err != nil {
			return nil, fmt.Errorf("a batch for partition %d: %w", part.partition, err)
		}
		in := ctx
		if _, local := rt.o.Local(part.partition); local && !charged {
			in, charged = context.WithValue(ctx, chargedKey{}, true), true
		}
		all.Go(func() { answers[n] = rt.oneBatch(in, &group, r, part, body, digest) })
	}
	all.Wait()
	return answers, context.Cause(r.Context())
}

// chargedKey marks the part of a batch whose first entry is the request that the router has charged.
type chargedKey struct{}

// oneBatch asks one partition for its part of the batch with that digest.
func (rt *Router) oneBatch(ctx context.Context, group *sync.WaitGroup, r *http.Request, part *batchPart, body []byte, digest string) *batchAnswer {
	q := rt.part(ctx, r, http.MethodPost, part.partition, r.URL.Query())
	q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set(headerPart, digest)
	if key := r.Header.Values(onceHeader); len(key) > 0 {
		q.Header[onceHeader] = key
	}
	got := rt.ask(group, q, part.partition)
	defer func() { _ = got.body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.body, maxGathered))
	out := new(batchAnswer)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	out.retry = retryAfter(got.header)
	out.repeated = got.header.Get(repeatedHeader) == "true"
	switch {
	case err == nil && got.status != http.StatusOK:
		out.refused = &relayed{status: got.status, header: got.header, body: text}
	case err != nil || len(out.Results) != len(part.places):
		out.unreadable, out.Error = true, brokenOff(r, part.partition).text
		out.refused = &relayed{status: http.StatusBadGateway}
	}
	return out
}

// result gives what became of the j-th entry of a part, which is the i-th of the batch.
func (a *batchAnswer) result(j, i int) batchResult {
	if a.refused != nil {
		return batchResult{Status: a.refused.status, Error: fmt.Sprintf("actions[%d]: %s", i, a.Error)}
	}
	res := a.Results[j]
	if rest, ok := strings.CutPrefix(res.Error, fmt.Sprintf("actions[%d]", j)); ok {
		res.Error = fmt.Sprintf("actions[%d]%s", i, rest)
	}
	return res
}
