package shell_test

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// recurringEntry gives a recurring action as a set declares it.
func recurringEntry(name string, with func(*core.RecurringSpec)) shell.SetEntry {
	r := everyMinute()
	if r.Name = name; with != nil {
		with(&r)
	}
	return shell.SetEntry{File: "a.toml", Recurring: &r}
}

func TestAScheduleThatHasEndedIsNotMadeAndRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		past := effects.TimeOf(time.Now().Add(-time.Hour))
		job := setOf(1, 1)[1]
		job.Job.EndsAt = past
		entries := []shell.SetEntry{recurringEntry("over", func(r *core.RecurringSpec) { r.EndsAt = past }), recurringEntry("on", nil), job}
		want := []shell.SetAction{shell.SetKeeps, shell.SetCreates, shell.SetKeeps}
		note := []string{"it has ended: ends_at " + past.String() + " is past, so it is not made"}

		checked, err := shell.CheckSet(entries, effects.TimeOf(time.Now()))
		require.NoError(t, err)
		assert.Equal(t, want, actions(shell.SetResult{Changes: checked}))
		res, err := e.Sets().Apply(bg(), "ours", entries, shell.SetOptions{Prune: true})
		require.NoError(t, err)
		assert.Equal(t, want, actions(res))
		assert.Equal(t, note, res.Changes[0].Notes)
		assert.Equal(t, note, res.Changes[2].Notes)
		assert.Len(t, ownedBy(t, e, "ours"), 1)

		soon := func(r *core.RecurringSpec) { r.EndsAt = effects.TimeOf(time.Now().Add(90 * time.Second)) }
		ends := recurringEntry("ends", soon)
		_, err = e.Sets().Apply(bg(), "ours", []shell.SetEntry{ends}, shell.SetOptions{})
		require.NoError(t, err)
		elapse(time.Hour)
		res, err = e.Sets().Apply(bg(), "ours", []shell.SetEntry{ends}, shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, shell.SetKeeps, res.Changes[0].Action, "what has ended since stays as it is")
		assert.Len(t, ownedBy(t, e, "ours"), 2)
	})
}

func TestWhatDeclarationsNameOutsideOfTheFilesIsTakenForThereWithoutAnEngine(t *testing.T) {
	entries := setOf(1, 1)[:4] // without the calendar and the queue that they name
	changes, err := shell.CheckSet(entries, effects.TimeOf(time.Now()))
	require.NoError(t, err)
	assert.Equal(t, []string{`calendar "calendar-1" is in none of these files: the daemon must have it`}, changes[0].Notes)
	assert.Equal(t, []string{`queue "queue-1" is in none of these files: the daemon must have it`}, changes[3].Notes)

	changes, err = shell.CheckSet(setOf(1, 1), effects.TimeOf(time.Now()))
	require.NoError(t, err)
	for _, c := range changes {
		assert.Empty(t, c.Notes, c.Name)
	}
	_, err = shell.CheckSet(make([]shell.SetEntry, shell.MaxSetEntries+1), 0)
	require.EqualError(t, err, "set: 5001 declarations are more than 5000: split it")
}

func TestAllThatIsRefusedOfASetIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		all := []shell.SetEntry{
			recurringEntry("cron", func(r *core.RecurringSpec) { r.CronExpr = "61 * * * *" }),
			recurringEntry("fine", nil),
			recurringEntry("tool", func(r *core.RecurringSpec) { r.ActionTemplate.Provider = "nope" }),
			recurringEntry("days", func(r *core.RecurringSpec) { r.Calendars = []string{"holidays"} }),
		}
		_, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{})
		var errs shell.SetErrors
		require.ErrorAs(t, err, &errs)
		require.Len(t, errs, 3)
		assert.ErrorContains(t, errs[0], "a.toml: recurring cron: cron_expr: ")
		assert.ErrorContains(t, errs[1], `a.toml: recurring tool: provider: "nope" is unknown`)
		assert.EqualError(t, errs[2], `a.toml: recurring days: calendars[0]: the tenant has no calendar "holidays": create it first`)

		res, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{DryRun: true})
		require.NoError(t, err, "a dry run lists them")
		assert.Equal(t, []shell.SetAction{shell.SetRefuses, shell.SetCreates, shell.SetRefuses, shell.SetRefuses}, actions(res))
		assert.Equal(t, []string{`calendars[0]: the tenant has no calendar "holidays": create it first`}, res.Changes[3].Notes)
		assert.Equal(t, errs.Error(), res.Refused)

		changes, err := shell.CheckSet(append(all, all[1]), effects.TimeOf(time.Now()))
		require.ErrorAs(t, err, &errs)
		require.Len(t, errs, 2)
		assert.ErrorContains(t, errs[1], "is declared twice")
		assert.Equal(t, []shell.SetAction{shell.SetRefuses, shell.SetCreates, shell.SetCreates, shell.SetCreates, shell.SetRefuses}, actions(shell.SetResult{Changes: changes}))
	})
}

func TestADryRunListsWhatTheRealOneWouldBeRefusedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		dry := func(set string, entries []shell.SetEntry, o shell.SetOptions) shell.SetResult {
			t.Helper()
			o.DryRun = true
			res, err := e.Sets().Apply(bg(), set, entries, o)
			require.NoError(t, err)
			_, err = e.Sets().Apply(bg(), set, entries, shell.SetOptions{Prune: o.Prune, Most: o.Most})
			require.EqualError(t, err, res.Refused, "the real one says the same")
			return res
		}
		q := func(n int) shell.SetEntry { return setOf(n, 1)[4] }
		three := []shell.SetEntry{q(1), q(2), q(3)}
		_, err := e.Sets().Apply(bg(), "ours", three, shell.SetOptions{})
		require.NoError(t, err)

		res := dry("ours", three[:1], shell.SetOptions{Prune: true})
		assert.Equal(t, []shell.SetAction{shell.SetKeeps, shell.SetRemoves, shell.SetRemoves}, actions(res))
		assert.Contains(t, res.Refused, "which is more than a third")
		res = dry("ours", nil, shell.SetOptions{Prune: true, Most: true})
		assert.Equal(t, allOf(shell.SetRemoves, 3), actions(res))
		assert.Contains(t, res.Refused, "an empty folder removes nothing")
		res = dry("theirs", slices.Concat(three[:1], []shell.SetEntry{q(4)}), shell.SetOptions{})
		assert.Equal(t, []shell.SetAction{shell.SetRefuses, shell.SetCreates}, actions(res))

		_, _, err = e.Queues().Push(bg(), "notifications", "tenant-1", "queue-1", shell.PushOptions{Data: json.RawMessage(`{}`)})
		require.NoError(t, err)
		res = dry("ours", three[2:], shell.SetOptions{Prune: true, Most: true})
		assert.ElementsMatch(t, []shell.SetAction{shell.SetKeeps, shell.SetRefuses, shell.SetRemoves}, actions(res))
		assert.Contains(t, res.Refused, "f1.toml: queue queue-1: ")
		assert.True(t, res.Changed(), "the other one would be removed")
		assert.Len(t, ownedBy(t, e, "ours"), 3)

		res = dry("ours", nil, shell.SetOptions{Prune: true, Most: true})
		assert.ElementsMatch(t, []shell.SetAction{shell.SetRefuses, shell.SetRemoves, shell.SetRemoves}, actions(res))
		assert.Contains(t, res.Refused, "an empty folder removes nothing", "and not: purge the queue first")
		res = dry("ours", three[2:], shell.SetOptions{Prune: true})
		assert.Contains(t, res.Refused, "which is more than a third")
	})
}

func TestAFormerNameThatNothingHasIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		entry := recurringEntry("new", nil)
		entry.Was = "odl"
		apply := func() shell.SetChange {
			res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{entry}, shell.SetOptions{})
			require.NoError(t, err)
			return res.Changes[0]
		}
		assert.Equal(t, []string{`was: there is no recurring action "odl" in notifications/tenant-1, so this is a new one`}, apply().Notes)
		assert.Empty(t, apply().Notes, "was may stay in the file")
	})
}

func TestAWorkerWithoutItsQueueIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		all := setOf(1, 1)
		res, err := e.Sets().Apply(bg(), "ours", all[3:4], shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, []string{`there is no queue "queue-1" in notifications/tenant-1: the worker gets no items until there is one`}, res.Changes[0].Notes)
		res, err = e.Sets().Apply(bg(), "ours", all[3:5], shell.SetOptions{})
		require.NoError(t, err)
		assert.Empty(t, res.Changes[0].Notes)
	})
}

// aWorkerAtWork gives an engine with the set "ours", whose worker has an item in hand until the gate is opened.
func aWorkerAtWork(t *testing.T) (e *shell.Engine, all []shell.SetEntry, busy *gate) {
	t.Helper()
	busy = newGate()
	e = running(t, shell.Options{Store: inMemory(t), Tools: tools(busy)})
	all = setOf(1, 1)
	_, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{})
	require.NoError(t, err)
	_, _, err = e.Queues().Push(bg(), "notifications", "tenant-1", "queue-1", shell.PushOptions{Data: json.RawMessage(`{}`)})
	require.NoError(t, err)
	_, err = e.Workers().Send(bg(), shell.Scope{Namespace: "notifications", Tenant: "tenant-1"}, "worker-1", core.WorkerWake{})
	require.NoError(t, err)
	synctest.Wait()
	require.Len(t, workerOne(t, e).Running, 1)
	return e, all, busy
}

func workerOne(t *testing.T, e *shell.Engine) core.Worker {
	t.Helper()
	w, err := e.Workers().Get(bg(), shell.Scope{Namespace: "notifications", Tenant: "tenant-1"}, "worker-1")
	require.NoError(t, err)
	return w
}

func TestAWorkerThatDrainsIsNotRemovedTwiceAndRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, all, busy := aWorkerAtWork(t)
		without := slices.Concat(all[:2], all[4:]) // nor the subscriber that wakes it
		prune := shell.SetOptions{Prune: true}
		res, err := e.Sets().Apply(bg(), "ours", without, prune)
		require.NoError(t, err)
		var removed shell.SetChange
		for _, c := range res.Changes {
			if c.Kind == "worker" {
				removed = c
			}
		}
		assert.Equal(t, shell.SetRemoves, removed.Action)
		assert.Equal(t, []string{"it takes no more items, and goes when those that it has in hand (1) have ended"}, removed.Notes)
		require.True(t, workerOne(t, e).Draining)
		assert.Len(t, ownedBy(t, e, "ours"), 5)

		for _, dry := range []bool{true, false} {
			prune.DryRun = dry
			res, err = e.Sets().Apply(bg(), "ours", without, prune)
			require.NoError(t, err)
			assert.Empty(t, res.Refused)
			assert.False(t, res.Changed(), "it is removed already")
		}
		busy.open()
		synctest.Wait()
		_, err = e.Workers().Get(bg(), shell.Scope{Namespace: "notifications", Tenant: "tenant-1"}, "worker-1")
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

func TestAWorkerThatDrainsAndIsDeclaredAgainStays(t *testing.T) {
	for _, set := range []string{"ours", "theirs"} {
		synctest.Test(t, func(t *testing.T) {
			e, all, busy := aWorkerAtWork(t)
			_, err := e.Sets().Apply(bg(), "ours", slices.Concat(all[:2], all[4:]), shell.SetOptions{Prune: true})
			require.NoError(t, err)
			require.True(t, workerOne(t, e).Draining)

			again := all[3:4]
			if set == "ours" {
				again = all
			}
			res, err := e.Sets().Apply(bg(), set, again, shell.SetOptions{})
			require.NoError(t, err)
			for _, c := range res.Changes {
				if c.Kind == "worker" {
					assert.Equal(t, shell.SetCreates, c.Action)
					assert.Equal(t, []string{"it was deleted, and drains: it stays"}, c.Notes)
				}
			}
			assert.False(t, workerOne(t, e).Draining)
			busy.open()
			elapse(time.Second)
			w := workerOne(t, e)
			assert.EqualValues(t, 1, w.Completed, "what it had in hand has ended")
			assert.Equal(t, "idle", w.Status())
			res, err = e.Sets().Apply(bg(), set, again, shell.SetOptions{})
			require.NoError(t, err)
			assert.False(t, res.Changed())
		})
	}
}

func TestTimesThatACalendarMovesAreSaidAsTheyWereAndAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		day := func(name string) core.CalendarDays {
			return core.CalendarDays{Dates: []core.CalendarDate{{Date: name}}}
		}
		entries := func(cron string, out core.CalendarDays) []shell.SetEntry {
			job := setOf(1, 1)[1]
			job.Job.Calendars = []string{"holidays"}
			calendar := core.CalendarSpec{Namespace: "notifications", Tenant: "tenant-1", Name: "holidays", Exclude: out}
			return []shell.SetEntry{
				recurringEntry("same", func(r *core.RecurringSpec) { r.CronExpr, r.Calendars = "0 9 * * *", []string{"holidays"} }),
				recurringEntry("other", func(r *core.RecurringSpec) { r.CronExpr, r.Calendars = cron, []string{"holidays"} }),
				recurringEntry("alone", nil),
				job,
				{File: "days.toml", Calendar: &calendar},
			}
		}
		at := func(day, hour int) core.Time { return effects.TimeOf(time.Date(2000, 1, day, hour, 0, 0, 0, time.UTC)) }
		require.Equal(t, at(1, 0), effects.TimeOf(time.Now()), "when a bubble begins")
		_, err := e.Sets().Apply(bg(), "ours", entries("0 9 * * *", day("2000-01-02")), shell.SetOptions{})
		require.NoError(t, err)
		res, err := e.Sets().Apply(bg(), "ours", entries("0 10 * * *", day("2000-01-03")), shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, []shell.SetAction{shell.SetKeeps, shell.SetUpdates, shell.SetKeeps, shell.SetKeeps, shell.SetUpdates}, actions(res))
		was := []core.Time{at(1, 9), at(3, 9), at(4, 9), at(5, 9), at(6, 9)}
		for i, hour := range map[int]int{0: 9, 1: 10, 3: 9} { // order-free: each by itself
			c := res.Changes[i]
			assert.Equal(t, was, c.Before, c.Name)
			assert.Equal(t, []core.Time{at(1, hour), at(2, hour), at(4, hour), at(5, hour), at(6, hour)}, c.After, c.Name)
		}
		for _, i := range []int{0, 3} {
			assert.Equal(t, []string{"a calendar that it names changes its times"}, res.Changes[i].Notes)
		}
		assert.Empty(t, res.Changes[2].Notes)
		assert.Empty(t, res.Changes[2].After)

		res, err = e.Sets().Apply(bg(), "ours", entries("0 10 * * *", day("2000-06-03")), shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, at(3, 9), res.Changes[0].After[2])
		res, err = e.Sets().Apply(bg(), "ours", entries("0 10 * * *", day("2000-07-03")), shell.SetOptions{})
		require.NoError(t, err)
		assert.Empty(t, res.Changes[0].Notes, "the next times are the same")
	})
}

func TestWhatDeclarationsNameAndNothingHasIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		all := setOf(1, 1)
		run := func(tool string) *core.ToolRun { return &core.ToolRun{Tool: tool, Input: json.RawMessage(`{}`)} }
		worker := *all[3].Worker
		worker.Name, worker.Queue = "piped", "queue-1"
		worker.Do = core.WorkerDo{Pipeline: &core.PipelineDef{Name: "p", Phases: []core.PhaseDef{
			{Name: "a", Run: run("nope")}, {Name: "b", Run: run("count")}, {Name: "c", Run: run("${item.data}")}, {Name: "d", Run: run("nope")},
			{Name: "e", Strategy: &core.StrategyPhase{Approaches: []core.Approach{{Name: "x", Action: core.ApproachAction{Command: run("neither")}}}}},
		}}}
		pushes := core.Subscription{Name: "pushes", Match: core.EventMatch{Category: "action"}, Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: "inbox"}}}} // of its own tenant
		dead := shell.SetEntry{File: "f1.toml", Queue: &shell.QueueSpec{Namespace: "notifications", Tenant: "tenant-1", Name: "dead"}}
		all[4].Queue.Config.DeadLetterQueue = "dead"
		all[3].Worker.Do = core.WorkerDo{Run: run("nope")}
		some := []shell.SetEntry{all[2], all[4], {File: "f1.toml", Worker: &worker}, {File: "f1.toml", Subscriber: &shell.SubscriberSpec{Namespace: "notifications", Tenant: "tenant-1", Subscription: pushes}}}
		notes := func(entries []shell.SetEntry, o shell.SetOptions) (out [][]string) {
			t.Helper()
			res, err := e.Sets().Apply(bg(), "ours", entries, o)
			require.NoError(t, err)
			for _, c := range res.Changes[:len(entries)] {
				out = append(out, c.Notes)
			}
			return out
		}
		assert.Equal(t, [][]string{
			{`do.wake_worker: there is no worker "worker-1" in notifications/tenant-1: nothing is woken until there is one`},
			{`dead_letter_queue: there is no queue "dead" in notifications/tenant-1: the first dead item makes one, as if nothing had been said of it`},
			{`do: the daemon has no tool "neither": what needs it fails until it has`, `do: the daemon has no tool "nope": what needs it fails until it has`},
			{`do.push: there is no queue "inbox" in notifications/tenant-1: the first event makes one, as if nothing had been said of it`},
		}, notes(some, shell.SetOptions{}))
		checked, err := shell.CheckSet(some, effects.TimeOf(time.Now()))
		require.NoError(t, err)
		assert.Equal(t, []string{`do.wake_worker: worker "worker-1" is in none of these files: the daemon must have it`}, checked[0].Notes)
		assert.Equal(t, []string{`dead_letter_queue: queue "dead" is in none of these files: the daemon must have it`}, checked[1].Notes)
		assert.Empty(t, checked[2].Notes, "which tools there are only a daemon knows")
		nowhere := core.Subscription{Name: "nowhere", Match: core.EventMatch{Category: "action"}, Do: core.Reaction{WakeWorker: &core.MachineName{Name: "worker-1"}}}
		checked, err = shell.CheckSet([]shell.SetEntry{all[3], {File: "f1.toml", Subscriber: &shell.SubscriberSpec{Subscription: nowhere}}}, effects.TimeOf(time.Now()))
		require.NoError(t, err)
		assert.Equal(t, []string{`do.wake_worker: there is no worker "worker-1" without a tenant: give its namespace and tenant`}, checked[1].Notes, "none of default/default is meant")

		with := []shell.SetEntry{all[2], all[4], all[3], dead}
		assert.Equal(t, [][]string{nil, nil, {`do: the daemon has no tool "nope": what needs it fails until it has`}, nil}, notes(with, shell.SetOptions{Prune: true, Most: true}))
		assert.Equal(t, `dead_letter_queue: there is no queue "dead" in notifications/tenant-1: the first dead item makes one, as if nothing had been said of it`,
			notes(with[:3], shell.SetOptions{Prune: true})[1][0], "it is about to be removed")
	})
}

func TestACalendarThatOthersNameIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		all := setOf(1, 1)
		_, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{})
		require.NoError(t, err)
		other := everyMinute()
		other.Calendars = []string{"calendar-1"}
		made, err := e.Recurring().Create(bg(), other)
		require.NoError(t, err)
		without := all[1:6]
		_, err = e.Sets().Apply(bg(), "ours", without, shell.SetOptions{Prune: true})
		require.EqualError(t, err, "f1.toml: calendar calendar-1: schedules that stay (1) name it: take it out of them first, or declare it until then")
		require.NoError(t, e.Recurring().Delete(bg(), made.ID))
		res, err := e.Sets().Apply(bg(), "ours", without, shell.SetOptions{Prune: true})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetRemoves, 2), actions(res)[5:], "with the schedule of its own set it goes")
	})
}

func TestWhatASetDeclaresHasANameThatCanBeTyped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		odd := func(name string) []shell.SetEntry {
			all := setOf(1, 1)
			all[0].Recurring.Calendars, all[0].Recurring.Name = nil, name
			all[2].Subscriber.Name, all[3].Worker.Name, all[4].Queue.Name, all[5].Semaphore.Name, all[6].Calendar.Name = name, name, name, name, name
			return slices.Concat(all[:1], all[2:])
		}
		for _, name := range []string{"a b", "-a", "ä", ".a", "01890a5d-ac96-774b-bcce-b302099a8057"} {
			_, err := e.Sets().Apply(bg(), "ours", odd(name), shell.SetOptions{DryRun: true})
			var errs shell.SetErrors
			require.ErrorAs(t, err, &errs, name)
			require.Len(t, errs, 5, "of a recurring action the core says more, once all else is right")
			for _, err := range errs {
				assert.EqualError(t, err.Err, `name: "`+name+`" is no name: use letters, digits, ".", "_" and "-", begin with a letter or a digit, and use at most 128 of them`)
			}
			_, err = shell.CheckSet(odd(name), effects.TimeOf(time.Now()))
			require.ErrorAs(t, err, &errs, name)
			assert.Len(t, errs, 6)
		}
		all := setOf(1, 1)
		all[2].Subscriber.Name = "release flow/worker-1/wake/1"
		_, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{})
		require.NoError(t, err, "so are those of runbooks called")
	})
}
