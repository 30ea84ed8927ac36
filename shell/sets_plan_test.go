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
