package setfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/setfile"
)

// each gives the zero value of a type as often as another one.
func each[T any](t *rapid.T, name string, values ...T) T {
	var zero T
	return rapid.SampledFrom(append(values, zero)).Draw(t, name)
}

func drawRate(t *rapid.T, name string) core.QueueRate {
	if !rapid.Bool().Draw(t, name) {
		return core.QueueRate{}
	}
	return core.QueueRate{
		Limit: rapid.Uint32Range(1, 200).Draw(t, name+" limit"), PerMS: rapid.SampledFrom([]int64{1, 1500, 60_000, 3_600_000, 5_400_000}).Draw(t, name+" per"),
		Burst: rapid.Uint32Range(0, 9).Draw(t, name+" burst"),
	}
}

func drawQueue(t *rapid.T) shell.SetEntry {
	millis := rapid.SampledFrom([]int64{0, 5, 1500, 30_000, 60_000, 3_600_000})
	c := core.QueueConfig{
		VisibilityTimeoutMS: rapid.SampledFrom([]int64{1000, core.DefaultVisibilityMS, 60_000}).Draw(t, "visibility"),
		Retry: core.Retry{
			MaxAttempts: rapid.Uint32Range(1, 9).Draw(t, "attempts"), BackoffMS: millis.Draw(t, "backoff"), FactorPercent: each[uint32](t, "factor", 150),
			MaxBackoffMS: millis.Draw(t, "max backoff"), JitterPercent: each[uint32](t, "jitter", 10), NoRetry: each(t, "no retry", []string{"a*", "b, c"}),
		},
		DeadLetterQueue: each(t, "dead", "dead-letters"), Concurrency: each[uint32](t, "concurrency", 1, 4), KeyConcurrency: each[uint32](t, "key concurrency", 1, 2),
		Rate: drawRate(t, "rate"), KeyRate: drawRate(t, "key rate"), KeepCompletedMS: millis.Draw(t, "keep"), DedupWindowMS: millis.Draw(t, "dedup"),
	}
	return shell.SetEntry{Queue: &shell.QueueSpec{Namespace: "ops", Tenant: "reports", Name: "a", Config: c}}
}

func drawWorker(t *rapid.T) shell.SetEntry {
	w := core.WorkerSpec{
		Namespace: "ops", Tenant: "reports", Name: "a", Queue: "q", Concurrency: rapid.Uint32Range(1, 3).Draw(t, "concurrency"),
		PollMS: rapid.SampledFrom([]int64{1, 60_000, 90_000}).Draw(t, "poll"),
	}
	run := &core.ToolRun{Tool: "http", Input: json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"b":1,"a":2}`, `{"a":null}`, `{"a":1.50}`, `{"a":"<&>"}`}).Draw(t, "input"))}
	task := &core.AgentPrompt{Prompt: drawText(t, "prompt")}
	if w.Do.Run = run; rapid.Bool().Draw(t, "task") {
		w.Do.Run, w.Do.Task = nil, task
	}
	return shell.SetEntry{Worker: &w}
}

func drawDays(t *rapid.T, name string) (d core.CalendarDays) {
	for range rapid.IntRange(0, 2).Draw(t, name+" dates") {
		d.Dates = append(d.Dates, core.CalendarDate{Date: "2026-12-24", To: each(t, name+" to", "2026-12-26"), Name: each(t, name+" date", "Christmas", "a=b", "a..b")})
	}
	for range rapid.IntRange(0, 3).Draw(t, name+" weekly") {
		w := core.CalendarWindow{Days: each(t, name+" days", []string{"mon"}, []string{"fri", "sat", "mon"}), Name: each(t, name+" window", "night", "a=b")}
		switch rapid.IntRange(0, 3).Draw(t, name+" clock") {
		case 1:
			w.From = "22:00"
		case 2:
			w.To = "06:00"
		case 3:
			w.From, w.To = "09:00", "17:30"
		}
		d.Weekly = append(d.Weekly, w)
	}
	return d
}

func drawCalendar(t *rapid.T) shell.SetEntry {
	return shell.SetEntry{Calendar: &core.CalendarSpec{
		Namespace: "ops", Tenant: "reports", Name: "a", Timezone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin"}).Draw(t, "tz"),
		Description: drawText(t, "description"), Exclude: drawDays(t, "exclude"), Include: drawDays(t, "include"),
	}}
}

func drawSubscriber(t *rapid.T) shell.SetEntry {
	s := core.Subscription{Name: "a", Match: core.EventMatch{
		Category: each(t, "category", "action"), Action: each(t, "action", "failed"), Component: each(t, "component", "api"), Data: drawMap(t, "data"),
		SourceID: each(t, "source", uuid.MustParse("0198a1b2-0000-7000-8000-000000000001")),
	}}
	s.Do.WakeWorker = &core.MachineName{Namespace: "ops", Tenant: "reports", Name: "w"}
	if rapid.Bool().Draw(t, "push") {
		s.Do = core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Namespace: "ops", Tenant: "reports", Name: "q"}, Priority: each[int32](t, "priority", -1, 3)}}
	}
	return shell.SetEntry{Subscriber: &shell.SubscriberSpec{Namespace: "ops", Tenant: "reports", Subscription: s}}
}

// defaults puts into a definition what the core does where a file says nothing.
func defaults(e *shell.SetEntry) {
	switch {
	case e.Queue != nil:
		if c := &e.Queue.Config; c.VisibilityTimeoutMS == 0 {
			c.VisibilityTimeoutMS = core.DefaultVisibilityMS
		}
		if r := &e.Queue.Config.Retry; r.MaxAttempts == 0 {
			r.MaxAttempts = core.DefaultMaxAttempts
		}
	case e.Worker != nil:
		if e.Worker.Concurrency == 0 {
			e.Worker.Concurrency = 1
		}
		if e.Worker.PollMS == 0 {
			e.Worker.PollMS = 60_000
		}
	case e.Calendar != nil:
		if e.Calendar.Timezone == "" {
			e.Calendar.Timezone = "UTC"
		}
		for _, d := range []*core.CalendarDays{&e.Calendar.Exclude, &e.Calendar.Include} {
			for i := range d.Weekly {
				if w := &d.Weekly[i]; w.From == "00:00" {
					w.From = ""
				} else if w.To == "24:00" {
					w.To = ""
				}
			}
		}
	}
}

func TestEachKeyOfEachKindIsWrittenAndReadAsTheSame(test *testing.T) {
	for kind, draw := range map[string]func(*rapid.T) shell.SetEntry{"queue": drawQueue, "worker": drawWorker, "calendar": drawCalendar, "subscriber": drawSubscriber} {
		test.Run(kind, func(test *testing.T) {
			path := filepath.Join(test.TempDir(), "a.toml")
			rapid.Check(test, func(t *rapid.T) {
				want := draw(t)
				data, err := setfile.MarshalOne(want)
				if err != nil {
					t.Fatalf("write: %s", err)
				}
				require.NoError(test, os.WriteFile(path, data, 0o600))
				read, err := setfile.Load([]string{path}, setfile.Options{Namespace: "ops", Tenant: "reports"})
				if err != nil {
					t.Fatalf("%s\n%s", err, data)
				}
				got := read[0]
				got.File = ""
				defaults(&got)
				if !assert.ObjectsAreEqual(want, got) {
					is, _ := json.Marshal(got)
					was, _ := json.Marshal(want)
					t.Fatalf("%s\nwant %s\ngot  %s", data, was, is)
				}
			})
		})
	}
}

// What has its default is left out, so that a file has what somebody has chosen.
func TestWhatHasItsDefaultIsNotWritten(t *testing.T) {
	recurring := core.RecurringSpec{
		Name: "a", CronExpr: "@daily", Timezone: "UTC", Enabled: true, Policy: core.RunPolicy{OnInterrupt: core.InterruptFail, MaxAttempts: core.DefaultMaxAttempts},
		ActionTemplate: core.RecurringActionTemplate{Provider: "command", ActionType: "command", Payload: json.RawMessage(`{"argv":["echo","<hi>"]}`)},
	}
	with := func(change func(r *core.RecurringSpec)) shell.SetEntry {
		r := recurring
		change(&r)
		return shell.SetEntry{Recurring: &r}
	}
	run := core.WorkerDo{Run: &core.ToolRun{Tool: "http", Input: json.RawMessage(`{"url":"https://example.com/?a&b"}`)}}
	pod := json.RawMessage(`{"containers":[{"name":"c","image":"i"}]}`)
	for _, row := range []struct {
		what string
		e    shell.SetEntry
		want string
	}{
		{"a command", with(func(*core.RecurringSpec) {}), "[recurring.a]\ncron = '@daily'\ncommand = ['echo', '<hi>']\n"},
		{"lengths of time", with(func(r *core.RecurringSpec) {
			r.JitterSeconds, r.MaxWaitSeconds, r.CatchUpSeconds, r.Policy.TimeoutMS = 90, 600, 7200, 5_400_000
		}), "[recurring.a]\ncron = '@daily'\ncommand = ['echo', '<hi>']\njitter = '1m30s'\nmax_wait = '10m'\ncatch_up = '2h'\ntimeout = '1h30m'\n"},
		{"an input of a command that is no command line", with(func(r *core.RecurringSpec) {
			r.ActionTemplate.Payload = json.RawMessage(`{"argv":["env"],"env":{"A":"1"}}`)
		}), "[recurring.a]\ncron = '@daily'\ntool = 'command'\ninput = {argv = ['env'], env = {A = '1'}}\n"},
		{"another tool", with(func(r *core.RecurringSpec) {
			r.ActionTemplate = core.RecurringActionTemplate{Provider: "http", ActionType: "http", Payload: json.RawMessage(`{"argv":["x"]}`)}
		}), "[recurring.a]\ncron = '@daily'\ntool = 'http'\ninput = {argv = ['x']}\n"},
		{"no input", with(func(r *core.RecurringSpec) {
			r.ActionTemplate = core.RecurringActionTemplate{Provider: "http", ActionType: "get", Payload: json.RawMessage(`{}`)}
		}), "[recurring.a]\ncron = '@daily'\ntool = 'http'\ntype = 'get'\n"},
		{"an input that is no table", with(func(r *core.RecurringSpec) {
			r.ActionTemplate = core.RecurringActionTemplate{Provider: "http", ActionType: "http", Payload: json.RawMessage(`[1]`)}
		}), "[recurring.a]\ncron = '@daily'\ntool = 'http'\ninput_json = '[1]'\n"},
		{
			"a queue", shell.SetEntry{Queue: &shell.QueueSpec{Name: "a", Config: core.QueueConfig{VisibilityTimeoutMS: core.DefaultVisibilityMS, Retry: core.Retry{MaxAttempts: core.DefaultMaxAttempts}}}},
			"[queues.a]\n",
		},
		{
			"a worker", shell.SetEntry{Worker: &core.WorkerSpec{Name: "a", Queue: "q", Concurrency: 1, PollMS: 60_000, Do: run}},
			"[workers.a]\nqueue = 'q'\n\n[workers.a.do]\n[workers.a.do.run]\ntool = 'http'\n\n[workers.a.do.run.input]\nurl = 'https://example.com/?a&b'\n",
		},
		{"a calendar", shell.SetEntry{Calendar: &core.CalendarSpec{Name: "a", Timezone: "UTC", Exclude: core.CalendarDays{Weekly: []core.CalendarWindow{{Name: "never"}}}}}, "[calendars.a]\nexclude_weekly = [\n  'daily=never'\n]\n"},
		{"dates and windows", shell.SetEntry{Calendar: &core.CalendarSpec{Name: "a", Include: core.CalendarDays{
			Dates:  []core.CalendarDate{{Date: "2026-12-24", Name: "Eve"}, {Date: "2026-12-25", To: "2026-12-26"}},
			Weekly: []core.CalendarWindow{{Days: []string{"mon"}, From: "09:00"}, {To: "06:00", Name: "night"}, {Days: []string{"sat", "sun"}}},
		}}}, "[calendars.a]\ninclude = [\n  '2026-12-24=Eve',\n  '2026-12-25..2026-12-26'\n]\ninclude_weekly = [\n  'mon 09:00-24:00',\n  'daily 00:00-06:00=night',\n  'sat,sun'\n]\n"},
		{
			"a subscriber", shell.SetEntry{Subscriber: &shell.SubscriberSpec{Subscription: core.Subscription{Name: "a", Match: core.EventMatch{Category: "queue"}, Do: core.Reaction{WakeWorker: &core.MachineName{Name: "w"}}}}},
			"[subscribers.a]\n[subscribers.a.match]\ncategory = 'queue'\n\n[subscribers.a.do]\n[subscribers.a.do.wake_worker]\nname = 'w'\n",
		},
		{"a job", shell.SetEntry{Job: &core.JobSpec{ID: "a", Schedule: "@daily", PodSpec: pod}}, "id: a\nschedule: '@daily'\npodSpec:\n  containers:\n    - name: c\n      image: i\n"},
	} {
		data, err := setfile.MarshalOne(row.e)
		require.NoError(t, err, row.what)
		assert.Equal(t, row.want, string(data), row.what)
	}
	_, err := setfile.MarshalOne(shell.SetEntry{Recurring: &core.RecurringSpec{CronExpr: "@daily"}})
	require.ErrorContains(t, err, "(@daily) has no name, by which a file would declare it: give it one")
}

func TestFilesAreWrittenInTheOrderOfTheirTenants(t *testing.T) {
	q := func(namespace, tenant string) shell.SetEntry {
		return shell.SetEntry{Queue: &shell.QueueSpec{Namespace: namespace, Tenant: tenant, Name: "q"}}
	}
	files, err := setfile.Marshal([]shell.SetEntry{q("b", "x"), q("a", "z"), q("a", "y")})
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	assert.Equal(t, []string{"a-y.toml", "a-z.toml", "b-x.toml"}, names)
}
