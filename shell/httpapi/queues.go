package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// queueOf names the queue that a request is about: its own namespace and tenant,
// or those that the token is bound to.
type queueOf struct {
	namespace, tenant, name string
}

func (q queueOf) ref() effects.Ref { return core.QueueRef(q.namespace, q.tenant, q.name) }

// ofQueue reads which queue the request is about, and refuses parameters that
// the route does not know.
func ofQueue(r *http.Request, c *call, params ...string) (queueOf, query, error) {
	q, err := readQuery(r, append([]string{"namespace", "tenant"}, params...)...)
	if err != nil {
		return queueOf{}, q, err
	}
	if err := forQueues(c); err != nil {
		return queueOf{}, q, err
	}
	namespace, tenant, err := q.scope()
	if err != nil {
		return queueOf{}, q, err
	}
	of := queueOf{name: r.PathValue("name")}
	if of.namespace, err = home("namespace", namespace, c.token.Namespaces); err != nil {
		return of, q, err
	}
	if of.tenant, err = home("tenant", tenant, c.token.Tenants); err != nil {
		return of, q, err
	}
	return of, q, c.token.permit(&of.namespace, &of.tenant, "")
}

// forQueues refuses a token that is bound to tools: a queue belongs to none.
func forQueues(c *call) error {
	if len(c.token.Tools) > 0 {
		return failf(http.StatusForbidden, "token: %q is bound to some tools: queues belong to none of them", c.token.Name)
	}
	return nil
}

func (s *Server) queueDetail(r *http.Request, q core.Queue) (wire.Queue, error) {
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
	oldest, ok, err := s.engine.Queues().OldestReady(r.Context(), q.Ref())
	if ok {
		d.OldestReadyAt = oldest.CreatedAt
		d.OldestReadySeconds = s.age(oldest.CreatedAt)
	}
	return d, err
}

// age is for how many seconds something is there.
func (s *Server) age(since effects.Time) float64 {
	return max(effects.TimeOf(s.o.Clock.Now()).Sub(since).Seconds(), 0)
}

func (s *Server) answerQueue(w http.ResponseWriter, r *http.Request, q core.Queue, err error) error {
	if err != nil {
		return notFound(aQueue, err)
	}
	d, err := s.queueDetail(r, q)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, d)
}

const aQueue = "queue"

func (s *Server) getQueue(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	q, err := s.engine.Queues().Get(r.Context(), of.namespace, of.tenant, of.name)
	return s.answerQueue(w, r, q, err)
}

// putQueue declares a queue, or replaces its configuration: what the body leaves
// out has its default afterwards.
func (s *Server) putQueue(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	var config core.QueueConfig
	if err := s.decode(w, r, &config, true); err != nil {
		return err
	}
	q, err := s.engine.Queues().Configure(r.Context(), of.namespace, of.tenant, of.name, config)
	return s.answerQueue(w, r, q, err)
}

func (s *Server) deleteQueue(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	if err := s.engine.Queues().Delete(r.Context(), of.ref()); err != nil {
		return notFound(aQueue, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) listQueues(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, "namespace", "tenant", "paused", "limit", "page_token")
	if err != nil {
		return err
	}
	if err := forQueues(c); err != nil {
		return err
	}
	namespace, tenant, err := q.scope()
	if err != nil {
		return err
	}
	if err := c.token.permit(namespace, tenant, ""); err != nil {
		return err
	}
	f := shell.QueueFilter{Scope: c.token.scope(namespace, tenant)}
	if f.Paused, err = q.bool("paused"); err != nil {
		return err
	}
	p, err := q.page(shell.DefaultPage)
	if err != nil {
		return err
	}
	list, next, err := gather(p, func(p shell.Page) ([]core.Queue, string, error) {
		return s.engine.Queues().List(r.Context(), f, p)
	}, func(q core.Queue) (bool, int) {
		return c.token.sees(q.Namespace, q.Tenant, "") &&
			(namespace == nil || *namespace == q.Namespace) && (tenant == nil || *tenant == q.Tenant), 1 << 10
	})
	if err != nil {
		return err
	}
	out := wire.QueueList{Queues: make([]wire.Queue, 0, len(list)), NextPageToken: next}
	for _, q := range list {
		d, err := s.queueDetail(r, q)
		if err != nil {
			return err
		}
		out.Queues = append(out.Queues, d)
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *Server) pauseQueue(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	var body wire.Reason
	if err := s.decode(w, r, &body, true); err != nil {
		return err
	}
	reason, err := reasonText(body)
	if err != nil {
		return err
	}
	q, err := s.engine.Queues().Pause(r.Context(), of.ref(), c.actor, reason)
	return s.answerQueue(w, r, q, err)
}

func (s *Server) resumeQueue(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	q, err := s.engine.Queues().Resume(r.Context(), of.ref())
	return s.answerQueue(w, r, q, err)
}

func (s *Server) redriveQueue(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	var body wire.RedriveRequest
	if err := s.decode(w, r, &body, true); err != nil {
		return err
	}
	var item uuid.UUID
	if body.Item != nil {
		if item, err = parseID(*body.Item); err != nil {
			return failf(http.StatusBadRequest, "item: %s", err)
		}
	}
	moved, err := s.engine.Queues().Redrive(r.Context(), of.ref(), item, body.Limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, moved)
}

func (s *Server) purgeQueue(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	var body wire.PurgeRequest
	if err := s.decode(w, r, &body, true); err != nil {
		return err
	}
	reason, err := reasonText(wire.Reason{Reason: body.Reason})
	if err != nil {
		return err
	}
	if reason == "" {
		reason = fmt.Sprintf("purged by %s", c.actor)
	}
	moved, err := s.engine.Queues().Purge(r.Context(), of.ref(), body.States, body.Limit, reason)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, moved)
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
// order in which their turn comes. The page token names the state that it is in.
func (s *Server) listItems(w http.ResponseWriter, r *http.Request, c *call) error {
	of, q, err := ofQueue(r, c, "state", "limit", "page_token")
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
	if _, err := s.engine.Queues().Get(r.Context(), of.namespace, of.tenant, of.name); err != nil {
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
			return s.engine.Queues().Items(r.Context(), of.ref(), list, p)
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
