package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// auditWait bounds how long a process is waited for that is asked for its log of requests.
const auditWait = 10 * time.Second

// mergeAudit shows the logs of requests of all processes, newest first, or that of the one which is named.
func mergeAudit(rt *Router, w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, auditQuestions...)
	if err != nil {
		return err
	}
	others, err := rt.others(r.Context())
	if err != nil {
		return err
	}
	name := q.opt("instance")
	switch {
	case name == nil && others == nil:
		return failf(http.StatusNotImplemented, "audit: each process has a log of requests of its own, and this one does not know the others: ask each for its own, this one with ?instance=%s", url.QueryEscape(rt.o.Name))
	case name == nil:
		return rt.answerAudits(w, r, c, q, others)
	case *name == rt.o.Name:
		return rt.front.answerAudit(w, r, c, q, rt.o.Name)
	case others[*name] == nil:
		return failf(http.StatusBadRequest, "instance: there is none of the name %q that is alive: use one of %s", clip(*name), strings.Join(slices.Sorted(maps.Keys(rt.withMine(others))), ", "))
	}
	ctx, cancel := context.WithTimeout(r.Context(), auditWait)
	defer cancel()
	list, err := rt.logOf(ctx, r, q, *name, others[*name])
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, list)
}

// others gives the processes that are alive besides this one; nil: it does not know.
func (rt *Router) others(ctx context.Context) (map[string]http.Handler, error) {
	if rt.o.Instances == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	all, err := rt.o.Instances(ctx)
	if err != nil {
		return nil, (&failure{status: http.StatusServiceUnavailable, text: "instances: the database does not tell which processes there are", cause: err}).with("Retry-After", "1")
	}
	others := maps.Clone(all)
	if others == nil {
		others = make(map[string]http.Handler)
	}
	delete(others, rt.o.Name)
	return others, nil
}

func (rt *Router) withMine(others map[string]http.Handler) map[string]http.Handler {
	all := map[string]http.Handler{rt.o.Name: rt}
	maps.Copy(all, others)
	return all
}

// toInstance gives the request as it is sent to another process, with the caller's rights.
func (rt *Router) toInstance(ctx context.Context, r *http.Request, query url.Values) *http.Request {
	out := rt.part(ctx, r, http.MethodGet, 0, query)
	out.Header.Del(headerPart)
	out.Header.Del(HeaderPartition)
	rt.saysCharged(out)
	return out
}

// auditPlace is where a list of several logs goes on: behind the entry with that number, of the process of that name. Of entries with one number, those of
// processes with a smaller name come first.
type auditPlace struct {
	seq  uint64
	name string
}

func (p auditPlace) String() string { return strconv.FormatUint(p.seq, 10) + " " + p.name }

func parseAuditPlace(text string) (p auditPlace, err error) {
	seq, name, ok := strings.Cut(text, " ")
	if p.seq, err = strconv.ParseUint(seq, 10, 64); err != nil || !ok || p.seq == 0 {
		return p, errPageToken
	}
	p.name = name
	return p, nil
}

// before gives the number before which the log of a process goes on; 0: it begins.
func (p auditPlace) before(name string) uint64 {
	if p.seq > 0 && name > p.name {
		return p.seq + 1
	}
	return p.seq
}

// auditPart is a page of the log of one process.
type auditPart struct {
	name string
	list wire.AuditList
	next uint64 // before which entry it goes on; 0: it does not
	err  error
}

// answerAudits shows what all processes have.
func (rt *Router) answerAudits(w http.ResponseWriter, r *http.Request, c *call, q query, others map[string]http.Handler) error {
	position, err := rt.front.openPage(r, c, q)
	if err != nil {
		return err
	}
	var at auditPlace
	if position != "" {
		if at, err = parseAuditPlace(position); err != nil {
			return err
		}
	}
	query, err := rt.front.askedAudit(c, q, "")
	if err != nil {
		return err
	}
	leave, err := rt.front.takeAudit(c)
	if err != nil {
		return err
	}
	defer leave()
	parts := rt.readAudits(r, c, q, at, query, others)
	if !slices.ContainsFunc(parts, func(p auditPart) bool { return p.err == nil }) {
		return parts[slices.IndexFunc(parts, func(p auditPart) bool { return p.name == rt.o.Name })].err
	}
	out, next := mergeAudits(parts, query.Limit)
	for _, p := range parts {
		if p.err != nil {
			out.Unanswered = append(out.Unanswered, wire.AuditUnanswered{Instance: p.name, Error: told(c, p.err).text})
		}
	}
	if next.seq > 0 {
		if out.NextPageToken, err = rt.front.sealPage(r, c, q, next.String()); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// readAudits reads a page of the log of each process, all at a time, in the order of their names.
func (rt *Router) readAudits(r *http.Request, c *call, q query, at auditPlace, query audit.Query, others map[string]http.Handler) []auditPart {
	names := slices.Sorted(maps.Keys(rt.withMine(others)))
	parts := make([]auditPart, len(names))
	ctx, cancel := context.WithTimeout(r.Context(), auditWait)
	defer cancel()
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			p := auditPart{name: name}
			if name == rt.o.Name {
				own := query
				own.Before = at.before(name)
				p.list, p.next, p.err = rt.front.readAudit(ctx, c, own, name)
			} else {
				p.list, p.err = rt.askAudit(ctx, r, c, q, at, name, others[name])
				p.next, p.err = rt.goesOn(r, c, q, name, p.list.NextPageToken, p.err)
			}
			parts[i] = p
		})
	}
	all.Wait()
	return parts
}

// ofInstance gives a query for the log of one process.
func ofInstance(q query, name string) query {
	own := url.Values{}
	maps.Copy(own, q.v)
	own.Set("instance", name)
	own.Del("page_token")
	return query{own}
}

// askAudit asks another process for its log.
func (rt *Router) askAudit(ctx context.Context, r *http.Request, c *call, q query, at auditPlace, name string, to http.Handler) (list wire.AuditList, err error) {
	own := ofInstance(q, name)
	if at.seq > 0 {
		token, err := rt.front.sealPage(r, c, own, strconv.FormatUint(at.before(name), 10))
		if err != nil {
			return list, err
		}
		own.v.Set("page_token", token)
	}
	return rt.logOf(ctx, r, own, name, to)
}

// logOf gives what another process answers that is asked for its log.
func (rt *Router) logOf(ctx context.Context, r *http.Request, q query, name string, to http.Handler) (list wire.AuditList, err error) {
	var group sync.WaitGroup
	defer group.Wait()
	got := rt.askOf(&group, to, rt.toInstance(ctx, r, q.v), name)
	defer func() { _ = got.body.Close() }()
	if got.status != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(got.body, maxRefusal))
		var said wire.Error
		if json.Unmarshal(text, &said) != nil || said.Error == "" {
			said.Error = fmt.Sprintf("instance: %s does not answer", clip(name))
		}
		failed := failf(got.status, "%s", said.Error)
		if again := got.header.Get("Retry-After"); again != "" {
			failed = failed.with("Retry-After", again)
		}
		return list, failed
	}
	if err := json.NewDecoder(io.LimitReader(got.body, maxGathered)).Decode(&list); err != nil {
		return list, &failure{status: http.StatusBadGateway, text: fmt.Sprintf("the answer of %s has broken off: try again", clip(name)), cause: err}
	}
	for i := range list.Entries {
		list.Entries[i].Instance = name
	}
	return list, nil
}

// goesOn gives the entry before which the log of another process goes on, by the page token that it has sealed.
func (rt *Router) goesOn(r *http.Request, c *call, q query, name, token string, failed error) (uint64, error) {
	if failed != nil || token == "" {
		return 0, failed
	}
	own := ofInstance(q, name)
	own.v.Set("page_token", token)
	position, err := rt.front.openPage(r, c, own)
	if err != nil {
		return 0, failf(http.StatusBadGateway, "instance: %s seals its page tokens with another key than this process", clip(name))
	}
	return strconv.ParseUint(position, 10, 64)
}

// mergeAudits puts pages of several logs together, newest first, and gives where the list goes on; the zero value: it does not. Of a log of which more is to be
// read only what is not older than its page is known.
func mergeAudits(parts []auditPart, limit int) (out wire.AuditList, next auditPlace) {
	out.Entries = []audit.Entry{}
	floor := uint64(0)
	for _, p := range parts {
		if p.err != nil {
			continue
		}
		floor = max(floor, p.next)
		out.Damaged += p.list.Damaged
		out.Entries = append(out.Entries, p.list.Entries...)
	}
	slices.SortFunc(out.Entries, func(a, b audit.Entry) int {
		return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.Instance, b.Instance))
	})
	known := len(out.Entries)
	if i := slices.IndexFunc(out.Entries, func(e audit.Entry) bool { return e.Seq < floor }); i >= 0 {
		known = i
	}
	switch {
	case known > limit || known == limit && (floor > 0 || known < len(out.Entries)):
		last := out.Entries[limit-1]
		next = auditPlace{last.Seq, last.Instance}
		known = limit
	case floor > 0:
		next = auditPlace{seq: floor - 1}
	}
	out.Entries = out.Entries[:known]
	return out, next
}
