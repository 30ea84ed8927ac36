package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/internal/strictjson"
)

// way is how the router finds out where a request goes.
type way int

const (
	_          way = iota
	here           // it is answered without a partition
	anywhere       // each partition answers the same
	ofName         // to the tenant of the query, else of the token, else the default one: what has a name within its tenant
	ofBody         // to the tenant of the body or of the query, likewise
	ofEntries      // to the one tenant's partition of all entries of the body
	ofID           // to the partition that has the machine of the path, unless a tenant is named
	ofHook         // to the tenant of a route of webhooks
	ofTenant       // to the one tenant of the query or of the token; it is about several else, and merged
	ofAll          // it is about all partitions
	ofPlan         // of a preview: to the tenant whose calendars it names, else anywhere
	ofBackfill     // to the partition of a schedule: by its id, or by the tenant of the job
	ofEvent        // to the tenant of the body, if it names one
	ofNumber       // to the partition that the query names
)

// placing is where the requests of a route go.
type placing struct {
	how way
	// entries is the member of the body that has them; of: below each, the members of which one has the tenant.
	entries string
	of      []string
	// kind begins the path at which a machine is asked for, by which its partition is found.
	kind string
	// merge answers what is about several partitions; nil: that is refused.
	merge func(rt *Router, w http.ResponseWriter, r *http.Request, c *call) error
}

// tellsTenant reports whether a request of the route says whose it is.
func (rt *Router) tellsTenant(of *routed) bool {
	switch of.how { //nolint:exhaustive // the others do not
	case ofName, ofBody, ofEntries, ofHook, ofTenant, ofPlan, ofBackfill, ofEvent:
		return true
	}
	return false
}

// place finds out where a request goes. What the partition would refuse, whichever it is, goes anywhere, and is refused there.
func (rt *Router) place(w http.ResponseWriter, d *decision) {
	q := d.r.URL.Query()
	switch d.of.how { //nolint:exhaustive // the others have no place: they are merged
	case anywhere:
		d.anywhere = true
	case ofName:
		rt.placeTenant(d, optional(q, "namespace"), optional(q, "tenant"))
	case ofTenant:
		if of := d.token.scope(optional(q, "namespace"), optional(q, "tenant")); of != nil {
			rt.toTenant(d, *of)
		}
	case ofNumber:
		if !q.Has("partition") {
			return
		}
		if d.to, d.err = partitionIn(q, rt.o.Partitions); d.err == nil {
			d.known = true
		}
	case ofPlan:
		if d.anywhere = !q.Has("calendar"); !d.anywhere {
			rt.placeTenant(d, optional(q, "namespace"), optional(q, "tenant"))
		}
	case ofHook:
		of, ok := rt.o.Webhooks[d.r.PathValue("route")]
		if d.anywhere = !ok; ok {
			rt.toTenant(d, of)
		}
	case ofBody, ofEvent, ofBackfill, ofEntries:
		rt.placeByBody(w, d)
	case ofID:
		q := d.r.URL.Query()
		rt.placeMachine(d, d.of.kind, d.r.PathValue("id"), optional(q, "namespace"), optional(q, "tenant"))
	}
}

// placeTenant has the request go to the tenant that is named, or that is meant where none is.
func (rt *Router) placeTenant(d *decision, namespace, tenant *string) {
	ns, err := home("namespace", namespace, d.token.Namespaces)
	tn, wrong := home("tenant", tenant, d.token.Tenants)
	if err != nil || wrong != nil {
		d.anywhere = true
		return
	}
	rt.toTenant(d, shell.Scope{Namespace: ns, Tenant: tn})
}

// optional gives a parameter of a query; nil if it is not given.
func optional(q map[string][]string, name string) *string {
	if v := q[name]; len(v) > 0 {
		return &v[0]
	}
	return nil
}

// readAhead reads the body of a request, who is answered finds it unread. ok is false if it is refused.
func (rt *Router) readAhead(w http.ResponseWriter, d *decision) (data []byte, ok bool) {
	if d.r.ContentLength == 0 || d.r.Body == nil {
		return nil, true
	}
	if err := checkContentType(d.r); err != nil {
		d.refuse(err)
		return nil, false
	}
	d.body.of = &rt.front.heldBy(d.token).bodies
	data, err := readBody(w, d.r, rt.o.API.MaxBodyBytes, &d.body)
	if err != nil {
		d.refuse(err)
		return nil, false
	}
	out := d.r.WithContext(d.r.Context()) // the caller's stays as it was
	out.Body = io.NopCloser(bytes.NewReader(data))
	if len(data) > 0 {
		out.ContentLength, out.TransferEncoding = int64(len(data)), nil
	}
	d.r = out
	return data, true
}

// tenantIn are the members of a body that say whose it is.
type tenantIn struct {
	namespace, tenant *string
}

// members gives those of an object; ok is false if it is none.
func members(data []byte) (of map[string]json.RawMessage, ok bool) {
	return of, json.Unmarshal(data, &of) == nil && of != nil
}

// tenantOf reads the members namespace and tenant of an object; ok is false if they are no texts.
func tenantOf(of map[string]json.RawMessage) (in tenantIn, ok bool) {
	for name, into := range map[string]**string{"namespace": &in.namespace, "tenant": &in.tenant} { // order-free: each is read for itself
		if raw, given := of[name]; given && json.Unmarshal(raw, into) != nil {
			return in, false
		}
	}
	return in, true
}

func (rt *Router) placeByBody(w http.ResponseWriter, d *decision) {
	data, ok := rt.readAhead(w, d)
	if !ok {
		return
	}
	of, ok := members(data)
	if !ok || strictjson.Check(data) != nil { // what is read here is what the partition reads
		d.anywhere = true
		return
	}
	switch {
	case d.of.how == ofEntries && d.of.of == nil:
		rt.placeBatch(d, of)
		return
	case d.of.how == ofEntries:
		rt.placeEntries(d, of)
		return
	}
	in, ok := tenantOf(of)
	if !ok {
		d.anywhere = true
		return
	}
	q := d.r.URL.Query()
	if in.namespace == nil {
		in.namespace = optional(q, "namespace")
	}
	if in.tenant == nil {
		in.tenant = optional(q, "tenant")
	}
	switch d.of.how { //nolint:exhaustive // of those that have a body
	case ofBackfill:
		if id, named := of["recurring_id"]; named && string(id) != "null" {
			var text string
			if json.Unmarshal(id, &text) != nil {
				d.anywhere = true
				return
			}
			if d.isPart() && d.token.scope(in.namespace, in.tenant) == nil { // the partition that it names says whether the schedule is there
				return
			}
			rt.placeMachine(d, "/v1/recurring/", text, in.namespace, in.tenant)
			return
		}
	case ofEvent:
		if in.namespace == nil && in.tenant == nil {
			return
		}
		rt.toTenant(d, shell.Scope{Namespace: or(in.namespace, ""), Tenant: or(in.tenant, "")})
		return
	}
	rt.placeTenant(d, in.namespace, in.tenant)
}

// placeEntries has the request go to the partition of all its entries.
func (rt *Router) placeEntries(d *decision, of map[string]json.RawMessage) {
	var entries []map[string]json.RawMessage
	if json.Unmarshal(of[d.of.entries], &entries) != nil {
		d.anywhere = true
		return
	}
	var first *decision
	for i, e := range entries {
		at := rt.placeEntry(d, e)
		switch {
		case at == nil: // it is refused wherever it goes
			continue
		case at.scope == shell.Scope{}:
			if d.isPart() {
				continue
			}
			d.refuse(failf(http.StatusUnprocessableEntity, "%s[%d]: it belongs to no tenant, and this server has %d partitions: name one with the header %s", d.of.entries, i, rt.o.Partitions, HeaderPartition))
			return
		case first == nil:
			first = at
		case first.to != at.to:
			d.refuse(failf(http.StatusUnprocessableEntity, "%s[%d]: the tenant %q of namespace %q lives in partition %d, and what is before it, of the tenant %q of namespace %q, in partition %d: %s",
				d.of.entries, i, clip(at.scope.Tenant), clip(at.scope.Namespace), at.to, clip(first.scope.Tenant), clip(first.scope.Namespace), first.to, ofOne(d)))
			return
		}
	}
	switch {
	case first != nil:
		rt.toTenant(d, first.scope)
		if prune := of["prune"]; string(prune) == "true" && d.of.of != nil {
			rt.alone(d)
		}
	case len(entries) == 0 && d.of.of != nil: // of a set: it ends what the set owns
		rt.placeEmptySet(d)
	default:
		d.anywhere = true
	}
}

// ofOne tells the caller of a request that has to be carried out in one partition, and whose tenants live in several, what to send instead.
func ofOne(d *decision) string {
	if d.of.of != nil {
		return "what one set declares lives in one: send one for each tenant"
	}
	return fmt.Sprintf("with the mode %q all are of one tenant: send one for each tenant, or use the mode %q", wire.ModeAll, wire.ModeEach)
}

// placeEmptySet has a set without entries go where it owns something.
func (rt *Router) placeEmptySet(d *decision) {
	if of := d.token.scope(nil, nil); of != nil {
		rt.toTenant(d, *of)
		return
	}
	if d.isPart() {
		return
	}
	owns, err := rt.whereSet(d)
	switch {
	case err != nil:
		d.refuse(err)
	case len(owns) > 1:
		d.refuse(failf(http.StatusUnprocessableEntity, "%s: it is empty, and the set owns things in the partitions %v: name one with the header %s", d.of.entries, owns, HeaderPartition))
	case len(owns) == 1:
		d.to, d.known = owns[0], true
	default:
		d.anywhere = true
	}
}

// isPart reports whether the request says which partition it is for.
func (d *decision) isPart() bool { return d.r.Header.Get(HeaderPartition) != "" }

// alone refuses to remove what a set does not declare any more, if it owns such things in another partition than the one that it is for.
func (rt *Router) alone(d *decision) {
	if d.token.scope(nil, nil) != nil || d.isPart() {
		return
	}
	owns, err := rt.whereSet(d)
	if err != nil {
		d.refuse(err)
		return
	}
	for _, p := range owns {
		if p != d.to {
			d.refuse(failf(http.StatusUnprocessableEntity, "prune: the set owns things in partition %d, and what it declares now lives in partition %d: remove those first, with the header %s: %d and no entries, or give each tenant a set of its own", p, d.to, HeaderPartition, p))
			return
		}
	}
}

// whereSet gives the partitions in which the set of the path owns something that the token sees.
func (rt *Router) whereSet(d *decision) (owns []int, err error) {
	asked := d.r.WithContext(d.r.Context())
	u := *d.r.URL
	u.Path, u.RawPath = "/v1/sets", ""
	asked.URL = &u
	all, err := gather[struct{ Declared [][]json.RawMessage }](rt, asked, http.MethodGet, url.Values{"set": {d.r.PathValue("name")}, "limit": {"1"}})
	for p, of := range all {
		if len(of.Declared) > 1 { // the last one says how the list goes on
			owns = append(owns, p)
		}
	}
	return owns, err
}

// placeEntry gives where one entry would go; nil: nowhere, it is refused.
func (rt *Router) placeEntry(d *decision, entry map[string]json.RawMessage) *decision {
	if d.of.of != nil {
		var inner map[string]json.RawMessage
		for _, kind := range d.of.of {
			if raw, ok := entry[kind]; ok && string(raw) != "null" {
				if inner != nil || json.Unmarshal(raw, &inner) != nil { // of two kinds, or none
					return nil
				}
			}
		}
		entry = inner
	}
	in, ok := tenantOf(entry)
	if !ok || entry == nil {
		return nil
	}
	at := &decision{token: d.token}
	if rt.placeTenant(at, in.namespace, in.tenant); !at.known {
		return nil
	}
	return at
}

// placeMachine has the request go where a machine is. If it names the tenant, or its token is bound to one, that says
// where.
func (rt *Router) placeMachine(d *decision, kind, id string, namespace, tenant *string) {
	if of := d.token.scope(namespace, tenant); of != nil {
		rt.toTenant(d, *of)
		return
	}
	if _, err := parseID(id); err != nil {
		if d.anywhere = kind != "/v1/recurring/"; !d.anywhere { // they have names, too
			rt.placeTenant(d, namespace, tenant)
		}
		return
	}
	rt.findMachine(d, kind, id, namespace, tenant)
}

// partitionIn reads which partition a query names; 0 if none.
func partitionIn(q url.Values, partitions int) (int, error) {
	if !q.Has("partition") {
		return 0, nil
	}
	n, err := strconv.Atoi(q.Get("partition"))
	if err != nil || n < 0 || n >= partitions {
		return 0, failf(http.StatusBadRequest, "partition: %q is not a partition of this server: want a number from 0 to %d", clip(q.Get("partition")), partitions-1)
	}
	return n, nil
}
