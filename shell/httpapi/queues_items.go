package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// maxTakeWait is how long a take may wait for an item.
const maxTakeWait = time.Minute

func (s *Server) pushItem(w http.ResponseWriter, r *http.Request, _ *call, of named, body *wire.PushRequest) error {
	if err := between("delay_ms", body.DelayMS, core.MaxDelayMS); err != nil {
		return err
	}
	item, duplicate, err := s.engine.Queues().Push(r.Context(), of.Namespace, of.Tenant, of.name, shell.PushOptions{
		Data: body.Data, Priority: body.Priority, Key: or(body.Key, ""), DedupKey: or(body.DedupKey, ""),
		Delay: time.Duration(body.DelayMS) * time.Millisecond,
	})
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
	of, _, err := byQueue.of(r, c)
	if err != nil {
		return of, uuid.Nil, err
	}
	id, err := parseID(r.PathValue("id"))
	if err != nil {
		return of, id, failf(http.StatusBadRequest, "id: %s", err)
	}
	return of, id, nil
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
			return err
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
