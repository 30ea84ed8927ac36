package httpapi

import (
	"bytes"
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
	if err := checkContentType(r); err != nil {
		return err
	}
	data, err := readBody(w, r, s.o.MaxBodyBytes)
	if err != nil {
		return err
	}
	if optional && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return strictjson.Decode(data, dst)
}

// checkContentType insists on JSON (415): a page of another site can send a form
// without asking, but not JSON.
func checkContentType(r *http.Request) error {
	ct := r.Header.Values("Content-Type")
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

// readBody reads at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLong(limit)
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, 1<<20)) + bytes.MinRead)
	}
	if _, err := io.Copy(&buf, http.MaxBytesReader(w, r.Body, limit)); err != nil {
		if f := classifyBody(err); f != nil {
			return nil, f
		}
		return nil, &failure{status: http.StatusBadRequest, text: "body: the connection ended before the whole body arrived", cause: err}
	}
	return buf.Bytes(), nil
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
