package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// machines serves the machines of one kind that have an id; Out is one as lists show it.
type machines[S core.State, Out any] struct {
	listing[S, Out]
	what string // what errors call one
	get  func(context.Context, uuid.UUID) (S, error)
	// id reads the id of the path.
	id func(*http.Request, query, *call) (uuid.UUID, error)
	// shown is what GET answers of a machine; nil: the machine.
	shown func(context.Context, *call, S) any
	// missing words the error of a machine that does not exist; nil: by what.
	missing func(*http.Request, query, *call, error) error
}

// visible loads the machine of the path. A machine that the token does not see, or of another
// namespace or tenant than the query's, does not exist.
func (k machines[S, Out]) visible(r *http.Request, c *call, params ...string) (m S, q query, err error) {
	var none S
	if q, err = readQuery(r, append([]string{"namespace", "tenant"}, params...)...); err != nil {
		return none, q, err
	}
	id, err := k.id(r, q, c)
	if err == nil {
		m, err = k.get(r.Context(), id)
	}
	if errors.Is(err, shell.ErrNotFound) {
		m, err = answeredWith[S](r, c, err)
	}
	if err == nil {
		namespace, tenant := k.scope(m)
		if !k.seen(r.Context(), c.token, m) || !matches(q, namespace, tenant) {
			err = shell.ErrNotFound
		} else {
			c.about(namespace, tenant)
		}
	}
	if err != nil {
		return none, q, k.gone(r, q, c, err)
	}
	return m, q, nil
}

func (k machines[S, Out]) gone(r *http.Request, q query, c *call, err error) error {
	if errors.Is(err, shell.ErrSetAside) {
		if c.token.unbound() {
			return failf(http.StatusGone, "%s: its record could not be read and was set aside; the daemon's log says why, and orreryd quarantine shows what is left of it", k.what)
		}
		err = shell.ErrNotFound // whose it was is lost with it
	}
	if k.missing != nil {
		return k.missing(r, q, c, err)
	}
	return notFound(k.what, err)
}

func idOfPath(r *http.Request, _ query, _ *call) (uuid.UUID, error) {
	text := r.PathValue("id")
	return idOf("id", &text)
}

// matches reports whether the namespace and tenant of the query, if given, are those.
func matches(q query, namespace, tenant string) bool {
	return or(q.opt("namespace"), namespace) == namespace && or(q.opt("tenant"), tenant) == tenant
}

// act serves what is done with the machine of the path: the answer is what do gives.
func (k machines[S, Out]) act(do func(w http.ResponseWriter, r *http.Request, c *call, m S) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		m, q, err := k.visible(r, c)
		if err != nil {
			return err
		}
		if r.Method == http.MethodGet {
			c.tag(w, r, m)
		}
		answer, err := do(w, r, c, m)
		switch {
		case err != nil:
			return k.gone(r, q, c, err)
		case answer == nil:
			return done(w, nil)
		}
		return writeJSON(w, http.StatusOK, answer)
	}
}

// show answers with a machine as it is.
func show[S any](_ http.ResponseWriter, _ *http.Request, _ *call, m S) (any, error) { return m, nil }

// await serves the machine of the path, once it has ended if the caller wants to wait for that.
func (k machines[S, Out]) await(s *Server, wait func(context.Context, uuid.UUID) (S, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		m, q, err := k.visible(r, c, "wait_seconds")
		if err != nil {
			return err
		}
		id := m.Ref().ID
		seconds, err := q.number("wait_seconds", 0, maxWaitSeconds)
		if err != nil {
			return err
		}
		if _, ended := core.EndedAt(m); !ended && seconds > 0 {
			m, err = k.ended(r.Context(), s.waitLimit(seconds), id, wait)
		}
		if err != nil {
			err = k.gone(r, q, c, err)
		}
		if k.shown != nil {
			return reply(w, k.shown(r.Context(), c, m), err)
		}
		return reply(w, m, err)
	}
}

// maxWaitSeconds bounds how long a caller may wait for the end of a machine.
const maxWaitSeconds = 60

// waitLimit is how long a request waits for the end of a machine: never longer than a request
// may take, so that its answer still gets through.
func (s *Server) waitLimit(seconds int) time.Duration {
	return min(time.Duration(seconds)*time.Second, s.o.RequestTimeout*9/10)
}

// ended gives the machine once it has ended, or as it is when the time for that is over.
func (k machines[S, Out]) ended(ctx context.Context, limit time.Duration, id uuid.UUID, wait func(context.Context, uuid.UUID) (S, error)) (S, error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m, err := wait(waiting, id)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return k.get(ctx, id)
	}
	return m, err
}

// reader reads from a request the event that a machine is sent.
type reader[E core.Event] func(w http.ResponseWriter, r *http.Request, c *call) (E, error)

// tell serves an event for the machine of the path, and answers with the machine.
func tell[S core.State, E core.Event, Out any](k machines[S, Out], send func(context.Context, uuid.UUID, E) (S, error), read reader[E]) handler {
	return k.act(func(w http.ResponseWriter, r *http.Request, c *call, m S) (any, error) {
		ev, err := read(w, r, c)
		if err != nil {
			return nil, err
		}
		return send(r.Context(), m.Ref().ID, ev)
	})
}

// bodied reads an event that comes with a body; B is its type.
func bodied[B any, E core.Event](s *Server, optional bool, event func(r *http.Request, c *call, b *B) (E, error)) reader[E] {
	return func(w http.ResponseWriter, r *http.Request, c *call) (E, error) {
		var b B
		if err := s.decode(w, r, &b, optional); err != nil {
			var none E
			return none, err
		}
		return event(r, c, &b)
	}
}

// bare reads an event that has nothing to say but its name.
func bare[E core.Event](s *Server, ev E) reader[E] {
	return func(w http.ResponseWriter, r *http.Request, _ *call) (E, error) { return ev, s.noBody(w, r) }
}

// create serves the creation of a machine with an id from a body; path is where it is found.
func create[B any, S core.State](s *Server, path string, refused map[string]string, do func(r *http.Request, c *call, b *B) (S, error)) handler {
	return noQuery(func(w http.ResponseWriter, r *http.Request, c *call) error {
		var b B
		if err := s.decode(w, r, &b, false); err != nil {
			return explain(err, refused)
		}
		m, err := do(r, c, &b)
		if err != nil {
			return err
		}
		w.Header().Set("Location", path+m.Ref().ID.String())
		return writeJSON(w, http.StatusCreated, m)
	})
}

// newID reads the id that a caller gives a new machine; zeros if they leave it to the server.
func newID(given *string) (uuid.UUID, error) {
	id, err := idOf("id", given)
	if err == nil && id != uuid.Nil && id.Version() != 4 && id.Version() != 7 {
		// Others are derived here: nobody may take them first.
		return id, failf(http.StatusBadRequest, "id: %s is a UUID of version %d: use version 4 or 7", id, id.Version())
	}
	return id, err
}

// idAndScope reads which id and scope a new machine is given, once may allows it there.
func (s *Server) idAndScope(
	r *http.Request, c *call, given, namespace, tenant *string, may func(shell.Scope) error,
) (id uuid.UUID, scope shell.Scope, err error) {
	if id, err = newID(given); err != nil {
		return id, scope, err
	}
	if scope, err = c.token.homeOf(namespace, tenant); err != nil {
		return id, scope, err
	}
	c.about(scope.Namespace, scope.Tenant)
	if err := may(scope); err != nil {
		return id, scope, err
	}
	return id, scope, s.idIsFree(r.Context(), id)
}

// idIsFree looks for a machine of any kind under a caller's id: all kinds share
// one space of ids. The engine refuses an action that exists, too; here also
// what it cannot see is refused.
func (s *Server) idIsFree(ctx context.Context, id uuid.UUID) error {
	if id == uuid.Nil { // the server gives one
		return nil
	}
	_, errAction := s.engine.Actions().Get(ctx, id)
	_, errRecurring := s.engine.Recurring().Get(ctx, id)
	_, errPipeline := s.engine.Pipelines().Get(ctx, id)
	_, errTask := s.engine.Tasks().Get(ctx, id)
	_, errStrategy := s.engine.Strategies().Get(ctx, id)
	for _, err := range []error{errAction, errRecurring, errPipeline, errTask, errStrategy} {
		switch {
		case err == nil:
			return s.unlessAnswered(ctx, failf(http.StatusConflict, "id: %s exists already", id))
		case !errors.Is(err, shell.ErrNotFound):
			return err
		}
	}
	return nil
}

// named is a machine that is known by its name within a tenant.
type named struct {
	shell.Scope
	name string
}

// queue names the machine, which is a queue.
func (n named) queue() effects.Ref { return core.QueueRef(n.Namespace, n.Tenant, n.name) }

// naming says how requests name the machines of a kind.
type naming struct {
	param   string            // of the path
	bounded bool              // a name that is too long is refused here
	may     func(*call) error // refuses tokens; nil: none
	// gone words the error of a machine that does not exist.
	gone func(named, error) error
}

var byName = naming{param: "name", bounded: true}

// of reads which machine the request is about: of the query's namespace and tenant, or of those
// that the token is bound to. Parameters that the route does not know are refused.
func (k naming) of(r *http.Request, c *call, params ...string) (named, query, error) {
	q, err := readQuery(r, append([]string{"namespace", "tenant"}, params...)...)
	if err != nil {
		return named{}, q, err
	}
	n, err := k.in(r, c, q.opt("namespace"), q.opt("tenant"))
	return n, q, err
}

// serveBody serves what a body of the type B asks of the machine that the request is about.
func serveBody[B any](s *Server, k naming, optional bool, do func(w http.ResponseWriter, r *http.Request, c *call, of named, b *B) error) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		of, _, err := k.of(r, c)
		if err != nil {
			return err
		}
		var b B
		if err := s.decode(w, r, &b, optional); err != nil {
			return explain(err, inTheQuery)
		}
		return do(w, r, c, of, &b)
	}
}

// serveChange serves a change of the machine that the request is about, and answers with the
// machine as out shows it.
func serveChange[S, Out any](
	k naming, out func(context.Context, S) (Out, error), do func(w http.ResponseWriter, r *http.Request, c *call, of named) (S, error),
) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		of, _, err := k.of(r, c)
		if err != nil {
			return err
		}
		m, err := do(w, r, c, of)
		if err != nil {
			return k.gone(of, err)
		}
		if s, ok := any(m).(core.State); ok {
			c.tag(w, r, s)
		}
		o, err := out(r.Context(), m)
		return reply(w, o, err)
	}
}

// in reads which machine of a namespace and tenant the request is about.
func (k naming) in(r *http.Request, c *call, namespace, tenant *string) (n named, err error) {
	if k.may != nil {
		if err := k.may(c); err != nil {
			return n, err
		}
	}
	n.name = r.PathValue(k.param)
	for _, of := range []struct{ field, v string }{{"namespace", or(namespace, "")}, {"tenant", or(tenant, "")}, {k.param, n.name}} {
		if len(of.v) > core.MaxNameBytes && (k.bounded || of.field != k.param) {
			return n, failf(http.StatusBadRequest, "%s: %d bytes is longer than %d", of.field, len(of.v), core.MaxNameBytes)
		}
	}
	if n.Scope, err = c.token.homeOf(namespace, tenant); err == nil {
		c.about(n.Namespace, n.Tenant)
	}
	return n, err
}

// namedMachines serves the machines of one kind that are known by their name.
type namedMachines[S core.State, E core.Event] struct {
	s       *Server
	what    string // what errors call one
	get     func(context.Context, shell.Scope, string) (S, error)
	send    func(context.Context, shell.Scope, string, E) (S, error)
	may     func(*call) error                     // refuses tokens that may name the machine; nil: none
	sees    func(context.Context, *Token, S) bool // nil: who may name it
	out     func(*call, S) S                      // a machine as the token may see it; nil: as it is
	remains int                                   // the status of an answer with a machine that still exists
}

// shown is a machine as the token may see it.
func (k namedMachines[S, E]) shown(c *call, m S) S {
	if k.out == nil {
		return m
	}
	return k.out(c, m)
}

// visible loads the machine of the path. A machine that the token does not see does not exist.
func (k namedMachines[S, E]) visible(r *http.Request, c *call) (m S, n named, err error) {
	if n, _, err = byName.of(r, c); err != nil {
		return m, n, err
	}
	m, err = k.get(r.Context(), n.Scope, n.name)
	if err == nil && k.sees != nil && !k.sees(r.Context(), c.token, m) {
		err = shell.ErrNotFound
	}
	return m, n, notFound(k.what, err)
}

// show serves the machine of the path.
func (k namedMachines[S, E]) show(w http.ResponseWriter, r *http.Request, c *call) error {
	m, _, err := k.visible(r, c)
	if err != nil {
		return err
	}
	c.tag(w, r, m)
	return writeJSON(w, http.StatusOK, k.shown(c, m))
}

// tellNamed serves an event for the machine of the path, which comes with a body of the type B.
// It answers with the machine; with 204 if that does not exist any more.
func tellNamed[B any, S core.State, E core.Event](k namedMachines[S, E], optional bool, event func(c *call, n named, b *B) (E, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		n, _, err := byName.of(r, c)
		if k.sees != nil && err == nil {
			_, n, err = k.visible(r, c)
		}
		if k.may != nil && err == nil {
			err = k.may(c)
		}
		if err != nil {
			return err
		}
		var b B
		if err := k.s.decode(w, r, &b, optional); err != nil {
			return explain(explain(err, madeHere), inTheQuery)
		}
		ev, err := event(c, n, &b)
		if err != nil {
			return err
		}
		return k.answer(w, r, c, n, ev)
	}
}

func (k namedMachines[S, E]) answer(w http.ResponseWriter, r *http.Request, c *call, n named, ev E) error {
	m, err := k.send(r.Context(), n.Scope, n.name, ev)
	switch {
	case err != nil && k.sees != nil:
		return notFound(k.what, err)
	case err != nil:
		return err
	case m.Ref() == effects.Ref{}:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	c.tag(w, r, m)
	return writeJSON(w, k.remains, k.shown(c, m))
}
