package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// setOf gives declarations of each kind, whose names end in n; v tells their definitions apart.
func setOf(n, v int) []shell.SetEntry {
	file := fmt.Sprintf("f%d.toml", n)
	r := everyMinute()
	r.Name, r.Description, r.CronExpr = fmt.Sprintf("recurring-%d", n), fmt.Sprintf("version %d", v), fmt.Sprintf("%d * * * *", v)
	r.Calendars = []string{fmt.Sprintf("calendar-%d", n)}
	ns, tenant := r.Namespace, r.Tenant
	queue := fmt.Sprintf("queue-%d", n)
	return []shell.SetEntry{
		{File: file, Recurring: &r},
		{File: file, Job: &core.JobSpec{
			ID: fmt.Sprintf("job-%d", n), Namespace: ns, Tenant: tenant, Name: fmt.Sprintf("version %d", v), Schedule: "0 9 * * *",
			PodSpec: json.RawMessage(`{"containers":[{"name":"c","image":"i"}]}`),
		}},
		{File: file, Subscriber: &shell.SubscriberSpec{Namespace: ns, Tenant: tenant, Subscription: core.Subscription{
			Name: fmt.Sprintf("subscriber-%d", n), Match: core.EventMatch{Category: "action", Action: fmt.Sprintf("v%d", v)},
			Do: core.Reaction{WakeWorker: &core.MachineName{Namespace: ns, Tenant: tenant, Name: fmt.Sprintf("worker-%d", n)}},
		}}},
		{File: file, Worker: &core.WorkerSpec{
			Namespace: ns, Tenant: tenant, Name: fmt.Sprintf("worker-%d", n), Queue: queue, Concurrency: uint32(v + 1),
			Do: core.WorkerDo{Run: &core.ToolRun{Tool: "count", Input: json.RawMessage(`{}`)}},
		}},
		{File: file, Queue: &shell.QueueSpec{Namespace: ns, Tenant: tenant, Name: queue, Config: core.QueueConfig{Concurrency: uint32(v + 1)}}},
		{File: file, Semaphore: &shell.SemaphoreSpec{Namespace: ns, Tenant: tenant, Name: fmt.Sprintf("semaphore-%d", n), Slots: uint32(v + 1)}},
		{File: file, Calendar: &core.CalendarSpec{Namespace: ns, Tenant: tenant, Name: fmt.Sprintf("calendar-%d", n), Description: fmt.Sprintf("version %d", v)}},
	}
}

func actions(r shell.SetResult) (out []shell.SetAction) {
	for _, c := range r.Changes {
		out = append(out, c.Action)
	}
	return out
}

func allOf(a shell.SetAction, n int) []shell.SetAction { return slices.Repeat([]shell.SetAction{a}, n) }

func TestASetIsMadeOnceAndASecondTimeDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		e := running(t, shell.Options{Store: st, Tools: tools(&counting{})})
		dry, err := e.Sets().Apply(bg(), "ours", setOf(1, 1), shell.SetOptions{DryRun: true})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetCreates, 7), actions(dry))
		assert.False(t, dry.Applied)
		owned, _, err := e.Sets().Owned(bg(), "ours", shell.Page{})
		require.NoError(t, err)
		assert.Empty(t, owned, "a dry run makes nothing")

		res, err := e.Sets().Apply(bg(), "ours", setOf(1, 1), shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetCreates, 7), actions(res))
		assert.True(t, res.Applied)
		assert.Len(t, res.Changes[0].After, core.NextTimesShown)
		seq := lastSeq(t, st)

		res, err = e.Sets().Apply(bg(), "ours", setOf(1, 1), shell.SetOptions{Prune: true})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetKeeps, 7), actions(res))
		assert.False(t, res.Changed())
		assert.Equal(t, seq, lastSeq(t, st), "nothing is journaled")

		res, err = e.Sets().Apply(bg(), "ours", setOf(1, 2), shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetUpdates, 7), actions(res))
		assert.Equal(t, []shell.SetField{
			{Field: "cron_expr", Before: json.RawMessage(`"1 * * * *"`), After: json.RawMessage(`"2 * * * *"`)},
			{Field: "description", Before: json.RawMessage(`"version 1"`), After: json.RawMessage(`"version 2"`)},
		}, res.Changes[0].Fields)
		assert.NotEmpty(t, res.Changes[0].Before)
		assert.NotEqual(t, res.Changes[0].Before, res.Changes[0].After)
		owned, _, err = e.Sets().Owned(bg(), "", shell.Page{})
		require.NoError(t, err)
		assert.Len(t, owned, 7)
	})
}

// lastSeq is the number of the last entry of the journal.
func lastSeq(t testing.TB, st store.Store) (seq uint64) {
	t.Helper()
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) (err error) {
		seq, err = tx.Seq()
		return err
	}))
	return seq
}

// pausedByHand stands for whether a schedule is enabled that somebody has paused.
const pausedByHand = "paused by hand"

// definitions are all that there is, without ids and history.
func definitions(t testing.TB, e *shell.Engine) map[string]string {
	t.Helper()
	out := map[string]string{}
	p := shell.Page{Limit: shell.MaxPage}
	recurring, _, err := e.Recurring().List(bg(), shell.RecurringFilter{}, p)
	require.NoError(t, err)
	for _, r := range recurring {
		out["enabled "+r.Name] = fmt.Sprint(r.Enabled)
		if r.PausedByHand() {
			out["enabled "+r.Name] = pausedByHand
		}
		r.ID, r.Enabled = uuid.Max, false // each time another id
		out["recurring "+r.Name] = string(core.Definition(r, nil))
	}
	jobs, _, err := e.Jobs().List(bg(), shell.JobFilter{}, p)
	require.NoError(t, err)
	for _, j := range jobs {
		out["job "+j.ID] = string(core.Definition(j, nil))
	}
	queues, _, err := e.Queues().List(bg(), shell.QueueFilter{}, p)
	require.NoError(t, err)
	for _, q := range queues {
		out["queue "+q.Name] = string(core.Definition(q, nil))
	}
	workers, _, err := e.Workers().List(bg(), shell.MachineFilter{}, p)
	require.NoError(t, err)
	for _, w := range workers {
		if !w.Draining { // as good as gone
			out["worker "+w.Name] = string(core.Definition(w, nil))
		}
	}
	semaphores, _, err := e.Semaphores().List(bg(), shell.MachineFilter{}, p)
	require.NoError(t, err)
	for _, m := range semaphores {
		if m.Configured { // else it is there for as long as it is held
			out["semaphore "+m.Name] = string(core.Definition(m, nil))
		}
	}
	calendars, _, err := e.Calendars().List(bg(), shell.MachineFilter{}, p)
	require.NoError(t, err)
	for _, c := range calendars {
		out["calendar "+c.Name] = string(core.Definition(c, nil))
	}
	buses, _, err := e.Subscribers().List(bg(), p)
	require.NoError(t, err)
	for _, bus := range buses {
		for _, s := range bus.Subscribers {
			out["subscriber "+s.Name] = string(core.Definition(bus, core.BusUnsubscribe{Name: s.Name}))
		}
	}
	owned, _, err := e.Sets().Owned(bg(), "ours", p)
	require.NoError(t, err)
	for _, d := range owned {
		out["owned "+string(d.Kind)+" "+d.Part+" "+nameOf(t, e, d)] = d.File
	}
	return out
}

// nameOf gives the name of what is owned, since the ids of recurring actions differ.
func nameOf(t testing.TB, e *shell.Engine, d core.Declared) string {
	if d.Kind != core.KindRecurring {
		return d.Machine.String()
	}
	r, err := e.Recurring().Get(bg(), d.Machine)
	require.NoError(t, err)
	return r.Name
}

func TestWhatASetOwnsIsChangedByThatSetAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		of := shell.Scope{Namespace: everyMinute().Namespace, Tenant: everyMinute().Tenant}
		_, err := e.Queues().Configure(bg(), of.Namespace, of.Tenant, "queue-1", core.QueueConfig{Concurrency: 2})
		require.NoError(t, err)
		res, err := e.Sets().Apply(bg(), "ours", setOf(1, 1), shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, shell.SetAdopts, res.Changes[4].Action, "the queue was there, as it is declared")

		_, err = e.Queues().Configure(bg(), of.Namespace, of.Tenant, "queue-1", core.QueueConfig{})
		require.ErrorContains(t, err, `the set "ours" declares it, in f1.toml: change it there and apply the set, or take it over`)
		r, err := e.Recurring().Named(bg(), of.Namespace, of.Tenant, "recurring-1")
		require.NoError(t, err)
		require.ErrorContains(t, e.Recurring().Delete(bg(), r.ID), `the set "ours" declares it`)
		_, err = e.Recurring().Trigger(bg(), r.ID)
		require.NoError(t, err, "operations stay")

		_, err = e.Sets().Apply(bg(), "theirs", setOf(1, 2), shell.SetOptions{})
		require.ErrorContains(t, err, `f1.toml: calendar calendar-1: the set "ours" declares it, in f1.toml: take it out there, or let "theirs" take it over`)
		assert.Len(t, ownedBy(t, e, "ours"), 7, "nothing was changed")
	})
}

func ownedBy(t testing.TB, e *shell.Engine, set string) []core.Declared {
	t.Helper()
	owned, _, err := e.Sets().Owned(bg(), set, shell.Page{Limit: shell.MaxPage})
	require.NoError(t, err)
	return owned
}

func TestASetTakesOverWhatItIsToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		_, err := e.Sets().Apply(bg(), "ours", setOf(1, 1), shell.SetOptions{})
		require.NoError(t, err)
		res, err := e.Sets().Apply(bg(), "theirs", setOf(1, 2), shell.SetOptions{TakeOver: true})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetUpdates, 7), actions(res))
		assert.Equal(t, []string{`taken over from the set "ours"`}, res.Changes[0].Notes)
		assert.Empty(t, ownedBy(t, e, "ours"))
		assert.Len(t, ownedBy(t, e, "theirs"), 7)

		of := shell.Scope{Namespace: everyMinute().Namespace, Tenant: everyMinute().Tenant}
		_, err = e.Queues().Configure(shell.WithTakeOver(bg()), of.Namespace, of.Tenant, "queue-1", core.QueueConfig{})
		require.NoError(t, err, "who edits takes it over")
		assert.Len(t, ownedBy(t, e, "theirs"), 6)
		_, err = e.Queues().Configure(bg(), of.Namespace, of.Tenant, "queue-1", core.QueueConfig{Concurrency: 9})
		require.NoError(t, err, "it is nobody's now")
	})
}

func TestPruningTouchesOnlyItsSetAndNeverMostOfItUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		four := slices.Concat(setOf(1, 1), setOf(2, 1), setOf(3, 1), setOf(4, 1))
		_, err := e.Sets().Apply(bg(), "ours", four, shell.SetOptions{})
		require.NoError(t, err)
		_, err = e.Sets().Apply(bg(), "theirs", setOf(5, 1), shell.SetOptions{})
		require.NoError(t, err)

		res, err := e.Sets().Apply(bg(), "ours", four[7:], shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetLeaves, 7), actions(res)[21:], "without prune they stay")
		assert.False(t, res.Changed())
		res, err = e.Sets().Apply(bg(), "ours", four[7:], shell.SetOptions{Prune: true})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetRemoves, 7), actions(res)[21:])
		assert.Len(t, ownedBy(t, e, "ours"), 21)
		assert.Len(t, ownedBy(t, e, "theirs"), 7)

		_, err = e.Sets().Apply(bg(), "ours", nil, shell.SetOptions{Prune: true, Most: true})
		require.ErrorContains(t, err, `prune: the set "ours" declares nothing, and owns 21: an empty folder removes nothing`)
		_, err = e.Sets().Apply(bg(), "ours", four[15:], shell.SetOptions{Prune: true})
		most, _ := errors.AsType[*shell.PrunesMostError](err)
		assert.Equal(t, &shell.PrunesMostError{Set: "ours", Removed: 8, Owned: 21}, most)
		require.ErrorContains(t, err, `prune: 8 of the 21 that the set "ours" owns would be removed, which is more than a third`)
		_, err = e.Sets().Apply(bg(), "ours", four[14:], shell.SetOptions{Prune: true})
		require.NoError(t, err, "a third")
		_, err = e.Sets().Apply(bg(), "ours", four[21:], shell.SetOptions{Prune: true, Most: true, DryRun: true})
		require.NoError(t, err)
		assert.Len(t, ownedBy(t, e, "ours"), 14)

		none := func(shell.Scope) bool { return false }
		res, err = e.Sets().Apply(bg(), "ours", four[21:], shell.SetOptions{Prune: true, Visible: none})
		require.NoError(t, err)
		assert.Len(t, res.Changes, 7, "who does not see it removes nothing")
	})
}

func TestAQueueWithItemsIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		q := func(n int) shell.SetEntry { return setOf(n, 1)[4] }
		_, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{q(1), q(2), q(3)}, shell.SetOptions{})
		require.NoError(t, err)
		_, _, err = e.Queues().Push(bg(), "notifications", "tenant-1", "queue-1", shell.PushOptions{Data: json.RawMessage(`{}`)})
		require.NoError(t, err)
		_, err = e.Sets().Apply(bg(), "ours", []shell.SetEntry{q(2), q(3)}, shell.SetOptions{Prune: true, Most: true})
		var of *shell.SetError
		require.ErrorAs(t, err, &of)
		assert.Equal(t, "queue-1", of.Name)
		assert.ErrorContains(t, err, "f1.toml: queue queue-1")
		assert.Len(t, ownedBy(t, e, "ours"), 3)
	})
}

func TestAPauseByHandOutlivesASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		r := everyMinute()
		r.Name = "nightly"
		apply := func() shell.SetChange {
			t.Helper()
			spec := r
			res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{{File: "a.toml", Recurring: &spec}}, shell.SetOptions{})
			require.NoError(t, err)
			return res.Changes[0]
		}
		get := func() core.RecurringAction {
			t.Helper()
			a, err := e.Recurring().Named(bg(), r.Namespace, r.Tenant, r.Name)
			require.NoError(t, err)
			return a
		}
		apply()
		_, err := e.Recurring().Pause(shell.WithActor(bg(), "ann"), get().ID, "the database moves")
		require.NoError(t, err)
		c := apply()
		assert.Equal(t, shell.SetKeeps, c.Action)
		assert.Equal(t, []string{"it is paused by ann: the database moves, and stays so"}, c.Notes)
		r.CronExpr = "5 * * * *"
		assert.Equal(t, shell.SetUpdates, apply().Action)
		assert.False(t, get().Enabled)
		_, err = e.Recurring().Resume(bg(), get().ID)
		require.NoError(t, err)
		assert.Equal(t, shell.SetKeeps, apply().Action)

		off := false
		_, err = e.Recurring().Update(bg(), get().ID, core.RecurringPatch{Enabled: &off})
		require.ErrorContains(t, err, "to stop it for a while, pause it: that outlives each apply")
		assert.True(t, get().Enabled)

		r.Enabled = false
		assert.Equal(t, shell.SetUpdates, apply().Action)
		assert.False(t, get().Enabled, "its file disables it")
		r.Enabled = true
		assert.Equal(t, shell.SetUpdates, apply().Action)
		assert.True(t, get().Enabled)

		r.MaxExecutions = 1
		apply()
		elapse(2 * time.Hour)
		require.False(t, get().Enabled, "it has ended")
		c = apply()
		assert.Equal(t, shell.SetKeeps, c.Action)
		assert.Equal(t, []string{"it is disabled: the schedule has dispatched 1 time, as many as it may"}, c.Notes)
		r.MaxExecutions = 2
		assert.Equal(t, shell.SetUpdates, apply().Action)
		assert.True(t, get().Enabled, "it has more to do")
	})
}

func TestARecurringActionThatIsRenamedKeepsItsIDAndHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		apply := func(name, was string) (shell.SetChange, error) {
			r := everyMinute()
			r.Name = name
			res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{{File: "a.toml", Recurring: &r, Was: was}}, shell.SetOptions{Prune: true})
			if err != nil {
				return shell.SetChange{}, err
			}
			return res.Changes[0], nil
		}
		made, err := apply("old", "")
		require.NoError(t, err)
		elapse(2 * time.Minute)
		renamed, err := apply("new", "old")
		require.NoError(t, err)
		assert.Equal(t, shell.SetUpdates, renamed.Action)
		assert.Equal(t, made.ID, renamed.ID)
		assert.Equal(t, "old", renamed.Was)
		a, err := e.Recurring().Named(bg(), "notifications", "tenant-1", "new")
		require.NoError(t, err)
		assert.NotZero(t, a.ExecutionCount)
		again, err := apply("new", "old")
		require.NoError(t, err)
		assert.Equal(t, shell.SetKeeps, again.Action, "was may stay in the file")

		other := everyMinute()
		other.Name = "old"
		_, err = e.Recurring().Create(bg(), other)
		require.NoError(t, err)
		_, err = apply("new", "old")
		require.EqualError(t, err, `a.toml: recurring new: was: both "old" and "new" exist: remove one of them, or take out "was"`)
	})
}

func TestAWrongSetIsRefusedWholeAndSaysWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		for _, row := range []struct {
			what string
			set  string
			with func(entries []shell.SetEntry) []shell.SetEntry
			want string
		}{
			{"a set without a name", "", nil, `set: "" is no name: use letters, digits, ".", "_" and "-", at most 128 of them`},
			{"an unknown tool", "ours", func(e []shell.SetEntry) []shell.SetEntry { e[0].Recurring.ActionTemplate.Provider = "nope"; return e }, `f1.toml: recurring recurring-1: provider: "nope" is unknown: use one of count`},
			{"a wrong cron", "ours", func(e []shell.SetEntry) []shell.SetEntry { e[0].Recurring.CronExpr = "61 * * * *"; return e }, "f1.toml: recurring recurring-1: "},
			{"a calendar that nobody declares", "ours", func(e []shell.SetEntry) []shell.SetEntry { return e[:6] }, `calendar "calendar-1"`},
			{"one without a name", "ours", func(e []shell.SetEntry) []shell.SetEntry { e[0].Recurring.Name = ""; return e }, "f1.toml: recurring ?: name: must not be empty"},
			{"one that is declared twice", "ours", func(e []shell.SetEntry) []shell.SetEntry { e[1] = e[0]; return e }, `f1.toml: recurring recurring-1: name: "recurring-1" of notifications/tenant-1 is declared twice, the first time in f1.toml`},
			{"one of two kinds", "ours", func(e []shell.SetEntry) []shell.SetEntry { e[0].Job = e[1].Job; return e }, "a declaration is of one kind, not of 2"},
			{"a queue that is renamed", "ours", func(e []shell.SetEntry) []shell.SetEntry { e[4].Was = "old"; return e }, "f1.toml: queue queue-1: was: a queue cannot be renamed"},
			{"more than there may be", "ours", func(e []shell.SetEntry) []shell.SetEntry { return make([]shell.SetEntry, shell.MaxSetEntries+1) }, "set: 5001 declarations are more than 5000: split it"},
		} {
			entries := setOf(1, 1)
			if row.with != nil {
				entries = row.with(entries)
			}
			_, err := e.Sets().Apply(bg(), row.set, entries, shell.SetOptions{})
			require.ErrorContains(t, err, row.want, row.what)
			assert.Empty(t, definitions(t, e), row.what)
		}
	})
}

func TestTheOrderOfMembersIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		apply := func(set, payload string) shell.SetAction {
			t.Helper()
			r := everyMinute()
			r.Name, r.ActionTemplate.Payload = "nightly", json.RawMessage(payload)
			res, err := e.Sets().Apply(bg(), set, []shell.SetEntry{{File: "a.toml", Recurring: &r}}, shell.SetOptions{TakeOver: true})
			require.NoError(t, err)
			return res.Changes[0].Action
		}
		assert.Equal(t, shell.SetCreates, apply("ours", `{"b":1.10,"a":{"d":[1,2],"c":null}}`))
		assert.Equal(t, shell.SetKeeps, apply("ours", `{"a":{"c":null,"d":[1,2]},"b":1.10}`))
		assert.Equal(t, shell.SetAdopts, apply("theirs", `{"a":{"c":null,"d":[1,2]},"b":1.10}`))
		assert.Equal(t, shell.SetUpdates, apply("theirs", `{"a":{"c":null,"d":[2,1]},"b":1.10}`), "that of a list is")
		assert.Equal(t, shell.SetUpdates, apply("theirs", `{"a":{"d":[2,1]},"b":1.10}`), "and so is a null")
	})
}

// What is carried out is what was planned and checked: if others are quicker, both are done again.
func TestWhatASetComesToIsCheckedAsItIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		all := setOf(1, 1)
		of := shell.Scope{Namespace: everyMinute().Namespace, Tenant: everyMinute().Tenant}
		var planned [][]shell.SetAction
		check := func(quicker func()) func([]shell.SetChange) error {
			planned = nil
			return func(changes []shell.SetChange) error {
				if planned = append(planned, actions(shell.SetResult{Changes: changes})); len(planned) == 1 {
					quicker()
				}
				return nil
			}
		}
		res, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{Check: check(func() {
			_, err := e.Jobs().Apply(bg(), core.JobSpec{
				ID: "job-1", Namespace: of.Namespace, Tenant: of.Tenant, PodSpec: json.RawMessage(`{"containers":[{"name":"other","image":"i"}]}`),
			})
			require.NoError(t, err)
		})})
		require.NoError(t, err)
		require.Len(t, planned, 2)
		assert.Equal(t, shell.SetCreates, planned[0][1])
		assert.Equal(t, shell.SetUpdates, planned[1][1])
		assert.Equal(t, planned[1], actions(res))

		res, err = e.Sets().Apply(bg(), "ours", setOf(1, 2), shell.SetOptions{Check: check(func() {
			_, err := e.Subscribers().Send(shell.WithTakeOver(bg()), shell.Scope{Namespace: "notifications", Tenant: "tenant-1"}, core.BusUnsubscribe{Name: "subscriber-1"})
			require.NoError(t, err)
		})})
		require.NoError(t, err)
		require.Len(t, planned, 2)
		assert.Equal(t, shell.SetUpdates, planned[0][2])
		assert.Equal(t, shell.SetCreates, actions(res)[2])

		owns := func() int {
			owned, _, err := e.Sets().Owned(bg(), "ours", shell.Page{Limit: shell.MaxPage})
			require.NoError(t, err)
			return len(owned)
		}
		_, err = e.Sets().Apply(bg(), "ours", setOf(2, 1), shell.SetOptions{Check: func([]shell.SetChange) error { return errors.New("too many") }})
		require.EqualError(t, err, "too many")
		assert.Equal(t, 7, owns(), "nothing was made")
	})
}

func TestSetsThatAreAppliedAtOnceAreEachMadeWhole(t *testing.T) {
	e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
	var wait sync.WaitGroup
	for v := range 8 {
		wait.Go(func() {
			if _, err := e.Sets().Apply(context.Background(), "ours", setOf(1, v), shell.SetOptions{}); err != nil {
				t.Errorf("version %d: %s", v, err)
			}
		})
	}
	wait.Wait()
	var last []map[string]string
	is := definitions(t, e)
	for v := range 8 {
		e2, stop := start(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		_, err := e2.Sets().Apply(bg(), "ours", setOf(1, v), shell.SetOptions{})
		require.NoError(t, err)
		last = append(last, definitions(t, e2))
		require.NoError(t, stop())
	}
	assert.Contains(t, last, is, "it is one of them, not a part of two")
}

func TestWhoSeesOneTenantReadsNothingOfWhatSetsOfThatNameOwnOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		queue := func(tenant, name string) shell.SetEntry {
			return shell.SetEntry{Queue: &shell.QueueSpec{Namespace: "n", Tenant: tenant, Name: name}}
		}
		_, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{queue("a", "one"), queue("a", "two"), queue("b", "one")}, shell.SetOptions{})
		require.NoError(t, err)
		asked := map[string]int{}
		visible := func(of shell.Scope) bool {
			asked[of.Tenant]++
			return true
		}
		res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{queue("a", "one")}, shell.SetOptions{Prune: true, Most: true, Within: &shell.Scope{Namespace: "n", Tenant: "a"}, Visible: visible})
		require.NoError(t, err)
		assert.Equal(t, []shell.SetAction{shell.SetKeeps, shell.SetRemoves}, actions(res))
		assert.Equal(t, map[string]int{"a": 2}, asked)
	})
}
