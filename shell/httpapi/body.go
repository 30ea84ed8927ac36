package httpapi

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// decode reads the JSON body into dst. An optional body may be left out.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, dst any, optional bool) error {
	if r.ContentLength == 0 {
		if optional {
			return nil
		}
		return failf(http.StatusBadRequest, "body: is empty: want a JSON object")
	}
	data, err := s.readJSON(w, r)
	if err != nil {
		return err
	}
	if optional && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return strictjson.Decode(data, dst)
}

// readJSON reads the body of a request, which says that it is JSON, and waits with a large one
// until it may be worked on.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	c := callOf(r.Context())
	data, err := readBody(w, r, s.o.MaxBodyBytes, &c.body)
	if err == nil && c.once != nil && len(data) > 0 { // one that is empty is none, whichever way it is sent
		c.read = sha256.Sum256(data)
	}
	if err == nil && c.token != nil && c.leave == nil {
		c.leave, err = s.heldBy(c.token).workOn(r.Context(), len(data))
	}
	return data, err
}

// checkContentType insists on JSON (415): a page of another site can send a form
// without asking, but not JSON.
func checkContentType(r *http.Request) error {
	ct := r.Header.Values("Content-Type")
	if len(ct) == 1 && ct[0] == "application/json" { // as nearly always
		return checkEncoding(r)
	}
	typ, params, err := mime.ParseMediaType(strings.Join(ct, ","))
	charset, given := params["charset"]
	if err != nil || typ != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return failf(http.StatusUnsupportedMediaType, "content-type: %q is not application/json", clip(strings.Join(ct, ",")))
	}
	return checkEncoding(r)
}

func checkEncoding(r *http.Request) error {
	if ce := r.Header.Get("Content-Encoding"); ce != "" && !strings.EqualFold(ce, "identity") {
		return failf(http.StatusUnsupportedMediaType, "content-encoding: %q is not supported: send the body without an encoding", clip(ce))
	}
	return nil
}

// held is what a request holds of a share, until it ends.
type held struct {
	of   *share // nil: nothing is counted
	n    int64
	from *sender // of the share of its address, until its signature is known to be right; or nil
	full *failure
}

// grow takes more bytes, and reports whether there were as many; if not, full says of what.
func (h *held) grow(n int64) bool {
	if h.of == nil {
		return true
	}
	if h.from != nil && !h.from.take(n) {
		h.full = tooManyBytes("body: the bodies of one address that are being read may have %d bytes together: try again", h.from.of.most)
		return false
	}
	if !h.of.take(n) {
		h.from.give(n)
		h.full = tooManyBytes("body: the bodies that are being read and worked on may have %d bytes together: try again", h.of.most)
		return false
	}
	h.n += n
	return true
}

// shrink gives bytes back.
func (h *held) shrink(n int64) {
	h.of.give(n)
	h.from.give(n)
	h.n -= n
}

// verified ends the part that the request has in the share of its address.
func (h *held) verified() {
	h.from.give(h.n)
	h.from = nil
}

func (h *held) release() {
	if h.of != nil {
		h.of.give(h.n)
		h.verified()
		h.n = 0
	}
}

// readBody reads at most limit bytes. They count against what the request may hold before
// they are in memory: all of them if their number was declared, else as they come.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, h *held) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLong(limit)
	}
	body := http.MaxBytesReader(w, r.Body, limit)
	data, err := readDeclared(body, r.ContentLength, limit, h)
	if err == nil {
		return data, nil
	}
	if known, ok := errors.AsType[*failure](err); ok {
		return nil, known
	}
	if f := classifyBody(err); f != nil {
		return nil, f
	}
	return nil, &failure{status: http.StatusBadRequest, text: "body: the connection ended before the whole body arrived", cause: err}
}

// bodyStep is by how much the room for a body of unknown length grows at least.
const bodyStep = 16 << 10

func readDeclared(body io.Reader, length, limit int64, h *held) ([]byte, error) {
	if length < 0 || h.from != nil {
		return readGrowing(body, length, limit, h)
	}
	if !h.grow(length) {
		return nil, h.full
	}
	data := make([]byte, length) // of which the system gives no page before it is written to
	_, err := io.ReadFull(body, data)
	return data, err
}

// readGrowing counts bytes as they come: a length that is declared, by a sender whom
// nobody knows, has cost nothing yet, but it must have room. body ends with an error
// beyond limit bytes.
func readGrowing(body io.Reader, length, limit int64, h *held) ([]byte, error) {
	most := limit
	if length >= 0 {
		if !h.grow(length) {
			return nil, h.full
		}
		h.shrink(length)
		most = length
	}
	data := []byte{}
	for int64(len(data)) < most {
		if len(data) == cap(data) {
			more := min(max(int64(cap(data)), bodyStep), most-int64(cap(data)))
			if !h.grow(more) {
				return nil, h.full
			}
			data = append(make([]byte, 0, int64(cap(data))+more), data...)
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF) && length > int64(len(data)):
			return nil, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		}
	}
	if length < 0 { // what comes next is the end, or too much
		if _, err := io.ReadFull(body, make([]byte, 1)); !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return data, nil
}

func tooManyBytes(format string, most int64) *failure {
	return tooMany(1, format, most).with("Connection", "close")
}

// noBody refuses a body that has any field: the route takes none.
func (s *Server) noBody(w http.ResponseWriter, r *http.Request) error {
	var none struct{}
	return s.decode(w, r, &none, true)
}

// reasonOr gives the reason of a request; without one it says who did it, unless did is
// empty.
func reasonOr(b wire.Reason, did string, c *call) (string, error) {
	reason := or(b.Reason, "")
	switch {
	case len(reason) > core.MaxTextBytes:
		return "", failf(http.StatusBadRequest, "reason: %d bytes is longer than %d", len(reason), core.MaxTextBytes)
	case reason == "" && did != "":
		reason = fmt.Sprintf("%s by %s", did, c.actor)
	}
	return reason, nil
}

// reason reads the optional body of cancel and its like.
func (s *Server) reason(w http.ResponseWriter, r *http.Request, c *call, did string) (string, error) {
	var body wire.Reason
	if err := s.decode(w, r, &body, true); err != nil {
		return "", err
	}
	return reasonOr(body, did, c)
}
