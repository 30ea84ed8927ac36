package httpapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sweepFile = "testdata/sweep.txt"

var printSweep = flag.Bool("sweep.print", false, "print the table of the sweep as the API is, to compare with "+sweepFile)

// sweepOperation is what the sweep needs of an operation of openapi.json.
type sweepOperation struct {
	id, method, path string
	scoped           bool   // it takes the parameters namespace and tenant
	variant          string // another way to name the thing: see [sweepOperation.variants]
}

func sweepOperations(t *testing.T) []sweepOperation {
	t.Helper()
	b, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct {
				Ref string `json:"$ref"`
			} `json:"parameters"`
		} `json:"paths"`
		Components struct {
			Parameters map[string]struct{ Name, In string } `json:"parameters"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	var ops []sweepOperation
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			o := sweepOperation{id: op.OperationID, method: strings.ToUpper(method), path: path}
			for _, ref := range op.Parameters {
				p := doc.Components.Parameters[ref.Ref[strings.LastIndexByte(ref.Ref, '/')+1:]]
				o.scoped = o.scoped || p.In == "query" && p.Name == "tenant"
			}
			ops = append(ops, o)
			ops = append(ops, o.variants()...)
		}
	}
	return ops
}

// name is that of the operation's row.
func (o sweepOperation) name() string { return strings.TrimSpace(o.id + " " + o.variant) }

// variants are other ways to name a thing: one that is found by its id, with its tenant too; one that is
// known by its name, without its tenant, which then is the token's; and a new one with the id of one
// that exists.
func (o sweepOperation) variants() (list []sweepOperation) {
	add := func(variant string) {
		v := o
		v.variant = variant
		list = append(list, v)
	}
	switch {
	case strings.HasPrefix(o.id, "create") && o.id != "createRecurring" && o.id != "createCalendar" && o.id != "createBackfill": // whose ids nobody gives
		add("+id")
	case o.method == http.MethodGet && o.scoped && o.byID():
		add("+tenant")
	case o.method == http.MethodGet && o.scoped && strings.Contains(o.path, "{"):
		add("-tenant")
	}
	return list
}

// kind is the first part of the operation's path, which says what it is about.
func (o sweepOperation) kind() string {
	return strings.Split(strings.TrimPrefix(o.path, "/v1/"), "/")[0]
}

// byID reports whether the thing is found by its id alone, so that only the id can be guessed.
func (o sweepOperation) byID() bool {
	return strings.Contains(o.path, "{id}") && o.kind() != "queues" && o.kind() != "jobs"
}

// perOwner reports whether the operation is about something that has an owner.
func (o sweepOperation) perOwner() bool {
	return strings.Contains(o.path, "{") || o.scoped || strings.Contains(sweepBodies[o.id], "{tenant}")
}

// request is the operation on a thing: its method, target and body.
func (o sweepOperation) request(th thing) (method, target string, body any) {
	path := o.path
	switch {
	case o.kind() == "queues":
		path = strings.Replace(path, "{id}", "{item}", 1)
	case o.kind() == "jobs":
		path = strings.Replace(path, "{id}", "{job}", 1)
	}
	if o.scoped && o.byID() == (o.variant == "+tenant") && o.variant != "-tenant" && o.id != "createRecurring" {
		path += inTenant
	}
	if o.id == "find" {
		path += "&q={id}"
	}
	if o.id == "previewCron" {
		path += "&cron_expr=@daily&calendar=closed"
	}
	method = o.method
	if o.id == "streamEvents" || o.id == "backup" || o.id == "streamOutput" || o.id == "pipelineOutput" {
		method = http.MethodHead // of what does not end, or has written nothing
	}
	if b, ok := sweepBodies[o.id]; ok {
		if o.variant == "+id" {
			b = strings.Replace(strings.Replace(b, "{tenant}", "{mine}", 1), `{"namespace"`, `{"id":"{id}","namespace"`, 1)
		}
		body = th.fill(b)
	}
	return method, th.fill(path), body
}

// view is where an admin sees the thing of a path; "" if there is no such page.
func (o sweepOperation) view(th thing) string {
	parts := strings.SplitN(strings.TrimPrefix(o.path, "/v1/"), "/", 3)
	if strings.HasPrefix(o.id, "bulk") {
		parts[1] = "{id}"
	}
	switch {
	case len(parts) < 2 || !strings.HasPrefix(parts[1], "{"), o.kind() == "webhooks":
		return ""
	case o.kind() == "sets":
		return th.fill("/v1/sets?set={name}")
	}
	show := o
	show.id, show.path = "", "/v1/"+parts[0]+"/"+parts[1]
	if strings.Contains(o.path, "/items/{id}") {
		show.path += "/items/{id}"
	}
	_, target, _ := show.request(th)
	return target
}

// sweep does the operation with every kind of token on the things of all owners, each kind in a
// world of its own, and gives the statuses as a row of the table.
func (o sweepOperation) sweep(t *testing.T, partitions int) string {
	var cells []string
	var world *sweepWorld
	for _, k := range sweepTokens {
		if k.sees != "" || world == nil { // others change nothing
			if world != nil {
				world.stop()
			}
			world = newSweepWorld(t, o.kind(), partitions)
		}
		var statuses []string
		for i, of := range sweepOwners {
			if i > 0 && !o.perOwner() {
				break
			}
			th := maps.Clone(world.things[i])
			th["mine"] = k.home()
			statuses = append(statuses, fmt.Sprint(o.ask(t, world, k, of, th)))
		}
		if same := slices.Compact(slices.Clone(statuses)); len(same) == 1 {
			statuses = same
		}
		cells = append(cells, fmt.Sprintf("%-15s", strings.Join(statuses, " ")))
	}
	world.stop()
	return strings.TrimRight(fmt.Sprintf("%-24s | %s", o.name(), strings.Join(cells, " | ")), " ")
}

// seenBy reports whether a token may read what belongs to an owner. Locks, semaphores and calendars are those of a
// tenant: no tool's name stands for them, whoever may wait for a lock may know who has it, and a calendar holds for all tools.
func (o sweepOperation) seenBy(k sweepToken, of sweepOwner) bool {
	ofTenant := o.kind() == "locks" || o.kind() == "semaphores" || o.kind() == "calendars"
	return strings.Contains(k.sees, of.letter) || ofTenant && of.letter == "o" && strings.Contains(k.sees, "h")
}

// ask sends the operation for one thing with one token. It checks that the answer has nothing of what
// the token may not see, and that a refusal has changed nothing.
func (o sweepOperation) ask(t *testing.T, w *sweepWorld, k sweepToken, of sweepOwner, th thing) int {
	method, target, body := o.request(th)
	what := fmt.Sprintf("%s with the token %q on a thing of %s/%s: %s %s", o.name(), k.name, of.tenant, of.tool, method, target)
	look := func() string {
		synctest.Wait()
		if view := o.view(th); view != "" && method != http.MethodGet {
			return w.do("GET", view, nil, bearer("admin-secret")).body
		}
		return ""
	}
	before := look()
	var opts []func(*http.Request)
	if k.bearer != "" {
		opts = append(opts, bearer(k.bearer))
	}
	got := w.do(method, target, body, opts...)
	assert.NotEqual(t, http.StatusInternalServerError, got.status, "%s: %s", what, got.body)
	assert.Less(t, got.status, 600)
	answer := got.body + fmt.Sprint(got.header)
	for _, other := range sweepOwners {
		if !o.seenBy(k, other) && !strings.Contains(fmt.Sprint(target, body), other.secret) {
			assert.NotContains(t, answer, other.secret, "%s: it tells what belongs to %s/%s", what, other.tenant, other.tool)
		}
	}
	if strings.HasPrefix(o.id, "bulk") && got.status == http.StatusOK { // what became of the one id
		results := got.results()
		require.Len(t, results, 1, what)
		got.status = results[0].Status
		assert.Equal(t, got.status >= 400, results[0].Error != "", "%s: %s", what, got.body)
	}
	if got.status >= 400 {
		assert.Equal(t, before, look(), "%s: it is answered with %d, and changes something", what, got.status)
	}
	if k.name == "admin" && of.letter != "x" && strings.HasPrefix(o.id, "get") && o.perOwner() && o.kind() != "queues" && o.variant == "" || k.name == "admin" && o.name() == "getItem" && of.letter != "x" {
		assert.Contains(t, got.body, of.secret, "%s: so that it can be missed in the answers to others", what)
	}
	return got.status
}

// sweepRows reads the table: each row by its operation.
func sweepRows(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(sweepFile)
	require.NoError(t, err)
	rows := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, _, ok := strings.Cut(line, "|")
		id = strings.TrimSpace(id)
		require.True(t, ok, "%s: %q has no cells", sweepFile, line)
		require.Empty(t, rows[id], "%s: %s stands there twice", sweepFile, id)
		rows[id] = line
	}
	return rows
}

func plainRow(row string) string { return strings.Join(strings.Fields(row), " ") }

// Each operation of openapi.json, with tokens of every kind, on things of every owner, is answered as
// testdata/sweep.txt says.
func TestEveryOperationAnswersEachKindOfTokenAsTheTableSays(t *testing.T) { sweepAll(t, 1, nil) }

// sweepAll leaves out what skip has.
func sweepAll(t *testing.T, partitions int, skip map[string]bool) {
	rows := sweepRows(t)
	for _, o := range sweepOperations(t) {
		row, ok := rows[o.name()]
		delete(rows, o.name())
		if skip[o.id] {
			continue
		}
		t.Run(o.name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := o.sweep(t, partitions)
				if *printSweep {
					fmt.Println(got)
				}
				if !ok {
					t.Errorf("openapi.json has the operation %s, of which %s says nothing. "+
						"If it takes a body, give it a valid one in sweepBodies; if it is about a kind of thing that is new, a maker in sweepMakers. "+
						"Then consider what each kind of token should be answered, and add the row; at present the API answers\n%s", o.name(), sweepFile, got)
					return
				}
				assert.Equal(t, plainRow(row), plainRow(got), "%s %s", o.method, o.path)
			})
		})
	}
	for id := range rows {
		t.Errorf("%s has a row of %s, which openapi.json does not have: take it out", sweepFile, id)
	}
}
