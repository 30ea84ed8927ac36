package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) queueRoutes() []route {
	return []route{
		{"GET", "/v1/queues", anyToken, s.queues().page(func(l []wire.Queue, next string) any { return wire.QueueList{Queues: l, NextPageToken: next} })},
		{"GET", "/v1/queues/{name}", anyToken, s.onQueue(s.getQueue)},
		{"PUT", "/v1/queues/{name}", writingToken, s.onQueue(s.putQueue)},
		{"DELETE", "/v1/queues/{name}", writingToken, asked(s, byQueue, true, s.deleteQueue)},
		{"POST", "/v1/queues/{name}/pause", writingToken, s.onQueue(s.pauseQueue)},
		{"POST", "/v1/queues/{name}/resume", writingToken, s.onQueue(s.resumeQueue)},
		{"POST", "/v1/queues/{name}/redrive", writingToken, asked(s, byQueue, true, s.redriveQueue)},
		{"POST", "/v1/queues/{name}/purge", writingToken, asked(s, byQueue, true, s.purgeQueue)},
		{"POST", "/v1/queues/{name}/take", writingToken | waitsForItems, asked(s, byQueue, false, s.takeItems)},
		{"POST", "/v1/queues/{name}/items", writingToken, asked(s, byQueue, false, s.pushItem)},
		{"GET", "/v1/queues/{name}/items", anyToken, s.listItems},
		{"GET", "/v1/queues/{name}/items/{id}", anyToken, s.getItem},
		{"DELETE", "/v1/queues/{name}/items/{id}", writingToken, s.deleteItem},
		{"POST", "/v1/queues/{name}/items/{id}/complete", writingToken, heldItem(s, s.completeItem)},
		{"POST", "/v1/queues/{name}/items/{id}/fail", writingToken, heldItem(s, s.failItem)},
		{"POST", "/v1/queues/{name}/items/{id}/extend", writingToken, heldItem(s, s.extendItem)},
		{"POST", "/v1/queues/{name}/items/{id}/heartbeat", writingToken, heldItem(s, s.heartbeatItem)},
		{"POST", "/v1/queues/{name}/items/{id}/release", writingToken, heldItem(s, s.releaseItem)},
	}
}

// byQueue says how requests name queues.
var byQueue = naming{param: "name", may: forQueues, gone: func(_ named, err error) error { return notFound(aQueue, err) }}

// forQueues refuses a token that is bound to tools: the items of a queue may be for any tool.
func forQueues(c *call) error { return c.token.notBoundToTools("use queues") }

// queueDetail is a queue as its users see it.
func (s *Server) queueDetail(ctx context.Context, q core.Queue) (wire.Queue, error) {
	d := wire.Queue{
		ID: q.ID, Namespace: q.Namespace, Tenant: q.Tenant, Name: q.Name, Config: q.Config, CreatedAt: q.CreatedAt,
		Paused: q.Paused, PausedBy: q.PausedBy, Reason: q.Reason,
		Items: wire.QueueGauges{
			Ready: q.Ready, Waiting: q.Waiting, Delayed: q.Delayed, Processing: q.InFlight,
			Failed: q.Retrying, Completed: q.Kept, Dead: q.Dead,
		},
		Totals: wire.QueueTotals{
			Pushed: q.Pushed, Taken: q.Taken, Completed: q.Completed, Failed: q.Failed, TimedOut: q.TimedOut,
			DeadLettered: q.DeadLettered, Cancelled: q.Cancelled, Redriven: q.Redriven,
		},
	}
	if q.Ready == 0 {
		return d, nil
	}
	oldest, ok, err := s.engine.Queues().OldestReady(ctx, q.Ref())
	if ok {
		d.OldestReadyAt = oldest.CreatedAt
		d.OldestReadySeconds = s.age(oldest.CreatedAt)
	}
	return d, err
}

// age gives how many seconds have passed since an instant.
func (s *Server) age(since effects.Time) float64 {
	return max(effects.TimeOf(s.o.Clock.Now()).Sub(since).Seconds(), 0)
}

const aQueue = "queue"

// onQueue serves what is done with the queue of the path, and answers with the queue.
func (s *Server) onQueue(do func(w http.ResponseWriter, r *http.Request, c *call, of named) (core.Queue, error)) handler {
	return on(byQueue, s.queueDetail, do)
}

func (s *Server) getQueue(_ http.ResponseWriter, r *http.Request, _ *call, of named) (core.Queue, error) {
	return s.engine.Queues().Get(r.Context(), of.Namespace, of.Tenant, of.name)
}

// putQueue declares a queue, or replaces its configuration: what the body leaves
// out has its default afterwards.
func (s *Server) putQueue(w http.ResponseWriter, r *http.Request, _ *call, of named) (q core.Queue, err error) {
	var config core.QueueConfig
	if err := s.decode(w, r, &config, true); err != nil {
		return q, err
	}
	return s.engine.Queues().Configure(r.Context(), of.Namespace, of.Tenant, of.name, config)
}

func (s *Server) pauseQueue(w http.ResponseWriter, r *http.Request, c *call, of named) (q core.Queue, err error) {
	reason, err := s.reason(w, r, c, "")
	if err != nil {
		return q, err
	}
	return s.engine.Queues().Pause(r.Context(), of.queue(), c.actor, reason)
}

func (s *Server) resumeQueue(w http.ResponseWriter, r *http.Request, _ *call, of named) (q core.Queue, err error) {
	if err := s.noBody(w, r); err != nil {
		return q, err
	}
	return s.engine.Queues().Resume(r.Context(), of.queue())
}

func (s *Server) deleteQueue(w http.ResponseWriter, r *http.Request, _ *call, of named, _ *struct{}) error {
	return done(w, notFound(aQueue, s.engine.Queues().Delete(r.Context(), of.queue())))
}

// queues says how queues are listed.
func (s *Server) queues() listing[core.Queue, wire.Queue] {
	return listing[core.Queue, wire.Queue]{
		params: []string{"paused"},
		may:    forQueues,
		find: func(q query, scope *shell.Scope) (source[core.Queue], error) {
			paused, err := q.bool("paused")
			return from(s.engine.Queues().List, shell.QueueFilter{Scope: scope, Paused: paused}), err
		},
		scope: func(q core.Queue) (string, string) { return q.Namespace, q.Tenant },
		out:   s.queueDetail,
		size:  func(core.Queue) int { return 1 << 10 },
	}
}

func (s *Server) redriveQueue(w http.ResponseWriter, r *http.Request, _ *call, of named, body *wire.RedriveRequest) error {
	var item uuid.UUID
	if body.Item != nil {
		var err error
		if item, err = parseID(*body.Item); err != nil {
			return failf(http.StatusBadRequest, "item: %s", err)
		}
	}
	moved, err := s.engine.Queues().Redrive(r.Context(), of.queue(), item, body.Limit)
	return reply(w, moved, err)
}

func (s *Server) purgeQueue(w http.ResponseWriter, r *http.Request, c *call, of named, body *wire.PurgeRequest) error {
	reason, err := reasonOr(wire.Reason{Reason: body.Reason}, "purged", c)
	if err != nil {
		return err
	}
	moved, err := s.engine.Queues().Purge(r.Context(), of.queue(), body.States, body.Limit, reason)
	return reply(w, moved, err)
}

// itemLists gives the lists that a state of an item names: none means all.
func itemLists(state *string) ([]string, error) {
	all := core.QueueItemLists[:]
	switch {
	case state == nil:
		return all, nil
	case *state == string(core.ItemPending):
		return []string{"ready", "waiting", "delayed"}, nil
	case slices.Contains(all, *state):
		return []string{*state}, nil
	}
	return nil, failf(http.StatusBadRequest, "state: %q is unknown: use pending, %s", clip(*state), strings.Join(all, ", "))
}

// listItems lists the items of one state after those of another, each in the
// order in which they are taken. The page token names the state that it is in.
func (s *Server) listItems(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := byQueue.of(r, c, "state", "limit", "page_token")
	if err != nil {
		return err
	}
	lists, err := itemLists(q.opt("state"))
	if err != nil {
		return err
	}
	p, err := q.page(shell.DefaultPage)
	if err != nil {
		return err
	}
	if _, err := s.engine.Queues().Get(r.Context(), of.Namespace, of.Tenant, of.name); err != nil {
		return notFound(aQueue, err)
	}
	out := wire.ItemList{Items: []core.QueueItem{}}
	if p.Token != "" {
		in, rest, ok := strings.Cut(p.Token, ".")
		i := slices.Index(lists, in)
		if !ok || i < 0 {
			return shell.ErrPageToken
		}
		lists, p.Token = lists[i:], rest
	}
	for n, list := range lists {
		some, next, err := gather(shell.Page{Limit: p.Limit - len(out.Items), Token: p.Token}, func(p shell.Page) ([]core.QueueItem, string, error) {
			return s.engine.Queues().Items(r.Context(), of.queue(), list, p)
		}, func(i core.QueueItem) (bool, int) { return true, len(i.Data) + len(i.State.Result) })
		if err != nil {
			return err
		}
		out.Items = append(out.Items, some...)
		if next != "" {
			out.NextPageToken = list + "." + next
			break
		}
		if p.Token = ""; len(out.Items) >= p.Limit && n+1 < len(lists) {
			out.NextPageToken = lists[n+1] + "."
			break
		}
	}
	return writeJSON(w, http.StatusOK, out)
}
