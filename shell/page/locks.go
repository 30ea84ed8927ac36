package page

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func lockViews() []viewRoute {
	return []viewRoute{
		{"/locks", "/locks", (*visit).locks},
		{"/locks/{name}", "/locks", (*visit).lock},
		{"/semaphores/{name}", "/locks", (*visit).semaphore},
	}
}

// semaphoreToken marks the page tokens of the list's second part, in which the semaphores are.
const semaphoreToken = "semaphores."

// locks lists locks, and after the last one semaphores.
func (q *visit) locks() (view, error) {
	l := list{
		api: "/locks", path: "/locks", caption: "Locks and semaphores", head: []string{"Name", "Kind", "State", "Holders", "Wait", "Since", "Lease ends", "Tenant"},
		empty: "Nothing is locked, and there is no semaphore. A phase of a pipeline, a constraint of a job or a program takes locks; the button above declares a semaphore.",
	}
	rest, second := strings.CutPrefix(q.URL.Query().Get("page_token"), semaphoreToken)
	var t *table
	next := ""
	if !second {
		var got wire.LockList
		var err error
		if t, err = q.read(l, &got); err != nil {
			return view{}, err
		}
		for _, k := range got.Locks {
			t.Rows = append(t.Rows, q.lockRow(k))
		}
		next, second, rest = got.NextPageToken, got.NextPageToken == "", ""
	}
	if second {
		more, after, err := q.semaphoreRows(l, rest)
		if err != nil {
			return view{}, err
		}
		if next = ""; after != "" {
			next = semaphoreToken + after
		}
		if t == nil {
			t = more
		} else {
			t.Rows = append(t.Rows, more.Rows...)
		}
	}
	t.First = q.firstPage(l.path)
	q.next(t, next)
	return view{Title: "Locks", Acts: q.actLinks("/locks", "new-semaphore"), Body: []block{{Table: t}}}, nil
}

// semaphoreRows reads a page of the semaphores.
func (q *visit) semaphoreRows(l list, token string) (*table, string, error) {
	given := q.URL.Query()
	given.Set("page_token", token)
	var got wire.SemaphoreList
	l.api = "/semaphores"
	t, err := q.asking(given).read(l, &got)
	if err != nil {
		return nil, "", err
	}
	for _, s := range got.Semaphores {
		t.Rows = append(t.Rows, q.semaphoreRow(s))
	}
	return t, got.NextPageToken, nil
}

func (q *visit) lockRow(k core.Lock) []cell {
	s, holder := state("free", toneOff), cell{}
	if k.Holder != "" || !k.Owner.IsZero() {
		s, holder = state("held", toneBusy), q.holder(k.Holder, k.Owner)
	}
	return []cell{
		codeOf(k.Name).to(q.scoped(pathOf("locks", k.Name), k.Namespace, k.Tenant)).wide(), textOf("lock"), s, holder, number(len(k.Waiters)), q.at(k.Since), q.at(k.Until), whose(k.Namespace, k.Tenant),
	}
}

func heldSlots(s core.Semaphore) (n uint64) {
	for _, h := range s.Holders {
		n += uint64(h.Slots)
	}
	return n
}

func semaphoreState(s core.Semaphore) cell {
	text := strconv.FormatUint(heldSlots(s), 10) + " of " + strconv.FormatUint(uint64(s.Total), 10) + " slots held"
	switch {
	case heldSlots(s) == 0:
		return state(text, toneOff)
	case heldSlots(s) >= uint64(s.Total):
		return state(text, toneWait)
	}
	return state(text, toneBusy)
}

func (q *visit) semaphoreRow(s core.Semaphore) []cell {
	var since, until core.Time
	for i, h := range s.Holders { // the next one that ends
		if i == 0 || h.Since.Before(since) {
			since = h.Since
		}
		if !h.Until.IsZero() && (until.IsZero() || h.Until.Before(until)) {
			until = h.Until
		}
	}
	return []cell{
		codeOf(s.Name).to(q.scoped(pathOf("semaphores", s.Name), s.Namespace, s.Tenant)).wide(), textOf("semaphore"), semaphoreState(s), number(len(s.Holders)), number(len(s.Waiters)),
		q.at(since), q.at(until), whose(s.Namespace, s.Tenant),
	}
}

// leaseEnd shows when a lease lapses.
func (q *visit) leaseEnd(until core.Time) cell {
	if until.IsZero() {
		return textOf("when it is released")
	}
	return q.at(until)
}

// fencing shows a fencing token; those of others are hidden from tokens that are bound to tools.
func fencing(token uint64) cell {
	if token == 0 {
		return textOf("hidden")
	}
	return codeOf(strconv.FormatUint(token, 10))
}

func (q *visit) lock() (view, error) {
	var k core.Lock
	if err := q.get(pathOf("locks", q.PathValue("name")), q.scopeQuery(), &k); err != nil {
		return view{}, err
	}
	s := state("free", toneOff)
	v := view{Kind: "Lock", Title: k.Name, State: &s, Crumbs: []link{{Text: "Locks", Href: q.page("/locks")}}, More: []link{q.changesLink(core.KindLock, k.ID.String())}}
	held := &table{Caption: "Holder", Head: []string{"Holder", "Acquired by", "Since", "Lease ends", "Fencing token"}, Empty: "Nobody holds it."}
	if k.Holder != "" || !k.Owner.IsZero() {
		s = state("held", toneBusy)
		v.Acts = q.actLinks("/locks/{name}", "break")
		held.Rows = [][]cell{{q.holder(k.Holder, k.Owner).wide(), codeOf(k.By), q.at(k.Since), q.leaseEnd(k.Until), fencing(k.Token)}}
	}
	wait := &table{Caption: "Who waits, in their order", Head: []string{"No.", "Who", "Since", "Lease"}, Empty: "Nobody waits for it."}
	for i, w := range k.Waiters {
		wait.Rows = append(wait.Rows, []cell{number(i + 1), q.holder(w.Holder, w.Owner).wide(), q.at(w.Since), textOf(cmp.Or(millis(w.TTLMS).Text, "until it is released"))})
	}
	return withBlocks(v, block{Title: "Holder", Table: held}, block{Title: "Who waits", Table: wait},
		block{Facts: facts(fact{"Lease", millis(k.TTLMS)}, fact{"Whose", whose(k.Namespace, k.Tenant)}, fact{"Created", q.at(k.CreatedAt)}, fact{"Id", codeOf(k.ID.String())})}), nil
}

func (q *visit) loadSemaphore() (s wire.SemaphoreDetail, err error) {
	return s, q.get(pathOf("semaphores", q.PathValue("name")), q.scopeQuery(), &s)
}

func (q *visit) semaphore() (view, error) {
	m, err := q.loadSemaphore()
	if err != nil {
		return view{}, err
	}
	s := semaphoreState(m.Semaphore)
	v := view{Kind: "Semaphore", Title: m.Name, State: &s, Crumbs: []link{{Text: "Locks", Href: q.page("/locks")}}, More: []link{q.changesLink(core.KindSemaphore, m.ID.String())}}
	if len(m.Holders) > 0 {
		v.Acts = q.actLinks("/semaphores/{name}", "break")
	}
	v.Acts = append(v.Acts, q.actLinks("/semaphores/{name}", "configure")...)
	held := &table{Caption: "Holders, in the order of their grants", Head: []string{"Holder", "Slots", "Acquired by", "Since", "Lease ends", "Fencing token"}, Empty: "Nobody holds a slot."}
	for _, h := range m.Holders {
		held.Rows = append(held.Rows, []cell{q.holder(h.Holder, h.Owner).wide(), number(h.Slots), codeOf(h.By), q.at(h.Since), q.leaseEnd(h.Until), fencing(h.Token)})
	}
	wait := &table{Caption: "Who waits, in their order", Head: []string{"No.", "Who", "Slots", "Since", "Lease"}, Empty: "Nobody waits for slots."}
	for i, w := range m.Waiters {
		wait.Rows = append(wait.Rows, []cell{number(i + 1), q.holder(w.Holder, w.Owner).wide(), number(w.Slots), q.at(w.Since), textOf(cmp.Or(millis(w.TTLMS).Text, "until they are released"))})
	}
	declared := "by its first use: it is gone with the last slot"
	if m.Configured {
		declared = "by its configuration: it stays"
	}
	return withBlocks(v, block{Title: "Holders", Table: held}, block{Title: "Who waits", Table: wait},
		block{Facts: facts(
			fact{"Slots", number(m.Total)}, fact{"Declared", textOf(declared)}, fact{"Whose", whose(m.Namespace, m.Tenant)}, q.declaredFact(m.Declared), fact{"Created", q.at(m.CreatedAt)}, fact{"Id", codeOf(m.ID.String())},
		)}), nil
}

func lockActs() []act {
	const on, api = "/semaphores/{name}", "/v1/semaphores/{name}"
	toList := func(q *visit, _ *answer) string { return q.page("/locks") }
	return []act{
		{
			on: "/locks/{name}", name: "break", method: "POST", api: "/v1/locks/{name}/break", label: "Break", danger: true, done: "The lock was taken away from its holder.", after: toList,
			says:   "Takes the lock away from its holder, who may still be at work: the next one who waits gets it at once. Of a pipeline the phase that runs fails. Only fencing tokens keep the two apart.",
			fields: []field{reasonField},
		},
		{
			on: "/locks", name: "new-semaphore", at: "/new-semaphore", method: "PUT", api: api, label: "New semaphore", done: "The semaphore was declared.",
			says: "Declares a semaphore with a number of slots.", load: (*visit).newSemaphore, amend: nameFromForm,
			params: scopeParams, after: afterNamed("semaphores"),
		},
		{
			on: on, name: "configure", method: "PUT", api: api, label: "Configure", done: "The semaphore was configured.", load: (*visit).editSemaphore, after: (*visit).semaphoreOrList,
			says: "Changes the number of slots. A lower number takes none away from who holds them. With 0 it is declared no longer, and gone with the last slot.",
		},
		{
			on: on, name: "break", method: "POST", api: api + "/break", label: "Break", danger: true, done: "The slots were taken away.", load: (*visit).breakFields, amend: amendBreak, after: toList,
			says: "Takes slots away from their holder, who may still be at work: those who wait get them at once. Of a pipeline the phase that runs fails.",
		},
	}
}

func (q *visit) newSemaphore() ([]field, error) {
	return append([]field{{Name: "name", Label: "Name", Required: true}, {Name: "slots", Label: "Slots", Type: fieldNumber, Required: true}}, q.scopeFields()...), nil
}

func (q *visit) editSemaphore() ([]field, error) {
	s, err := q.loadSemaphore()
	return []field{{Name: "slots", Label: "Slots", Type: fieldNumber, Required: true, Value: strconv.FormatUint(uint64(s.Total), 10)}}, err
}

// semaphoreOrList leads to the semaphore if there is one still, and else to the list.
func (q *visit) semaphoreOrList(a *answer) string {
	if a.status == http.StatusNoContent {
		return q.page("/locks")
	}
	return q.p.base + withQuery(q.filledIn("/semaphores/{name}"), q.scopeQuery())
}

// breakFields name the holders. None is chosen at first.
func (q *visit) breakFields() ([]field, error) {
	s, err := q.loadSemaphore()
	of := field{Name: "token", Label: "From whom", Type: fieldChoice, Options: []option{{"", "(choose)"}}}
	for _, h := range s.Holders {
		if h.Token != 0 {
			of.Options = append(of.Options, option{strconv.FormatUint(h.Token, 10), strconv.FormatUint(uint64(h.Slots), 10) + " of " + q.holder(h.Holder, h.Owner).Text})
		}
	}
	of.Options = append(of.Options, option{"all", "all of them: " + strconv.FormatUint(heldSlots(s.Semaphore), 10)})
	return []field{of, reasonField}, err
}

func amendBreak(_ *visit, body map[string]any, form url.Values) error {
	switch token := form.Get("token"); token {
	case "all":
		delete(body, "token")
	default:
		n, err := strconv.ParseUint(token, 10, 64)
		if err != nil || n == 0 {
			return &apiError{Status: http.StatusBadRequest, Text: "choose from whom the slots are taken away"}
		}
		body["token"] = n
	}
	return nil
}
