package httpapi

import (
	"net/http"
)

// showCluster tells of the daemons on one database.
func (s *Server) showCluster(w http.ResponseWriter, r *http.Request, _ *call) error {
	if s.o.Cluster == nil {
		return failf(http.StatusNotImplemented, "cluster: the database of this server is its own: several work on a PostgreSQL database")
	}
	out, err := s.o.Cluster(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}
