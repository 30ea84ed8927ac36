package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// The ledger of occurrences tells what was decided about the times of all schedules. A token that
// is bound to tools sees the entries of the schedules that it sees; those of a schedule that is
// deleted do not say of which tool it was, and it sees none of them.

func (s *Server) occurrenceRoutes() []route {
	o := s.occurrences()
	return []route{
		{"GET", "/v1/occurrences", anyToken | lists, o.page(s, "occurrences")},
		{"GET", "/v1/occurrences/{id}", anyToken, o.act(func(_ http.ResponseWriter, _ *http.Request, c *call, v core.Occurrence) (any, error) {
			return shownOccurrence(c, v), nil
		})},
	}
}

// occurrences says how entries of the ledger are served.
func (s *Server) occurrences() machines[core.Occurrence, core.Occurrence] {
	return machines[core.Occurrence, core.Occurrence]{
		what: "occurrence", get: s.engine.Occurrences().Get, id: idOfPath,
		listing: listing[core.Occurrence, core.Occurrence]{
			params: []string{"schedule", "schedule_id", "name", "verdict", "outcome", "manual", "backfill", "from", "to", "spanning"},
			check:  func(q query) error { _, err := occurrenceFilter(q); return err },
			find: func(q query, scope *shell.Scope) (source[core.Occurrence], error) {
				f, err := occurrenceFilter(q)
				f.Scope = scope
				return sourceOf(s.engine.Occurrences().List, f), err
			},
			scope: func(o core.Occurrence) (string, string) { return o.Namespace, o.Tenant },
			sees:  s.seesOccurrence,
			out:   shownTo(shownOccurrence),
			size:  func(core.Occurrence) int { return 1 << 10 },
			lines: true,
		},
	}
}

// seesOccurrence reports whether an entry exists for the holder of a token.
func (s *Server) seesOccurrence(ctx context.Context, t *Token, o core.Occurrence) bool {
	switch {
	case !t.seesScope(o.Namespace, o.Tenant):
		return false
	case len(t.Tools) == 0:
		return true
	case o.Schedule == core.KindJob:
		return in(t.Tools, jobs.ToolName)
	case o.Schedule == core.KindRecurring:
		r, err := s.engine.Recurring().Get(ctx, o.RecurringID)
		return err == nil && t.sees(r.Namespace, r.Tenant, r.ActionTemplate.Provider)
	}
	a, err := s.engine.Actions().Get(ctx, o.RecurringID)
	return err == nil && t.sees(a.Namespace, a.Tenant, a.ToolName)
}

// occurrenceFilter reads which entries are asked for.
func occurrenceFilter(q query) (f shell.OccurrenceFilter, err error) {
	for _, word := range []struct {
		name  string
		known []string
		set   func(string)
	}{
		{"schedule", namesOf(core.OccurrenceSchedules()), func(v string) { f.Schedule = effects.Kind(v) }},
		{"verdict", namesOf(core.Verdicts()), func(v string) { f.Verdict = core.Verdict(v) }},
		{"outcome", namesOf(core.OccurrenceOutcomes("")), func(v string) { f.Outcome = core.StatusType(v) }},
	} {
		v := q.opt(word.name)
		if v == nil {
			continue
		}
		if !slices.Contains(word.known, *v) {
			return f, failf(http.StatusBadRequest, "%s: %q is unknown: use %s", word.name, clip(*v), strings.Join(word.known, ", "))
		}
		word.set(*v)
	}
	if f.Name = q.get("name"); len(f.Name) > core.MaxNameBytes {
		return f, failf(http.StatusBadRequest, "name: %d bytes is longer than %d", len(f.Name), core.MaxNameBytes)
	}
	var errs [6]error
	f.ScheduleID, errs[0] = idOf("schedule_id", q.opt("schedule_id"))
	f.Backfill, errs[1] = idOf("backfill", q.opt("backfill"))
	f.Manual, errs[2] = q.bool("manual")
	f.From, errs[3] = q.time("from")
	f.To, errs[4] = q.time("to")
	spanning, err := q.bool("spanning")
	errs[5] = err
	if err := cmp.Or(errs[0], errs[1], errs[2], errs[3], errs[4], errs[5]); err != nil {
		return f, err
	}
	if f.Spanning = or(spanning, false); f.Spanning && f.From.IsZero() {
		return f, failf(http.StatusBadRequest, "spanning: it needs from: without it each entry is listed")
	}
	if !f.From.IsZero() && !f.To.IsZero() && f.To <= f.From {
		return f, failf(http.StatusBadRequest, "to: %s is not after from, %s", f.To, f.From)
	}
	return f, nil
}

func namesOf[T ~string](words []T) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}

// actionHistory lists what became of the times of an action that recurs.
func (s *Server) actionHistory(w http.ResponseWriter, r *http.Request, c *call) error {
	a, q, err := s.actions().visible(r, c, "order", "limit", "page_token")
	if err != nil {
		return err
	}
	return s.answerHistory(w, r, c, q, a.ID)
}

// mediaLines is the type of a list with one element a line, and headerNextPage the trailer that has
// its next_page_token.
const (
	mediaLines     = "application/x-ndjson"
	headerNextPage = "Orrery-Next-Page-Token"
)

// wantsLines reports whether a request asks for one element a line.
func wantsLines(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		media, _, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(media), mediaLines) {
			return true
		}
	}
	return false
}

// lines makes the writer one of lines: nothing stands around the elements.
func (p *pageWriter) lines() {
	p.buf.Reset()
	p.oneALine = true
}

// endLines sends the rest of a page of lines. The token to go on by stands in the header, or, when
// that has been sent, in the trailer.
func (p *pageWriter) endLines(token string) error {
	prefix := ""
	if p.begun {
		prefix = http.TrailerPrefix
		p.tell(prefix)
	}
	if token != "" {
		p.w.Header().Set(prefix+headerNextPage, token)
	}
	if err := p.send(); err != nil {
		return fmt.Errorf("end a page: %w", err)
	}
	return nil
}
