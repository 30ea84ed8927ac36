//go:build unix

package crashtest

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
)

// world is a small run in which all went well, for the checks to be tried on.
type world struct {
	s     *snapshot
	l     *ledger
	lines []line

	fails, retries, hook, each core.Action // one of each kind
	rec                        core.RecurringAction
}

func id(n byte) uuid.UUID { return uuid.UUID{15: n} }

func goodWorld() *world {
	w := &world{l: newLedger()}
	done := func(n byte, policy core.OnInterrupt) core.Action {
		return core.Action{
			ActionSpec: core.ActionSpec{ID: id(n), Policy: core.RunPolicy{OnInterrupt: policy, MaxAttempts: 3}, Trigger: core.Scheduled(5000)},
			Status:     core.Status{Type: core.StatusCompleted}, CreatedAt: 4000, UpdatedAt: 6000, Run: 1, Cycle: 1, Attempt: 1,
		}
	}
	w.fails, w.retries, w.hook, w.each = done(1, core.InterruptFail), done(2, core.InterruptRetry), done(3, core.InterruptFail), done(4, core.InterruptFail)
	w.retries.Attempt, w.retries.Run = 2, 2
	w.hook.Trigger = core.Trigger{Type: core.TriggerWebhook, ReceivedAt: 5000, RawPayload: []byte("body")}
	w.each.Occurrence, w.each.Metadata = id(21), map[string]string{core.MetaRecurringID: id(20).String()}
	w.rec = core.RecurringAction{RecurringSpec: core.RecurringSpec{ID: id(20)}, ExecutionCount: 1, MissedCount: 2, Sequence: 2}
	w.s = &snapshot{
		actions:   map[uuid.UUID]core.Action{},
		recurring: map[uuid.UUID]core.RecurringAction{id(20): w.rec},
		occurrences: map[uuid.UUID][]core.Occurrence{id(20): {
			{ID: id(21), RecurringID: id(20), DueAt: 5000, LastDueAt: 5000, Verdict: core.VerdictDispatched, Count: 1, ActionID: id(4), Outcome: "completed"},
			{ID: id(22), RecurringID: id(20), DueAt: 6000, LastDueAt: 7999, Verdict: core.VerdictMissed, Count: 2},
		}},
		counts: map[string]uint64{core.TermAll: 4, core.StatusTerm(core.StatusCompleted): 4},
	}
	for _, a := range []core.Action{w.fails, w.retries, w.hook, w.each} {
		w.s.actions[a.ID] = a
		w.lines = append(w.lines, line{action: a.ID, cycle: 1, attempt: 1})
	}
	w.lines = append(w.lines, line{action: id(2), cycle: 1, attempt: 2})
	for _, n := range []note{
		{Op: opAction, Phase: tried, ID: id(1), Order: &order{ID: id(1), AtMS: 5000}}, {Op: opAction, Phase: acked, ID: id(1)},
		{Op: opAction, Phase: tried, ID: id(2), Order: &order{ID: id(2), Retry: true}}, {Op: opAction, Phase: acked, ID: id(2)},
		{Op: opWebhook, Phase: tried, Body: "body"}, {Op: opWebhook, Phase: acked, ID: id(3), Body: "body"},
		{Op: opRecurring, Phase: tried}, {Op: opRecurring, Phase: acked, ID: id(20)},
	} {
		w.l.write(n)
	}
	w.l.rest(id(20))
	return w
}

func (w *world) change(n byte, f func(a *core.Action)) {
	a := w.s.actions[id(n)]
	f(&a)
	w.s.actions[id(n)] = a
}

func (w *world) history(f func(list []core.Occurrence) []core.Occurrence) {
	w.s.occurrences[id(20)] = f(w.s.occurrences[id(20)])
}

func TestTheChecksFindNothingWhereAllIsWell(t *testing.T) {
	w := goodWorld()
	assert.Empty(t, examine(w.s, w.l, w.lines))
}

func TestTheChecksFindWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(w *world)
		found string
	}{
		{"a lost action", func(w *world) { delete(w.s.actions, id(1)) }, "was acknowledged, and is lost"},
		{"half of what was asked for together", func(w *world) {
			for _, n := range []byte{1, 50} {
				w.l.write(note{Op: opAction, Phase: tried, ID: id(n), Order: &order{ID: id(n), AtMS: 5000, Batch: id(1)}})
			}
		}, "of the 2 actions that were asked for together"},
		{"another time", func(w *world) { w.change(1, func(a *core.Action) { a.Trigger = core.Scheduled(5001) }) }, "was asked for at"},
		{"another policy", func(w *world) { w.change(2, func(a *core.Action) { a.Policy.OnInterrupt = core.InterruptFail }) }, "was asked for with on_interrupt retry"},
		{"a lost cancel", func(w *world) { w.l.write(note{Op: opCancel, Phase: acked, ID: id(1)}) }, "was cancelled, which was acknowledged"},
		{"a lost trigger", func(w *world) {
			w.l.write(note{Op: opTrigger, Phase: acked, ID: id(1)})
			w.change(1, func(a *core.Action) { a.Run = 0 })
		}, "has never run"},
		{"an end that was seen, and is another one", func(w *world) {
			w.l.write(note{Op: opLook, Phase: acked, ID: id(1), Saw: &sight{Status: core.StatusFailed, Run: 1, Cycle: 1}})
		}, "was seen as"},
		{"a run that was seen, and is undone", func(w *world) {
			w.l.write(note{Op: opLook, Phase: acked, ID: id(1), Saw: &sight{Status: core.StatusRunning, Run: 2, Cycle: 1}})
		}, "was seen as"},
		{"a lost webhook", func(w *world) { delete(w.s.actions, id(3)) }, "webhook " + id(3).String() + " was acknowledged, and is lost"},
		{"a changed body", func(w *world) { w.change(3, func(a *core.Action) { a.Trigger.RawPayload = []byte("Body") }) }, "came with"},
		{"a webhook that became two", func(w *world) {
			a := w.s.actions[id(3)]
			a.ID = id(9)
			w.s.actions[id(9)] = a
		}, "became two actions"},
		{"an action from nowhere", func(w *world) { delete(w.l.actions, id(1)) }, "nobody asked for it"},
		{"a webhook from nowhere", func(w *world) { delete(w.l.bodies, "body") }, "nobody sent"},
		{"an action of an occurrence that does not know it", func(w *world) { w.change(4, func(a *core.Action) { a.Occurrence = id(30) }) }, "is of occurrence"},
		{"a run of an action that is not there", func(w *world) { w.lines = append(w.lines, line{action: id(99), cycle: 1, attempt: 1}) }, "which is not there"},
		{"two runs where one is allowed", func(w *world) {
			w.change(1, func(a *core.Action) { a.Attempt = 2 })
			w.lines = append(w.lines, line{action: id(1), cycle: 1, attempt: 2})
		}, "on_interrupt fail: cycle 1 was carried out 2 times"},
		{"an attempt that was carried out twice", func(w *world) { w.lines = append(w.lines, line{action: id(2), cycle: 1, attempt: 2}) }, "attempt 2 of cycle 1 was carried out twice"},
		{"more attempts than allowed", func(w *world) { w.change(2, func(a *core.Action) { a.Policy.MaxAttempts = 1 }) }, "at most 1 are allowed"},
		{"a retry that nobody asked for", func(w *world) { w.change(1, func(a *core.Action) { a.Policy.OnFailure = core.FailureRetry }) }, "was asked for with on_failure retry false"},
		{"a run that went on after it was interrupted", func(w *world) {
			w.change(1, func(a *core.Action) {
				a.Attempt, a.Attempts = 2, []core.Attempt{{Number: 1, Cause: core.CauseInterrupted}}
			})
		}, "it went on after attempt 1, which was interrupted"},
		{"a run that went on after it failed", func(w *world) {
			w.change(2, func(a *core.Action) { a.Attempts = []core.Attempt{{Number: 1, Cause: core.CauseFailed}} })
		}, "it went on after attempt 1, which failed"},
		{"attempts out of order", func(w *world) {
			w.change(2, func(a *core.Action) {
				a.Attempts = []core.Attempt{{Number: 1, Cause: core.CauseInterrupted}, {Number: 1, Cause: core.CauseInterrupted}}
			})
		}, "attempt 1 is kept behind attempt 1"},
		{"a run before it was durable", func(w *world) { w.change(2, func(a *core.Action) { a.Attempt = 1 }) }, "before that was durable"},
		{"an end without a run", func(w *world) { w.lines = w.lines[1:] }, "is completed, and its tool has left no line"},
		{"a cycle without a run", func(w *world) {
			w.change(1, func(a *core.Action) { a.Cycle, a.LastRun = 3, &core.LastRun{Cycle: 2, Status: a.Status} })
		}, "completed cycle 2, and its tool has left no line"},
		{"two lives of one key", func(w *world) {
			w.change(1, func(a *core.Action) { a.DedupKey = "key" })
			w.change(2, func(a *core.Action) { a.DedupKey, a.CreatedAt, a.UpdatedAt = "key", 5999, 7000 })
		}, "dedup key \"key\""},
		{"an action that is stuck", func(w *world) { w.change(1, func(a *core.Action) { a.Status.Type = core.StatusRunning }) }, "is stuck"},
		{"a key that is held", func(w *world) { w.s.guards = []core.Dedup{{Key: "key", Holder: id(1)}} }, "is still held"},
		{"an outbox entry", func(w *world) { w.s.outbox = []string{"x"} }, "outbox entry is stuck"},
		{"a raw webhook", func(w *world) { w.s.webhooks = []uuid.UUID{id(3)} }, "was never read"},
		{"something set aside", func(w *world) { w.s.quarantine = []string{"x"} }, "set aside"},
		{"a due entry", func(w *world) { w.s.due = append(w.s.due, store.NewDueKey(5000, id(1))) }, "the due index still holds"},
		{"a wrong count", func(w *world) { w.s.counts[core.StatusTerm(core.StatusFailed)] = 1 }, "counts 1 actions that are failed"},
		{"a wrong total", func(w *world) { w.s.counts[core.TermAll] = 5 }, "counts 5 actions"},
		{"a lost recurring action", func(w *world) { delete(w.s.recurring, id(20)) }, "is gone: possible is"},
		{"a lost pause", func(w *world) {
			r := w.s.recurring[id(20)]
			r.Enabled = true
			w.s.recurring[id(20)] = r
		}, "is enabled: possible is"},
		{"a recurring action from nowhere", func(w *world) {
			w.s.recurring[id(40)] = core.RecurringAction{RecurringSpec: core.RecurringSpec{ID: id(40)}}
		}, "nobody was told of"},
		{"a lost trigger of a recurring action", func(w *world) {
			w.l.write(note{Op: opFire, Phase: tried, ID: id(20)})
			w.l.write(note{Op: opFire, Phase: acked, ID: id(20)})
		}, "of which 1 were acknowledged: its history has 0"},
		{"a time that was decided twice", func(w *world) {
			w.history(func(l []core.Occurrence) []core.Occurrence { l[1].DueAt, l[1].Count = 5000, 3; return l })
		}, "was decided twice"},
		{"a time that was passed over", func(w *world) {
			w.history(func(l []core.Occurrence) []core.Occurrence { l[1].DueAt, l[1].Count = 7000, 1; return l })
		}, "nothing was decided between"},
		{"a time that is not in the schedule", func(w *world) {
			w.history(func(l []core.Occurrence) []core.Occurrence { l[0].DueAt = 4999; return l })
		}, "not in its schedule"},
		{"a history that was cut", func(w *world) { w.history(func(l []core.Occurrence) []core.Occurrence { return l[:1] }) }, "its history has 1, 0, 0"},
		{"an occurrence without its action", func(w *world) { delete(w.s.actions, id(4)) }, "was dispatched as action"},
		{"an occurrence with another outcome", func(w *world) {
			w.history(func(l []core.Occurrence) []core.Occurrence { l[0].Outcome = "failed"; return l })
		}, "has the outcome"},
		{"what a client complained of", func(w *world) { w.l.write(note{Plaint: "never"}) }, "never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := goodWorld()
			c.spoil(w)
			found := examine(w.s, w.l, w.lines)
			require.NotEmpty(t, found)
			assert.Contains(t, strings.Join(found, "\n"), c.found)
		})
	}
}

func TestAClientComplainsOfStatesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name  string
		notes []note
		found string
	}{
		{"a paused one that is enabled", []note{
			{Op: opPause, Phase: tried, ID: id(1)}, {Op: opPause, Phase: acked, ID: id(1)}, {Op: opSeen, Phase: acked, ID: id(1), State: recEnabled},
		}, "is enabled: possible was"},
		{"a deleted one that is there", []note{
			{Op: opDelete, Phase: tried, ID: id(1)}, {Op: opDelete, Phase: acked, ID: id(1)}, {Op: opSeen, Phase: acked, ID: id(1), State: recDisabled},
		}, "is disabled: possible was"},
		{"one that ended twice", []note{
			{Op: opLook, Phase: acked, ID: id(1), Saw: &sight{Status: core.StatusCompleted}},
			{Op: opLook, Phase: acked, ID: id(1), Saw: &sight{Status: core.StatusPending}},
		}, "and later as"},
		{"an id that was given out twice", []note{
			{Op: opWebhook, Phase: acked, ID: id(1), Body: "a"}, {Op: opWebhook, Phase: acked, ID: id(1), Body: "b"},
		}, "was given out twice"},
		{"one whose pause was never answered, in both states", []note{
			{Op: opPause, Phase: tried, ID: id(1)},
			{Op: opSeen, Phase: acked, ID: id(1), State: recEnabled}, {Op: opSeen, Phase: acked, ID: id(1), State: recDisabled},
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger()
			for _, n := range c.notes {
				l.write(n)
			}
			if c.found == "" {
				assert.Empty(t, l.plaints)
				return
			}
			require.Len(t, l.plaints, 1)
			assert.Contains(t, l.plaints[0], c.found)
		})
	}
}

func TestALineThatIsNotWholeIsFound(t *testing.T) {
	l := line{action: id(1), cycle: 2, attempt: 3}
	got, err := parseLine(l.text())
	require.NoError(t, err)
	assert.Equal(t, l, got)
	for _, s := range []string{"", "\n", l.text()[:10], strings.TrimSuffix(l.text(), "\n"), l.text() + l.text(), "x/1 1\n"} {
		_, err := parseLine(s)
		assert.Error(t, err, "%q", s)
	}
}
