package httpapi

import (
	"fmt"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

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
