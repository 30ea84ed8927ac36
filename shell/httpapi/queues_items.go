package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// maxTakeWait is how long a take may wait for an item.
const maxTakeWait = time.Minute

// pushRequest is the body of POST /v1/queues/{name}/items.
type pushRequest struct {
	Data     json.RawMessage `json:"data"`
	Priority int32           `json:"priority"`
	Key      *string         `json:"key"`
	DedupKey *string         `json:"dedup_key"`
	DelayMS  int64           `json:"delay_ms"`
}

// pushed is the answer to a push. Where the dedup key is held, item is the one
// that holds it: only its id, where that has ended.
type pushed struct {
	Duplicate bool           `json:"duplicate"`
	Item      core.QueueItem `json:"item"`
}

func (s *Server) pushItem(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	var body pushRequest
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
	return writeJSON(w, status, pushed{Duplicate: duplicate, Item: item})
}

// between refuses a number that a conversion could make another one.
func between(field string, v, most int64) error {
	if v < 0 || v > most {
		return failf(http.StatusBadRequest, "%s: %d is not between 0 and %d", field, v, most)
	}
	return nil
}

// takeRequest is the body of POST /v1/queues/{name}/take.
type takeRequest struct {
	Holder       string `json:"holder"`
	Max          int64  `json:"max"`
	VisibilityMS int64  `json:"visibility_ms"`
	WaitSeconds  int64  `json:"wait_seconds"`
}

type taken struct {
	Items []core.QueueItem `json:"items"`
}

func (s *Server) takeItems(w http.ResponseWriter, r *http.Request, c *call) error {
	of, _, err := ofQueue(r, c)
	if err != nil {
		return err
	}
	var body takeRequest
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
	return writeJSON(w, http.StatusOK, taken{Items: items})
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

// holdRequest says who holds an item, in which attempt: what every answer of a
// holder must say. It is the whole body of heartbeat and release.
type holdRequest struct {
	Holder  string `json:"holder"`
	Attempt uint32 `json:"attempt"`
}

func (b *holdRequest) hold() *holdRequest { return b }

// holder is a body that has a holdRequest.
type holder interface{ hold() *holdRequest }

// holding reads which item the request is about, and the body.
func (s *Server) holding(w http.ResponseWriter, r *http.Request, c *call, body holder) (shell.Hold, error) {
	of, id, err := ofItem(r, c)
	if err != nil {
		return shell.Hold{}, err
	}
	if err := s.decode(w, r, body, false); err != nil {
		return shell.Hold{}, err
	}
	b := body.hold()
	switch {
	case b.Holder == "":
		return shell.Hold{}, failf(http.StatusBadRequest, "holder: must not be empty: give the one that took the item")
	case b.Attempt == 0:
		return shell.Hold{}, failf(http.StatusBadRequest, "attempt: must not be 0: give the attempts that the taken item has")
	}
	return shell.Hold{Queue: of.ref(), Item: id, Holder: b.Holder, Attempt: b.Attempt}, nil
}

// completeRequest is the body of complete.
type completeRequest struct {
	holdRequest
	Result json.RawMessage `json:"result"`
}

func (s *Server) completeItem(w http.ResponseWriter, r *http.Request, c *call) error {
	var body completeRequest
	h, err := s.holding(w, r, c, &body)
	if err != nil {
		return err
	}
	return done(w, s.engine.Queues().Complete(r.Context(), h, body.Result))
}

// failRequest is the body of fail.
type failRequest struct {
	holdRequest
	Error     string `json:"error"`
	Permanent bool   `json:"permanent"`
}

func (s *Server) failItem(w http.ResponseWriter, r *http.Request, c *call) error {
	var body failRequest
	h, err := s.holding(w, r, c, &body)
	if err != nil {
		return err
	}
	return done(w, s.engine.Queues().Fail(r.Context(), h, body.Error, body.Permanent))
}

// extendRequest is the body of extend.
type extendRequest struct {
	holdRequest
	VisibilityMS int64 `json:"visibility_ms"`
}

func (s *Server) extendItem(w http.ResponseWriter, r *http.Request, c *call) error {
	var body extendRequest
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
	var body holdRequest
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
	var body holdRequest
	h, err := s.holding(w, r, c, &body)
	if err != nil {
		return err
	}
	return done(w, s.engine.Queues().Release(r.Context(), h))
}
