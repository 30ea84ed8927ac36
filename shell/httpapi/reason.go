package httpapi

import (
	"fmt"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// reasonText gives the reason that was given; "" if none was.
func reasonText(b wire.Reason) (string, error) {
	v := or(b.Reason, "")
	if len(v) > core.MaxTextBytes {
		return "", failf(http.StatusBadRequest, "reason: %d bytes is longer than %d", len(v), core.MaxTextBytes)
	}
	return v, nil
}

// reasonOr gives the reason of a request; without one it says who did it.
func reasonOr(b wire.Reason, did string, c *call) (string, error) {
	reason, err := reasonText(b)
	if err == nil && reason == "" {
		reason = fmt.Sprintf("%s by %s", did, c.actor)
	}
	return reason, err
}

// reason reads the optional body of cancel and its like.
func (s *Server) reason(w http.ResponseWriter, r *http.Request, c *call, did string) (string, error) {
	var body wire.Reason
	if err := s.decode(w, r, &body, true); err != nil {
		return "", err
	}
	return reasonOr(body, did, c)
}
