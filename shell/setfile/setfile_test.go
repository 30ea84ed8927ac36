package setfile_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/setfile"
)

var now = effects.TimeOf(time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC))

// folder writes files into a folder of their own.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(files[name]), 0o600))
	}
	return dir
}

const whole = `
namespace = "ops"
tenant    = "reports"
runbooks  = ["books/release.toml"]

[recurring.nightly-backup]
cron           = "0 3 * * *"
tz             = "Europe/Berlin"
description    = "the database, every night"
command        = ["/usr/local/bin/backup", "--all"]
overlap        = "forbid"
missed         = "latest"
catch_up       = "6h"
start_deadline = "10m"
day_match      = "both"
calendars      = ["office"]
timeout        = "2h"
on_failure     = "retry"
max_attempts   = 5
backoff        = "30s"
labels         = { team = "db" }
meta           = { ticket = "42" }

[recurring.ping]
was   = "health"
cron  = "@hourly"
tool  = "http"
input = { method = "GET", url = "https://example.com/health", retries = 3, ratio = 0.5, deep = { list = [1, "two", true] } }
disabled = true

[queues.mail]
max_attempts = 5
backoff = "10s"
key_rate = "5/m"
rate = "100/1s"
rate_burst = 10
dead_letter_queue = "mail-dead"

[semaphores.gpu]
slots = 2

[workers.mailer]
queue = "mail"
concurrency = 4
do.run = { tool = "command", input = { argv = ["sendmail", "${item.data}"] } }

[calendars.office]
tz = "Europe/Berlin"
exclude = ["2026-12-25..2026-12-26=Christmas", "2027-01-01"]
include_weekly = ["mon-fri 08:00-18:00", "sat=half a day"]

[subscribers.wake]
match = { category = "queue", action = "push" }
do.wake_worker = { namespace = "ops", tenant = "reports", name = "mailer" }
`

const book = `
name = "release"

[queues.merge]
max_attempts = 4

[semaphores.builds]
slots = 2
`

const jobText = `
id: nightly-report
schedule: "0 2 * * *"
podSpec:
  containers:
    - {name: report, image: "example.com/report:1.4"}
`

func TestAFolderIsReadWhole(t *testing.T) {
	dir := folder(t, map[string]string{
		"all.toml": whole, "books/release.toml": book, "jobs/report.yaml": jobText,
		"README.md": "no file of the set", ".git/config.toml": "no = toml = at all", "jobs/.draft.toml": "neither",
	})
	entries, err := setfile.Load([]string{dir}, setfile.Options{Tenant: "elsewhere"})
	require.NoError(t, err)
	got := map[string]shell.SetEntry{}
	for _, e := range entries {
		kind, _, name := e.About()
		got[kind+" "+name] = e
	}
	assert.Equal(t, []string{
		"calendar office", "job nightly-report", "queue mail", "queue merge", "recurring nightly-backup", "recurring ping", "semaphore builds", "semaphore gpu",
		"subscriber wake", "worker mailer",
	}, slices.Sorted(maps.Keys(got)))
	nightly := got["recurring nightly-backup"]
	assert.Equal(t, "all.toml", nightly.File)
	assert.Equal(t, core.RecurringSpec{
		Namespace: "ops", Tenant: "reports", Name: "nightly-backup", CronExpr: "0 3 * * *", Timezone: "Europe/Berlin", Enabled: true,
		Description: "the database, every night", Labels: map[string]string{"team": "db"}, StartDeadlineSeconds: 600, Overlap: core.OverlapForbid,
		ActionTemplate: core.RecurringActionTemplate{
			Provider: "command", ActionType: "command", Payload: json.RawMessage(`{"argv":["/usr/local/bin/backup","--all"]}`), Metadata: map[string]string{"ticket": "42"},
		},
		Policy: core.RunPolicy{OnFailure: core.FailureRetry, MaxAttempts: 5, TimeoutMS: 7_200_000, Backoff: &core.Backoff{InitialMS: 30_000}},
		ScheduleOptions: core.ScheduleOptions{
			DayMatch: schedule.DayMatchBoth, Calendars: []string{"office"}, Missed: core.MissedLatest, CatchUpSeconds: 21_600,
		},
	}, *nightly.Recurring)
	ping := got["recurring ping"]
	assert.Equal(t, "health", ping.Was)
	assert.False(t, ping.Recurring.Enabled)
	assert.JSONEq(t, `{"method":"GET","url":"https://example.com/health","retries":3,"ratio":0.5,"deep":{"list":[1,"two",true]}}`, string(ping.Recurring.ActionTemplate.Payload))
	assert.Equal(t, core.QueueRate{Limit: 100, PerMS: 1000, Burst: 10}, got["queue mail"].Queue.Config.Rate)
	assert.Equal(t, core.QueueRate{Limit: 5, PerMS: 60_000}, got["queue mail"].Queue.Config.KeyRate)
	assert.Equal(t, "books/release.toml", got["queue merge"].File)
	assert.Equal(t, "ops", got["queue merge"].Queue.Namespace)
	assert.Equal(t, "elsewhere", got["job nightly-report"].Job.Tenant)
	assert.Equal(t, "jobs/report.yaml", got["job nightly-report"].File)
	assert.Equal(t, "${item.data}", argv(t, got["worker mailer"].Worker.Do.Run.Input)[1], "what is no variable stays")
	assert.Equal(t, []core.CalendarDate{{Date: "2026-12-25", To: "2026-12-26", Name: "Christmas"}, {Date: "2027-01-01"}}, got["calendar office"].Calendar.Exclude.Dates)
	assert.Equal(t, core.CalendarWindow{Days: []string{"sat"}, Name: "half a day"}, got["calendar office"].Calendar.Include.Weekly[1])
	assert.Equal(t, core.CalendarWindow{Days: []string{"mon", "tue", "wed", "thu", "fri"}, From: "08:00", To: "18:00"}, got["calendar office"].Calendar.Include.Weekly[0])
	_, err = shell.CheckSet(entries, now)
	require.NoError(t, err)
}

func TestAWindowIsReadAsPeopleWriteIt(t *testing.T) {
	for text, want := range map[string]core.CalendarWindow{
		"daily":                    {},
		"daily=night":              {Name: "night"},
		"daily 22:00-06:00":        {From: "22:00", To: "06:00"},
		"Sat-Mon":                  {Days: []string{"sat", "sun", "mon"}},
		" mon,WED-thu =half a day": {Days: []string{"mon", "wed", "thu"}, Name: "half a day"},
		"fri 09:00-17:00 = a = b":  {Days: []string{"fri"}, From: "09:00", To: "17:00", Name: " a = b"},
		"sun-sun 09:00-17:00":      {Days: []string{"sun"}, From: "09:00", To: "17:00"},
		"tue-mon 00:00-24:00=week": {Days: []string{"tue", "wed", "thu", "fri", "sat", "sun", "mon"}, From: "00:00", To: "24:00", Name: "week"},
	} {
		got, err := setfile.ParseWindow(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func argv(t testing.TB, input json.RawMessage) []string {
	t.Helper()
	var in struct {
		Argv []string `json:"argv"`
	}
	require.NoError(t, json.Unmarshal(input, &in))
	return in.Argv
}

func TestAWrongFileIsToldWithLineAndKeyAndNothingIsRead(t *testing.T) {
	for _, row := range []struct{ what, text, want string }{
		{"no TOML", "[recurring.a\n", "a.toml:1:13: "},
		{"an unknown key", "[recurring.a]\ncron = \"@daily\"\ncomand = [\"x\"]\n", `a.toml:3:1: recurring.a.comand: unknown key "comand": did you mean "command"?`},
		{"an unknown table", "[recurringg.a]\n", `unknown key "recurringg": did you mean "recurring"?`},
		{"a key of its own", "[recurring.a]\nschedule = \"@daily\"\n", `unknown key "schedule": use was, cron, tz,`},
		{"a number for a text", "[recurring.a]\ncron = 5\n", "a.toml:2:8: recurring.a.cron: 5 is a TOML integer, want a text, in quotes"},
		{"a text for a number", "[semaphores.a]\nslots = \"5\"\n", "a.toml:2:9: semaphores.a.slots: \"5\" is a TOML string, want a whole number"},
		{"a number below 0", "[semaphores.a]\nslots = -5\n", "a.toml:2:9: semaphores.a.slots: -5 is not between 0 and 4294967295"},
		{"a number that is too large", "[semaphores.a]\nslots = 99999999999999999999\n", "a.toml:2:9: semaphores.a.slots: 99999999999999999999 is too large: want a whole number of at most 19 digits"},
		{"a part of a number", "[recurring.a]\nmax_executions = 1.5 # times\n", "a.toml:2:18: recurring.a.max_executions: 1.5 is a TOML float, want a whole number"},
		{"a date for a text", "[recurring.a]\ncron = 2026-01-01\n", "a.toml:2:8: recurring.a.cron: 2026-01-01 is a TOML local date, want a text, in quotes"},
		{"a number in a list", "[recurring.a]\ncommand = [\"x\", 7]\n", "a.toml:2:17: recurring.a.command: 7 is a TOML integer, want a text, in quotes"},
		{"a list in a list", "[recurring.a]\ncommand = [\"x\", [\"y\"]]\n", "a.toml:2:1: recurring.a.command: it is a TOML array, want a text, in quotes"},
		{"a list of tables", "[[recurring.a]]\ncron = \"@daily\"\n", "a.toml:1:3: recurring.a: it is a list of tables, want one table: write [NAME], not [[NAME]]"},
		{"a rule below 0", "[recurring.a.alerts]\nfailing = -3\n", "a.toml:2:11: recurring.a.alerts.failing: -3 is not between 0 and 4294967295"},
		{"a zero in front", "[queues.a]\nmax_attempts = 07\n", "a.toml:2:16: queues.a.max_attempts: integers cannot have leading zeroes"},
		{"a key twice", "[recurring.a]\ncron = \"@daily\"\ncron = \"@hourly\"\n", "a.toml:3:1: recurring.a.cron: key cron is already defined"},
		{"an open text", "[recurring.'a']\ncron = \"@daily\n", "a.toml:2:15: recurring.a.cron: basic strings cannot have new lines"},
		{"a number for a duration", "[recurring.a]\njitter = 5\n", "a.toml:2:10: recurring.a.jitter: 5 is a TOML integer, want a text such as \"90s\" or \"10m\""},
		{"a text for true or false", "[recurring.a]\ndisabled = \"no\"\n", "a.toml:2:12: recurring.a.disabled: \"no\" is a TOML string, want true or false"},
		{"a text for a list", "[recurring.a]\ncommand = \"echo hi\"\n", "a.toml:2:11: recurring.a.command: \"echo hi\" is a TOML string, want a list of texts"},
		{"a text for a table", "[recurring]\na = \"echo hi\"\n", "a.toml:2:5: recurring.a: \"echo hi\" is a TOML string, want a table"},
		{"a text for an input", "[recurring.a]\ninput = \"{}\"\n", "a.toml:2:9: recurring.a.input: \"{}\" is a TOML string, want a table"},
		{"no cron", "[recurring.a]\ncommand = [\"x\"]\n", `a.toml:1:12: recurring.a.cron: is missing: say when, as in cron = "0 9 * * MON-FRI"`},
		{"nothing to do", "[recurring.a]\ncron = \"@daily\"\n", `a.toml:1:12: recurring.a.command: is missing`},
		{"a word", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\noverlap = \"drop\"\n", `a.toml:4:1: recurring.a.overlap: "drop" is unknown: use allow, skip, buffer_one,`},
		{"a daemon's own", "[subscribers.\"@notify/ops/*:failed\"]\nmatch.category = \"*\"\ndo.push = { namespace = \"orrery\", tenant = \"notify\", name = \"ops\" }\n", `a.toml:1:14: subscribers.@notify/ops/*:failed: subscribers whose names begin with "@" are made by the daemon as its configuration says: take the table out`},
		{"a duration", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\njitter = \"5\"\n", `a.toml:4:1: recurring.a.jitter: "5" is no duration: write it such as "90s", "10m", "1h30m" or "7d"`},
		{"a part of a second", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\njitter = \"5ms\"\n", `5ms is not a whole number of seconds, at least 0`},
		{"a time", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\nends_at = \"tomorrow\"\n", `a.toml:4:1: recurring.a.ends_at: "tomorrow" is no time in RFC 3339`},
		{"command beside input", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\ninput = {a = 1}\n", `a.toml:3:1: recurring.a.command: stands beside an input`},
		{"an alert", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\n[recurring.a.alerts]\nslow = \"fast\"\n", `a.toml:5:1: recurring.a.alerts.slow: "fast" is no length of time in whole seconds`},
		{"a multiple", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\n[recurring.a.alerts]\nslow = \"-2x\"\n", `a.toml:5:1: recurring.a.alerts.slow: "-2x" does not say how many times as long as usual is too long`},
		{"an unknown alert", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\n[recurring.a.alerts]\nslaw = \"2h\"\n", `recurring.a.alerts.slaw: unknown key "slaw": did you mean "slow"?`},
		{"a date in an input", "[recurring.a]\ncron = \"@daily\"\ntool = \"http\"\ninput = {a = [2026-01-01]}\n", `a.toml:4:1: recurring.a.input: input.a[0] is a date or a time, which JSON has not: write it as a text, in quotes`},
		{"input_json", "[recurring.a]\ncron = \"@daily\"\ntool = \"http\"\ninput_json = \"{\"\n", `a.toml:4:1: recurring.a.input_json: is not valid JSON`},
		{"a rate", "[queues.a]\nrate = \"many\"\n", `a.toml:2:1: queues.a.rate: "many" is no rate such as "100/1s"`},
		{"a burst alone", "[queues.a]\nrate_burst = 2\n", `a.toml:2:1: queues.a.rate_burst: has an effect beside rate only`},
		{"no slots", "[semaphores.a]\n", `a.toml:1:13: semaphores.a.slots: is missing`},
		{"a worker that does nothing", "[workers.a]\nqueue = \"q\"\n", `a.toml:1:10: workers.a.do: is missing`},
		{"a worker that does what nobody knows", "[workers.a]\nqueue = \"q\"\ndo = { dance = {} }\n", `a.toml:3:1: workers.a.do: unknown field "dance"`},
		{"a window", "[calendars.a]\nexclude_weekly = [\"mon-fri\", \"someday\"]\n", `a.toml:2:1: calendars.a.exclude_weekly[1]: "someday" is no day: use mon, tue,`},
		{"a rate of nothing", "[queues.a]\nrate = \"0/1s\"\n", `"0/1s" is no rate such as "100/1s"`},
		{"a rate that says no time", "[queues.a]\nrate = \"5\"\n", `"5" is no rate such as "100/1s"`},
		{"a rate of what is no time", "[queues.a]\nrate = \"5/x\"\n", `"5/x" is no rate such as "100/1s"`},
		{"a rate in less than a millisecond", "[queues.a]\nrate = \"5/-1s\"\n", `"5/-1s" is no rate such as "100/1s"`},
		{"a rate in a part of a millisecond", "[queues.a]\nrate = \"5/1500us\"\n", `"5/1500us" is no rate such as "100/1s"`},
		{"a rate of no number", "[queues.a]\nrate = \"many/1s\"\n", `"many/1s" is no rate such as "100/1s"`},
		{"a number for a rate", "[queues.a]\nrate = 5\n", "a.toml:2:8: queues.a.rate: 5 is a TOML integer, want a text such as \"100/1s\""},
		{"a time that is negative", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\njitter = \"-5s\"\n", "a.toml:4:1: recurring.a.jitter: -5s is not a whole number of seconds, at least 0"},
		{"an empty name", "[semaphores.\"\"]\nslots = 1\n", "a.toml:1:13: semaphores: the name is empty"},
		{"what a worker does, twice", "[workers.a]\nqueue = \"q\"\ndo.run = { tool = \"x\" }\ndo_json = \"{}\"\n", "a.toml:4:1: workers.a.do_json: stands beside do: give one of them"},
		{"command beside input_json", "[recurring.a]\ncron = \"@daily\"\ncommand = [\"x\"]\ninput_json = \"{}\"\n", "a.toml:3:1: recurring.a.command: stands beside an input"},
		{"no number", "[recurring.a]\ncron = \"@daily\"\ntool = \"http\"\ninput = {a = nan}\n", "recurring.a.input: input.a is NaN, which JSON has not"},
		{"a number without end", "[recurring.a]\ncron = \"@daily\"\ntool = \"http\"\ninput = {z = 2026-01-01, a = {b = [1, -inf]}}\n", "recurring.a.input: input.a.b[1] is -Inf, which JSON has not"},
		{"a subscriber to what nobody knows", "[subscribers.a]\nmatch = { colour = \"red\" }\ndo.wake_worker = { name = \"w\" }\n", `a.toml:2:1: subscribers.a.match: unknown field "colour"`},
		{"a subscriber that does nothing", "[subscribers.a]\nmatch = { category = \"queue\" }\n", "a.toml:1:14: subscribers.a.do: is missing: say what is done, with one of wake_worker, push,"},
		{"a subscriber that does what nobody knows", "[subscribers.a]\ndo = { dance = {} }\n", `a.toml:2:1: subscribers.a.do: unknown field "dance"`},
		{"a window without its end", "[calendars.a]\nexclude_weekly = [\"mon 22:00\"]\n", `a.toml:2:1: calendars.a.exclude_weekly[0]: "mon 22:00" has no span of the day: write it such as "mon-fri 22:00-06:00"`},
		{"a window to no day", "[calendars.a]\ninclude_weekly = [\"mon-someday\"]\n", `a.toml:2:1: calendars.a.include_weekly[0]: "mon-someday" is no day`},
		{"a window from no day", "[calendars.a]\ninclude_weekly = [\"someday-mon\"]\n", `a.toml:2:1: calendars.a.include_weekly[0]: "someday-mon" is no day`},
		{"a variable's name that ends in digits", "[variables]\nfine = \"1\"\n\"a-1\" = \"1\"\n", `a.toml:3:1: variables.a-1: is no name of a variable`},
		{"a variable's name", "[variables]\n\"a-b\" = \"1\"\n", `a.toml:2:1: variables.a-b: is no name of a variable`},
		{"no runbook", "runbooks = [\"none.toml\"]\n", `a.toml:1:1: runbooks[0]: read the runbook: open `},
		{"a wrong runbook", "runbooks = [\"book.toml\"]\n", "book.toml:1:1: "},
	} {
		files := map[string]string{"a.toml": row.text, "b.toml": "[semaphores.fine]\nslots = 1\n"}
		if strings.Contains(row.text, "book.toml") {
			files["book.toml"] = "wrong = true\n"
		}
		entries, err := setfile.Load([]string{folder(t, files)}, setfile.Options{})
		require.ErrorContains(t, err, row.want, row.what)
		assert.Nil(t, entries, row.what)
	}
	_, err := setfile.Load([]string{folder(t, map[string]string{"a.toml": "[recurring.a]\n[queues.b]\nrate = \"x\"\n"})}, setfile.Options{})
	all, _ := errors.AsType[setfile.Errors](err)
	assert.Len(t, all, 3, "all that is wrong is said at once")
	for _, text := range []string{"[workers.a]\nqueue = \"q\"\ndo_json = \"{\"\n", "[subscribers.a]\ndo_json = \"{\"\n", "[workers.a]\nqueue = \"q\"\ndo = { at = 2026-01-01 }\n"} {
		_, err = setfile.Load([]string{folder(t, map[string]string{"a.toml": text})}, setfile.Options{})
		all, _ = errors.AsType[setfile.Errors](err)
		require.Len(t, all, 1, "what is wrong is not missing: %s", all)
	}
	_, err = setfile.Load([]string{folder(t, map[string]string{"j.yaml": "id: 5\n"})}, setfile.Options{})
	require.ErrorContains(t, err, "j.yaml:1:")
	_, err = setfile.Load([]string{filepath.Join(t.TempDir(), "none")}, setfile.Options{})
	require.ErrorContains(t, err, "no such file")
	_, err = setfile.Load([]string{filepath.Join(folder(t, map[string]string{"a.txt": ""}), "a.txt")}, setfile.Options{})
	require.ErrorContains(t, err, "files end in .toml, or in .yaml, .yml or .json where they hold jobs")
}

func TestLinksLoseNoFiles(t *testing.T) {
	dir := folder(t, map[string]string{"a.toml": "[semaphores.a]\nslots = 1\n", "extra/b.toml": "[semaphores.b]\nslots = 1\n"})
	names := func(path string) (out []string) {
		entries, err := setfile.Load([]string{path}, setfile.Options{})
		require.NoError(t, err)
		for _, e := range entries {
			out = append(out, e.File+" "+e.Semaphore.Name)
		}
		return out
	}
	link := filepath.Join(t.TempDir(), "current")
	require.NoError(t, os.Symlink(dir, link))
	assert.Equal(t, []string{"a.toml a", "extra/b.toml b"}, names(link), "as git-sync puts folders there")

	mounted := t.TempDir() // as Kubernetes mounts a ConfigMap
	require.NoError(t, os.Symlink(dir, filepath.Join(mounted, "..data")))
	require.NoError(t, os.Symlink(filepath.Join("..data", "a.toml"), filepath.Join(mounted, "a.toml")))
	assert.Equal(t, []string{"a.toml a"}, names(mounted))

	for target, want := range map[string]string{
		filepath.Join(dir, "extra"): "more is a link to a folder, which is not followed: name that folder too, or put it here",
		filepath.Join(dir, "gone"):  "a link leads nowhere: stat ",
	} {
		within := folder(t, map[string]string{"a.toml": ""})
		require.NoError(t, os.Symlink(target, filepath.Join(within, "more")))
		_, err := setfile.Load([]string{within}, setfile.Options{})
		require.ErrorContains(t, err, want)
	}
}

func TestFilesOfOneNameAreToldApart(t *testing.T) {
	one := folder(t, map[string]string{"a.toml": "[semaphores.a]\nslots = 1\n", "b.toml": "[semaphores.c]\nslots = 1\n"})
	two := folder(t, map[string]string{"a.toml": "[semaphores.b]\nslots = \"many\"\n"})
	for _, paths := range []bool{true, false} {
		_, err := setfile.Load([]string{one, two}, setfile.Options{Paths: paths})
		all, _ := errors.AsType[setfile.Errors](err)
		require.Len(t, all, 1)
		assert.Equal(t, filepath.ToSlash(filepath.Join(two, "a.toml")), all[0].File)
	}
	require.NoError(t, os.WriteFile(filepath.Join(two, "a.toml"), []byte("[semaphores.a]\nslots = 2\n"), 0o600))
	entries, err := setfile.Load([]string{one, two}, setfile.Options{})
	require.NoError(t, err)
	assert.Equal(t, filepath.ToSlash(filepath.Join(one, "a.toml")), entries[0].File)
	assert.Equal(t, "b.toml", entries[1].File)
	_, err = shell.CheckSet(entries, now)
	require.ErrorContains(t, err, filepath.ToSlash(filepath.Join(one, "a.toml")))
}

func TestAFolderThatIsUnreadableInPartIsRefused(t *testing.T) {
	if os.Getuid() == 0 {
		dir := folder(t, map[string]string{"a.toml": "[semaphores.a]\nslots = 1\n"})
		require.NoError(t, os.Symlink(filepath.Join(dir, "gone.toml"), filepath.Join(dir, "b.toml"))) // who is root reads all else
		_, err := setfile.Load([]string{dir}, setfile.Options{})
		require.ErrorContains(t, err, "b.toml")
		return
	}
	dir := folder(t, map[string]string{"a.toml": "[semaphores.a]\nslots = 1\n", "b.toml": ""})
	require.NoError(t, os.Chmod(filepath.Join(dir, "b.toml"), 0))
	_, err := setfile.Load([]string{dir}, setfile.Options{})
	require.ErrorContains(t, err, "b.toml")
}

func TestVariablesStandForTextsWhereTheFileDeclaresThem(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.toml": `
[variables]
region = "eu"
who    = "nobody"

[recurring.a]
cron        = "@daily"
tz          = "${zone}"
description = "in ${region} for ${who}, not ${else}"
command     = ["/bin/sh", "-c", "echo ${region} ${HOME} $region"]
[recurring.b]
cron  = "@daily"
tool  = "http"
input = { url = "https://${region}.example.com/", tags = ["${who}"] }
`,
		"b.toml": "[recurring.c]\ncron = \"@daily\"\ndescription = \"${region}\"\ncommand = [\"x\"]\n",
	})
	entries, err := setfile.Load([]string{dir}, setfile.Options{Variables: map[string]string{"who": `the "team"`}})
	require.NoError(t, err)
	assert.Equal(t, `in eu for the "team", not ${else}`, entries[0].Recurring.Description)
	assert.Equal(t, "${zone}", entries[0].Recurring.Timezone)
	assert.Equal(t, "echo eu ${HOME} $region", argv(t, entries[0].Recurring.ActionTemplate.Payload)[2])
	assert.JSONEq(t, `{"url":"https://eu.example.com/","tags":["the \"team\""]}`, string(entries[1].Recurring.ActionTemplate.Payload))
	assert.Equal(t, "${region}", entries[2].Recurring.Description, "this file declares none")
	_, err = setfile.Load([]string{dir}, setfile.Options{Variables: map[string]string{"regoin": "us"}})
	require.ErrorContains(t, err, `no file declares a variable "regoin": did you mean "region"?`)
}

func TestDurationsMayHaveDays(t *testing.T) {
	entries, err := setfile.Load([]string{folder(t, map[string]string{"a.toml": `
[queues.mail]
keep_completed = "7d"
dedup_window   = "1d12h"
rate           = "1000/1d"

[recurring.a]
cron     = "@daily"
command  = ["x"]
missed   = "latest"
catch_up = "2d"
`})}, setfile.Options{})
	require.NoError(t, err)
	queue := entries[0].Queue.Config
	assert.Equal(t, (7 * 24 * time.Hour).Milliseconds(), queue.KeepCompletedMS)
	assert.Equal(t, (36 * time.Hour).Milliseconds(), queue.DedupWindowMS)
	assert.Equal(t, core.QueueRate{Limit: 1000, PerMS: (24 * time.Hour).Milliseconds()}, queue.Rate)
	assert.Equal(t, int64(48*3600), entries[1].Recurring.CatchUpSeconds)
	files, err := setfile.Marshal(entries)
	require.NoError(t, err)
	for _, line := range []string{"keep_completed = '7d'", "dedup_window = '36h'", "rate = '1000/1d'", "catch_up = '2d'"} {
		assert.Contains(t, string(files[0].Data), line)
	}
}

func TestCheckNamesFileAndDeclaration(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"[recurring.a]\ncron = \"61 * * * *\"\ncommand = [\"x\"]\n", "a.toml: recurring a: "},
		{"[recurring.\"a b\"]\ncron = \"@daily\"\ncommand = [\"x\"]\n", `a.toml: recurring a b: name: "a b" has ' ' at byte 1`},
	} {
		entries, err := setfile.Load([]string{folder(t, map[string]string{"a.toml": row.text})}, setfile.Options{})
		require.NoError(t, err)
		_, err = shell.CheckSet(entries, now)
		require.ErrorContains(t, err, row.want)
	}
}

// drawText draws a text that a definition may have.
func drawText(t *rapid.T, name string) string {
	return rapid.SampledFrom([]string{"", "plain", "it's \"quoted\"", `back\slash`, "two\nlines", "größe ✓", "${item.id}", "# no comment", "'''", "<&>"}).Draw(t, name)
}

func drawMap(t *rapid.T, name string) map[string]string {
	m := rapid.MapOfN(rapid.SampledFrom([]string{"a", "team.x", "with space", "ü"}), rapid.Just("v"), 0, 3).Draw(t, name)
	for k := range m {
		m[k] = drawText(t, name)
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// drawRecurring draws a recurring action as it is stored.
func drawRecurring(t *rapid.T) core.RecurringSpec {
	seconds := rapid.SampledFrom([]int64{0, 1, 90, 600, 3600, 5400})
	s := core.RecurringSpec{
		Namespace: "ops", Tenant: "reports", Name: rapid.SampledFrom([]string{"a", "0.9_b-2", "true"}).Draw(t, "name"),
		CronExpr: rapid.SampledFrom([]string{"@daily", "0 9 * * MON-FRI", "@every 90s"}).Draw(t, "cron"), Timezone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin"}).Draw(t, "tz"),
		Enabled: rapid.Bool().Draw(t, "enabled"), Description: drawText(t, "description"), Labels: drawMap(t, "labels"),
		StartDeadlineSeconds: seconds.Draw(t, "deadline"), Overlap: core.OverlapPolicy(rapid.SampledFrom([]string{"", "skip", "buffer_all", "forbid"}).Draw(t, "overlap")),
		ScheduleOptions: core.ScheduleOptions{
			DST: schedule.DST(rapid.SampledFrom([]string{"", "skip", "twice"}).Draw(t, "dst")), DayMatch: schedule.DayMatch(rapid.SampledFrom([]string{"", "both"}).Draw(t, "days")),
			MaxExecutions: rapid.Uint64Range(0, 9).Draw(t, "max"), JitterSeconds: seconds.Draw(t, "jitter"), Missed: core.MissedPolicy(rapid.SampledFrom([]string{"", "all"}).Draw(t, "missed")),
			CatchUpSeconds: seconds.Draw(t, "catch up"), CatchUpLimit: rapid.Uint32Range(0, 5).Draw(t, "limit"), CatchUpSpacingSeconds: seconds.Draw(t, "spacing"),
			BufferLimit: rapid.Uint32Range(0, 5).Draw(t, "buffer"), MaxWaitSeconds: seconds.Draw(t, "wait"),
		},
		Policy: core.RunPolicy{
			OnInterrupt: core.OnInterrupt(rapid.SampledFrom([]string{"fail", "retry"}).Draw(t, "interrupt")), MaxAttempts: rapid.Uint32Range(1, 9).Draw(t, "attempts"),
			TimeoutMS: seconds.Draw(t, "timeout") * 500,
		},
		ActionTemplate: core.RecurringActionTemplate{
			Provider: rapid.SampledFrom([]string{"command", "http"}).Draw(t, "tool"), ActionType: rapid.SampledFrom([]string{"command", "http", "send"}).Draw(t, "type"),
			Metadata: drawMap(t, "meta"), DedupKey: drawText(t, "dedup"),
			Payload: json.RawMessage(rapid.SampledFrom([]string{
				`{}`, `{"argv":["echo","it's"]}`, `{"argv":["a"],"env":{"A":"1"}}`, `{"b":1,"a":2}`, `{"a":null}`, `{"a":1.50}`, `{"a":1e3,"b":[]}`, `{"a":{"b":[1,{"c":"<"}]}}`,
				`{"a":"\u003c"}`, `{"n":123456789012345678901234567890}`, `{"argv":[]}`,
			}).Draw(t, "payload")),
		},
	}
	if rapid.Bool().Draw(t, "bounds") {
		s.EndsAt, s.StartsAt = now.Add(time.Hour), now
		s.Calendars = []string{"c", "d"}
		s.Policy.OnFailure = core.FailureRetry
		s.Policy.Backoff = &core.Backoff{InitialMS: 1500, FactorPercent: 150, MaxMS: 60_000, JitterPercent: 10, NoRetry: []string{drawText(t, "pattern")}}
	}
	if rapid.Bool().Draw(t, "alerts") {
		times, err := core.ParseMultiplier("1.5")
		if err != nil {
			t.Fatal(err)
		}
		factors := rapid.SampledFrom([]core.Multiplier{0, times, 2 * times})
		s.Alerts = core.AlertRules{
			LateSeconds: seconds.Draw(t, "late"), Missed: rapid.Bool().Draw(t, "missed"), StaleSeconds: seconds.Draw(t, "stale"), Failing: rapid.Uint32Range(0, 3).Draw(t, "failing"),
			SlowSeconds: seconds.Draw(t, "slow"), SlowFactor: factors.Draw(t, "factor"), Channel: rapid.SampledFrom([]string{"", "ops"}).Draw(t, "channel"),
		}
	}
	return s
}

// What is written is read as the same: nothing is changed by export and apply.
func TestWhatIsWrittenIsReadAsTheSame(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		want := drawRecurring(t)
		data, err := setfile.MarshalOne(shell.SetEntry{Recurring: &want})
		if err != nil {
			t.Fatalf("write: %s", err)
		}
		read, err := setfile.Load([]string{folder(test, map[string]string{"a.toml": string(data)})}, setfile.Options{Namespace: "ops", Tenant: "reports"})
		if err != nil {
			t.Fatalf("%s\n%s", err, data)
		}
		got := *read[0].Recurring
		normal(&got)
		normal(&want)
		if !assert.ObjectsAreEqual(want, got) {
			t.Fatalf("%s\nwant %+v\ngot  %+v", data, want, got)
		}
	})
}

// normal puts the defaults into a definition as the core does.
func normal(s *core.RecurringSpec) {
	if s.Timezone == "" {
		s.Timezone = "UTC"
	}
	if s.Policy.MaxAttempts == 0 {
		s.Policy.MaxAttempts = core.DefaultMaxAttempts
	}
	if s.Policy.OnInterrupt == "" {
		s.Policy.OnInterrupt = core.InterruptFail
	}
	if len(s.ActionTemplate.Payload) == 0 {
		s.ActionTemplate.Payload = json.RawMessage(`{}`)
	}
	if stored, err := json.Marshal(s.ActionTemplate.Payload); err == nil {
		s.ActionTemplate.Payload = stored
	}
}

func TestAllKindsAreWrittenAndReadAgain(t *testing.T) {
	first, err := setfile.Load([]string{folder(t, map[string]string{"all.toml": whole, "books/release.toml": book, "jobs/report.yaml": jobText})}, setfile.Options{})
	require.NoError(t, err)
	files, err := setfile.Marshal(first)
	require.NoError(t, err)
	again := map[string]string{}
	for _, f := range files {
		again[f.Name] = string(f.Data)
	}
	assert.Equal(t, []string{"default-default-nightly-report.yaml", "ops-reports.toml"}, slices.Sorted(maps.Keys(again)))
	assert.NotContains(t, again["ops-reports.toml"], "[recurring]\n")
	second, err := setfile.Load([]string{folder(t, again)}, setfile.Options{})
	require.NoError(t, err)
	byName := func(entries []shell.SetEntry) map[string]string {
		out := map[string]string{}
		for _, e := range entries {
			e.File, e.Was = "", ""
			kind, _, name := e.About()
			data, err := json.Marshal(e)
			require.NoError(t, err)
			out[kind+" "+name] = string(data)
		}
		return out
	}
	assert.Equal(t, byName(first), byName(second))

	_, err = setfile.Marshal([]shell.SetEntry{{Recurring: &core.RecurringSpec{Description: "old one"}}})
	require.ErrorContains(t, err, "(old one) has no name, by which a file would declare it: give it one")
}

func TestTheSchemaHasEachKeyOfAFile(t *testing.T) {
	var s struct {
		Properties map[string]struct {
			AdditionalProperties json.RawMessage `json:"additionalProperties"`
		} `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(setfile.Schema(), &s))
	assert.Equal(t, []string{"calendars", "namespace", "queues", "recurring", "runbooks", "semaphores", "subscribers", "tenant", "variables", "workers"}, slices.Sorted(maps.Keys(s.Properties)))
	var recurring struct {
		Properties map[string]map[string]any `json:"properties"`
		Required   []string                  `json:"required"`
	}
	require.NoError(t, json.Unmarshal(s.Properties["recurring"].AdditionalProperties, &recurring))
	assert.Equal(t, []string{"cron"}, recurring.Required)
	assert.Equal(t, []any{"skip", "latest", "all"}, recurring.Properties["missed"]["enum"])
	assert.Equal(t, "time zone of cron, such as Europe/Berlin; default UTC", recurring.Properties["tz"]["description"])
	assert.Equal(t, map[string]any{"type": "integer", "minimum": 0.0}, recurring.Properties["buffer_limit"], "what says nothing has no description, and no words")
	assert.Equal(t, "object", recurring.Properties["input"]["type"])
	assert.NotContains(t, recurring.Properties["input"], "additionalProperties", "an input is whatever its tool takes")
	var head map[string]any
	require.NoError(t, json.Unmarshal(setfile.Schema(), &head))
	assert.Equal(t, "https://json-schema.org/draft/2020-12/schema", head["$schema"])
	assert.NotEmpty(t, head["title"])
	assert.NotContains(t, head, "required")
	pattern, _ := recurring.Properties["jitter"]["pattern"].(string)
	for text, fits := range map[string]bool{"90s": true, "1h30m": true, "7d": true, "1d12h": true, "": false, "d": false, "5": false, "1h7d": false} {
		assert.Equal(t, fits, regexp.MustCompile(pattern).MatchString(text), "%q", text)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(whole)
	f.Add("[recurring.a]\ncron = 1\n")
	f.Add("[variables]\na = \"${a}\"\n[queues.\"${a}\"]\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := folder(t, map[string]string{"a.toml": text})
		entries, err := setfile.Load([]string{dir}, setfile.Options{})
		if err == nil {
			_, _ = shell.CheckSet(entries, now)
		}
	})
}

func TestWhatARunbookDeclaresBelongsToTheSet(t *testing.T) {
	dir := folder(t, map[string]string{
		"all.toml": "namespace = \"ops\"\ntenant = \"reports\"\nrunbooks = [\"books/release.toml\"]\n",
		"books/release.toml": `
name = "release"
[queues.merge]
max_attempts = 4
[semaphores.builds]
slots = 2
[workers.merger]
queue = "merge"
run = { tool = "command", input = { argv = ["git", "merge"] } }
[[subscribers]]
name = "wake"
match = { event = "queue:push" }
wake = "merger"
`,
	})
	entries, err := setfile.Load([]string{dir}, setfile.Options{})
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		assert.Equal(t, "books/release.toml", e.File)
		kind, _, name := e.About()
		all = append(all, kind+" "+name)
	}
	assert.Equal(t, []string{
		"queue merge", "semaphore builds", "worker merger", "subscriber release/wake", "subscriber release/merger/push", "subscriber release/merger/ready",
	}, all)
	assert.Equal(t, uint32(4), entries[0].Queue.Config.Retry.MaxAttempts)
	assert.Equal(t, shell.SemaphoreSpec{Namespace: "ops", Tenant: "reports", Name: "builds", Slots: 2}, *entries[1].Semaphore)
	assert.Equal(t, "ops/reports/merger", entries[2].Worker.Namespace+"/"+entries[2].Worker.Tenant+"/"+entries[2].Worker.Name)
	assert.Equal(t, core.MachineName{Namespace: "ops", Tenant: "reports", Name: "merger"}, *entries[3].Subscriber.Do.WakeWorker)

	elsewhere := filepath.Join(dir, "books", "release.toml")
	other := folder(t, map[string]string{"all.toml": "runbooks = ['" + elsewhere + "']\n"})
	entries, err = setfile.Load([]string{other}, setfile.Options{})
	require.NoError(t, err)
	assert.Len(t, entries, len(all), "one that lies elsewhere")
}

func TestAJobOfASetNamesThePodSpecThatLiesBesideIt(t *testing.T) {
	files := map[string]string{"jobs/a.yaml": "id: a\npodSpecFile: pods/a.txt\n", "jobs/pods/a.txt": "containers:\n  - {name: c, image: i}\n"}
	entries, err := setfile.Load([]string{folder(t, files)}, setfile.Options{})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Contains(t, string(entries[0].Job.PodSpec), `"image":"i"`)

	files["jobs/pods/a.txt"] = strings.Repeat("#", setfile.MaxFileBytes)
	_, err = setfile.Load([]string{folder(t, files)}, setfile.Options{})
	require.ErrorContains(t, err, "0 documents", "it may be as large as that")
	files["jobs/pods/a.txt"] += "#"
	_, err = setfile.Load([]string{folder(t, files)}, setfile.Options{})
	require.ErrorContains(t, err, "a.txt has more than 4194304 bytes, which is all that is read of a file")
	o := setfile.Options{}
	o.Jobs.ReadFile = func(name string) ([]byte, error) {
		return []byte("containers: [{name: c, image: " + filepath.Base(name) + "}]\n"), nil
	}
	entries, err = setfile.Load([]string{folder(t, files)}, o)
	require.NoError(t, err)
	assert.Contains(t, string(entries[0].Job.PodSpec), `"image":"a.txt"`, "who reads files otherwise does")
}

func TestAFolderOfTooManyFilesOrOfOneThatIsTooLargeIsRefused(t *testing.T) {
	dir := folder(t, map[string]string{"a.toml": strings.Repeat("#", setfile.MaxFileBytes)})
	_, err := setfile.Load([]string{dir}, setfile.Options{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.toml"), []byte(strings.Repeat("#", setfile.MaxFileBytes+1)), 0o600))
	_, err = setfile.Load([]string{dir}, setfile.Options{})
	require.ErrorContains(t, err, "a.toml has more than 4194304 bytes, which is all that is read of a file")

	one := filepath.Join(folder(t, map[string]string{"a.toml": ""}), "a.toml")
	_, err = setfile.Load(slices.Repeat([]string{one}, setfile.MaxFiles), setfile.Options{})
	require.NoError(t, err)
	_, err = setfile.Load(slices.Repeat([]string{one}, setfile.MaxFiles+1), setfile.Options{})
	require.EqualError(t, err, "read the files of the set: more than 10000 files: split the set")
}

func TestNoMoreErrorsAreSaidThanAreRead(t *testing.T) {
	wrong := func(n int) setfile.Errors {
		_, err := setfile.Load([]string{folder(t, map[string]string{"a.toml": "[queues.a]\nrate = \"x\"\n" + manyQueues(n-1)})}, setfile.Options{})
		all, _ := errors.AsType[setfile.Errors](err)
		return all
	}
	all := wrong(50)
	require.Len(t, all, 50)
	assert.NotContains(t, all[49].Problem, "more)")
	all = wrong(52)
	require.Len(t, all, 50)
	assert.True(t, strings.HasSuffix(all[49].Problem, "(and 2 more)"), all[49].Problem)
	assert.True(t, slices.IsSortedFunc(all, func(a, b setfile.Error) int { return a.Line - b.Line }), "in the order of the file, though the tables are read by their names")
}

// manyQueues gives queues with a wrong rate, the last by its name first.
func manyQueues(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("[queues.q" + string(rune('z'-i/26)) + string(rune('z'-i%26)) + "]\nrate = \"x\"\n")
	}
	return b.String()
}

func TestVariablesStandForTextsWhereverTheyAre(t *testing.T) {
	dir := folder(t, map[string]string{"a.toml": `
[variables]
a = "1"
b = "${a}"
[recurring."x${a}"]
cron = "@daily"
command = ["${a}", "${b}"]
no_retry = ["${a}*"]
on_failure = "retry"
[recurring."x${a}".labels]
"k${a}" = "v${a}"
[recurring."x${a}".alerts]
stale = "${a}h"
failing = 2
`})
	entries, err := setfile.Load([]string{dir}, setfile.Options{})
	require.NoError(t, err)
	r := entries[0].Recurring
	assert.Equal(t, "x${a}", r.Name, "names stay")
	assert.Equal(t, map[string]string{"k${a}": "v1"}, r.Labels)
	assert.Equal(t, int64(3600), r.Alerts.StaleSeconds)
	assert.Equal(t, uint32(2), r.Alerts.Failing)
	assert.Equal(t, []string{"1*"}, r.Policy.Backoff.NoRetry)
	assert.Equal(t, []string{"1", "${a}"}, argv(t, r.ActionTemplate.Payload), "what a variable stands for is not read again")

	_, err = setfile.Load([]string{dir}, setfile.Options{Variables: map[string]string{"region": "us"}})
	require.EqualError(t, err, `no file declares a variable "region": use a, b`)
}

func TestWhatIsWrittenIsReadableWhereAShellsSignsAreInIt(t *testing.T) {
	of := func(payload string) string {
		text, err := setfile.MarshalOne(shell.SetEntry{Recurring: &core.RecurringSpec{
			Name: "r", CronExpr: "@daily", Enabled: true, ActionTemplate: core.RecurringActionTemplate{Provider: "command", ActionType: "command", Payload: json.RawMessage(payload)},
		}})
		require.NoError(t, err)
		return string(text)
	}
	assert.Contains(t, of(`{"argv":["sh","-c","a \u0026\u0026 b \u003e c \u003C d"]}`), "command = ['sh', '-c', 'a && b > c < d']", "as the kernel stores it")
	assert.Contains(t, of(`{"argv":["sh"],"stdin":"a \u0026 b","ratio":1.0}`), `input_json = '{"argv":["sh"],"stdin":"a & b","ratio":1.0}'`)
	assert.Contains(t, of(`{"argv":["printf","\\u0026"]}`), `command = ['printf', '\u0026']`, "a backslash that is meant stays")
	worker, err := setfile.MarshalOne(shell.SetEntry{Worker: &core.WorkerSpec{Name: "w", Queue: "q", Do: core.WorkerDo{Run: &core.ToolRun{Tool: "command", Input: json.RawMessage(`{"argv":["sh","-c","a \u0026 b"]}`)}}}})
	require.NoError(t, err)
	assert.Contains(t, string(worker), "a & b")
	assert.NotContains(t, string(worker), "json")
}
