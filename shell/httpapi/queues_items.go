package httpapi

import (
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

func (s *Server) pushItem(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	var body wire.PushRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return err
	}
	if err := between("delay_ms", body.DelayMS, core.MaxDelayMS); err != nil {
		return err
	}
	item, duplicate, err := s.engine.Queues().Push(r.Context(), of.namespace, of.tenant, of.name, shell.PushOptions{
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

// between refuses a number that a conversion could make another one.
func between(field string, v, most int64) error {
	if v < 0 || v > most {
		return failf(http.StatusBadRequest, "%s: %d is not between 0 and %d", field, v, most)
	}
	return nil
}

func (s *Server) takeItems(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	var body wire.TakeRequest
	if err := s.decode(w, r, &body, false); err != nil {
		return err
	}
	if body.Holder == "" {
		return failf(http.StatusBadRequest, "holder: must not be empty: give who takes")
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
	items, err := s.engine.Queues().Take(r.Context(), of.ref(), shell.TakeOptions{
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

// untilTaken lets the connection live as long as a take may wait. net/http ends
// the context of a request when the time for reading it is over, also while
// nothing is left to be read.
func (s *Server) untilTaken(w http.ResponseWriter, wait time.Duration) error {
	err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait + s.o.RequestTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("lift the time limit of a take: %w", err)
	}
	return nil
}

const anItem = "item"

// ofItem reads which item the request is about.
func ofItem(r *http.Request, c *call) (queueOf, uuid.UUID, error) {
	of, _, err := ofQueue(r, c)
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
	i, err := s.engine.Queues().Item(r.Context(), of.ref(), id)
	if err != nil {
		return notFound(anItem, err)
	}
	return writeJSON(w, http.StatusOK, i)
}

func (s *Server) deleteItem(w http.ResponseWriter, r *http.Request, c *call) error {
	of, id, err := ofItem(r, c)
	if err != nil {
		return err
	}
	if err := s.noBody(w, r); err != nil {
		return err
	}
	return done(w, s.engine.Queues().CancelItem(r.Context(), of.ref(), id, fmt.Sprintf("cancelled by %s", c.actor)))
}

// done answers where there is nothing to tell.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// holding reads which item the request is about, and the body.
func (s *Server) holding(w http.ResponseWriter, r *http.Request, c *call, body wire.Holder) (shell.Hold, error) {
	of, id, err := ofItem(r, c)
	if err != nil {
		return shell.Hold{}, err
	}
	if err := s.decode(w, r, body, false); err != nil {
		return shell.Hold{}, err
	}
	b := body.Hold()
	switch {
	case b.Holder == "":
		return shell.Hold{}, failf(http.StatusBadRequest, "holder: must not be empty: give the one that took the item")
	case b.Attempt == 0:
		return shell.Hold{}, failf(http.StatusBadRequest, "attempt: must not be 0: give the attempts that the taken item has")
	}
	return shell.Hold{Queue: of.ref(), Item: id, Holder: b.Holder, Attempt: b.Attempt}, nil
}

func (s *Server) completeItem(w http.ResponseWriter, r *http.Request, c *call) error {
	var body wire.CompleteRequest
	h, err := s.holding(w, r, c, &body)
	if err != nil {
		return err
	}
	return done(w, s.engine.Queues().Complete(r.Context(), h, body.Result))
}

func (s *Server) failItem(w http.ResponseWriter, r *http.Request, c *call) error {
	var body wire.FailRequest
	h, err := s.holding(w, r, c, &body)
	if err != nil {
		return err
	}
	return done(w, s.engine.Queues().Fail(r.Context(), h, body.Error, body.Permanent))
}

func (s *Server) extendItem(w http.ResponseWriter, r *http.Request, c *call) error {
	var body wire.ExtendRequest
	h, err := s.holding(w, r, c, &body)
	if err != nil {
		return err
	}
	if err := between("visibility_ms", body.VisibilityMS, core.MaxVisibilityMS); err != nil {
		return err
	}
	return s.extended(w, r, h, body.VisibilityMS)
}

func (s *Server) heartbeatItem(w http.ResponseWriter, r *http.Request, c *call) error {
	var body wire.HoldRequest
	h, err := s.holding(w, r, c, &body)
	if err != nil {
		return err
	}
	return s.extended(w, r, h, 0)
}

func (s *Server) extended(w http.ResponseWriter, r *http.Request, h shell.Hold, visibilityMS int64) error {
	i, err := s.engine.Queues().Extend(r.Context(), h, time.Duration(visibilityMS)*time.Millisecond)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, i)
}

func (s *Server) releaseItem(w http.ResponseWriter, r *http.Request, c *call) error {
	var body wire.HoldRequest
	h, err := s.holding(w, r, c, &body)
	if err != nil {
		return err
	}
	return done(w, s.engine.Queues().Release(r.Context(), h))
}
