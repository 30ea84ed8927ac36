package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// mergePublish announces an event of no tenant in all partitions, since subscribers of all hear it: in the first one, and once that has taken it in the
// others. So what is refused is announced nowhere. Each partition keeps the key of the request, if it has one: sent again it is announced where it was not.
func mergePublish(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	_, data, err := rt.readAgain(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), rt.o.API.RequestTimeout)
	defer cancel()
	all := make([]*relayed, rt.o.Partitions)
	if all[0] = rt.publishIn(ctx, r, 0, data); all[0].status != http.StatusAccepted {
		return all[0]
	}
	var others sync.WaitGroup
	for p := 1; p < len(all); p++ {
		others.Go(func() { all[p] = rt.publishIn(ctx, r, p, data) })
	}
	others.Wait()
	var missing []int
	repeated := true
	for p, got := range all {
		if got.status != http.StatusAccepted {
			missing = append(missing, p)
		}
		repeated = repeated && got.header.Get(repeatedHeader) == "true"
	}
	if len(missing) > 0 {
		return notEverywhere(r, missing, len(all))
	}
	if repeated {
		w.Header().Set(repeatedHeader, "true")
	}
	all[0].relay(w)
	return nil
}

// notEverywhere is the answer to a caller whose event some partitions have not announced: it says what the caller can do.
func notEverywhere(r *http.Request, missing []int, of int) error {
	todo := "send the same request again, and they announce it"
	if r.Header.Get(onceHeader) == "" {
		todo = fmt.Sprintf("with an %s it could be sent again for them alone, and without one the others would announce it twice", onceHeader)
	}
	return failf(http.StatusServiceUnavailable, "partitions: %v of %d may not have announced the event, and the others have: %s", missing, of, todo).with("Retry-After", "1")
}

// publishIn announces an event in one partition.
func (rt *Router) publishIn(ctx context.Context, r *http.Request, partition int, body []byte) *relayed {
	var group sync.WaitGroup
	defer group.Wait()
	q := rt.part(ctx, r, http.MethodPost, partition, r.URL.Query())
	q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	q.Header.Set("Content-Type", "application/json")
	if key := r.Header.Values(onceHeader); len(key) > 0 {
		q.Header[onceHeader] = key
	}
	got := rt.ask(&group, q, partition)
	defer func() { _ = got.body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.body, maxRefusal+int64(len(body))))
	if err != nil {
		return &relayed{status: http.StatusBadGateway, header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}}, body: []byte(`{"error":"partitions: one did not answer: try again"}` + "\n")}
	}
	return &relayed{status: got.status, header: got.header, body: text}
}
