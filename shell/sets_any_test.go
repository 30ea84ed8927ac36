package shell_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// anySet draws declarations: of each kind up to three, each of whose fields is left out at times.
type anySet struct {
	t       *rapid.T
	label   string
	of      shell.Scope
	entries []shell.SetEntry
}

func drawSet(t *rapid.T, label string) []shell.SetEntry {
	s := &anySet{t: t, label: label, of: shell.Scope{Namespace: everyMinute().Namespace, Tenant: everyMinute().Tenant}}
	var calendars []string
	for n := range 3 {
		if name := fmt.Sprintf("calendar-%d", n); s.has() {
			calendars = append(calendars, name)
			s.calendar(name)
		}
	}
	for n := range 3 {
		for _, draw := range []func(n int, calendars []string){s.queue, s.semaphore, s.worker, s.job, s.recurring, s.subscriber} {
			if s.has() {
				draw(n, calendars)
			}
		}
	}
	return s.entries
}

func (s *anySet) has() bool { return rapid.Bool().Draw(s.t, s.label) }

func (s *anySet) add(e shell.SetEntry) {
	e.File = oneOf(s, "one.toml", "two.toml")
	s.entries = append(s.entries, e)
}

// oneOf draws one of the values; the first one is what a file leaves out.
func oneOf[T any](s *anySet, values ...T) T {
	return values[rapid.IntRange(0, len(values)-1).Draw(s.t, s.label)]
}

func (s *anySet) calendar(name string) {
	s.add(shell.SetEntry{Calendar: &core.CalendarSpec{
		Namespace: s.of.Namespace, Tenant: s.of.Tenant, Name: name, Timezone: oneOf(s, "", "Europe/Berlin"), Description: oneOf(s, "", "free days"),
		Exclude: oneOf(s, core.CalendarDays{}, core.CalendarDays{Dates: []core.CalendarDate{{Date: "2000-01-02"}}}),
		Include: oneOf(s, core.CalendarDays{}, core.CalendarDays{Weekly: []core.CalendarWindow{{Days: []string{"sat", "sun"}, From: "08:00", To: "18:00"}}}),
	}})
}

func (s *anySet) queue(n int, _ []string) {
	s.add(shell.SetEntry{Queue: &shell.QueueSpec{Namespace: s.of.Namespace, Tenant: s.of.Tenant, Name: fmt.Sprintf("queue-%d", n), Config: core.QueueConfig{
		VisibilityTimeoutMS: oneOf[int64](s, 0, 60_000), Retry: oneOf(s, core.Retry{}, core.Retry{MaxAttempts: 5, BackoffMS: 100}),
		DeadLetterQueue: oneOf(s, "", "dead"), Concurrency: oneOf[uint32](s, 0, 3), KeyConcurrency: oneOf[uint32](s, 0, 2),
		Rate: oneOf(s, core.QueueRate{}, core.QueueRate{Limit: 5, PerMS: 2000, Burst: 2}), KeepCompletedMS: oneOf[int64](s, 0, 3_600_000),
	}}})
}

func (s *anySet) semaphore(n int, _ []string) {
	s.add(shell.SetEntry{Semaphore: &shell.SemaphoreSpec{Namespace: s.of.Namespace, Tenant: s.of.Tenant, Name: fmt.Sprintf("semaphore-%d", n), Slots: oneOf[uint32](s, 1, 2, 3)}})
}

func (s *anySet) worker(n int, _ []string) {
	s.add(shell.SetEntry{Worker: &core.WorkerSpec{
		Namespace: s.of.Namespace, Tenant: s.of.Tenant, Name: fmt.Sprintf("worker-%d", n), Queue: oneOf(s, "queue-0", "queue-1", "queue-2"),
		Concurrency: oneOf[uint32](s, 0, 4), PollMS: oneOf[int64](s, 0, 5000),
		Do: core.WorkerDo{Run: &core.ToolRun{Tool: "count", Input: oneOf(s, json.RawMessage(`{}`), json.RawMessage(`{"to":"${item.data}"}`))}},
	}})
}

func (s *anySet) job(n int, calendars []string) {
	j := core.JobSpec{
		ID: fmt.Sprintf("job-%d", n), Namespace: s.of.Namespace, Tenant: s.of.Tenant, Name: oneOf(s, "", "a report"), PodSpec: json.RawMessage(`{"containers":[{"name":"c","image":"i"}]}`),
		Labels: oneOf(s, nil, map[string]string{"team": "web"}), MaxConcurrentRuns: oneOf[uint32](s, 0, 2),
	}
	if s.has() {
		j.Schedule, j.Timezone, j.EndsAt = oneOf(s, "0 9 * * *", "@every 1h"), oneOf(s, "", "Europe/Berlin"), oneOf(s, 0, later)
		j.ScheduleOptions = s.options(calendars)
	}
	s.add(shell.SetEntry{Job: &j})
}

// later is when schedules end that do.
var later = effects.TimeOf(time.Date(2000, 6, 1, 0, 0, 0, 0, time.UTC))

func (s *anySet) options(calendars []string) core.ScheduleOptions {
	o := core.ScheduleOptions{MaxExecutions: oneOf[uint64](s, 0, 5), JitterSeconds: oneOf[int64](s, 0, 30), Alerts: oneOf(s, core.AlertRules{}, core.AlertRules{LateSeconds: 600, Failing: 2}, core.AlertRules{Missed: true})}
	for _, name := range calendars {
		if s.has() {
			o.Calendars = append(o.Calendars, name)
		}
	}
	return o
}

func (s *anySet) recurring(n int, calendars []string) {
	r := everyMinute()
	r.Name, r.CronExpr, r.Timezone, r.Enabled = fmt.Sprintf("recurring-%d", n), oneOf(s, "0 9 * * *", "30 * * * *"), oneOf(s, "", "Europe/Berlin"), oneOf(s, true, true, false)
	r.Description, r.Labels, r.EndsAt = oneOf(s, "", "a digest"), oneOf(s, nil, map[string]string{"team": "web"}), oneOf(s, 0, later)
	r.StartDeadlineSeconds = oneOf[int64](s, 0, 300)
	r.ScheduleOptions = s.options(calendars)
	r.Overlap = oneOf(s, "", core.OverlapSkip)
	r.Policy = oneOf(s, core.RunPolicy{}, core.RunPolicy{OnInterrupt: core.InterruptRetry, MaxAttempts: 7, TimeoutMS: 60_000})
	t := &r.ActionTemplate
	t.Payload, t.Metadata, t.DedupKey = oneOf(s, nil, json.RawMessage(`{"to":"ops"}`)), oneOf(s, nil, map[string]string{"team": "a"}), oneOf(s, "", "digest")
	e := shell.SetEntry{Recurring: &r}
	if s.has() {
		r.Name, e.Was = fmt.Sprintf("renamed-%d", n), r.Name
	}
	s.add(e)
}

func (s *anySet) subscriber(n int, _ []string) {
	to := core.MachineName{Namespace: s.of.Namespace, Tenant: s.of.Tenant, Name: fmt.Sprintf("worker-%d", n)}
	into := to
	into.Name = fmt.Sprintf("queue-%d", n)
	s.add(shell.SetEntry{Subscriber: &shell.SubscriberSpec{Namespace: s.of.Namespace, Tenant: s.of.Tenant, Subscription: core.Subscription{
		Name:  fmt.Sprintf("subscriber-%d", n),
		Match: core.EventMatch{Category: "action", Action: oneOf(s, "no-such", "nor-such"), Data: oneOf(s, nil, map[string]string{"label": "x"})},
		Do:    oneOf(s, core.Reaction{WakeWorker: &to}, core.Reaction{Push: &core.PushReaction{MachineName: into, Priority: 2}}),
	}}})
}

// names gives the names of one kind.
func names(entries []shell.SetEntry, kind string) (out []string) {
	for _, e := range entries {
		if k, _, name := e.About(); k == kind {
			out = append(out, name)
		}
	}
	return out
}

// byHand is what people, and work, do to what a set has made: they pause, hold, and begin what has not ended when the next set
// is applied. The lists have the names.
type byHand struct{ recurring, jobs, queues, workers, held, busy []string }

func drawByHand(t *rapid.T, a, b []shell.SetEntry) (h byHand) {
	some := func(of []string) (out []string) {
		for _, name := range of {
			if rapid.IntRange(0, 2).Draw(t, "by hand") == 0 {
				out = append(out, name)
			}
		}
		return out
	}
	h.recurring, h.jobs, h.held = some(names(a, "recurring")), some(names(a, "job")), some(names(a, "semaphore"))
	queues := names(b, "queue") // a queue with items is not removed
	queues = slices.DeleteFunc(queues, func(name string) bool { return !slices.Contains(names(a, "queue"), name) })
	for _, e := range a {
		if e.Worker != nil && slices.Contains(queues, e.Worker.Queue) && rapid.Bool().Draw(t, "busy") {
			h.busy = append(h.busy, e.Worker.Name)
		}
	}
	h.queues, h.workers = some(names(a, "queue")), some(names(a, "worker"))
	return h
}

// do does it, and leaves the workers with their items in hand.
func (h byHand) do(t *testing.T, e *shell.Engine) {
	t.Helper()
	of := shell.Scope{Namespace: everyMinute().Namespace, Tenant: everyMinute().Tenant}
	for _, name := range h.busy {
		w, err := e.Workers().Get(bg(), of, name)
		require.NoError(t, err)
		_, _, err = e.Queues().Push(bg(), of.Namespace, of.Tenant, w.Queue, shell.PushOptions{Data: json.RawMessage(`"x"`)})
		require.NoError(t, err)
		_, err = e.Workers().Send(bg(), of, name, core.WorkerWake{})
		require.NoError(t, err)
	}
	synctest.Wait()
	for _, name := range h.recurring {
		r, err := e.Recurring().Named(bg(), of.Namespace, of.Tenant, name)
		require.NoError(t, err)
		_, err = e.Recurring().Pause(bg(), r.ID, "by hand")
		require.NoError(t, err)
	}
	for _, name := range h.jobs {
		_, err := e.Jobs().Pause(bg(), of, name, shell.PauseOptions{Reason: "by hand"})
		require.NoError(t, err)
	}
	for _, name := range h.queues {
		_, err := e.Queues().Pause(bg(), core.QueueRef(of.Namespace, of.Tenant, name), "ann", "by hand")
		require.NoError(t, err)
	}
	for _, name := range h.workers {
		_, err := e.Workers().Send(bg(), of, name, core.WorkerPause{})
		require.NoError(t, err)
	}
	for _, name := range h.held {
		_, err := e.Semaphores().Send(bg(), of, name, core.SemaphoreAcquire{Name: name, Namespace: of.Namespace, Tenant: of.Tenant, Holder: "somebody", Slots: 1})
		require.NoError(t, err)
	}
}

// For any sets A and B: A, and then B with prune, is B in a fresh database, whatever was paused, held and begun in between, now
// and when what was begun has ended. Pauses, ids and history stay.
func TestASetAfterAnotherOneIsAsIfItHadBeenTheFirst(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		a, b := drawSet(t, "a"), drawSet(t, "b")
		if len(b) == 0 {
			b = setOf(0, 0)
		}
		hand := drawByHand(t, a, b)
		var said string
		synctest.Test(test, func(bubble *testing.T) {
			apply := func(e *shell.Engine, set []shell.SetEntry) (changed bool) {
				res, err := e.Sets().Apply(bg(), "ours", set, shell.SetOptions{Prune: true, Most: true})
				if err != nil && said == "" {
					said = "apply: " + err.Error()
				}
				return res.Changed()
			}
			states := func(first []shell.SetEntry) (out []map[string]string) {
				busy := newGate()
				e, stop := start(bubble, shell.Options{Store: inMemory(bubble), Tools: tools(busy)})
				defer func() { require.NoError(bubble, stop()) }()
				defer busy.open()
				if first != nil {
					if apply(e, first); said != "" {
						return nil
					}
					hand.do(bubble, e)
				}
				for _, what := range []string{"a second time", "once all has ended"} {
					apply(e, b)
					out = append(out, definitions(bubble, e))
					if again := apply(e, b); again && said == "" {
						said = what + " it changes something"
					}
					busy.open()
					elapse(time.Second)
				}
				return append(out, definitions(bubble, e))
			}
			was, is := states(a), states(nil)
			for i := range min(len(was), len(is)) {
				for key, v := range was[i] { // order-free: each by itself
					if _, there := is[i][key]; there && v == pausedByHand {
						is[i][key] = v
					}
				}
				if !maps.Equal(was[i], is[i]) && said == "" {
					said = fmt.Sprintf("%d: after A and B\n%v\nafter B\n%v", i, was[i], is[i])
				}
			}
		})
		if said != "" {
			t.Fatalf("%s", said)
		}
	})
}

// The drawn sets are ones that can be applied: else the property above would hold of nothing.
func TestAnySetIsDrawnWithWorkInHand(t *testing.T) {
	busy, renamed, paused := 0, 0, 0
	for seed := range 50 {
		both := rapid.Custom(func(t *rapid.T) byHand {
			a, b := drawSet(t, "a"), drawSet(t, "b")
			for _, e := range b {
				if e.Was != "" && slices.Contains(names(a, "recurring"), e.Was) {
					renamed++
				}
			}
			return drawByHand(t, a, b)
		}).Example(seed)
		busy += len(both.busy)
		paused += len(both.recurring)
	}
	assert.Greater(t, busy, 2)
	assert.Greater(t, renamed, 2)
	assert.Greater(t, paused, 2)
}
