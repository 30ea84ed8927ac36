package page

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func backfillViews() []viewRoute {
	return []viewRoute{
		{"/backfills", "/backfills", (*visit).backfills},
		{"/backfills/{id}", "/backfills", (*visit).backfill},
	}
}

func (q *visit) backfills() (view, error) {
	var got wire.BackfillList
	t, err := q.read(list{
		api: "/backfills", path: "/backfills", caption: "Backfills, newest first",
		filters: append([]field{
			statusFilter(core.KindBackfill),
			{Name: "schedule", Label: "Schedule", Help: "Its id."},
		}, madeFilters...), ordered: true,
		head:  []string{"Schedule", "Status", "Done", "Failed", "From", "To", "By", "Tenant", "Id"},
		empty: "There is no backfill. A backfill dispatches past times of a schedule that were not dispatched: the page of a recurring action makes one.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, b := range got.Backfills {
		href := q.page(pathOf("backfills", b.ID.String()))
		s := badge(string(b.Status))
		s.Hint = clip(b.Held, 160)
		t.Rows = append(t.Rows, []cell{
			textOf(clip(cmp.Or(b.Name, string(b.Schedule.Kind)), 120)).to(href).wide(), s, textOf(strconv.FormatUint(ended(b.Counts), 10) + " of " + strconv.Itoa(b.Total)), badCount(b.Counts.Failed),
			q.at(b.From), q.at(b.To), codeOf(b.By), whose(b.Namespace, b.Tenant), codeOf(shortID(b.ID.String())).to(href),
		})
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Backfills", Body: []block{{Table: t}}}, nil
}

// ended counts the times of a backfill of which it is known what became of them.
func ended(n core.BackfillCounts) uint64 { return n.Succeeded + n.Failed + n.Cancelled + n.Refused }

func (q *visit) backfill() (view, error) {
	var b core.Backfill
	if err := q.get(pathOf("backfills", q.PathValue("id")), nil, &b); err != nil {
		return view{}, err
	}
	s := badge(string(b.Status))
	v := view{Kind: "Backfill", Title: clip(cmp.Or(b.Name, shortID(b.ID.String())), 200), State: &s, Crumbs: []link{{Text: "Backfills", Href: q.page("/backfills")}}}
	v.More = []link{q.changesLink(core.KindBackfill, b.ID.String())}
	if !b.Status.Ended() {
		v.Acts = q.actLinks("/backfills/{id}", "cancel")
	}
	v.Body = append(v.Body, whyNotice(b.CancelReason, toneOff)...)
	if b.Held != "" {
		v.Body = append(v.Body, whyNotice("The next time was put off: "+b.Held, toneWait)...)
	}
	here := q.page(pathOf("backfills", b.ID.String()))
	tileOf := func(name string, n uint64, t tone, to string) tile {
		if n == 0 {
			t = toneNone
		}
		return tile{Name: name, Value: strconv.FormatUint(n, 10), Tone: t, Href: here + to}
	}
	v.Body = append(v.Body, block{Tiles: []tile{
		tileOf("times", uint64(len(b.Times)), toneNone, ""), tileOf("wait", uint64(len(b.Times))-min(uint64(b.Next), uint64(len(b.Times))), toneWait, ""),
		tileOf("run", uint64(len(b.Active)), toneBusy, "#running"), tileOf("succeeded", b.Counts.Succeeded, toneGood, ""), tileOf("failed", b.Counts.Failed, toneBad, "#problems"),
		tileOf("cancelled", b.Counts.Cancelled, toneOff, "#problems"), tileOf("refused by the schedule", b.Counts.Refused, toneBad, "#problems"),
	}})
	v.Body = append(v.Body, block{Facts: q.backfillFacts(b)})
	running := &table{Caption: "Times that run", Head: []string{"No.", "Time", "Started", "For"}, Empty: "None of its times runs."}
	for _, r := range b.Active {
		running.Rows = append(running.Rows, []cell{number(r.N), q.at(r.At), q.at(r.StartedAt), q.lasted(r.StartedAt, 0)})
	}
	problems := &table{Caption: "Times that did not succeed, newest first", Head: []string{"Time", "Outcome", "Why", "What ran"}, Empty: "No time has failed."}
	for _, p := range slices.Backward(b.Problems) {
		problems.Rows = append(problems.Rows, []cell{q.at(p.At), badge(string(p.Outcome)), textOf(p.Reason).wide(), q.machine(p.Child)})
	}
	return withBlocks(v, block{Title: "Times that run", ID: "running", Table: running},
		block{Title: "Times that did not succeed", ID: "problems", Note: "The last ones.", Table: problems}), nil
}

func (q *visit) backfillFacts(b core.Backfill) []fact {
	of := q.machine(b.Schedule)
	if b.Schedule.Kind == core.KindJob {
		of = codeOf(b.Name).to(q.scoped(pathOf("jobs", b.Name), b.Namespace, b.Tenant))
	}
	atOnce, spacing := number(b.MaxActive), ofSeconds(b.SpacingSeconds)
	left := cell{}
	if b.AlreadyDispatched > 0 {
		left.Lines = append(left.Lines, strconv.FormatUint(b.AlreadyDispatched, 10)+" that had been dispatched")
	}
	if b.Forgotten > 0 {
		left.Lines = append(left.Lines, strconv.FormatUint(b.Forgotten, 10)+" of which nobody knows any more whether they were")
	}
	next := cell{}
	if !b.Status.Ended() {
		next = q.at(b.NextAt)
	}
	return facts(
		fact{"Schedule", of}, fact{"From", q.at(b.From)}, fact{"To", q.at(b.To)}, fact{"Left out", left}, fact{"At a time", atOnce}, fact{"Between starts", spacing},
		fact{"Next not before", next}, fact{"Reason", textOf(b.Reason)}, fact{"By", codeOf(b.By)}, fact{"Finished", q.at(b.FinishedAt)},
		fact{"Whose", whose(b.Namespace, b.Tenant)}, fact{"Created", q.at(b.CreatedAt)}, fact{"Changed", q.at(b.UpdatedAt)}, fact{"Id", codeOf(b.ID.String())},
	)
}

func backfillActs() []act {
	return []act{{
		on: "/backfills/{id}", name: "cancel", method: "POST", api: "/v1/backfills/{id}/cancel", label: "Cancel", danger: true, done: "The backfill was cancelled.",
		says: "It dispatches no further time. What runs goes on, and is counted when it ends.", fields: []field{reasonField},
	}}
}
