package page

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func systemViews() []viewRoute {
	return []viewRoute{
		{"/system", "/system", (*visit).system},
		{"/audit", "/system", (*visit).audit},
		{"/changes/{kind}/{id}", "", (*visit).changes},
	}
}

// system shows how the daemon, its runners and its tenants are.
func (q *visit) system() (view, error) {
	var info wire.Info
	if err := q.get("/info", nil, &info); err != nil {
		return view{}, err
	}
	v := view{Title: "System"}
	v.Body = append(v.Body, block{Facts: facts(
		fact{"Version", textOf(info.Version)}, fact{"Instance", codeOf(info.Instance)}, fact{"Rules of the core", textOf(info.Core)}, fact{"Time zone database", textOf(info.TZDB)},
		fact{"Tools", textOf(strings.Join(info.Tools, ", "))}, fact{"Webhook routes", textOf(strings.Join(info.Webhooks, ", ")).to(q.page("/webhooks"))},
	), Links: []link{{Text: "Requests: who asked for what", Href: q.page("/audit")}}})
	for _, part := range []func() ([]block, error){q.daemon, q.runnerTable, q.tenants} {
		b, err := part()
		if err != nil {
			return view{}, err
		}
		v.Body = append(v.Body, b...)
	}
	return v, nil
}

// refused reports whether an error says that the token may not see this: then the page shows the rest.
func refused(err error) bool { return answered(err, http.StatusForbidden, http.StatusNotImplemented) }

// daemon shows what belongs to all tenants.
func (q *visit) daemon() ([]block, error) {
	if !q.who.Unbound() { // not asked for: the log of requests would have a refusal of each look at the page
		return []block{{Notice: &notice{Text: "Instances, the journal and what was set aside belong to all tenants: your token is bound, and does not see them."}}}, nil
	}
	var s wire.System
	if err := q.get("/system", nil, &s); err != nil {
		return nil, err
	}
	out := []block{{Title: "This instance", Facts: facts(
		fact{"Store", textOf(storeText(s.Store))}, fact{"Tools run", number(s.Running)}, fact{"Batches committed", number(s.Batches)},
		fact{"Commits failed", number(s.CommitErrors)}, fact{"Inputs refused", number(s.Refused)},
		fact{"99 of 100 woken within", textOf(within(s.LateSeconds))}, fact{"Loop lag, the most in the last minute", lagOf(s)},
		fact{"Commits a second", textOf(strconv.FormatFloat(s.CommitsPerSecond, 'f', -1, 64))}, fact{"Inputs a second", textOf(strconv.FormatFloat(s.InputsPerSecond, 'f', -1, 64))},
		fact{"Journal", textOf("batches " + strconv.FormatUint(s.JournalFrom, 10) + " to " + strconv.FormatUint(s.JournalSeq, 10))},
	)}}
	t := &table{Caption: "Instances", Head: []string{"Claim", "Holder", "Last sign of life", "Counts as gone", "Fencing token"}, Empty: "No instance holds a claim."}
	for _, i := range s.Instances {
		t.Rows = append(t.Rows, []cell{codeOf(i.Claim), codeOf(i.Holder), q.at(i.Renewed), q.at(i.Until), number(i.Token)})
	}
	out = append(out, block{Title: "Instances", Table: t})
	aside := &table{Caption: "Set aside", Head: []string{"When", "Kind", "Id", "Why", "Bytes left"}, Empty: "All that was stored could be read."}
	for _, a := range s.Quarantine {
		aside.Rows = append(aside.Rows, []cell{q.at(a.At), codeOf(string(a.Kind)), codeOf(a.ID.String()), textOf(a.Reason).wide(), number(a.Bytes)})
	}
	out = append(out, block{Title: "Set aside: what could not be read", ID: "quarantine", Table: aside})
	if s.Settings != "" {
		out = append(out, block{Title: "Settings in force", Note: "Without secrets.", Text: longText(s.Settings)})
	}
	return out, nil
}

// lagOf shows how far behind the loop is, and from where on it does not keep up.
func lagOf(s wire.System) cell {
	c := textOf(seconds(s.LoopLagSeconds))
	c.Tone = toneOfLag(s)
	c.Hint = "it keeps up to " + seconds(s.LoopLagLimitSeconds)
	return c
}

// storeText says what the records are in; "": the daemon was not told.
func storeText(s *wire.Store) string {
	switch {
	case s == nil:
		return ""
	case s.Partitions == 1:
		return s.Kind
	}
	return s.Kind + ", " + strconv.Itoa(s.Partitions) + " partitions, " + strconv.Itoa(s.Owned) + " owned by the process that answers"
}

func within(s float64) string {
	if s == 0 {
		return ""
	}
	return seconds(s)
}

func (q *visit) runnerTable() ([]block, error) {
	var got wire.RunnerList
	switch err := q.get("/runners", nil, &got); {
	case refused(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	t := &table{Caption: "Runners of jobs", Head: []string{"Runner", "Status", "Since", "Pods", "Error"}, Empty: "No runner of jobs is configured."}
	for _, r := range got.Runners {
		t.Rows = append(t.Rows, []cell{codeOf(r.Name), badge(r.Status), q.at(r.Since), number(r.Pods), textOf(r.Error).wide()})
	}
	return []block{{Title: "Runners of jobs", Table: t}}, nil
}

func (q *visit) tenants() ([]block, error) {
	var got wire.LimitsList
	if err := q.get("/limits", nil, &got); err != nil {
		if refused(err) {
			return nil, nil
		}
		return nil, err
	}
	t := &table{Caption: "Tenants", Head: []string{"Tenant", "Schedules", "Live actions", "Live runs", "Live pipelines", "Queues", "Stored bytes"}, Empty: "No tenant has anything."}
	n := func(has, may int64) cell {
		c := number(has)
		if may > 0 {
			c.Hint = "of " + strconv.FormatInt(may, 10)
		}
		return c
	}
	for _, l := range got.Tenants {
		u, b := l.Usage, l.Limits
		t.Rows = append(t.Rows, []cell{
			whose(l.Namespace, l.Tenant), n(u.Schedules, b.MaxSchedules), n(u.LiveActions, b.MaxLiveActions), n(u.LiveRuns, b.MaxLiveRuns),
			n(u.LivePipelines, b.MaxLivePipelines), n(u.Queues, 0), n(u.StoredBytes, b.MaxStoredBytes),
		})
	}
	b := block{Title: "Tenants: what they have, and may have", Table: t}
	if !got.Counted {
		b.Note = "What tenants have is not counted: no limits are configured."
	}
	return []block{b}, nil
}

// unanswered names the instances whose logs a page does not have.
func unanswered(got wire.AuditList) string {
	var names []string
	for _, u := range got.Unanswered {
		names = append(names, u.Instance+" ("+u.Error+")")
	}
	if len(names) == 0 {
		return ""
	}
	return "Not in this is the log of " + strings.Join(names, ", ") + "."
}

// audit shows the log of requests.
func (q *visit) audit() (view, error) {
	var got wire.AuditList
	t, err := q.read(list{
		api: "/audit", path: "/audit", caption: "Requests, newest first",
		filters: []field{
			{Name: "token", Label: "Token"}, {Name: "operation", Label: "Operation"}, {Name: "status", Label: "Status", Help: "such as 403 or 4xx"},
			{Name: "since", Label: "From", Type: fieldTime}, {Name: "until", Label: "To", Type: fieldTime},
		},
		head: []string{"When", "Token", "Operation", "Answer", "Path", "Address", "Tenant"}, empty: "No request has changed anything, and none was refused.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	several := len(got.Unanswered) > 0 || slices.ContainsFunc(got.Entries, func(e audit.Entry) bool { return e.Instance != "" })
	if several {
		t.Head = append(t.Head, "Instance")
	}
	for _, e := range got.Entries {
		answer := number(e.Status)
		if e.Refused() {
			answer.Tone = toneBad
		}
		answer.Hint = e.Reason
		tenant := cell{}
		if e.Tenant != "" {
			tenant = whose(e.Namespace, e.Tenant)
		}
		t.Rows = append(t.Rows, []cell{q.at(e.At), codeOf(e.Token), codeOf(e.Operation), answer, codeOf(e.Path).wide(), codeOf(e.Address), tenant})
		if last := len(t.Rows) - 1; several {
			t.Rows[last] = append(t.Rows[last], codeOf(e.Instance))
		}
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Requests", Crumbs: []link{{Text: "System", Href: q.page("/system")}}, Body: []block{{Note: unanswered(got), Table: t}}}, nil
}
