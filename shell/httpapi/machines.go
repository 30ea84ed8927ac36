package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
)

// runbookRoutes are those of the machines of the runbooks (003).
func (s *Server) runbookRoutes() []route {
	return slices.Concat(s.pipelineRoutes(), s.taskRoutes(), s.strategyRoutes(), s.workerRoutes(), s.lockRoutes(), s.busRoutes())
}

// createdID reads the id of a machine that a caller makes.
func createdID(v *string) (uuid.UUID, error) {
	if v == nil {
		return uuid.Nil, nil
	}
	id, err := parseID(*v)
	switch {
	case err != nil:
		return id, failf(http.StatusBadRequest, "id: %s", err)
	case id.Version() != 4 && id.Version() != 7:
		// Others are derived here: nobody may take them first.
		return id, failf(http.StatusBadRequest, "id: %s is a UUID of version %d: use version 4 or 7", id, id.Version())
	}
	return id, nil
}

// homeOf gives namespace and tenant of what a caller makes or names, and
// refuses what the token may not have.
func (t *Token) homeOf(namespace, tenant *string) (scope shell.Scope, err error) {
	if scope.Namespace, err = home("namespace", namespace, t.Namespaces); err != nil {
		return scope, err
	}
	if scope.Tenant, err = home("tenant", tenant, t.Tenants); err != nil {
		return scope, err
	}
	return scope, t.permit(&scope.Namespace, &scope.Tenant, "")
}

// seesScope reports whether a machine without tools of its own exists for the holder.
func (t *Token) seesScope(namespace, tenant string) bool {
	return in(t.Namespaces, namespace) && in(t.Tenants, tenant)
}

// named is a machine that is known by its name within a tenant: both come by
// the query.
type named struct {
	shell.Scope
	name string
}

func namedOf(r *http.Request, c *call) (n named, err error) {
	q, err := readQuery(r, "namespace", "tenant")
	if err != nil {
		return n, err
	}
	namespace, tenant, err := q.scope()
	if err != nil {
		return n, err
	}
	n.name = r.PathValue("name")
	if len(n.name) > core.MaxNameBytes {
		return n, failf(http.StatusBadRequest, "name: %d bytes is longer than %d", len(n.name), core.MaxNameBytes)
	}
	n.Scope, err = c.token.homeOf(namespace, tenant)
	return n, err
}

// pathID reads the id of the path, and refuses parameters but the known ones.
func pathID(r *http.Request, known ...string) (uuid.UUID, query, error) {
	q, err := readQuery(r, append([]string{"namespace", "tenant"}, known...)...)
	if err != nil {
		return uuid.Nil, q, err
	}
	id, err := parseID(r.PathValue("id"))
	if err != nil {
		return uuid.Nil, q, failf(http.StatusBadRequest, "id: %s", err)
	}
	return id, q, nil
}

// lister says how the machines of a kind are listed.
type lister[S, Out any] struct {
	statuses []string // none: there is no filter
	list     func(context.Context, shell.MachineFilter, shell.Page) ([]S, string, error)
	scope    func(S) (namespace, tenant string)
	sees     func(context.Context, *Token, S) bool
	out      func(S) Out
	size     func(S) int // about how many bytes one takes in the answer
}

// page answers a request for a list.
func (l lister[S, Out]) page(r *http.Request, c *call) ([]Out, string, error) {
	known := []string{"namespace", "tenant", "limit", "page_token"}
	if len(l.statuses) > 0 {
		known = append(known, "status")
	}
	q, err := readQuery(r, known...)
	if err != nil {
		return nil, "", err
	}
	namespace, tenant, err := q.scope()
	if err != nil {
		return nil, "", err
	}
	if err := c.token.permit(namespace, tenant, ""); err != nil {
		return nil, "", err
	}
	f := shell.MachineFilter{Scope: c.token.scope(namespace, tenant), Status: q.get("status")}
	if q.opt("status") != nil && !slices.Contains(l.statuses, f.Status) {
		return nil, "", failf(http.StatusBadRequest, "status: %q is unknown: use one of %s", clip(f.Status), strings.Join(l.statuses, ", "))
	}
	p, err := q.page(shell.DefaultPage)
	if err != nil {
		return nil, "", err
	}
	found, next, err := gather(p, func(p shell.Page) ([]S, string, error) {
		return l.list(r.Context(), f, p)
	}, func(v S) (bool, int) {
		ns, tn := l.scope(v)
		return l.sees(r.Context(), c.token, v) && or(namespace, ns) == ns && or(tenant, tn) == tn, l.size(v)
	})
	out := make([]Out, 0, len(found))
	for _, v := range found {
		out = append(out, l.out(v))
	}
	return out, next, err
}

// maxWaitSeconds bounds how long a caller may wait for the end of something.
const maxWaitSeconds = 60

// await reads a machine and, where the caller asks for it, waits for its end:
// never longer than a request may take, so that the answer still gets through.
func await[S any](ctx context.Context, s *Server, q query, before S, ended bool, wait func(context.Context) (S, error)) (S, error) {
	n, err := q.number("wait_seconds", 0, maxWaitSeconds)
	if err != nil || n == 0 || ended {
		return before, err
	}
	waiting, cancel := context.WithTimeout(ctx, min(time.Duration(n)*time.Second, s.o.RequestTimeout*9/10))
	defer cancel()
	after, err := wait(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return before, errStillGoing
	}
	return after, err
}

// errStillGoing says that the wait is over and the machine has not ended.
var errStillGoing = fmt.Errorf("it has not ended")
