package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a search by name.
const (
	findRows  = 500 // that are looked through of each kind, the newest
	findShown = 20  // of each kind
)

// A nameList is a list of the API that is searched by name.
type nameList struct {
	path  string // of the API below /v1, and of the pages
	field string // of the API's answer
	kind  string // what one of it is called
	many  string
	// known are those that are known by their names within a tenant; else they are known by their ids.
	known bool
}

// nameLists are all of them, in the order in which what is found is listed. Runs are searched by their ids alone, see [visit.findRuns].
var nameLists = [...]nameList{
	{"recurring", "recurring_actions", "recurring action", "recurring actions", false}, {"jobs", "jobs", "job", "jobs", true},
	{"queues", "queues", "queue", "queues", true}, {"workers", "workers", "worker", "workers", true},
	{"locks", "locks", "lock", "locks", true}, {"semaphores", "semaphores", "semaphore", "semaphores", true}, {"calendars", "calendars", "calendar", "calendars", true},
	{"subscribers", "subscribers", "subscriber", "subscribers", true}, {"webhooks", "routes", "webhook route", "webhook routes", true},
	{"pipelines", "pipelines", "pipeline", "pipelines", false}, {"tasks", "tasks", "task", "tasks", false}, {"strategies", "strategies", "strategy", "strategies", false},
	{"backfills", "backfills", "backfill", "backfills", false}, {"actions", "actions", "action", "actions", false},
}

// params are those of the list's request.
func (l nameList) params() url.Values {
	switch l.path {
	case "webhooks": // which have no pages
		return nil
	case "recurring":
		return url.Values{"limit": {strconv.Itoa(findRows)}, "all": {"true"}} // of all tenants
	}
	return url.Values{"limit": {strconv.Itoa(findRows)}}
}

// hrefOf gives the page of one of a list.
func (q *visit) hrefOf(l nameList, of *listed) string {
	switch {
	case l.path == "webhooks":
		return q.page("/webhooks", "route", of.Name)
	case l.known:
		return q.scoped(pathOf(l.path, l.key(of)), of.Namespace, of.Tenant)
	}
	return q.page(pathOf(l.path, of.ID))
}

// key is the name by which the API knows one of a list: that of a job is its id.
func (l nameList) key(of *listed) string {
	if l.known && l.path != "jobs" {
		return of.Name
	}
	return of.ID
}

// title is what one of a list is called where it is found.
func (l nameList) title(of *listed) string {
	switch {
	case l.known && l.path != "jobs":
		return clip(of.Name, 120)
	case l.path == "jobs":
		return clip(cmp.Or(of.name(), of.ID), 120)
	}
	return cmp.Or(of.name(), shortID(of.ID))
}

// findNames adds what has a name that begins with a text, or in which a word does, and runs by their ids "job:time". bounds says
// what was not looked at, or left out.
func (q *visit) findNames(asked string, t *table) (bounds string, err error) {
	var older, cut []string
	for _, l := range nameLists {
		things, more, err := q.readNames(l, l.params())
		if err != nil {
			return "", err
		}
		if more {
			older = append(older, l.many)
		}
		fits := slices.DeleteFunc(things, func(of listed) bool {
			key := l.key(&of)
			byKey := l.known && beginsIn(key, asked) || strings.HasPrefix(key, strings.ToLower(asked)) // the words of an id mean nothing
			return !byKey && !beginsIn(of.name(), asked) && !beginsIn(or(of.Description), asked)
		})
		cut = append(cut, q.addFound(l, fits, asked, t)...)
	}
	more, err := q.findRuns(asked, t)
	if err != nil {
		return "", err
	}
	cut = append(cut, more...)
	if len(cut) > 0 {
		bounds = "The first " + strconv.Itoa(findShown) + " of each kind; there are more: " + strings.Join(cut, ", ") + ". "
	}
	if len(older) > 0 {
		bounds += fmt.Sprintf("Names are looked for among the newest %d of each kind: older %s are not found, they stand in their lists.", findRows, inOneList(older))
	}
	return strings.TrimSpace(bounds), nil
}

// readNames reads a list; none of it if the visitor may not have it. more says that there are older ones.
func (q *visit) readNames(l nameList, params url.Values) (things []listed, more bool, err error) {
	var got map[string]json.RawMessage
	if _, err := q.getPart("/"+l.path, params, &got); err != nil || got == nil {
		return nil, false, err
	}
	if err := json.Unmarshal(got[l.field], &things); err != nil {
		return nil, false, fmt.Errorf("read %s: %w", l.path, err)
	}
	next := string(got["next_page_token"])
	return things, next != "" && next != `""` && next != "null", nil
}

// addFound adds what was found of a kind, what is called exactly so first, and says how many were left out.
func (q *visit) addFound(l nameList, found []listed, asked string, t *table) (cut []string) {
	exact := func(of *listed) int {
		if strings.EqualFold(l.title(of), asked) || strings.EqualFold(l.key(of), asked) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(found, func(a, b listed) int { return exact(&a) - exact(&b) })
	if len(found) > findShown {
		cut = append(cut, strconv.Itoa(len(found))+" "+l.many)
		found = found[:findShown]
	}
	for i := range found {
		of, scope := &found[i], cell{}
		if of.Tenant != "" {
			scope = whose(of.Namespace, of.Tenant)
		}
		name := textOf(l.title(of)).to(q.hrefOf(l, of))
		if key := l.key(of); l.known && key != l.title(of) {
			name.More = []cell{codeOf(clip(key, 120))}
		}
		t.Rows = append(t.Rows, []cell{name.wide(), textOf(l.kind), scope})
	}
	return cut
}

// findRuns adds the runs of which the id "job:time" begins with a text that has the whole job and the colon: among the newest of
// the job, and however old it is the one that has exactly this id.
func (q *visit) findRuns(asked string, t *table) (cut []string, err error) {
	job, _, ok := strings.Cut(asked, ":")
	if !ok || job == "" {
		return nil, nil
	}
	runs := nameList{"runs", "runs", "run", "runs", false}
	found, _, err := q.readNames(runs, url.Values{"job": {job}, "limit": {strconv.Itoa(findRows)}})
	if err != nil && !answered(err, http.StatusBadRequest) {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(of listed) bool { return !strings.HasPrefix(strings.ToLower(of.RunID), strings.ToLower(asked)) })
	if len(found) == 0 {
		var one listed
		switch err := q.get(pathOf("runs", asked), nil, &one); {
		case err == nil:
			found = append(found, one)
		case !notFound(err) && !forbidden(err) && !answered(err, http.StatusBadRequest):
			return nil, err
		}
	}
	return q.addFound(runs, found, asked, t), nil
}

// beginsIn reports whether a name begins with a text, or a word of it does: a word is what stands behind anything but letters
// and digits, such as a space, a hyphen, a dot or a slash.
func beginsIn(name, begin string) bool {
	name, begin = strings.ToLower(name), strings.ToLower(begin)
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	first, _ := utf8.DecodeRuneInString(begin)
	for at := 0; ; {
		i := strings.Index(name[at:], begin)
		if i < 0 {
			return false
		}
		at += i
		before, _ := utf8.DecodeLastRuneInString(name[:at])
		if at == 0 || !inWord(before) || !inWord(first) {
			return true
		}
		_, size := utf8.DecodeRuneInString(name[at:])
		at += size
	}
}

// inOneList writes "a, b and c".
func inOneList(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}
