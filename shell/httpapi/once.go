package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/core"
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
		of := []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), r.Header.Get(takeOverHeader), string(c.read[:])}
		if digest := r.Header.Get(headerPart); c.part != whole && digest != "1" { // so that a partition refuses the key also if only what others are asked for is another
			of = append(of, digest)
		}
		return hashOf(of...)
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
	if unread := c.readAhead(r); unread != nil {
		return err
	}
	_, before, unread := s.engine.AnswerAgain(shell.WithOnce(ctx, c.once))
	if unread != nil || !before {
		return errors.Join(err, unread)
	}
	return done(w, nil)
}

// unlessAnswered lets a request pass that is refused since it was carried out before: for what it has made itself.
func (s *Server) unlessAnswered(ctx context.Context, refused error) error {
	if refused == nil || shell.OnceFrom(ctx) == nil {
		return refused
	}
	before, err := s.engine.WasAnswered(ctx)
	if err != nil || before {
		return err
	}
	return refused
}

// answeredWith gives the machine of which nothing is found any more, as a request with a key was answered with it before: the
// request has renamed it, or it was deleted since. What is asked of it is answered from there, too. Without one the error is why it
// is not found.
func answeredWith[S core.State](r *http.Request, c *call, missing error) (m S, err error) {
	if shell.OnceFrom(r.Context()) == nil || c.readAhead(r) != nil {
		return m, missing
	}
	before, ok, err := c.server.engine.AnsweredBefore(r.Context())
	if err != nil {
		return m, err
	}
	m, is := before.State.(S)
	id, named := parseID(r.PathValue("id"))
	if !ok || !is || named == nil && id != m.Ref().ID {
		var none S
		return none, missing
	}
	return m, nil
}

// readAhead reads the body of a request before its handler does, who finds it unread: it is a part of what the key is for.
func (c *call) readAhead(r *http.Request) error {
	if r.ContentLength == 0 || r.Body == nil || c.read != ([sha256.Size]byte{}) {
		return nil
	}
	data, err := readBody(nil, r, c.server.o.MaxBodyBytes, &c.body)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		c.read = sha256.Sum256(data)
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

// keyReused says that a key was sent with another request.
func keyReused() *failure {
	return failf(http.StatusUnprocessableEntity, "%s: it was sent with another request within the last %s: give each request a key of its own", onceHeader, fmt.Sprintf("%.0f minutes", shell.AnswersKept.Minutes()))
}
