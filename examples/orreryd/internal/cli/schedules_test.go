//go:build unix

package cli

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// step is a command, and what it prints; a code other than 0 is that of a command that fails.
type step struct {
	args []string
	want []string
	code int
}

// steps runs commands one after the other; "ID" in their arguments, and
// "{id}" in what they print, stand for the given id.
func (p *process) steps(id string, list []step) {
	p.t.Helper()
	for _, s := range list {
		args := make([]string, len(s.args))
		for i, a := range s.args {
			args[i] = strings.ReplaceAll(a, "ID", id)
		}
		r := p.do(args...)
		require.Equal(p.t, s.code, r.code, "%q: %s%s", args, r.out, r.err)
		for _, want := range s.want {
			assert.Regexp(p.t, strings.ReplaceAll(want, "{id}", id), r.out+r.err, "%q", args)
		}
	}
}

// What a script reads of one answer it reads of the others by the same name.
func TestRecurringAddListAndShowPrintTheSameMembersAsJSON(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	read := func(args ...string) (v map[string]any) {
		require.NoError(t, json.Unmarshal([]byte(p.ok(append(args, "--json")...)), &v))
		return v
	}
	assert.Equal(t, []any{}, read("recurring", "list")["recurring_actions"])
	added := read("recurring", "add", "--name", "nightly", "--cron", "0 9 1 1 *", "--tz", "Europe/Berlin", "--description", "d", "--tool", "command", "--input", `{"argv":["sleep","100"]}`)
	id, _ := added["id"].(string)
	shown := read("recurring", "show", id)
	list, _ := read("recurring", "list")["recurring_actions"].([]any)
	require.Len(t, list, 1)
	listed, _ := list[0].(map[string]any)
	assert.Equal(t, "command", listed["action_template"].(map[string]any)["provider"])
	within(t, "add", shown, added)
	within(t, "list", shown, listed)
	for _, name := range []string{"id", "name", "namespace", "tenant", "cron_expr", "timezone", "enabled", "next_execution_at"} {
		assert.Contains(t, added, name)
	}
	replaced := read("recurring", "add", "--replace", "--name", "nightly", "--cron", "0 9 1 1 *", "--tz", "Europe/Berlin", "--tool", "command", "--input", `{"argv":["true"]}`)
	assert.Equal(t, id, replaced["id"])

	p.ok("recurring", "trigger", id, "--payload", `{"argv":["sleep","100"]}`)
	list, _ = read("recurring", "list")["recurring_actions"].([]any)
	require.Len(t, list, 1)
	listed, _ = list[0].(map[string]any)
	assert.InDelta(t, 1, listed["running_count"], 0)
	assert.NotContains(t, listed, "running", "in show, this lists them")
}

// within holds that a part has no member that the whole has not got, nor with another value.
func within(t *testing.T, of string, whole, part map[string]any) {
	t.Helper()
	for name, v := range part {
		inner, isObject := v.(map[string]any)
		outer, has := whole[name].(map[string]any)
		if isObject && has {
			within(t, of+" "+name, outer, inner)
			continue
		}
		assert.Equal(t, whole[name], v, "%s: %s", of, name)
	}
}

func TestTheCommandsOfRecurringActionsSayPoliciesPausesAndNextTimes(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.ok("calendars", "add", "office", "--exclude", "2999-01-01")
	id := anID.FindString(p.ok("recurring", "add", "--cron", "0 9 1 1 *", "--calendar", "office", "--overlap", "buffer_all", "--buffer-limit", "7",
		"--max-wait", "1h", "--missed", "all", "--catch-up", "48h", "--catch-up-limit", "5", "--catch-up-spacing", "10s", "--", "cat"))
	p.steps(id, []step{
		{args: []string{"recurring", "show", "ID"}, want: []string{
			`calendars +office`, `overlap +buffer_all, at most 7 wait, each for 1h0m0s at most`, `missed times +all, of the last 48h0m0s, at most 5, one each 10s`,
		}},
		{args: []string{"recurring", "update", "ID", "--cron", "0 10 1 2 *", "--calendar", ""}, want: []string{
			`NEXT BEFORE \(UTC\) +NEXT NOW \(UTC\)\n20\d\d-01-01 09:00:00 +20\d\d-02-01 10:00:00\n`,
		}},
		{args: []string{"recurring", "pause", "ID", "--reason", "feast", "--until", "2998-01-01T00:00:00Z"}, want: []string{"disabled"}},
		{args: []string{"recurring", "show", "ID"}, want: []string{`paused until +2998-01-01T00:00:00.000Z`, "feast"}},
		{args: []string{"recurring", "pause", "ID", "--until", "soon"}, want: []string{"--until"}, code: exitUsage},
		{args: []string{"recurring", "resume", "ID"}, want: []string{`enabled, next at 20\d\d-02-01T10:00`}},
		{args: []string{"recurring", "skip-next", "ID"}, want: []string{`skip next +1\n`}},
		{args: []string{"recurring", "trigger", "ID", "--payload", "{"}, want: []string{`--payload: "{" is not valid JSON`}, code: exitUsage},
		{args: []string{"recurring", "trigger", "ID", "--payload", `{"argv":["echo","other"]}`}, want: []string{`executed +1\n`, `payload +{"argv":\["cat"\]}`}},
		{args: []string{"recurring", "cancel-waiting", "ID"}, want: []string{"--occurrence is missing"}, code: exitUsage},
		{args: []string{"recurring", "cancel-waiting", "ID", "--occurrence", "ID"}, want: []string{"occurrence {id} does not wait"}, code: exitFailed},
	})
	history := p.eventually("completed", "recurring", "history", id)
	made := anID.FindString(history)
	assert.Contains(t, p.ok("actions", "show", made), "other", "the payload of this once")
}

func TestATimeThatWaitsIsCancelledByItsOccurrence(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	id := anID.FindString(p.ok("recurring", "add", "--cron", "* * * * * *", "--overlap", "buffer_one", "--description", "slow", "--", "sleep", "60"))
	p.eventually("slow", "occurrences", "list", "--verdict", "waiting")
	var o core.Occurrence
	require.NoError(t, json.Unmarshal([]byte(p.ok("occurrences", "list", "--verdict", "waiting", "--json")), &o))
	shown := p.ok("recurring", "cancel-waiting", id, "--occurrence", o.ID.String(), "--reason", "not needed")
	assert.Regexp(t, `cancelled +1\n`, shown)
	assert.Regexp(t, `verdict +cancelled\n(.*\n)*reason +.*not needed`, p.ok("occurrences", "show", o.ID.String()))
	p.ok("recurring", "delete", id)
}

func TestTheLedgerIsListedByItsFiltersAndShown(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	id := anID.FindString(p.ok("recurring", "add", "--cron", "0 9 1 1 *", "--description", "report", "--", "true"))
	other := anID.FindString(p.ok("recurring", "add", "--cron", "0 9 1 1 *", "--description", "other", "--", "false"))
	p.ok("recurring", "trigger", id)
	p.ok("recurring", "trigger", other)
	p.eventually("completed", "recurring", "history", id)
	p.eventually("failed", "recurring", "history", other)
	read := func(args ...string) (names []string) {
		lines := bufio.NewScanner(strings.NewReader(p.ok(append([]string{"occurrences", "list", "--json"}, args...)...)))
		for lines.Scan() {
			var o core.Occurrence
			require.NoError(t, json.Unmarshal(lines.Bytes(), &o), "one entry a line")
			names = append(names, o.Name)
			assert.Contains(t, p.ok("occurrences", "show", o.ID.String()), o.Name)
		}
		return names
	}
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"other", "report"}},
		{[]string{"--name", "report"}, []string{"report"}},
		{[]string{"--schedule-id", other}, []string{"other"}},
		{[]string{"--schedule", "job"}, nil},
		{[]string{"--verdict", "dispatched"}, []string{"other", "report"}},
		{[]string{"--verdict", "missed"}, nil},
		{[]string{"--outcome", "failed"}, []string{"other"}},
		{[]string{"--manual=false"}, nil},
		{[]string{"--manual"}, []string{"other", "report"}},
		{[]string{"--from", "2998-01-01T00:00:00Z"}, nil},
		{[]string{"--to", "2998-01-01T00:00:00Z"}, []string{"other", "report"}},
	} {
		assert.ElementsMatch(t, tc.want, read(tc.args...), "%v", tc.args)
	}
	p.steps(id, []step{
		{args: []string{"occurrences", "list", "--name", "report"}, want: []string{`^ID +DUE \(UTC\).*VERDICT`, anID.String() + ` +20`, `report +dispatched +completed`, "triggered by hand"}},
		{args: []string{"occurrences", "list", "--verdict", "lost"}, want: []string{"--verdict"}, code: exitUsage},
		{args: []string{"occurrences", "show", "ID"}, want: []string{"not found"}, code: exitNotFound},
	})
}

func TestTheHistoryOfAnActionThatRecursHasItsCycles(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	id := p.add("--every", "24h", "--", "true")
	p.eventually("completed", "actions", "history", id)
	assert.Regexp(t, `dispatched +1 +completed`, p.ok("actions", "history", id))
}

func TestAChangeOfACalendarShowsWhatItMovesAndAForcedDeletionSkips(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.ok("calendars", "add", "office", "--exclude-weekly", "sat")
	id := anID.FindString(p.ok("recurring", "add", "--cron", "0 9 1 1 *", "--description", "yearly", "--calendar", "office", "--", "true"))
	p.steps(id, []step{
		{args: []string{"calendars", "update", "office", "--include-weekly", "mon"}, want: []string{`MOVED +ID +NAME`, `recurring\S* +{id} +yearly`}},
		{args: []string{"calendars", "delete", "office"}, want: []string{"office"}, code: exitFailed},
		{args: []string{"calendars", "delete", "office", "--force"}, want: []string{"deleted office"}},
	})
}

func TestTheCommandsOfJobsSayPausesVariablesAndNextTimes(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.applyJob("yearly", `echo "day $DAY"`, "schedule: '0 9 1 1 *'\n")
	run := anID.FindString(p.ok("job", "trigger", "yearly", "--env", "DAY=monday"))
	p.eventually("day monday", "run", "logs", run)
	file := write(t, "yearly.yaml", "id: yearly\nschedule: '0 10 1 2 *'\npodSpec: {containers: [{name: main, image: none, command: ['true']}]}\n")
	p.steps("", []step{
		{args: []string{"job", "pause", "yearly", "--reason", "feast", "--until", "2998-01-01T00:00:00Z"}},
		{args: []string{"job", "show", "yearly"}, want: []string{`paused: feast, until 2998-01-01T00:00:00.000Z`}},
		{args: []string{"job", "pause", "yearly", "--until", "soon"}, want: []string{`--until: time "soon" is not RFC 3339`}, code: exitUsage},
		{args: []string{"job", "resume", "yearly"}},
		{args: []string{"job", "apply", "-f", file, "--dry-run"}, want: []string{`would be updated\n  runs next \(UTC\): 20\d\d-02-01 10:00:00, .*\n  before that: +20\d\d-01-01 09:00:00, `}},
		{args: []string{"job", "apply", "-f", file}, want: []string{`updated\n  runs next`}},
	})
}

func TestWhatComesNextIsListedInItsOrder(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	assert.Contains(t, p.ok("occurrences", "upcoming"), "nothing is due by then")
	p.ok("recurring", "add", "--cron", "0 0 0 1 1 * 2091", "--description", "later", "--", "true")
	p.ok("recurring", "add", "--cron", "0 0 0 1 1 * 2090", "--description", "sooner", "--", "true")
	out := p.ok("occurrences", "upcoming", "--within", "700000h", "-o", "wide")
	assert.Regexp(t, `(?s)2090-01-01 00:00:00 +recurring +sooner .*2091-01-01 00:00:00 +recurring +later `, out)
	out = p.ok("occurrences", "upcoming", "--within", "700000h", "--limit", "1")
	assert.Contains(t, out, "there is more: --limit shows up to 1000")
	assert.NotContains(t, out, "later")
	assert.Contains(t, p.do("occurrences", "upcoming", "--kind", "pipeline").err, `kind: "pipeline" is unknown: use recurring, job or action`)
}
