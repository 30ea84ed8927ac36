package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// runs serves the machines of a kind that have an id and come to an end:
// pipelines, tasks and strategies.
type runs[S core.State, E core.Event, Out any] struct {
	lister[S, Out]
	s          *Server
	what       string // what errors call one
	read, wait func(context.Context, uuid.UUID) (S, error)
	send       func(context.Context, uuid.UUID, E) (S, error)
}

// visible loads the machine of the path. One that the token does not see does not
// exist for it.
func (k runs[S, E, Out]) visible(r *http.Request, c *call, known ...string) (m S, id uuid.UUID, q query, err error) {
	if id, q, err = pathID(r, known...); err != nil {
		return m, id, q, err
	}
	if m, err = k.read(r.Context(), id); err == nil {
		namespace, tenant := k.scope(m)
		if !k.sees(r.Context(), c.token, m) || !matches(q, namespace, tenant) {
			err = shell.ErrNotFound
		}
	}
	return m, id, q, notFound(k.what, err)
}

// show answers with the machine of the path, once it has ended where the caller
// wants to wait for that.
func (k runs[S, E, Out]) show(w http.ResponseWriter, r *http.Request, c *call) error {
	m, id, q, err := k.visible(r, c, "wait_seconds")
	if err != nil {
		return err
	}
	_, ended := core.EndedAt(m)
	m, err = await(r.Context(), k.s, q, m, ended, func(ctx context.Context) (S, error) { return k.wait(ctx, id) })
	if errors.Is(err, errStillGoing) {
		m, err = k.read(r.Context(), id)
	}
	if err != nil {
		return notFound(k.what, err)
	}
	return writeJSON(w, http.StatusOK, m)
}

// reader reads from a request what a machine is to be told.
type reader[E core.Event] func(w http.ResponseWriter, r *http.Request, c *call) (E, error)

// tell gives an event to the machine of the path, and answers with it.
func (k runs[S, E, Out]) tell(read reader[E]) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		_, id, _, err := k.visible(r, c)
		if err != nil {
			return err
		}
		ev, err := read(w, r, c)
		if err != nil {
			return err
		}
		m, err := k.send(r.Context(), id, ev)
		if err != nil {
			return notFound(k.what, err)
		}
		return writeJSON(w, http.StatusOK, m)
	}
}
