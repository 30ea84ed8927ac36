package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// searched is how many of a list's newest are looked at for what an id begins with.
const searched = 10_000

// beginsID matches the beginning of an id, in the form in which lists print ids.
var beginsID = regexp.MustCompile(`^[0-9a-f]{8}(-([0-9a-f]{0,4}|[0-9a-f]{4}-([0-9a-f]{0,4}|[0-9a-f]{4}-([0-9a-f]{0,4}|[0-9a-f]{4}-[0-9a-f]{0,12}))))?$`)

// isPrefix reports whether a text may be the beginning of an id, and is no whole one.
func isPrefix(s string) bool {
	return beginsID.MatchString(strings.ToLower(s)) && uuid.Validate(s) != nil
}

// checkIDOrPrefix looks at an id, or the beginning of one, that the user typed as an argument.
func checkIDOrPrefix(s string) error {
	if isPrefix(s) {
		return nil
	}
	if err := checkID(s); err != nil {
		return fmt.Errorf("%w, or its first %d characters or more", err, shortestID)
	}
	return nil
}

// finder is the list in which the ids of one kind are looked up.
type finder struct {
	path  string // of the API
	field string // of the answer
	scope *scoped
	what  string // "action"
	named bool   // they may have names
}

// find gives the whole id for an id or the beginning of one, which must be that of one alone: of all, if the daemon finds them, or
// else among the newest of the list.
func (f finder) find(ctx context.Context, c *client, id string) (string, error) {
	if f.named && core.IsGivenName(id) {
		named, err := f.byName(ctx, c, id)
		if coded, ok := errors.AsType[*exitError](err); err == nil || !ok || coded.code != exitNotFound {
			return named, err
		}
		if !isPrefix(id) {
			return "", &exitError{code: exitNotFound, err: fmt.Errorf("there is no %s with the name %q in this tenant", f.what, id)}
		}
	}
	if !isPrefix(id) {
		return id, nil
	}
	id = strings.ToLower(id)
	if kind := findableKinds[f.path]; kind != "" {
		found, err := f.ask(ctx, c, kind, id)
		if coded, ok := errors.AsType[*exitError](err); !ok || coded.code != exitNotFound { // else the daemon is of an earlier version
			if err != nil {
				return "", err
			}
			return f.only(id, found, true)
		}
	}
	var found []string
	seen, p := 0, page{limit: 1000}
	for {
		type one struct {
			ID string `json:"id"`
		}
		_, list, next, err := readPages[one](ctx, c, request{method: http.MethodGet, path: f.path, query: f.scope.query()}, f.field, p)
		if err != nil {
			return "", err
		}
		for _, v := range list {
			if strings.HasPrefix(v.ID, id) {
				found = append(found, v.ID)
			}
		}
		if seen += len(list); next == "" || seen >= searched {
			return f.only(id, found, next == "")
		}
		p.token = next
	}
}

// byName has the daemon tell the id of what has a name.
func (f finder) byName(ctx context.Context, c *client, name string) (string, error) {
	var named struct {
		ID string `json:"id"`
	}
	_, err := c.json(ctx, request{method: http.MethodGet, path: f.path + "/" + name, query: f.scope.query()}, &named)
	return named.ID, err
}

// findableKinds are the kinds of machines, by the paths of their lists, that the daemon finds by the beginning of an id.
var findableKinds = map[string]effects.Kind{
	"/v1/actions": core.KindAction, "/v1/recurring": core.KindRecurring, "/v1/runs": core.KindOrchestrator, "/v1/pipelines": core.KindPipeline, "/v1/tasks": core.KindTask,
	"/v1/strategies": core.KindStrategy, "/v1/backfills": core.KindBackfill, "/v1/occurrences": core.KindOccurrence,
}

// ask has the daemon find the ids of a kind that begin so.
func (f finder) ask(ctx context.Context, c *client, kind effects.Kind, begin string) (ids []string, err error) {
	q := f.scope.query()
	q.Set("q", begin)
	q.Set("kind", string(kind))
	var list wire.FoundList
	if _, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/find", query: q}, &list); err != nil {
		return nil, err
	}
	for _, found := range list.Found {
		ids = append(ids, found.ID.String())
	}
	return ids, nil
}

// only gives the id that was found, if there is one and no other.
func (f finder) only(id string, found []string, all bool) (string, error) {
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		const most = 4
		shown := strings.Join(found[:min(len(found), most)], ", ")
		if len(found) > most {
			shown += fmt.Sprintf(" and %d more", len(found)-most)
		}
		return "", usagef("%q is the beginning of %s: %s: give more of the one that is meant", id, counted(len(found), "id"), text.Clean(shown))
	case all:
		return "", &exitError{code: exitNotFound, err: fmt.Errorf("there is no %s whose id begins with %q", f.what, id)}
	}
	return "", &exitError{code: exitNotFound, err: fmt.Errorf("none of the newest %d of the list has an id that begins with %q: give the whole id", searched, id)}
}

// addFlags adds to a group of commands the flags that say whose machine is meant, which an id alone does not if several partitions have it.
func (f finder) addFlags(cmd *cobra.Command) *cobra.Command {
	for _, name := range []string{"namespace", "tenant"} {
		cmd.PersistentFlags().String(name, "", "`"+name+"` of the "+f.what+", if several partitions have its id")
	}
	return cmd
}

// narrow has each request of a command be about what is of the namespace and the tenant that its flags name, if a machine of the kind has none otherwise.
func (f finder) narrow(c *client, cmd *cobra.Command) {
	if f.path == "" || f.scope != nil {
		return
	}
	for _, name := range []string{"namespace", "tenant"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			c.whose.Set(name, flag.Value.String())
		}
	}
}

// arg resolves the argument with that index; nil if the machine is none that an id names.
func (f finder) arg(i int) resolver {
	if f.path == "" {
		return nil
	}
	return func(ctx context.Context, c *client, args []string) ([]string, error) {
		id, err := f.find(ctx, c, args[i])
		if err != nil {
			return nil, err
		}
		args = append([]string{}, args...)
		args[i] = id
		return args, nil
	}
}
