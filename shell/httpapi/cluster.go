package httpapi

import (
	"errors"
	"net/http"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store"
)

// showCluster tells of the daemons on one database.
func (s *Server) showCluster(w http.ResponseWriter, r *http.Request, _ *call) error {
	if s.o.Cluster == nil {
		return failf(http.StatusNotImplemented, "%s", alone)
	}
	out, err := s.o.Cluster(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}

// HasCluster reports whether several servers may work on the database of this one, so that there are instances to show: [Options.Cluster].
func (s *Server) HasCluster() bool { return s.o.Cluster != nil }

// CanDrain reports whether an instance can give its partitions to others: [Options.Drain].
func (s *Server) CanDrain() bool { return s.o.Cluster != nil && s.o.Drain != nil }

// CanAcceptLoss reports whether a partition can go on although its database has lost commits: [Options.AcceptLoss].
func (s *Server) CanAcceptLoss() bool { return s.o.Cluster != nil && s.o.AcceptLoss != nil }

// alone is said of a server whose database is its own.
const alone = "cluster: the database of this server is its own: several servers work together on a PostgreSQL database only"

// rebalanceCluster has partitions be where they should be.
func (s *Server) rebalanceCluster(w http.ResponseWriter, r *http.Request, _ *call) error {
	switch {
	case s.o.Cluster == nil:
		return failf(http.StatusNotImplemented, "%s", alone)
	case s.o.Rebalance == nil:
		return failf(http.StatusNotImplemented, "cluster: the database has one partition: there is nothing to place")
	}
	all, err := s.placings(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.ClusterPlacing{Partitions: all})
}

// placings has partitions be where they should be, and tells where they are. One that is asked for a partition of its own only tells: whoever asks has had the others told.
func (s *Server) placings(r *http.Request) ([]wire.ClusterPlace, error) {
	if r.Header.Get(HeaderPartition) != "" && s.o.Placings != nil {
		return s.o.Placings(r.Context())
	}
	return s.o.Rebalance(r.Context())
}

// drainInstance has an instance give its partitions away, or take part again.
func (s *Server) drainInstance(w http.ResponseWriter, r *http.Request, _ *call) error {
	switch {
	case s.o.Cluster == nil:
		return failf(http.StatusNotImplemented, "%s", alone)
	case s.o.Drain == nil:
		return failf(http.StatusNotImplemented, "cluster: the database has one partition: stop the daemon that works on it, and another one takes it over")
	}
	var in wire.ClusterDrain
	if err := s.decode(w, r, &in, false); err != nil {
		return err
	}
	if in.Instance == "" {
		return failf(http.StatusBadRequest, "instance: is missing: want the name of one that GET /v1/cluster lists")
	}
	err := s.o.Drain(r.Context(), in.Instance, !in.Undo)
	if errors.Is(err, store.ErrNotFound) {
		return failf(http.StatusNotFound, "instance: there is none of the name %q: GET /v1/cluster lists them", clip(in.Instance))
	}
	if err != nil {
		return err
	}
	return done(w, nil)
}

// acceptLoss has a partition go on although its database has lost commits.
func (s *Server) acceptLoss(w http.ResponseWriter, r *http.Request, _ *call) error {
	switch {
	case s.o.Cluster == nil:
		return failf(http.StatusNotImplemented, "%s", alone)
	case s.o.AcceptLoss == nil:
		return failf(http.StatusNotImplemented, "cluster: the database has one partition, and a daemon ends that finds it stopped: orreryd cluster accept-loss 0 --database URL has it go on")
	}
	var in wire.ClusterAcceptLoss
	if err := s.decode(w, r, &in, false); err != nil {
		return err
	}
	switch {
	case in.Partition == nil:
		return failf(http.StatusBadRequest, "partition: is missing: want the number of one that GET /v1/cluster lists")
	case in.Stopped == "":
		return failf(http.StatusBadRequest, "stopped: is missing: want what GET /v1/cluster says of why the partition is stopped, so that no loss is accepted that nobody has read of")
	}
	n := *in.Partition
	if n < 0 || n >= s.o.Partitions {
		return failf(http.StatusNotFound, "partition: there is none of the number %d: the cluster has partitions 0 to %d", n, s.o.Partitions-1)
	}
	err := s.o.AcceptLoss(r.Context(), n, in.Stopped)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return failf(http.StatusNotFound, "partition: nobody has worked on %d yet: there is nothing that it could have lost", n)
	case errors.Is(err, store.ErrNotLost):
		return failf(http.StatusConflict, "stopped: %v: read GET /v1/cluster again", err)
	case err != nil:
		return err
	}
	return done(w, nil)
}
