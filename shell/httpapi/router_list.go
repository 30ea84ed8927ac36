package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/orrery-go/orrery/shell"
)

// mergedTokenForm begins each page token of a list of several partitions. Behind it stands for each partition, with a
// point between, the page token by which that goes on, without its [pageTokenForm]: nothing is where it begins, and "-" where it has ended.
// Each is sealed by its partition, for the same list, filters and bearer token.
const mergedTokenForm = "m1."

const partEnded = "-"

// openMerged reads where each partition goes on.
func (rt *Router) openMerged(token string) ([]string, error) {
	at := make([]string, rt.o.Partitions)
	if token == "" {
		return at, nil
	}
	text, ok := strings.CutPrefix(token, mergedTokenForm)
	parts := strings.Split(text, ".")
	if !ok || len(parts) != len(at) {
		return nil, errPageToken
	}
	ended := true
	for p, part := range parts {
		if at[p] = part; part != "" && part != partEnded {
			at[p] = pageTokenForm + part
		}
		ended = ended && part == partEnded
	}
	if ended {
		return nil, errPageToken // none such is given out
	}
	return at, nil
}

// sealMerged gives the token for where each partition goes on; empty if all have ended.
func sealMerged(at []string) string {
	parts := make([]string, len(at))
	ended := true
	for p, token := range at {
		parts[p] = strings.TrimPrefix(token, pageTokenForm)
		ended = ended && token == partEnded
	}
	if ended {
		return ""
	}
	return mergedTokenForm + strings.Join(parts, ".")
}

// mergeList gives what serves a list of all partitions, whose elements stand in the member field, in the order in which one partition
// lists them. short leaves the empty page token out, as [listing] does.
func mergeList(field string, def int, short bool) func(*Router, http.ResponseWriter, *http.Request, *call) error {
	return func(rt *Router, w http.ResponseWriter, r *http.Request, c *call) error {
		v, err := parsedQuery(r)
		if err != nil {
			return err
		}
		if err := cmp.Or(once(v, "limit"), once(v, "page_token")); err != nil { // which no partition sees as they came
			return err
		}
		limit := def
		if v.Get("all") == "true" && short {
			limit = shell.DefaultPage
		}
		if n, err := strconv.Atoi(v.Get("limit")); err == nil && n > 0 { // else a partition says what is wrong
			limit = min(n, shell.MaxPage)
		}
		if v.Get("include") != "" {
			mine := rt.front.heldBy(c.token)
			if !mine.wide.take() {
				return tooMany(1, "include: %d lists of %s with it are under way: wait for the answer to one", mine.wide.most, mine.of())
			}
			defer mine.wide.leave()
		}
		at, err := rt.openMerged(v.Get("page_token"))
		if err != nil {
			return err
		}
		m := &merging{rt: rt, r: r, query: v, at: at, limit: limit, several: field == "subscribers"}
		out := newPageWriter(w, field)
		if m.several {
			program, err := rt.programs(r, c)
			if err != nil {
				return err
			}
			if len(program) > 0 {
				if err := out.beside("program", program); err != nil {
					return err
				}
			}
		}
		if wantsLines(r) && field == "occurrences" {
			out.lines()
		}
		if n, err := strconv.Atoi(v.Get("limit")); v.Has("limit") && (err != nil || n < 1 || n > shell.MaxPage) {
			m.malformed = true
		}
		out.damaged = func() int { return int(m.damaged.Load()) }
		if err := m.run(r.Context(), out); err != nil {
			return err
		}
		return out.end(sealMerged(m.at), short && v.Get("all") != "true")
	}
}

// merging makes one page of those of all partitions. Of each partition it has one element in memory.
type merging struct {
	rt    *Router
	r     *http.Request
	query url.Values
	at    []string // where each partition goes on behind what was added
	limit int
	// several: an element of a partition is a list of elements, see [listing].
	several bool

	parts   []*listPart
	group   sync.WaitGroup
	damaged atomic.Int64

	malformed bool // the limit, which the partitions refuse
}

// listPart is the list of one partition, as far as it is read.
type listPart struct {
	m         *merging
	partition int
	from      string // the page token of what is read next
	dec       *json.Decoder
	body      io.Closer
	rounds    int

	head element // what comes next, if it has any
	has  bool
	gave bool // something was added
}

// element is one of a list, with its place.
type element struct {
	order string
	token string // goes on behind it
	shown json.RawMessage
}

// maxPartRounds bounds how often a partition is asked for one page.
const maxPartRounds = maxPageRounds

// minPart is how many elements a partition is asked for at least, where a page has more: all together give about twice a page.
const minPart = 16

// run adds elements, of all partitions the first one in the order of the list, until the page is full or all have
// ended.
func (m *merging) run(ctx context.Context, out *pageWriter) error {
	ctx, cancel := context.WithCancel(ctx)
	m.r = m.r.WithContext(ctx)
	defer m.group.Wait()
	defer cancel()
	defer m.close()
	for p := range m.at {
		m.parts = append(m.parts, &listPart{m: m, partition: p, from: m.at[p]})
	}
	if err := m.begin(); err != nil {
		return err
	}
fill:
	for out.elements < m.limit && out.bytes < maxPageBytes {
		var first *listPart
		for _, part := range m.parts {
			if part.unknown() { // it has found nothing yet, and has not ended: what comes next may be its own
				break fill
			}
			if part.has && (first == nil || part.head.order < first.head.order) {
				first = part
			}
		}
		if first == nil {
			break
		}
		if err := m.add(out, first.head.shown); err != nil {
			return err
		}
		m.at[first.partition], first.gave = first.head.token, true
		if err := first.next(); err != nil {
			return err
		}
	}
	full := out.elements >= m.limit || out.bytes >= maxPageBytes
	for _, part := range m.parts {
		switch {
		case part.has: // what was not added comes again
		case part.from == "" && full && part.gave: // as each list goes on behind a page that is full
		default:
			m.at[part.partition] = cmp.Or(part.from, partEnded)
		}
	}
	return nil
}

// begin reads the first element of each partition, of all at a time.
func (m *merging) begin() error {
	errs := make([]error, len(m.parts))
	var all sync.WaitGroup
	for i, part := range m.parts {
		all.Go(func() {
			if part.from == partEnded {
				part.from = ""
				return
			}
			if errs[i] = part.open(); errs[i] == nil {
				errs[i] = part.next()
			}
		})
	}
	all.Wait()
	return firstOf(errs)
}

func (m *merging) close() {
	for _, part := range m.parts {
		part.close()
	}
}

// unknown reports whether it is open what comes next.
func (p *listPart) unknown() bool { return !p.has && p.from != "" }

// add adds what a partition has shown of a record.
func (m *merging) add(out *pageWriter, shown json.RawMessage) error {
	if !m.several {
		return out.add(shown)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(shown, &all); err != nil {
		return err
	}
	for _, one := range all {
		if err := out.add(one); err != nil {
			return err
		}
	}
	return nil
}

func (p *listPart) close() {
	if p.body != nil {
		_ = p.body.Close()
	}
	p.body, p.dec = nil, nil
}

// open asks the partition for a page.
func (p *listPart) open() error {
	p.rounds++
	query := maps.Clone(p.m.query)
	query.Del("page_token")
	if each := max(minPart, 2*p.m.limit/len(p.m.at)); each < p.m.limit && !p.m.malformed {
		query.Set("limit", strconv.Itoa(each))
	}
	if p.from != "" {
		query.Set("page_token", p.from)
	}
	got := p.m.rt.ask(&p.m.group, p.m.rt.part(p.m.r.Context(), p.m.r, http.MethodGet, p.partition, query), p.partition)
	if got.status != http.StatusOK {
		return got.refusal()
	}
	p.body, p.dec = got.body, json.NewDecoder(got.body)
	for range 3 { // the object, its member, the list
		if _, err := p.dec.Token(); err != nil {
			return p.broken(err)
		}
	}
	return nil
}

func (p *listPart) broken(err error) error {
	return &failure{status: http.StatusBadGateway, text: fmt.Sprintf("partitions: the answer of partition %d has broken off: try again", p.partition), cause: err}
}

// next reads the next element. Where a page has ended it asks for another one.
func (p *listPart) next() error {
	for p.has = false; p.dec != nil; {
		var raw []json.RawMessage
		var e element
		err := p.dec.Decode(&raw)
		if err == nil && len(raw) == 3 {
			err = errors.Join(json.Unmarshal(raw[0], &e.order), json.Unmarshal(raw[1], &e.token))
		}
		if err != nil || len(raw) != 3 {
			return p.broken(cmp.Or(err, errors.New("it is not a list of places")))
		}
		if e.order != "" {
			e.shown = bytes.TrimSpace(raw[2])
			p.head, p.has = e, true
			return nil
		}
		var damaged int
		if err := json.Unmarshal(raw[2], &damaged); err != nil {
			return p.broken(err)
		}
		p.m.damaged.Add(int64(damaged))
		p.close()
		if p.from = e.token; p.from == "" || p.rounds >= maxPartRounds {
			return nil
		}
		if err := p.open(); err != nil {
			return err
		}
	}
	return nil
}
