package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/shell"
)

// onceHeader names a request that changes something, so that its caller may send it again; repeatedHeader says that an answer is
// that of the first one.
const (
	onceHeader     = "Idempotency-Key"
	repeatedHeader = "Idempotency-Replayed"
	maxOnceKey     = 255
)

// onOnce has a request with a key carried out once, however often it comes.
func (s *Server) onOnce(ctx context.Context, rt route, r *http.Request, c *call) (context.Context, error) {
	given := r.Header.Values(onceHeader)
	if len(given) == 0 || !rt.changes() || c.token == nil { // senders of webhooks have ids of their own for that
		return ctx, nil
	}
	key := given[0]
	if quoted, ok := strings.CutPrefix(key, `"`); ok { // as the header's draft of a standard has it
		if quoted, ok = strings.CutSuffix(quoted, `"`); ok {
			key = quoted
		}
	}
	visible := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	if len(given) > 1 || key == "" || len(key) > maxOnceKey || !visible {
		return nil, failf(http.StatusBadRequest, "%s: %q is not one key of 1 to %d visible ASCII characters without blanks", onceHeader, clip(strings.Join(given, ", ")), maxOnceKey)
	}
	once := shell.NewOnce(hashOf(c.token.Name, key), func() [sha256.Size]byte {
		return hashOf(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), r.Header.Get(takeOverHeader), string(c.read[:]))
	})
	c.once = once
	return shell.WithOnce(ctx, once), nil
}

// hashOf gives a hash of texts, which no other texts have.
func hashOf(texts ...string) [sha256.Size]byte {
	var b []byte
	for _, t := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(t))), t...)
	}
	return sha256.Sum256(b)
}

// doneBefore answers a deletion that has found nothing since it was carried out before.
func (s *Server) doneBefore(w http.ResponseWriter, r *http.Request, c *call, err error) error {
	if c.once == nil || r.Method != http.MethodDelete || told(c, err).status != http.StatusNotFound {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.o.RequestTimeout)
	defer cancel()
	before, unread := s.engine.WasAnswered(shell.WithOnce(ctx, c.once))
	if unread != nil || !before {
		return errors.Join(err, unread)
	}
	w.Header().Set(repeatedHeader, "true")
	return done(w, nil)
}

// keyReused says that a key was sent with another request.
func keyReused() *failure {
	return failf(http.StatusUnprocessableEntity, "%s: it was sent with another request within the last %s: give each request a key of its own", onceHeader, fmt.Sprintf("%.0f minutes", shell.AnswersKept.Minutes()))
}
