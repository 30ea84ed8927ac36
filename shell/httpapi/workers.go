package httpapi

import (
	"context"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) workerRoutes() []route {
	workers := namedMachines[core.Worker, core.WorkerEvent]{
		s: s, what: "worker", get: s.engine.Workers().Get, send: s.engine.Workers().Send, sees: s.seesWorker, remains: http.StatusOK,
	}
	deleted := workers // with drain it still exists for as long as it has something in hand
	deleted.remains = http.StatusAccepted
	bare := func(ev core.WorkerEvent) handler {
		return tellNamed(workers, true, func(*call, named, *struct{}) (core.WorkerEvent, error) { return ev, nil })
	}
	return []route{
		{"GET", "/v1/workers", anyToken, listing[core.Worker, core.Worker]{
			find:  byStatus(s.engine.Workers().List),
			scope: func(w core.Worker) (string, string) { return w.Namespace, w.Tenant },
			sees:  s.seesWorker,
			out:   asItIs[core.Worker],
			size:  func(w core.Worker) int { return 16<<10 + 256*len(w.Running) },
		}.page(func(l []core.Worker, next string) any { return wire.WorkerList{Workers: l, NextPageToken: next} })},
		{"GET", "/v1/workers/{name}", anyToken, workers.show},
		{"PUT", "/v1/workers/{name}", writingToken, s.putWorker},
		{"DELETE", "/v1/workers/{name}", writingToken, tellNamed(deleted, true, func(_ *call, _ named, b *wire.WorkerDeleteRequest) (core.WorkerEvent, error) {
			return core.WorkerDelete{Drain: b.Drain}, nil
		})},
		{"POST", "/v1/workers/{name}/pause", writingToken, bare(core.WorkerPause{})},
		{"POST", "/v1/workers/{name}/resume", writingToken, bare(core.WorkerResume{})},
		{"POST", "/v1/workers/{name}/wake", writingToken, bare(core.WorkerWake{})},
	}
}

func (s *Server) seesWorker(ctx context.Context, t *Token, w core.Worker) bool {
	return s.seesUses(ctx, t, w.Namespace, w.Tenant, usesOfWorker(w.Do))
}

// putWorker declares a worker or replaces what was declared.
func (s *Server) putWorker(w http.ResponseWriter, r *http.Request, c *call) error {
	n, _, err := byName.of(r, c)
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
	return reply(w, k, err)
}
