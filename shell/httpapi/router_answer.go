package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// maxRefusal bounds what is read of an answer that is no success.
const maxRefusal = 64 << 10

// refusal reads an answer that is no success, as the error that the client gets.
func (a *answered) refusal() error {
	text, err := io.ReadAll(io.LimitReader(a.body, maxRefusal))
	_ = a.body.Close()
	if err != nil && len(text) == 0 {
		return failf(http.StatusBadGateway, "partitions: one did not answer: try again").with("Retry-After", "1")
	}
	return &relayed{status: a.status, header: a.header, body: text}
}

// errClientGone: the client has given its request up before it was answered.
var errClientGone = errors.New("the client has gone")

// orGone says of an answer that has broken off that the client has broken it off, if it has: the partitions end what is asked of them then. Only of
// reads: whether a change was carried out remains unknown, whoever has ended it.
func orGone(r *http.Request, err error) error {
	f, ok := errors.AsType[*failure](err)
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !ok || f.status != http.StatusBadGateway || !read || !errors.Is(r.Context().Err(), context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", errClientGone, err)
}

// brokenOff says of a request that changes something that nobody knows whether a partition has carried it out.
func brokenOff(r *http.Request, partition int) *failure {
	todo := "send the request again with the same " + onceHeader
	if r.Header.Get(onceHeader) == "" {
		todo = "it had no " + onceHeader + ", so that what is sent again may be carried out twice"
	}
	return failf(http.StatusBadGateway, "partitions: the answer of partition %d has broken off: this may have been carried out; %s", partition, todo)
}

// retryAfter gives the seconds after which an answer says that the request may come again; 0: it does not.
func retryAfter(h http.Header) int {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return seconds
}

// relayed is the answer of a partition with which the router answers.
type relayed struct {
	status int
	header http.Header
	body   []byte
}

func (a *relayed) Error() string { return fmt.Sprintf("a partition has answered with %d", a.status) }

// relay answers with it.
func (a *relayed) relay(w http.ResponseWriter) {
	for _, name := range []string{"Content-Type", "Retry-After", "Www-Authenticate", "Allow", headerStandsBy} {
		if v := a.header.Values(name); len(v) > 0 {
			w.Header()[http.CanonicalHeaderKey(name)] = v
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) //nolint:gosec // what a server of the API has answered, with its type and nosniff
}
