package httpapi

import (
	"context"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

const aWorker = "worker"

func (s *Server) workerRoutes() []route {
	return []route{
		{"GET", "/v1/workers", reading, s.listWorkers},
		{"GET", "/v1/workers/{name}", reading, s.getWorker},
		{"PUT", "/v1/workers/{name}", writing, s.putWorker},
		{"DELETE", "/v1/workers/{name}", writing, s.deleteWorker},
		{"POST", "/v1/workers/{name}/pause", writing, s.tellWorker(core.WorkerPause{})},
		{"POST", "/v1/workers/{name}/resume", writing, s.tellWorker(core.WorkerResume{})},
		{"POST", "/v1/workers/{name}/wake", writing, s.tellWorker(core.WorkerWake{})},
	}
}

func (s *Server) seesWorker(ctx context.Context, t *Token, w core.Worker) bool {
	return s.seesUses(ctx, t, w.Namespace, w.Tenant, usesOfWorker(w.Do))
}

func (s *Server) listWorkers(w http.ResponseWriter, r *http.Request, c *call) error {
	list, next, err := lister[core.Worker, core.Worker]{
		list:  s.engine.Workers().List,
		scope: func(w core.Worker) (string, string) { return w.Namespace, w.Tenant },
		sees:  s.seesWorker,
		out:   func(w core.Worker) core.Worker { return w },
		size:  func(w core.Worker) int { return 16<<10 + 256*len(w.Running) },
	}.page(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.WorkerList{Workers: list, NextPageToken: next})
}

func (s *Server) visibleWorker(r *http.Request, c *call) (core.Worker, named, error) {
	n, err := namedOf(r, c)
	if err != nil {
		return core.Worker{}, n, err
	}
	k, err := s.engine.Workers().Get(r.Context(), n.Scope, n.name)
	if err == nil && !s.seesWorker(r.Context(), c.token, k) {
		err = shell.ErrNotFound
	}
	return k, n, notFound(aWorker, err)
}

func (s *Server) getWorker(w http.ResponseWriter, r *http.Request, c *call) error {
	k, _, err := s.visibleWorker(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, k)
}

// putWorker declares a worker or replaces what was declared.
func (s *Server) putWorker(w http.ResponseWriter, r *http.Request, c *call) error {
	n, err := namedOf(r, c)
	if err != nil {
		return err
	}
	var body wire.WorkerRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return explain(err, madeHere)
	}
	if err := s.permitUses(r.Context(), c.token, n.Scope, usesOfWorker(body.Do)); err != nil {
		return err
	}
	k, err := s.engine.Workers().Send(r.Context(), n.Scope, n.name, core.WorkerConfigure{Spec: core.WorkerSpec{
		Namespace: n.Namespace, Tenant: n.Tenant, Name: n.name,
		Queue: body.Queue, Concurrency: body.Concurrency, PollMS: body.PollMS, Do: body.Do,
	}})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, k)
}

// deleteWorker ends a worker: at once where it has nothing in hand (204), with
// drain once that is so (202 with the worker).
func (s *Server) deleteWorker(w http.ResponseWriter, r *http.Request, c *call) error {
	_, n, err := s.visibleWorker(r, c)
	if err != nil {
		return err
	}
	var body wire.WorkerDeleteRequest
	if err := s.decode(w, r, &body, true); err != nil {
		return err
	}
	k, err := s.engine.Workers().Send(r.Context(), n.Scope, n.name, core.WorkerDelete{Drain: body.Drain})
	if err != nil {
		return notFound(aWorker, err)
	}
	if k.Name != "" {
		return writeJSON(w, http.StatusAccepted, k)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) tellWorker(ev core.WorkerEvent) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		_, n, err := s.visibleWorker(r, c)
		if err != nil {
			return err
		}
		if err := s.noBody(w, r); err != nil {
			return err
		}
		k, err := s.engine.Workers().Send(r.Context(), n.Scope, n.name, ev)
		if err != nil {
			return notFound(aWorker, err)
		}
		return writeJSON(w, http.StatusOK, k)
	}
}
