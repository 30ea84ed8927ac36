package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// operationIDs names each route, "METHOD /path", as openapi.json does.
var operationIDs = sync.OnceValue(func() map[string]string {
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(openAPIDocument, &doc); err != nil {
		panic("httpapi: openapi.json: " + err.Error()) // it is embedded, and a test reads it
	}
	ids := make(map[string]string)
	for path, methods := range doc.Paths {
		for method, op := range methods {
			ids[strings.ToUpper(method)+" "+path] = op.OperationID
		}
	}
	return ids
})

// unaudited are the routes that tell anyone the same.
var unaudited = map[string]bool{"GET /healthz": true, "GET /readyz": true, "GET /openapi.json": true}

// alwaysAudited are the reads that are as much as a change: a backup is a copy of everything.
var alwaysAudited = map[string]bool{"GET /v1/backup": true}

// record writes a request that was answered into the log of requests: a change, a
// refusal, or, if asked for, a read.
func (s *Server) record(w *statusWriter, r *http.Request, c *call) {
	if s.o.Audit == nil || unaudited[c.route] {
		return
	}
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	e := audit.Entry{
		Actor: c.actor, Address: addressOf(r), Operation: operationIDs()[c.route],
		Path: r.URL.EscapedPath(), Status: w.status, RequestID: c.id,
	}
	if read && !e.Refused() && !s.o.AuditReads && !alwaysAudited[c.route] {
		return
	}
	if e.Operation == "" {
		e.Operation = audit.Unknown
	}
	if made := w.Header().Get("Location"); w.status == http.StatusCreated && made != "" {
		e.Path = made
	} else if c.made != "" {
		e.Path = c.made
	}
	if c.token != nil {
		e.Token = c.token.Name
	}
	if of := c.scope(); of != nil {
		e.Namespace, e.Tenant = of.Namespace, of.Tenant
	}
	s.o.Audit.Add(withReason(e, c.refusal))
	for _, status := range slices.Sorted(maps.Keys(c.entries)) { // a line for what was refused, as of a request of its own
		refused := e
		refused.Status = status
		s.o.Audit.Add(withReason(refused, c.entries[status]))
	}
}

// withReason gives the entry with the reason of its refusal, if that quotes nothing that was
// sent.
func withReason(e audit.Entry, reason string) audit.Entry {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		e.Reason = reason
	}
	return e
}

// noteEntry notes the refusal of an entry of a request that makes many.
func (c *call) noteEntry(f *failure) {
	if _, known := c.entries[f.status]; known {
		return
	}
	if c.entries == nil {
		c.entries = make(map[int]string)
	}
	reason := f.text
	if f.quotes {
		reason = ""
	}
	c.entries[f.status] = reason
}

// addressOf gives the address that a request came from.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a unix socket
		return r.RemoteAddr
	}
	return host
}

// about notes what namespace and tenant a request is about, once it is known that
// its token may see them.
func (c *call) about(namespace, tenant string) {
	c.of = &shell.Scope{Namespace: namespace, Tenant: tenant}
}

// scope gives the one namespace and tenant that a request is about, or else its token; nil
// if there is more than one.
func (c *call) scope() *shell.Scope {
	switch {
	case c.of != nil:
		return c.of
	case c.token != nil:
		return c.token.scope(nil, nil)
	}
	return nil
}

// maxAuditReads bounds how many read the log at a time, each some megabytes of it.
const maxAuditReads, maxAuditReadsPerToken = 4, 2

// auditQuestions are the parameters of the log of requests.
var auditQuestions = []string{"namespace", "tenant", "since", "until", "token", "actor", "operation", "status", "instance", "limit", "page_token"}

// listAudit shows the log of requests, newest first. An admin sees all of it, others
// what their token did, and what was done in the namespaces and tenants that it sees.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := readQuery(r, auditQuestions...)
	if err != nil {
		return err
	}
	if name := q.opt("instance"); name != nil {
		return failf(http.StatusBadRequest, "instance: %q is not taken here: the log of requests is that of one server", clip(*name))
	}
	return s.answerAudit(w, r, c, q, "")
}

// answerAudit shows the log of this server; instance is its name, where there are several.
func (s *Server) answerAudit(w http.ResponseWriter, r *http.Request, c *call, q query, instance string) error {
	position, err := s.openPage(r, c, q)
	if err != nil {
		return err
	}
	query, err := s.askedAudit(c, q, position)
	if err != nil {
		return err
	}
	leave, err := s.takeAudit(c)
	if err != nil {
		return err
	}
	defer leave()
	out, next, err := s.readAudit(r.Context(), c, query, instance)
	if err != nil {
		return err
	}
	if next > 0 {
		if out.NextPageToken, err = s.sealPage(r, c, q, strconv.FormatUint(next, 10)); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// takeAudit takes a slot for reading the log.
func (s *Server) takeAudit(c *call) (leave func(), err error) {
	return s.takeStream(&s.audits, func(f *inFlight) *slots { return &f.audits }, c, "lists of the log of requests are under way", "try again", 1)
}

// askedAudit reads which entries are asked for, of those that the token sees.
func (s *Server) askedAudit(c *call, q query, position string) (audit.Query, error) {
	if _, _, err := c.scopeOf(q); err != nil {
		return audit.Query{}, err
	}
	query, err := auditQuery(q, position)
	if err != nil {
		return query, err
	}
	chosen := query.Keep
	query.Keep = func(e *audit.Entry) bool { return c.token.seesEntry(e) && chosen(e) }
	return query, nil
}

// readAudit reads a page of the log of this server, and before which entry it goes on; 0: it does not.
func (s *Server) readAudit(ctx context.Context, c *call, query audit.Query, instance string) (out wire.AuditList, next uint64, err error) {
	if s.o.Audit == nil {
		return out, 0, failf(http.StatusNotImplemented, "audit: this server keeps no log of requests: set enabled = true in [audit]")
	}
	page, err := s.o.Audit.Read(ctx, query)
	if err != nil {
		return out, 0, err
	}
	out.Entries = append([]audit.Entry{}, page.Entries...)
	if c.token.Admin {
		out.Damaged = page.Damaged
	}
	for i := range out.Entries {
		c.token.redact(&out.Entries[i])
		out.Entries[i].Instance = instance
	}
	return out, page.Next, nil
}

// seesEntry reports whether an entry exists for the holder.
func (t *Token) seesEntry(e *audit.Entry) bool {
	switch {
	case t.Admin, e.Token == t.Name:
		return true
	case len(t.Tools) > 0: // what it was about may be of any tool
		return false
	}
	return e.Namespace != "" && t.seesScope(e.Namespace, e.Tenant)
}

// redact leaves out of an entry of another token what is not about the tenant.
func (t *Token) redact(e *audit.Entry) {
	if !t.Admin && e.Token != "" && e.Token != t.Name {
		e.Address, e.RequestID, e.Reason = "", "", ""
	}
}

// auditQuery reads which entries are asked for.
func auditQuery(q query, position string) (audit.Query, error) {
	var out audit.Query
	var err error
	if out.Since, err = q.time("since"); err != nil {
		return out, err
	}
	if out.Until, err = q.time("until"); err != nil {
		return out, err
	}
	f := audit.Filter{
		Token: q.opt("token"), Actor: q.opt("actor"), Operation: q.opt("operation"), Namespace: q.opt("namespace"), Tenant: q.opt("tenant"), Status: q.get("status"),
	}
	if !f.Valid() {
		return out, failf(http.StatusBadRequest, "status: %q is unknown: use a status such as 403, or 4xx", clip(f.Status))
	}
	if out.Limit, err = q.number("limit", shell.DefaultPage, shell.MaxPage); err != nil {
		return out, err
	}
	if position != "" {
		if out.Before, err = strconv.ParseUint(position, 10, 64); err != nil || out.Before == 0 {
			return out, shell.ErrPageToken
		}
	}
	out.Keep = f.Keep
	return out, nil
}

var (
	descAuditLines   = desc("orrery_audit_lines_total", "Lines written to the log of requests.")
	descAuditDropped = desc("orrery_audit_dropped_total", "Lines that could not be written to the log of requests.")
	descAuditBytes   = desc("orrery_audit_bytes", "Bytes of the log of requests.")
)

// collectAudit reads what the log of requests counts.
func (s *Server) collectAudit(_ context.Context, ch samples) {
	if s.o.Audit == nil {
		return
	}
	st := s.o.Audit.Stats()
	ch.counter(descAuditLines, st.Lines)
	ch.counter(descAuditDropped, st.Dropped)
	ch.gauge(descAuditBytes, float64(st.Bytes))
}
