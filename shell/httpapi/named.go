package httpapi

import (
	"context"
	"net/http"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

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

// asked serves what a body of the type B asks of the machine that the request is about.
func asked[B any](s *Server, k naming, optional bool, do func(w http.ResponseWriter, r *http.Request, c *call, of named, b *B) error) handler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		of, _, err := k.of(r, c)
		if err != nil {
			return err
		}
		var b B
		if err := s.decode(w, r, &b, optional); err != nil {
			return err
		}
		return do(w, r, c, of, &b)
	}
}

// on serves what is done with the machine that the request is about, and answers with the
// machine as out shows it.
func on[S, Out any](
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
	n.Scope, err = c.token.homeOf(namespace, tenant)
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
	remains int                                   // the status of an answer with a machine that still exists
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
	return reply(w, m, err)
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
			return explain(err, madeHere)
		}
		ev, err := event(c, n, &b)
		if err != nil {
			return err
		}
		return k.answer(w, r, n, ev)
	}
}

func (k namedMachines[S, E]) answer(w http.ResponseWriter, r *http.Request, n named, ev E) error {
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
	return writeJSON(w, k.remains, m)
}
