package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// declaredSets starts an API with tokens of two tenants, of tools, of a reader, and of operators.
func declaredSets(t *testing.T, limits httpapi.TenantLimits) *api {
	t.Helper()
	return start(t, setup{
		engine: func(o *shell.Options) {
			withCluster(o)
			o.Limits.Count = true
		},
		api: func(o *httpapi.Options) {
			withJobs(o)
			o.OpenRunners = nil
			o.Limits = httpapi.Limits{Default: limits}
			tenant := func(name, tenant string, change func(*httpapi.Token)) httpapi.Token {
				k := httpapi.Token{Name: name, SHA256: httpapi.HashToken(name), Namespaces: []string{"ns"}, Tenants: []string{tenant}}
				if change != nil {
					change(&k)
				}
				return k
			}
			o.Tokens = []httpapi.Token{
				{Name: "root", SHA256: httpapi.HashToken("root"), Admin: true}, {Name: "any", SHA256: httpapi.HashToken("any")},
				tenant("ann", "t1", nil), tenant("ben", "t2", nil),
				tenant("tool", "t1", func(k *httpapi.Token) { k.Tools = []string{"echo"} }),
				tenant("kube", "t1", func(k *httpapi.Token) { k.Tools = []string{"kubernetes", "echo"} }),
				tenant("reader", "t1", func(k *httpapi.Token) { k.ReadOnly = true }),
				tenant("runs", "t1", func(k *httpapi.Token) { k.Runners = []string{"kubernetes"} }),
			}
		},
	})
}

// nightly is an entry of a recurring action; more are further members.
func nightly(name, more string) string {
	return fmt.Sprintf(`{"file":"a.toml","recurring":{"name":%q,"cron_expr":"0 3 * * *","provider":"echo","payload":{}%s}}`, name, more)
}

// someQueue is an entry of a queue.
func someQueue(name string) string {
	return fmt.Sprintf(`{"file":"b.toml","queue":{"name":%q}}`, name)
}

// applySet applies the set "ours" with a token.
func (a *api) applySet(token, options string, entries ...string) answer {
	a.t.Helper()
	return a.do("POST", "/v1/sets/ours", `{`+options+`"entries":[`+strings.Join(entries, ",")+`]}`, bearer(token))
}

// changesOf gives what applying a set has done: "create recurring one".
func changesOf(t *testing.T, got answer) (out []string) {
	t.Helper()
	require.Equal(t, http.StatusOK, got.status, got.body)
	var res wire.SetResult
	require.NoError(t, json.Unmarshal([]byte(got.body), &res))
	for _, c := range res.Changes {
		out = append(out, c.Action+" "+c.Kind+" "+c.Name)
	}
	return out
}

// declaredBy lists what sets own, as a token sees it: "ours queue ns/t1 q b.toml".
func declaredBy(t *testing.T, a *api, token, query string) (out []string) {
	t.Helper()
	for page := ""; ; {
		got := a.do("GET", "/v1/sets?limit=2&"+query+"&page_token="+page, nil, bearer(token))
		require.Equal(t, http.StatusOK, got.status, got.body)
		var list wire.DeclaredList
		require.NoError(t, json.Unmarshal([]byte(got.body), &list))
		for _, d := range list.Declared {
			out = append(out, fmt.Sprintf("%s %s %s/%s %s %s", d.Set, d.Kind, d.Namespace, d.Tenant, d.Name, d.File))
		}
		if page = list.NextPageToken; page == "" {
			slices.Sort(out)
			return out
		}
	}
}

// entryOfEach is an entry of each kind.
var entryOfEach = []string{
	nightly("nightly", `,"calendars":["closed"]`),
	`{"file":"j.toml","job":{"id":"report","runner":"kubernetes","schedule":"0 9 * * *","pod_spec":{"containers":[{"name":"c"}]}}}`,
	someQueue("mail"), `{"file":"m.toml","semaphore":{"name":"gate","slots":2}}`,
	`{"file":"w.toml","worker":{"name":"mailer","queue":"mail","do":{"run":{"tool":"echo","input":"${item}"}}}}`,
	`{"file":"c.toml","calendar":{"name":"closed","exclude":{"dates":[{"date":"2026-12-25"}]}}}`,
	`{"file":"s.toml","subscriber":{"name":"on-failure","match":{"category":"action","action":"failed"},"do":{"wake_worker":{"name":"mailer"}}}}`,
}

func TestASetOfEachKindIsMadeOnceAndBelongsToItsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		all := []string{"recurring nightly", "job report", "queue mail", "semaphore gate", "worker mailer", "calendar closed", "subscriber on-failure"}
		each := func(action string) (out []string) {
			for _, what := range all {
				out = append(out, action+" "+what)
			}
			return out
		}
		assert.Equal(t, each("create"), changesOf(t, a.applySet("root", `"dry_run":true,`, entryOfEach...)))
		assert.Empty(t, declaredBy(t, a, "root", ""), "a dry run makes nothing")
		got := a.applySet("root", "", entryOfEach...)
		assert.Equal(t, each("create"), changesOf(t, got))
		assert.Contains(t, got.body, `"applied":true`)
		assert.Equal(t, each("none"), changesOf(t, a.applySet("root", "", entryOfEach...)))

		assert.Equal(t, []string{
			"ours calendar default/default closed c.toml", "ours job default/default report j.toml", "ours queue default/default mail b.toml",
			"ours recurring default/default nightly a.toml", "ours semaphore default/default gate m.toml", "ours subscriber default/default on-failure s.toml", "ours worker default/default mailer w.toml",
		}, declaredBy(t, a, "root", ""))
		assert.Equal(t, []string{"ours job default/default report j.toml"}, declaredBy(t, a, "root", "kind=job"))
		assert.Equal(t, []string{"ours subscriber default/default on-failure s.toml"}, declaredBy(t, a, "any", "kind=subscriber&set=ours"))
		assert.Empty(t, declaredBy(t, a, "root", "set=theirs"))
		id := core.QueueRef("default", "default", "mail").ID
		assert.Equal(t, []string{"ours queue default/default mail b.toml"}, declaredBy(t, a, "root", "id="+id.String()))
		assert.Contains(t, a.do("GET", "/v1/sets?id="+id.String(), nil, bearer("root")).body, `"id":"`+id.String()+`","namespace":"default","tenant":"default","name":"mail","since":"2000-01-01T00:00:00.000Z"`)
		assert.Equal(t, `kind: "queues" is unknown: use calendar, job, queue, recurring, semaphore, subscriber, worker`,
			a.do("GET", "/v1/sets?kind=queues", nil, bearer("root")).errorText())

		for i, row := range ownedEdits {
			got := a.do("GET", row.path, nil, bearer("root")).body
			file := []string{"a", "j", "w", "b", "m", "s", "c"}[i]
			assert.Contains(t, got, fmt.Sprintf(`"declared":{"set":"ours","file":"%s.toml","since":"2000-01-01T00:00:00.000Z"}`, file), row.path)
			assert.NotContains(t, a.do("GET", row.path[:strings.LastIndexByte(row.path, '/')]+"?namespace=default&tenant=default", nil, bearer("root")).body, `"declared":{`, row.path)
		}
		require.Equal(t, http.StatusOK, a.do("PUT", "/v1/queues/other", `{}`, bearer("root")).status)
		assert.NotContains(t, a.do("GET", "/v1/queues/other", nil, bearer("root")).body, "declared")

		got = a.do("PUT", "/v1/queues/mail", `{"concurrency":9}`, bearer("root"))
		assert.Equal(t, http.StatusConflict, got.status)
		assert.Equal(t, `the set "ours" declares it, in b.toml: change it there and apply the set, or take it over`, got.errorText())
		assert.Less(t, a.do("POST", "/v1/queues/mail/pause", `{}`, bearer("root")).status, 300, "operations stay")
	})
}

func TestASetIsMadeWholeOrNotAtAllAndSaysWhatIsWrongWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		fine := nightly("fine", "")
		for _, c := range []struct {
			status            int
			token, what, want string
		}{
			{400, "root", nightly("worse", `,"timezone":"Mars/Base"`), `a.toml: recurring worse: timezone: `},
			{400, "root", nightly("worse", `,"calendars":["none"]`), `a.toml: recurring worse: calendars[0]: the tenant has no calendar "none": create it first`},
			{400, "root", nightly("", ""), `a.toml: recurring ?: name: must not be empty`},
			{400, "root", strings.Replace(nightly("worse", ""), "0 3", "61 3", 1), `a.toml: recurring worse: `},
			{400, "root", strings.Replace(nightly("worse", ""), `"echo"`, `"ech"`, 1), `a.toml: recurring worse: provider: `},
			{400, "root", nightly("worse", `,"id":"x"`), `entries[1].recurring.id: is given at creation, by the server`},
			{400, "root", nightly("worse", `,"cron":"x"`), `entries[1].recurring.cron: unknown field`},
			{400, "root", `{"file":"j.toml","job":{"id":"report","runner":"kubernetes","paused":true,"pod_spec":{}}}`, `entries[1].job.paused: is changed by pause and resume`},
			{400, "root", `{"file":"j.toml","job":{"id":"report","runner":"kubernetes","pod_spec":{"containers":[]}}}`, `j.toml: job report: pod_spec.containers: must have at least one element`},
			{400, "root", `{"file":"j.toml"}`, `j.toml: entries[1]: give one of recurring, job, queue, semaphore, worker, calendar and subscriber, not 0 of them`},
			{400, "root", `{"file":"j.toml","queue":{"name":"q"},"calendar":{"name":"c"}}`, `j.toml: queue q: give one of recurring, job, queue, semaphore, worker, calendar and subscriber, not 2 of them`},
			{400, "root", `{"file":"b.toml","was":"r","queue":{"name":"q"}}`, `b.toml: queue q: was: a queue cannot be renamed`},
			{400, "root", fine, `a.toml: recurring fine: name: "fine" of default/default is declared twice, the first time in a.toml`},
			{400, "root", `{"file":"w.toml","worker":{"name":"w","queue":"q","do":{"run":{"tool":"none","input":{}}}}}`, `w.toml: worker w: do.run.tool: "none" is unknown`},
			{403, "ann", nightly("worse", `,"tenant":"t2"`), `a.toml: recurring worse: tenant: "t2" is not one of the token's: use t1`},
			{403, "ann", `{"file":"b.toml","queue":{"name":"q","namespace":"other"}}`, `b.toml: queue q: namespace: "other" is not one of the token's: use ns`},
			{403, "ann", `{"file":"m.toml","semaphore":{"name":"s","tenant":"t2","slots":1}}`, `m.toml: semaphore s: tenant: "t2" is not one of the token's`},
			{403, "ann", `{"file":"c.toml","calendar":{"name":"c","tenant":"t2"}}`, `c.toml: calendar c: tenant: "t2" is not one of the token's`},
			{403, "ann", `{"file":"w.toml","worker":{"name":"w","tenant":"t2","queue":"q","do":{"run":{"tool":"echo","input":{}}}}}`, `w.toml: worker w: tenant: "t2" is not`},
			{403, "ann", `{"file":"w.toml","worker":{"name":"w","queue":"q","do":{"task":{"prompt":"p"}}}}`, `w.toml: worker w: do.task: the token "ann" may not start a terminal session`},
			{403, "ann", `{"file":"j.toml","job":{"id":"report","runner":"kubernetes","pod_spec":{"containers":[{"name":"c"}]}}}`, `j.toml: job report: runner: the token "ann" may not use the runner "kubernetes"`},
			{
				403, "ann", `{"file":"k.toml","recurring":{"name":"k","cron_expr":"0 3 * * *","provider":"kubernetes","payload":{"pod_spec":{"containers":[{"name":"c"}]},"runner":"kubernetes"}}}`,
				`k.toml: recurring k: payload.runner: the token "ann" may not use the runner "kubernetes"`,
			},
			{403, "runs", `{"file":"j.toml","job":{"id":"report","tenant":"t2","runner":"kubernetes","pod_spec":{"containers":[{"name":"c"}]}}}`, `j.toml: job report: tenant: "t2" is not`},
			{
				400, "ann", `{"file":"s.toml","subscriber":{"name":"s","match":{"category":"x"},"do":{"push":{"namespace":"ns","tenant":"t2","name":"q"}}}}`,
				`s.toml: subscriber s: do: acts in namespace "ns" and tenant "t2", and the subscriber is of namespace "ns" and tenant "t1"`,
			},
			{403, "ann", `{"file":"s.toml","subscriber":{"tenant":"t2","name":"s","match":{"category":"x"},"do":{"push":{"name":"q"}}}}`, `s.toml: subscriber s: tenant: "t2" is not`},
			{
				403, "any", `{"file":"s.toml","subscriber":{"name":"s","match":{"category":"x"},"do":{"start_pipeline":{"namespace":"ns","tenant":"t1","definition":{"name":"p","phases":[{"name":"a","task":{"prompt":"x"}}]}}}}}`,
				`s.toml: subscriber s: do.start_pipeline.definition.phases[0].task: the token "any" may not start a terminal session`,
			},
		} {
			got := a.applySet(c.token, "", fine, c.what)
			assert.Equal(t, c.status, got.status, got.body)
			assert.Contains(t, got.errorText(), c.want)
		}
		assert.Empty(t, declaredBy(t, a, "root", ""), "nothing was made")
		recurring, _, err := a.engine.Recurring().List(t.Context(), shell.RecurringFilter{}, shell.Page{})
		require.NoError(t, err)
		assert.Empty(t, recurring)

		for name, want := range map[string]string{
			"-x":                                   `set: "-x" is no name: use letters, digits, ".", "_" and "-", at most 128 of them`,
			"0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10": `set: "0190b6a4-7c1f-7c3e-9d57-6f2a4b8c9d10" is no name`,
		} {
			got := a.do("POST", "/v1/sets/"+name, `{"entries":[]}`, bearer("root"))
			assert.Equal(t, http.StatusBadRequest, got.status)
			assert.Contains(t, got.errorText(), want)
		}
		assert.Equal(t, http.StatusBadRequest, a.do("POST", "/v1/sets/ours?dry_run=true", `{"entries":[]}`, bearer("root")).status)
	})
}

func TestWhoIsBoundToToolsOrReadsOnlyAppliesNoSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		for _, token := range []string{"tool", "kube"} {
			got := a.applySet(token, `"dry_run":true,`, nightly("mine", ""))
			assert.Equal(t, http.StatusForbidden, got.status)
			assert.Contains(t, got.errorText(), "it cannot apply sets of files, which may change what is for other tools")
			assert.Equal(t, http.StatusForbidden, a.do("GET", "/v1/sets", nil, bearer(token)).status)
		}
		assert.Equal(t, http.StatusForbidden, a.applySet("reader", `"dry_run":true,`, nightly("mine", "")).status)
		require.Equal(t, http.StatusOK, a.applySet("ann", "", nightly("mine", "")).status)
		assert.Equal(t, []string{"ours recurring ns/t1 mine a.toml"}, declaredBy(t, a, "reader", ""))
		assert.Equal(t, http.StatusOK, a.applySet("runs", "", entryOfEach[1]).status, "who may use the runner")
	})
}

func TestAnotherTenantsThingsOfASetWithTheSameNameStayUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		require.Equal(t, http.StatusOK, a.applySet("ann", "", nightly("one", ""), someQueue("a"), someQueue("b"), someQueue("c")).status)
		require.Equal(t, http.StatusOK, a.applySet("root", "", entryOfEach[6]).status, "of another tenant")
		annSees := declaredBy(t, a, "ann", "")
		assert.Len(t, annSees, 4)

		mine := []string{nightly("one", ""), someQueue("a")}
		for _, options := range []string{"", `"prune":true,"most":true,`, `"take_over":true,"prune":true,"most":true,`} {
			want := []string{"create recurring one", "create queue a"}
			if options != "" {
				want = []string{"none recurring one", "none queue a"}
			}
			assert.Equal(t, want, changesOf(t, a.applySet("ben", options, mine...)))
			assert.Equal(t, annSees, declaredBy(t, a, "ann", ""))
		}
		assert.Len(t, declaredBy(t, a, "ben", ""), 2)
		assert.Len(t, declaredBy(t, a, "root", ""), 7)
		assert.Len(t, declaredBy(t, a, "root", "tenant=t2&namespace=ns&set=ours"), 2)
		assert.Equal(t, http.StatusForbidden, a.do("GET", "/v1/sets?tenant=t1", nil, bearer("ben")).status)

		got := a.applySet("ben", `"prune":true,`)
		assert.Equal(t, `prune: the set "ours" declares nothing, and owns 2: an empty folder removes nothing. Check that the folder is the right one; to remove all, delete each by itself, and take it over`, got.errorText())
		assert.Equal(t, []string{"none recurring one", "none queue a", "remove queue c", "remove queue b"}, sortedTail(changesOf(t, a.applySet("ann", `"prune":true,"most":true,`, mine...)), 2))
		assert.Len(t, declaredBy(t, a, "ben", ""), 2, "nor by the other one")
		assert.Equal(t, []string{"ours subscriber default/default on-failure s.toml"}, declaredBy(t, a, "root", "kind=subscriber"))
	})
}

func TestWhatATenantDeclaredInASetIsRemovedByNobodyWhoAppliesOneWithTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		in := func(tenant, queue string) string {
			return fmt.Sprintf(`{"file":"b.toml","queue":{"namespace":"ns","tenant":%q,"name":%q}}`, tenant, queue)
		}
		require.Equal(t, http.StatusOK, a.applySet("ann", "", someQueue("a"), someQueue("b")).status)
		require.Equal(t, http.StatusOK, a.applySet("any", "", in("t1", "ops"), in("t2", "ops"), in("t1", "old")).status)

		got := a.applySet("root", `"prune":true,"most":true,`, in("t1", "ops"))
		assert.Equal(t, []string{"none queue ops", "leave queue a", "leave queue b", "remove queue old", "remove queue ops"}, changesOf(t, got), "root is bound to nothing, as any is")
		assert.Contains(t, got.body, `"notes":["the set was applied on behalf of ns/t1 when it declared it: it is removed only so"]`)
		got = a.applySet("ann", `"prune":true,"most":true,`, someQueue("a"))
		assert.Equal(t, []string{"none queue a", "remove queue b", "leave queue ops"}, changesOf(t, got))
		assert.Contains(t, got.body, `"notes":["the set was applied on behalf of no tenant in particular when it declared it: it is removed only so"]`)
		assert.Contains(t, a.do("GET", "/v1/sets?limit=10", nil, bearer("ann")).body, `"for":"ns/t1"`)

		got = a.applySet("ann", "", someQueue("a"), someQueue("ops"))
		assert.Equal(t, []string{"none queue a", "adopt queue ops"}, changesOf(t, got))
		assert.Contains(t, got.body, `"notes":["the set was applied on behalf of no tenant in particular until now"]`)
		assert.Equal(t, []string{"none queue a", "remove queue ops"}, changesOf(t, a.applySet("ann", `"prune":true,"most":true,`, someQueue("a"))))
	})
}

func TestTheChangesOfWhatASetMadeNameTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		require.Equal(t, http.StatusOK, a.applySet("ann", "", someQueue("a")).status)
		a.header.Set("Authorization", "Bearer root")
		changes := a.changes("queue/" + core.QueueRef("ns", "t1", "a").ID.String()).Changes
		require.Len(t, changes, 1)
		require.NotNil(t, changes[0].Inputs[0].BySet)
		assert.Equal(t, "ours", changes[0].Inputs[0].BySet.Set)
		assert.Equal(t, "set ours, b.toml", changes[0].Inputs[0].BySet.Text())
		assert.Equal(t, "api:ann", changes[0].Inputs[0].Actor)
	})
}

func TestADryRunOverHTTPListsWhatWouldBeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		require.Equal(t, http.StatusOK, a.applySet("ann", "", someQueue("a"), someQueue("b")).status)
		got := a.applySet("ann", `"prune":true,"dry_run":true,`, someQueue("a"))
		assert.Equal(t, []string{"none queue a", "remove queue b"}, changesOf(t, got))
		assert.Contains(t, got.body, `"refused":"prune: 1 of the 2 that the set \"ours\" owns would be removed, which is more than a third`)

		wrong := `{"file":"w.toml","recurring":{"name":"w%d","cron_expr":"61 * * * *","provider":"echo"}}`
		var all []string
		for i := range 25 {
			all = append(all, fmt.Sprintf(wrong, i))
		}
		said := a.applySet("ann", "", all...)
		assert.Equal(t, http.StatusBadRequest, said.status)
		assert.Equal(t, 20, strings.Count(said.errorText(), "w.toml: recurring w"), said.errorText())
		assert.Contains(t, said.errorText(), "; and 5 more")
		var refused wire.Error
		require.NoError(t, json.Unmarshal([]byte(said.body), &refused))
		require.Len(t, refused.Refused, 25, "all are told of")
		assert.Equal(t, wire.SetRefused{File: "w.toml", Kind: "recurring", Name: "w24", Reason: `cron_expr: minute field "61": 61 is out of range 0-59`}, refused.Refused[24])
		assert.NotContains(t, a.applySet("ann", `"prune":true,`, someQueue("a")).body, "refused", "the set as a whole is no declaration")
		bound := a.applySet("ann", "", `{"file":"b.toml","queue":{"name":"q","namespace":"other"}}`)
		assert.Contains(t, bound.body, `"refused":[{"file":"b.toml","kind":"queue","name":"q","reason":"namespace: \"other\" is not one of the token's`)
		got = a.applySet("ann", `"dry_run":true,`, all...)
		assert.Equal(t, http.StatusOK, got.status)
		assert.Contains(t, got.body, `"refused"`)
	})
}

func TestASetThatIsTooLargeSaysWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		got := a.applySet("ann", "", `{"file":"`+strings.Repeat("x", 1<<20)+`"}`)
		assert.Equal(t, http.StatusRequestEntityTooLarge, got.status)
		assert.Equal(t, "body: is larger than the limit of 1048576 bytes (http.max_body_bytes): split the set in two of other names, or raise the limit", got.errorText())
	})
}

// sortedTail sorts what follows the first n, from the last on.
func sortedTail(list []string, n int) []string {
	tail := list[n:]
	slices.Sort(tail)
	slices.Reverse(tail)
	return list
}

func TestASetTakesOverOverHTTPWhatItIsToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		require.Equal(t, http.StatusOK, a.applySet("ann", "", someQueue("a")).status)
		theirs := func(options string) answer {
			return a.do("POST", "/v1/sets/theirs", `{`+options+`"entries":[{"file":"t.toml","queue":{"name":"a","config":{"concurrency":3}}}]}`, bearer("ann"))
		}
		got := theirs("")
		assert.Equal(t, http.StatusConflict, got.status)
		assert.Equal(t, `t.toml: queue a: the set "ours" declares it, in b.toml: take it out there, or let "theirs" take it over`, got.errorText())
		assert.Equal(t, []string{"update queue a"}, changesOf(t, theirs(`"take_over":true,`)))
		assert.Equal(t, []string{"theirs queue ns/t1 a t.toml"}, declaredBy(t, a, "ann", ""))
	})
}

func TestASetIsWithinTheLimitsOfItsTenantInWhatItMakesAndChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{Schedules: 3, MinScheduleInterval: time.Minute, MaxAttempts: 5})
		often := strings.Replace(nightly("often", ""), "0 3 * * *", "@every 1s", 1)
		ofAnn := strings.NewReplacer(`"name"`, `"namespace":"ns","tenant":"t1","name"`)
		require.Equal(t, http.StatusOK, a.applySet("root", "", ofAnn.Replace(often)).status, "none for the operator")
		synctest.Wait()

		assert.Equal(t, []string{"adopt recurring often", "create recurring one", "create recurring two"},
			changesOf(t, a.applySet("ann", `"dry_run":true,`, often, nightly("one", ""), nightly("two", ""))))
		got := a.applySet("ann", "", often, nightly("one", ""), nightly("two", ""), nightly("three", ""))
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Equal(t, `a.toml: recurring three: tenant: "t1" of namespace "ns" has 1 recurring actions and jobs: limits.max_schedules of the daemon allows 3`, got.errorText())
		assert.Equal(t, "60", got.header.Get("Retry-After"))
		assert.Len(t, declaredBy(t, a, "ann", ""), 1, "none of them was made")

		described := strings.Replace(often, `"payload"`, `"description":"d","payload"`, 1)
		assert.Equal(t, []string{"update recurring often"}, changesOf(t, a.applySet("ann", "", described)), "the times that it has stay")
		got = a.applySet("ann", "", strings.Replace(described, "@every 1s", "@every 2s", 1))
		assert.Equal(t, http.StatusBadRequest, got.status)
		assert.Contains(t, got.errorText(), "a.toml: recurring often: schedule: ")
		assert.Contains(t, got.errorText(), "limits.min_schedule_seconds of the daemon asks for 1m0s at least")
		got = a.applySet("ann", "", nightly("one", `,"policy":{"max_attempts":6}`))
		assert.Contains(t, got.errorText(), "a.toml: recurring one: policy.max_attempts: 6 is more than 5: limits.max_attempts")
	})
}

func TestAllThatADeclarationSaysIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		require.Equal(t, http.StatusOK, a.applySet("any", "",
			`{"file":"c.toml","calendar":{"namespace":"ns","tenant":"t1","name":"c","timezone":"Europe/Berlin","description":"closed","exclude":{"dates":[{"date":"2026-12-25"}]},"include":{"weekly":[{"days":["mon"]}]}}}`,
			`{"file":"w.toml","worker":{"namespace":"ns","tenant":"t1","name":"w","queue":"q","concurrency":3,"poll_ms":5000,"do":{"run":{"tool":"echo","input":{"a":1}}}}}`,
			`{"file":"q.toml","queue":{"namespace":"ns","tenant":"t1","name":"q","config":{"concurrency":4}}}`,
			`{"file":"m.toml","semaphore":{"namespace":"ns","tenant":"t1","name":"m","slots":5}}`,
			`{"file":"s.toml","subscriber":{"namespace":"ns","tenant":"t1","name":"on-failure","match":{"category":"action","action":"failed"},"do":{"wake_worker":{"name":"mailer"}}}}`,
		).status)
		of := shell.Scope{Namespace: "ns", Tenant: "t1"}
		c, err := a.engine.Calendars().Get(t.Context(), of, "c")
		require.NoError(t, err)
		assert.Equal(t, core.CalendarSpec{
			Namespace: "ns", Tenant: "t1", Name: "c", Timezone: "Europe/Berlin", Description: "closed",
			Exclude: core.CalendarDays{Dates: []core.CalendarDate{{Date: "2026-12-25"}}}, Include: core.CalendarDays{Weekly: []core.CalendarWindow{{Days: []string{"mon"}}}},
		}, c.CalendarSpec)
		w, err := a.engine.Workers().Get(t.Context(), of, "w")
		require.NoError(t, err)
		assert.Equal(t, core.WorkerSpec{
			Namespace: "ns", Tenant: "t1", Name: "w", Queue: "q", Concurrency: 3, PollMS: 5000, Do: core.WorkerDo{Run: &core.ToolRun{Tool: "echo", Input: json.RawMessage(`{"a":1}`)}},
		}, w.WorkerSpec)
		q, err := a.engine.Queues().Get(t.Context(), "ns", "t1", "q")
		require.NoError(t, err)
		assert.EqualValues(t, 4, q.Config.Concurrency)
		m, err := a.engine.Semaphores().Get(t.Context(), of, "m")
		require.NoError(t, err)
		assert.EqualValues(t, 5, m.Total)
		bus, err := a.engine.Subscribers().Get(t.Context(), shell.Scope{Namespace: "ns", Tenant: "t1"})
		require.NoError(t, err)
		require.Len(t, bus.Subscribers, 1)
		assert.Equal(t, core.EventMatch{Category: "action", Action: "failed"}, bus.Subscribers[0].Match)
		assert.Equal(t, core.MachineName{Namespace: "ns", Tenant: "t1", Name: "mailer"}, *bus.Subscribers[0].Do.WakeWorker)
	})
}

func TestEachKindOfASetIsWithinTheLimitsOfItsTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{Schedules: 2, MinScheduleInterval: time.Minute, MaxAttempts: 5, MaxTimeout: time.Minute})
		job := func(id, schedule string) string {
			return fmt.Sprintf(`{"file":"j.toml","job":{"id":%q,"runner":"kubernetes","schedule":%q,"pod_spec":{"containers":[{"name":"c"}]}}}`, id, schedule)
		}
		patient := nightly("patient", `,"policy":{"max_attempts":6}`)
		ofAnn := strings.NewReplacer(`"name"`, `"namespace":"ns","tenant":"t1","name"`)
		require.Equal(t, http.StatusOK, a.applySet("root", "", ofAnn.Replace(patient)).status, "none for the operator")
		synctest.Wait()
		assert.Equal(t, []string{"adopt recurring patient"}, changesOf(t, a.applySet("ann", "", patient)), "what it is stays")

		for _, row := range []struct{ token, entry, want string }{
			{"runs", job("report", "* * * * * *"), "j.toml: job report: schedule: "},
			{"runs", job("report", "@every 30s"), "limits.min_schedule_seconds of the daemon asks for 1m0s at least"},
			{"ann", `{"file":"w.toml","worker":{"name":"w","queue":"q","do":{"run":{"tool":"echo","input":{},"timeout_ms":60001}}}}`, "w.toml: worker w: do.run.timeout_ms: 60001 is more than 60000: limits.max_timeout_seconds"},
		} {
			got := a.applySet(row.token, "", row.entry)
			assert.Contains(t, got.errorText(), row.want, row.entry)
			assert.Equal(t, http.StatusBadRequest, got.status)
		}
		got := a.applySet("runs", "", job("one", "0 9 * * *"), someQueue("a"), job("two", "0 9 * * *"))
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Equal(t, `j.toml: job two: tenant: "t1" of namespace "ns" has 1 recurring actions and jobs: limits.max_schedules of the daemon allows 2`, got.errorText())
		require.Equal(t, http.StatusOK, a.applySet("runs", "", job("one", "0 9 * * *")).status)
		synctest.Wait()
		assert.Equal(t, []string{"create queue a", "update job one", "leave recurring patient"}, changesOf(t, a.applySet("runs", "", someQueue("a"), job("one", "0 10 * * *"))), "neither is one more")

		large := func(name string) string {
			return strings.Replace(nightly(name, ""), `{}`, `{"x":"`+strings.Repeat("x", 30_000)+`"}`, 1)
		}
		a = declaredSets(t, httpapi.TenantLimits{StoredBytes: 40_000})
		assert.Equal(t, http.StatusOK, a.applySet("ann", `"dry_run":true,`, large("one"), large("two")).status, "what is stored may be just beyond")
		got = a.applySet("ann", "", large("one"), large("two"), nightly("three", ""))
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Contains(t, got.errorText(), "a.toml: recurring three: tenant: ")
		assert.Contains(t, got.errorText(), "limits.max_stored_bytes")
	})
}

func TestWhatASetDoesIsToldInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		require.Equal(t, http.StatusOK, a.applySet("ann", "", nightly("old", "")).status)
		renamed := `{"file":"b.toml","was":"old","recurring":{"name":"new","cron_expr":"0 4 * * *","provider":"echo","payload":{},"enabled":false}}`
		got := a.applySet("ann", "", renamed)
		var res wire.SetResult
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.NoError(t, json.Unmarshal([]byte(got.body), &res))
		assert.Equal(t, "ours", res.Set)
		assert.True(t, res.Applied)
		assert.Empty(t, res.Refused)
		require.Len(t, res.Changes, 1)
		c := res.Changes[0]
		r, err := a.engine.Recurring().Named(t.Context(), "ns", "t1", "new")
		require.NoError(t, err)
		assert.Equal(t, r.ID, c.ID)
		c.ID = uuid.Nil
		fields := c.Fields
		c.Fields = nil
		require.Len(t, c.NextTimesBefore, 5)
		assert.Equal(t, "2000-01-01T03:00:00.000Z", c.NextTimesBefore[0].String())
		c.NextTimesBefore, c.NextTimes = nil, nil
		assert.Equal(t, wire.SetChange{Action: "update", Kind: "recurring", Namespace: "ns", Tenant: "t1", Name: "new", Was: "old", File: "b.toml"}, c)
		require.Len(t, fields, 3)
		assert.Equal(t, wire.SetField{Field: "cron_expr", Before: json.RawMessage(`"0 3 * * *"`), After: json.RawMessage(`"0 4 * * *"`)}, fields[0])

		got = a.applySet("ann", "", nightly("another", `,"enabled":false`))
		require.NoError(t, json.Unmarshal([]byte(got.body), &res))
		assert.Equal(t, []string{"it is disabled"}, res.Changes[0].Notes)
		got = a.applySet("ann", "", nightly("third", ""))
		require.NoError(t, json.Unmarshal([]byte(got.body), &res))
		require.Len(t, res.Changes[0].NextTimes, 5)
	})
}

func TestAnEntryOfASetIsAnInputOfItsTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{InputsPerSecond: 1, InputBurst: 5})
		three := []string{someQueue("a"), someQueue("b"), someQueue("c")}
		assert.Equal(t, http.StatusOK, a.applySet("ann", "", three...).status)
		got := a.applySet("ann", "", three...)
		assert.Equal(t, http.StatusTooManyRequests, got.status)
		assert.Equal(t, "2", got.header.Get("Retry-After"), "the request itself comes again, too")
		elapse(2 * time.Second)
		assert.Equal(t, http.StatusOK, a.applySet("ann", "", three...).status)
		elapse(5 * time.Second)
		many := slices.Concat(three, []string{someQueue("d"), someQueue("e"), someQueue("f"), someQueue("g")})
		assert.Equal(t, http.StatusOK, a.applySet("ann", "", many...).status, "more than a full bucket has")
		assert.Equal(t, http.StatusTooManyRequests, a.applySet("ann", "").status)
		assert.Equal(t, http.StatusOK, a.applySet("root", "").status)
	})
}

func TestTheLogOfRequestsHasWhoseSetWasApplied(t *testing.T) {
	a, _ := audited(t)
	of := func(tenant, name string) string {
		return fmt.Sprintf(`{"file":"a.toml","queue":{"namespace":"ns","tenant":%q,"name":%q}}`, tenant, name)
	}
	require.Equal(t, http.StatusOK, a.applySet("root", "", of("t1", "a"), of("t1", "b")).status)
	require.Equal(t, http.StatusOK, a.applySet("root", "", of("t1", "a"), of("t2", "b")).status)
	require.Equal(t, http.StatusOK, a.applySet("ben", "").status)
	require.Equal(t, http.StatusForbidden, a.applySet("ben", "", of("t1", "a")).status)
	require.Equal(t, http.StatusForbidden, a.applySet("echo-only", "").status)
	assert.Equal(t, []string{
		"echo-only applySet ns/t1 403 /v1/sets/ours", "ben applySet ns/t2 403 /v1/sets/ours", "ben applySet ns/t2 200 /v1/sets/ours",
		"root applySet / 200 /v1/sets/ours", "root applySet ns/t1 200 /v1/sets/ours",
	}, auditLog(t, a, "root", ""))
	assert.NotContains(t, fmt.Sprint(auditEntries(t, a, "root", "")), "a.toml", "a reason that quotes what was sent is not kept")
}

// Each kind of thing that a set may own: its path, and an edit of it.
var ownedEdits = []struct{ path, edit string }{
	{"/v1/recurring/nightly", `{"description":"edited"}`},
	{"/v1/jobs/report", `{"runner":"kubernetes","schedule":"0 10 * * *","pod_spec":{"containers":[{"name":"c"}]}}`},
	{"/v1/workers/mailer", `{"queue":"mail","concurrency":3,"do":{"run":{"tool":"echo","input":"${item}"}}}`},
	{"/v1/queues/mail", `{"concurrency":3}`},
	{"/v1/semaphores/gate", `{"slots":3}`},
	{"/v1/subscribers/on-failure", `{"match":{"category":"action"},"do":{"wake_worker":{"name":"mailer"}}}`},
	{"/v1/calendars/closed", `{"description":"edited"}`},
}

func takeOver(r *http.Request) { r.Header.Set("Orrery-Take-Over", "true") }

func TestAnEditChangesWhatASetOwnsOnlyIfItTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		entries := slices.Clone(entryOfEach)
		entries[0] = nightly("nightly", "") // which names no calendar, so that that can be deleted
		require.Equal(t, http.StatusOK, a.applySet("root", "", entries...).status)
		for i, row := range ownedEdits {
			for _, method := range []string{"PUT", "DELETE"} {
				if method == "DELETE" && strings.HasPrefix(row.path, "/v1/semaphores") {
					continue // it has none: with 0 slots it is not declared any more
				}
				var body any
				if method == "PUT" {
					body = row.edit
				}
				got := a.do(method, row.path, body, bearer("root"))
				assert.Equal(t, http.StatusConflict, got.status, "%s %s: %s", method, row.path, got.body)
				assert.Contains(t, got.errorText(), `the set "ours" declares it, in `)
			}
			got := a.do("PUT", row.path, row.edit, bearer("root"), takeOver)
			assert.Equal(t, http.StatusOK, got.status, "%s: %s", row.path, got.body)
			assert.Len(t, declaredBy(t, a, "root", ""), len(ownedEdits)-i-1, "%s belongs to no set any more", row.path)
			assert.Equal(t, http.StatusOK, a.do("PUT", row.path, row.edit, bearer("root")).status, "anybody may edit it now")
		}
		require.Len(t, changesOf(t, a.applySet("root", "", entries...)), len(ownedEdits), "the set declares them again")
		assert.Len(t, declaredBy(t, a, "root", ""), len(ownedEdits))
		for _, row := range ownedEdits {
			got := a.do("DELETE", row.path, nil, bearer("root"), takeOver)
			if got.status == http.StatusMethodNotAllowed {
				got = a.do("PUT", row.path, `{"slots":0}`, bearer("root"), takeOver)
			}
			assert.Less(t, got.status, 300, "%s: %s", row.path, got.body)
		}
		assert.Empty(t, declaredBy(t, a, "root", ""))
	})
}

func TestWhatIsNotTakenOverRefusesToBe(t *testing.T) {
	a := start(t, setup{api: withJobs})
	require.Equal(t, http.StatusOK, a.do("POST", "/v1/sets/ours", `{"entries":[{"file":"j.toml","job":{"id":"j","schedule":"0 9 * * *","pod_spec":{"containers":[{}]}}}]}`).status)
	require.Equal(t, http.StatusOK, a.do("PUT", "/v1/queues/q", `{}`).status)
	for _, row := range []struct {
		method, path string
		body         any
		header       []string
		want         string
	}{
		{"POST", "/v1/queues/q/pause", nil, []string{"true"}, "Orrery-Take-Over: POST /v1/queues/{name}/pause takes nothing over: only PUT and DELETE of what has an ETag do"},
		{"POST", "/v1/sets/ours", `{"entries":[]}`, []string{"true"}, "Orrery-Take-Over: POST /v1/sets/{name} takes nothing over: only PUT and DELETE of what has an ETag do"},
		{"PUT", "/v1/queues/q", `{}`, []string{"yes"}, "Orrery-Take-Over: yes is not true: leave it out to change only what no set declares"},
		{"DELETE", "/v1/queues/q", nil, []string{"true", "true"}, "Orrery-Take-Over: true, true is not true: leave it out to change only what no set declares"},
	} {
		got := a.do(row.method, row.path, row.body, func(r *http.Request) { r.Header["Orrery-Take-Over"] = row.header })
		assert.Equal(t, http.StatusBadRequest, got.status, "%s %v", row.path, row.header)
		assert.Equal(t, row.want, got.errorText())
	}
	assert.Equal(t, http.StatusOK, a.do("GET", "/v1/queues/q", nil, takeOver).status, "a read changes nothing")
	assert.Equal(t, http.StatusMethodNotAllowed, a.do("DELETE", "/v1/semaphores/s", nil, takeOver).status)
	assert.Equal(t, http.StatusMethodNotAllowed, a.do("DELETE", "/v1/semaphores/s", nil, ifMatch("*")).status)

	dry := "/v1/jobs/j?dry_run=true"
	assert.Equal(t, `the set "ours" declares it, in j.toml: change it there and apply the set, or take it over`, a.do("PUT", dry, plainJobEvery("0 8 * * *")).errorText())
	assert.Contains(t, a.do("PUT", dry, plainJobEvery("0 8 * * *"), takeOver).body, `"would":"update"`)
	assert.Len(t, declaredBy(t, a, "", ""), 1, "a dry run takes nothing over")
}

func TestMetricsCountWhatBecameOfSetsAndNameNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		metrics := func() string { return a.do("GET", "/metrics", nil, bearer("root")).body }
		assert.Contains(t, metrics(), `orrery_set_applies_total{outcome="refused"} 0`)
		assert.Contains(t, metrics(), "orrery_set_apply_success_timestamp_seconds 0\n")
		a.applySet("ann", `"dry_run":true,`, someQueue("a"))
		a.applySet("ann", "", someQueue("a"), someQueue("b"))
		a.applySet("ann", "", someQueue("a"), someQueue("b"))
		a.applySet("ann", "", strings.Replace(someQueue("a"), `"a"`, `"a","config":{"concurrency":2}`, 1))
		a.applySet("ann", "", nightly("worse", `,"timezone":"Mars/Base"`))
		a.applySet("ann", "", nightly("worse", `,"tenant":"t2"`))
		a.applySet("ann", `"dry_run":true,`, nightly("worse", `,"tenant":"t2"`))
		got := metrics()
		for _, line := range []string{
			`orrery_set_applies_total{outcome="changed"} 2`, `orrery_set_applies_total{outcome="unchanged"} 1`, `orrery_set_applies_total{outcome="refused"} 2`,
			`orrery_set_applies_total{outcome="failed"} 0`, `orrery_set_changes_total{action="create"} 2`, `orrery_set_changes_total{action="update"} 1`,
			`orrery_set_apply_success_timestamp_seconds 9.466848e+08`,
		} {
			assert.Contains(t, got, line+"\n")
		}
		assert.NotContains(t, got, "ours")
	})
}

func TestWhatASetDeclaredAtOnceIsListedByKindAndName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := declaredSets(t, httpapi.TenantLimits{})
		const n = 70 // more than a list has in memory of larger records
		var entries, want []string
		for i := range n {
			entries = append(entries, someQueue(fmt.Sprintf("q%02d", n-1-i)))
			want = append(want, fmt.Sprintf("queue q%02d", i))
		}
		require.Equal(t, http.StatusOK, a.applySet("ann", "", entries...).status)
		require.Equal(t, http.StatusOK, a.applySet("ann", "", append(entries, `{"file":"c.toml","calendar":{"name":"z"}}`)...).status)
		var list wire.DeclaredList
		require.NoError(t, json.Unmarshal([]byte(a.do("GET", "/v1/sets?limit=100", nil, bearer("ann")).body), &list))
		var got []string
		for _, d := range list.Declared {
			got = append(got, d.Kind+" "+d.Name)
		}
		assert.Equal(t, append([]string{"calendar z"}, want...), got)
	})
}
