package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (s *Server) queueRoutes() []route {
	return []route{
		{"GET", "/v1/queues", anyToken | lists, s.queues().page(s, "queues")},
		{"GET", "/v1/queues/{name}", anyToken, serveChange(byQueue, shownWith(s.queueDetail, s.ownerOfQueue), s.getQueue)},
		{"PUT", "/v1/queues/{name}", writingToken | edits, s.onQueue(s.putQueue)},
		{"DELETE", "/v1/queues/{name}", writingToken | edits, serveBody(s, byQueue, true, s.deleteQueue)},
		{"POST", "/v1/queues/{name}/pause", writingToken, s.onQueue(s.pauseQueue)},
		{"POST", "/v1/queues/{name}/resume", writingToken, s.onQueue(s.resumeQueue)},
		{"POST", "/v1/queues/{name}/redrive", writingToken, serveBody(s, byQueue, true, s.redriveQueue)},
		{"POST", "/v1/queues/{name}/purge", writingToken, serveBody(s, byQueue, true, s.purgeQueue)},
		{"POST", "/v1/queues/{name}/take", writingToken | waitsForItems, serveBody(s, byQueue, false, s.takeItems)},
		{"POST", "/v1/queues/{name}/items", writingToken, serveBody(s, byQueue, false, s.pushItem)},
		{"POST", "/v1/queues/{name}/items/batch", writingToken, s.pushItems},
		{"GET", "/v1/queues/{name}/items", anyToken | lists, s.listItems},
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

func (s *Server) ownerOfQueue(ctx context.Context, q *wire.Queue) (err error) {
	q.Declared, err = s.declaredBy(ctx, core.QueueRef(q.Namespace, q.Tenant, q.Name), "")
	return err
}

// age gives how many seconds have passed since an instant.
func (s *Server) age(since effects.Time) float64 {
	return max(s.now().Sub(since).Seconds(), 0)
}

const aQueue = "queue"

// onQueue serves what is done with the queue of the path, and answers with the queue.
func (s *Server) onQueue(do func(w http.ResponseWriter, r *http.Request, c *call, of named) (core.Queue, error)) handler {
	return serveChange(byQueue, s.queueDetail, do)
}

func (s *Server) getQueue(_ http.ResponseWriter, r *http.Request, _ *call, of named) (core.Queue, error) {
	return s.engine.Queues().Get(r.Context(), of.Namespace, of.Tenant, of.name)
}

// putQueue declares a queue, or replaces its configuration: what the body leaves
// out has its default afterwards.
func (s *Server) putQueue(w http.ResponseWriter, r *http.Request, c *call, of named) (q core.Queue, err error) {
	var config core.QueueConfig
	if err := s.decode(w, r, &config, true); err != nil {
		return q, explain(err, inTheQuery)
	}
	if err := s.within(r.Context(), c.token, of.Scope, want{}); err != nil {
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
			return sourceOf(s.engine.Queues().List, shell.QueueFilter{Scope: scope, Paused: paused}), err
		},
		scope: func(q core.Queue) (string, string) { return q.Namespace, q.Tenant },
		out:   s.queueDetail,
		size:  func(core.Queue) int { return 1 << 10 },
	}
}

func (s *Server) redriveQueue(w http.ResponseWriter, r *http.Request, _ *call, of named, body *wire.RedriveRequest) error {
	item, err := idOf("item", body.Item)
	if err != nil {
		return err
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

// items says how the items of a queue are listed.
func (s *Server) items() listing[core.QueueItem, wire.ItemSummary] {
	return listing[core.QueueItem, wire.ItemSummary]{
		params: []string{"state"}, inLine: true,
		wide: []string{"data", "result"},
		omit: func(i core.QueueItem, asked include) core.QueueItem {
			i.Data, i.State.Result = keepIf(asked.has("data"), i.Data), keepIf(asked.has("result"), i.State.Result)
			return i
		},
		out:  plain(func(i core.QueueItem) wire.ItemSummary { return wire.ItemSummary(i) }),
		size: func(i core.QueueItem) int { return 512 + len(i.Data) + len(i.State.Result) },
	}
}

// listItems lists the items of one state after those of another, each in the
// order in which they are taken.
func (s *Server) listItems(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := byQueue.of(r, c, s.items().known()...)
	if err != nil {
		return err
	}
	states, err := itemLists(q.opt("state"))
	if err != nil {
		return err
	}
	if _, err := q.limit(shell.DefaultPage); err != nil { // before it is known whether there is such a queue
		return err
	}
	if _, err := s.engine.Queues().Get(r.Context(), of.Namespace, of.Tenant, of.name); err != nil {
		return notFound(aQueue, err)
	}
	return s.items().answer(s, w, r, c, q, s.itemsIn(of, states), "items", shell.Page{})
}

// itemsIn gives the items of the states, one after the other. A position names the state
// that it is in.
func (s *Server) itemsIn(of named, states []string) source[core.QueueItem] {
	return source[core.QueueItem]{next: func(ctx context.Context, p shell.Page) ([]core.QueueItem, string, error) {
		at := 0
		if p.Token != "" {
			state, rest, ok := strings.Cut(p.Token, ".")
			at, p.Token = slices.Index(states, state), rest
			if !ok || at < 0 {
				return nil, "", shell.ErrPageToken
			}
		}
		for {
			list, next, err := s.engine.Queues().Items(ctx, of.queue(), states[at], p)
			switch {
			case err != nil:
				return nil, "", err
			case next != "":
				return list, states[at] + "." + next, nil
			case at+1 == len(states):
				return list, "", nil
			case len(list) > 0:
				return list, states[at+1] + ".", nil
			}
			at, p.Token = at+1, ""
		}
	}}
}

// maxTakeWait is how long a take may wait for an item.
const maxTakeWait = time.Minute

func (s *Server) pushItem(w http.ResponseWriter, r *http.Request, c *call, of named, body *wire.PushRequest) error {
	if err := between("delay_ms", body.DelayMS, core.MaxDelayMS); err != nil {
		return err
	}
	if err := s.within(r.Context(), c.token, of.Scope, want{}); err != nil {
		return err
	}
	item, duplicate, err := s.engine.Queues().Push(r.Context(), of.Namespace, of.Tenant, of.name, pushOptions(body))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !duplicate {
		status = http.StatusCreated
		w.Header().Set("Location", r.URL.EscapedPath()+"/"+item.ID.String())
	}
	return writeJSON(w, status, wire.Pushed{Duplicate: duplicate, Item: item})
}

func (s *Server) takeItems(w http.ResponseWriter, r *http.Request, _ *call, of named, body *wire.TakeRequest) error {
	if body.Holder == "" {
		return failf(http.StatusBadRequest, "holder: must not be empty: name who takes the items")
	}
	if err := errors.Join(
		between("max", body.Max, core.MaxQueueTake),
		between("visibility_ms", body.VisibilityMS, core.MaxVisibilityMS),
		between("wait_seconds", body.WaitSeconds, int64(maxTakeWait.Seconds())),
	); err != nil {
		return err
	}
	if err := s.untilTaken(w, maxTakeWait); err != nil {
		return err
	}
	items, err := s.engine.Queues().Take(r.Context(), of.queue(), shell.TakeOptions{
		Holder: body.Holder, Max: int(body.Max), Visibility: time.Duration(body.VisibilityMS) * time.Millisecond,
		Wait: time.Duration(body.WaitSeconds) * time.Second,
	})
	if err != nil {
		return notFound(aQueue, err)
	}
	if items == nil {
		items = []core.QueueItem{} // [] and not null
	}
	return writeJSON(w, http.StatusOK, wire.Taken{Items: items})
}

// untilTaken keeps the connection open for as long as a take may wait. net/http ends the
// context of a request when the time for reading it is over, even if it has been read.
func (s *Server) untilTaken(w http.ResponseWriter, wait time.Duration) error {
	err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait + s.o.RequestTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("lift the time limit of a take: %w", err)
	}
	return nil
}

const anItem = "item"

// ofItem reads which item the request is about.
func ofItem(r *http.Request, c *call) (named, uuid.UUID, error) {
	of, q, err := byQueue.of(r, c)
	if err != nil {
		return of, uuid.Nil, err
	}
	id, err := idOfPath(r, q, c)
	return of, id, err
}

func (s *Server) getItem(w http.ResponseWriter, r *http.Request, c *call) error {
	of, id, err := ofItem(r, c)
	if err != nil {
		return err
	}
	i, err := s.engine.Queues().Item(r.Context(), of.queue(), id)
	return reply(w, i, notFound(anItem, err))
}

func (s *Server) deleteItem(w http.ResponseWriter, r *http.Request, c *call) error {
	of, id, err := ofItem(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	return done(w, s.engine.Queues().CancelItem(r.Context(), of.queue(), id, fmt.Sprintf("cancelled by %s", c.actor)))
}

// heldItem serves what a holder says of the item of the path. B is the body, which says who holds
// the item; the answer is what do gives.
func heldItem[B any, P interface {
	*B
	wire.Holder
}](s *Server, do func(ctx context.Context, h shell.Hold, b P) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		of, id, err := ofItem(r, c)
		if err != nil {
			return err
		}
		body := P(new(B))
		if err := s.decode(w, r, body, false); err != nil {
			return explain(err, inTheQuery)
		}
		b := body.Hold()
		switch {
		case b.Holder == "":
			return failf(http.StatusBadRequest, "holder: must not be empty: name who took the item")
		case b.Attempt == 0:
			return failf(http.StatusBadRequest, "attempt: must not be 0: give the attempts that the taken item has")
		}
		answer, err := do(r.Context(), shell.Hold{Queue: of.queue(), Item: id, Holder: b.Holder, Attempt: b.Attempt}, body)
		if err != nil || answer == nil {
			return done(w, err)
		}
		return writeJSON(w, http.StatusOK, answer)
	}
}

func (s *Server) completeItem(ctx context.Context, h shell.Hold, b *wire.CompleteRequest) (any, error) {
	return nil, s.engine.Queues().Complete(ctx, h, b.Result)
}

func (s *Server) failItem(ctx context.Context, h shell.Hold, b *wire.FailRequest) (any, error) {
	return nil, s.engine.Queues().Fail(ctx, h, b.Error, b.Permanent)
}

func (s *Server) extendItem(ctx context.Context, h shell.Hold, b *wire.ExtendRequest) (any, error) {
	if err := between("visibility_ms", b.VisibilityMS, core.MaxVisibilityMS); err != nil {
		return nil, err
	}
	return s.engine.Queues().Extend(ctx, h, time.Duration(b.VisibilityMS)*time.Millisecond)
}

func (s *Server) heartbeatItem(ctx context.Context, h shell.Hold, _ *wire.HoldRequest) (any, error) {
	return s.engine.Queues().Extend(ctx, h, 0)
}

func (s *Server) releaseItem(ctx context.Context, h shell.Hold, _ *wire.HoldRequest) (any, error) {
	return nil, s.engine.Queues().Release(ctx, h)
}
