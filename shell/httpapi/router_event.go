package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
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
	all, errs := make([]*relayed, rt.o.Partitions), make([]error, rt.o.Partitions)
	if all[0], errs[0] = rt.publishIn(ctx, r, 0, data); errs[0] != nil {
		return errs[0]
	}
	if all[0].status != http.StatusAccepted {
		return all[0]
	}
	var others sync.WaitGroup
	for p := 1; p < len(all); p++ {
		others.Go(func() { all[p], errs[p] = rt.publishIn(ctx, r, p, data) })
	}
	others.Wait()
	repeated := true
	for p, got := range all {
		if errs[p] != nil || got.status != http.StatusAccepted {
			return notEverywhere(r, all, errs)
		}
		repeated = repeated && got.header.Get(repeatedHeader) == "true"
	}
	if repeated {
		w.Header().Set(repeatedHeader, "true")
	}
	all[0].relay(w)
	return nil
}

// notEverywhere is the answer to a caller whose event some partitions have not announced: it says what the caller can do. Only with a key is it one by which clients send a request again.
func notEverywhere(r *http.Request, all []*relayed, errs []error) error {
	var missing, refuse []int
	retry := 1
	for p, got := range all {
		switch {
		case errs[p] != nil:
			missing = append(missing, p)
		case got.status == http.StatusAccepted:
		case got.status < http.StatusInternalServerError && got.status != http.StatusTooManyRequests:
			refuse = append(refuse, p)
		default:
			missing, retry = append(missing, p), max(retry, retryAfter(got.header))
		}
	}
	const others = "partitions: %v of %d %s, and the others have: %s"
	switch {
	case len(refuse) > 0:
		var said wire.Error
		_ = json.Unmarshal(all[refuse[0]].body, &said) // else there is nothing to quote
		return failf(http.StatusBadGateway, others, append(refuse, missing...), len(all), "have refused the event, or may not have announced it", said.Error)
	case r.Header.Get(onceHeader) == "":
		return failf(http.StatusBadGateway, others, missing, len(all), "may not have announced the event",
			fmt.Sprintf("it had no %s, so that those announce it twice if it is sent again", onceHeader))
	}
	return failf(http.StatusServiceUnavailable, others, missing, len(all), "may not have announced the event",
		"send the same request again, and they announce it").with("Retry-After", strconv.Itoa(retry))
}

// publishIn announces an event in one partition. It fails where nobody knows whether that has announced it.
func (rt *Router) publishIn(ctx context.Context, r *http.Request, partition int, body []byte) (*relayed, error) {
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
		return nil, brokenOff(r, partition)
	}
	return &relayed{status: got.status, header: got.header, body: text}, nil
}
