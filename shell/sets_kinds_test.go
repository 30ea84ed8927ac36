package shell_test

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
)

// inTenant gives declarations of each kind of a tenant, but for the subscriber, which is of none.
func inTenant(tenant string) []shell.SetEntry {
	all := setOf(1, 1)
	all[0].Recurring.Tenant, all[1].Job.Tenant, all[3].Worker.Tenant = tenant, tenant, tenant
	all[4].Queue.Tenant, all[5].Semaphore.Tenant, all[6].Calendar.Tenant = tenant, tenant, tenant
	return append(all[:2:2], all[3:]...)
}

func TestTheSameNamesInTwoTenantsAreTwoThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		res, err := e.Sets().Apply(bg(), "ours", append(inTenant("a"), inTenant("b")...), shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetCreates, 12), actions(res))
		for i, c := range res.Changes {
			assert.Equal(t, "notifications", c.Namespace, c.Kind)
			assert.Equal(t, []string{"a", "b"}[i/6], c.Tenant, c.Kind)
			assert.False(t, c.Ref.IsZero())
			assert.Equal(t, c.Ref.ID, c.ID, c.Kind)
			assert.Equal(t, "f1.toml", c.File)
		}
		assert.Equal(t, "ours", res.Set)
		assert.Len(t, ownedBy(t, e, "ours"), 12)
		assert.Empty(t, ownedBy(t, e, "other"))

		res, err = e.Sets().Apply(bg(), "ours", inTenant("b"), shell.SetOptions{Prune: true, Most: true, Visible: func(of shell.Scope) bool { return of.Tenant == "b" }})
		require.NoError(t, err)
		assert.Len(t, res.Changes, 6)
		few := inTenant("b")
		few = append(few[:4:4], few[5])
		res, err = e.Sets().Apply(bg(), "ours", few, shell.SetOptions{Prune: true, DryRun: true, Visible: func(of shell.Scope) bool { return of.Tenant == "b" }})
		require.NoError(t, err)
		require.Len(t, res.Changes, 6)
		assert.Equal(t, shell.SetRemoves, res.Changes[5].Action, "what the caller sees")
		assert.Equal(t, "b semaphore-1", res.Changes[5].Tenant+" "+res.Changes[5].Name)
		res, err = e.Sets().Apply(bg(), "ours", inTenant("b"), shell.SetOptions{Prune: true, Most: true})
		require.NoError(t, err)
		var removed []string
		for _, c := range res.Changes[6:] {
			assert.Equal(t, shell.SetRemoves, c.Action)
			assert.Equal(t, "notifications/a", c.Namespace+"/"+c.Tenant)
			assert.Equal(t, c.Ref.ID, c.ID)
			assert.Equal(t, "f1.toml", c.File)
			removed = append(removed, c.Kind+" "+c.Name)
		}
		assert.Equal(t, []string{"recurring recurring-1", "job job-1", "worker worker-1", "semaphore semaphore-1", "queue queue-1", "calendar calendar-1"}, removed)
	})
}

// What is removed at once is removed in the order of tenants, and of names.
func TestWhatIsRemovedIsToldInTheOrderOfTenantsAndNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		q := func(tenant, name string) shell.SetEntry {
			return shell.SetEntry{File: "a.toml", Queue: &shell.QueueSpec{Namespace: "n", Tenant: tenant, Name: name}}
		}
		all := []shell.SetEntry{q("b", "x"), q("a", "z"), q("a", "y"), q("b", "w"), q("c", "stays")}
		_, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{})
		require.NoError(t, err)
		res, err := e.Sets().Apply(bg(), "ours", all[4:], shell.SetOptions{Prune: true, Most: true})
		require.NoError(t, err)
		var removed []string
		for _, c := range res.Changes[1:] {
			removed = append(removed, c.Tenant+"/"+c.Name)
		}
		assert.Equal(t, []string{"a/y", "a/z", "b/w", "b/x"}, removed)
	})
}

func TestWhatIsPausedStaysSoAndIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		of := shell.Scope{Namespace: "notifications", Tenant: "tenant-1"}
		notes := func(v int) (said []string) {
			res, err := e.Sets().Apply(bg(), "ours", setOf(1, v), shell.SetOptions{})
			require.NoError(t, err)
			for _, c := range res.Changes {
				for _, note := range c.Notes {
					said = append(said, c.Kind+": "+note)
				}
			}
			return said
		}
		assert.Empty(t, notes(1))
		assert.Empty(t, notes(2), "nothing is paused")
		_, err := e.Jobs().Pause(bg(), of, "job-1", shell.PauseOptions{By: "ann"})
		require.NoError(t, err)
		queue := core.QueueRef(of.Namespace, of.Tenant, "queue-1")
		_, err = e.Queues().Pause(bg(), queue, "ann", "")
		require.NoError(t, err)
		_, err = e.Workers().Send(bg(), of, "worker-1", core.WorkerPause{})
		require.NoError(t, err)
		want := []string{"job: it is paused, and stays so", "worker: it is paused, and stays so", "queue: it is paused, and stays so"}
		assert.Equal(t, want, notes(2))
		assert.Equal(t, want, notes(1))
		j, err := e.Jobs().Get(bg(), of, "job-1")
		require.NoError(t, err)
		assert.True(t, j.Paused)
		q, err := e.Queues().Get(bg(), of.Namespace, of.Tenant, "queue-1")
		require.NoError(t, err)
		assert.True(t, q.Paused)
		w, err := e.Workers().Get(bg(), of, "worker-1")
		require.NoError(t, err)
		assert.True(t, w.Paused)
	})
}

func TestADeclarationThatMovesToAnotherFileBelongsToThatFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		all := setOf(1, 1)
		_, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{})
		require.NoError(t, err)
		for i := range all {
			all[i].File = "moved.toml"
		}
		res, err := e.Sets().Apply(bg(), "ours", all, shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, allOf(shell.SetKeeps, 7), actions(res), "what it says is as it was")
		for _, d := range ownedBy(t, e, "ours") {
			assert.Equal(t, "moved.toml", d.File, d.Name)
		}
	})
}

func TestACalendarIsChangedInAllThatItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		apply := func(spec core.CalendarSpec) shell.SetChange {
			t.Helper()
			spec.Namespace, spec.Tenant, spec.Name = "n", "t", "office"
			res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{{File: "a.toml", Calendar: &spec}}, shell.SetOptions{})
			require.NoError(t, err)
			return res.Changes[0]
		}
		days := core.CalendarDays{Dates: []core.CalendarDate{{Date: "2026-12-25"}}}
		assert.Equal(t, shell.SetCreates, apply(core.CalendarSpec{}).Action)
		for _, row := range []struct {
			field string
			spec  core.CalendarSpec
		}{
			{"timezone", core.CalendarSpec{Timezone: "Europe/Berlin"}},
			{"exclude", core.CalendarSpec{Timezone: "Europe/Berlin", Exclude: days}},
			{"include", core.CalendarSpec{Timezone: "Europe/Berlin", Exclude: days, Include: days}},
			{"description", core.CalendarSpec{Timezone: "Europe/Berlin", Exclude: days, Include: days, Description: "of the office"}},
		} {
			c := apply(row.spec)
			require.Len(t, c.Fields, 1, row.field)
			assert.Contains(t, c.Fields[0].Field, row.field)
			assert.Equal(t, shell.SetKeeps, apply(row.spec).Action, row.field)
		}
		assert.Len(t, apply(core.CalendarSpec{}).Fields, 4, "what it says no more is gone")
	})
}

func TestTheFieldsOfAChangeAreThoseThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		for _, row := range []struct{ payload, want string }{
			{`{}`, `[]`},
			{`{"l":[{"a":1,"b":2}],"x":{}}`, `[{"field":"action_template.payload.l","after":[{"a":1,"b":2}]},{"field":"action_template.payload.x","after":{}}]`},
			{`{"l":[{"b":2,"a":1}],"x":{"y":{"z":1}}}`, `[{"field":"action_template.payload.x.y.z","after":1}]`},
			{`{"l":[{"b":2,"a":1}],"x":{"y":{}}}`, `[{"field":"action_template.payload.x.y.z","before":1}]`},
			{`{"l":[{"b":2,"a":1}],"x":{}}`, `[{"field":"action_template.payload.x.y","before":{}}]`},
			{`{"l":[{"b":2,"a":1.0}],"x":2,"xy":{"a":{}}}`, `[{"field":"action_template.payload.l","before":[{"b":2,"a":1}],"after":[{"b":2,"a":1.0}]},{"field":"action_template.payload.x","before":{},"after":2},{"field":"action_template.payload.xy.a","after":{}}]`},
			{`{"l":[{"b":2,"a":1.0}],"x":{"a":1},"xy":{"a":{}}}`, `[{"field":"action_template.payload.x","before":2},{"field":"action_template.payload.x.a","after":1}]`},
		} {
			entry := recurringEntry("a", func(r *core.RecurringSpec) { r.ActionTemplate.Payload = json.RawMessage(row.payload) })
			res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{entry}, shell.SetOptions{})
			require.NoError(t, err)
			got, err := json.Marshal(append([]shell.SetField{}, res.Changes[0].Fields...))
			require.NoError(t, err)
			assert.Equal(t, row.want, string(got), row.payload)
			if res.Changes[0].Action == shell.SetUpdates {
				assert.Empty(t, res.Changes[0].Before, "its times are as they were")
				assert.Empty(t, res.Changes[0].After)
			}
		}
	})
}

func TestWhatAScheduleGetsIsSaidBeforeItIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		off := recurringEntry("off", func(r *core.RecurringSpec) { r.Enabled = false })
		res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{off}, shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, []string{"it is disabled"}, res.Changes[0].Notes)
		res, err = e.Sets().Apply(bg(), "ours", []shell.SetEntry{off}, shell.SetOptions{})
		require.NoError(t, err)
		assert.Empty(t, res.Changes[0].Notes, "its file says so")
		assert.Equal(t, shell.SetKeeps, res.Changes[0].Action)

		past := recurringEntry("off", func(r *core.RecurringSpec) { r.EndsAt = effects.TimeOf(time.Now().Add(-time.Minute)) })
		_, err = e.Sets().Apply(bg(), "ours", []shell.SetEntry{past}, shell.SetOptions{})
		require.EqualError(t, err, "a.toml: recurring off: ends_at: "+past.Recurring.EndsAt.String()+" is not in the future; it is "+effects.TimeOf(time.Now()).String())

		job := setOf(1, 1)[1]
		job.Job.Schedule, job.Job.EndsAt = "", 0
		res, err = e.Sets().Apply(bg(), "ours", []shell.SetEntry{job}, shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, shell.SetCreates, res.Changes[0].Action)
		assert.Empty(t, res.Changes[0].After)
	})
}

func TestTheCallerKeepsWhatItDeclares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		entry := recurringEntry("a", func(r *core.RecurringSpec) {
			r.Labels, r.Calendars = map[string]string{"team": "db"}, []string{"office"}
		})
		office := shell.SetEntry{File: "a.toml", Calendar: &core.CalendarSpec{Namespace: entry.Recurring.Namespace, Tenant: entry.Recurring.Tenant, Name: "office"}}
		entries := []shell.SetEntry{entry, office}
		given := *entry.Recurring
		labels, meta := maps.Clone(given.Labels), maps.Clone(given.ActionTemplate.Metadata)
		_, err := e.Sets().Apply(bg(), "ours", entries, shell.SetOptions{})
		require.NoError(t, err)
		assert.Same(t, entry.Recurring, entries[0].Recurring)
		assert.Equal(t, given, *entry.Recurring)
		entry.Recurring.Labels["team"], entry.Recurring.ActionTemplate.Metadata["team"] = "changed", "changed"
		entry.Recurring.Calendars[0] = "changed"
		copy(entry.Recurring.ActionTemplate.Payload, "changed")
		r, err := e.Recurring().Named(bg(), given.Namespace, given.Tenant, "a")
		require.NoError(t, err)
		assert.Equal(t, labels, r.Labels)
		assert.Equal(t, meta, r.ActionTemplate.Metadata)
		assert.Equal(t, []string{"office"}, r.Calendars)
		assert.JSONEq(t, `{"to":"team@example.com"}`, string(r.ActionTemplate.Payload))
	})
}

func TestNothingOwnsWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		_, err := e.Sets().Apply(bg(), "ours", setOf(1, 1), shell.SetOptions{})
		require.NoError(t, err)
		queue := core.QueueRef("notifications", "tenant-1", "queue-1")
		d, err := e.Sets().Owner(bg(), queue, "")
		require.NoError(t, err)
		assert.Equal(t, "ours", d.Set)
		d, err = e.Sets().Owner(bg(), core.BusOf("notifications", "tenant-1"), "subscriber-1")
		require.NoError(t, err)
		assert.Equal(t, "subscriber-1", d.Part)
		_, err = e.Sets().Owner(bg(), core.BusOf("notifications", "tenant-1"), "subscriber-2")
		require.ErrorIs(t, err, shell.ErrNotFound)
		_, err = e.Sets().Owner(bg(), core.QueueRef("notifications", "tenant-1", "queue-2"), "")
		require.ErrorIs(t, err, shell.ErrNotFound)
	})
}

func TestWhatIsNoDeclarationIsRefusedWithWhatItShouldBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), Channels: []string{"ops"}})
		was := func(name, was string) shell.SetEntry {
			entry := recurringEntry(name, nil)
			entry.Was = was
			return entry
		}
		semaphore := shell.SetEntry{File: "a.toml", Semaphore: &shell.SemaphoreSpec{Namespace: "n", Tenant: "t", Name: "s"}}
		queues := func(n int) []shell.SetEntry {
			all := make([]shell.SetEntry, n)
			for i := range all {
				all[i] = shell.SetEntry{Queue: &shell.QueueSpec{Namespace: "n", Tenant: "t"}}
			}
			return all
		}
		for _, row := range []struct {
			what    string
			entries []shell.SetEntry
			want    string
		}{
			{"no slots", []shell.SetEntry{semaphore}, "a.toml: semaphore s: slots: 0 slots are no semaphore: give one at least"},
			{"a former name that is none", []shell.SetEntry{was("a", "b c")}, `a.toml: recurring a: was: "b c" is no name`},
			{"a name and a former one", []shell.SetEntry{was("a", ""), was("b", "a")}, `a.toml: recurring b: name: "a" of notifications/tenant-1 is declared twice, the first time in a.toml`},
			{"two of one former name", []shell.SetEntry{was("a", "c"), was("b", "c")}, `a.toml: recurring b: name: "c" of notifications/tenant-1 is declared twice, the first time in a.toml`},
			{"nothing", []shell.SetEntry{{File: "a.toml"}}, "a.toml: ?: a declaration is of one kind, not of 0"},
			{"as many as there may be", queues(shell.MaxSetEntries), "queue ?: name: must not be empty: a set knows what it declares by its name"},
		} {
			_, err := e.Sets().Apply(bg(), "ours", row.entries, shell.SetOptions{})
			var refused *shell.Refusal
			require.ErrorAs(t, err, &refused, row.what)
			assert.Equal(t, effects.CodeInvalid, refused.Code, row.what)
			var of *shell.SetError
			require.ErrorAs(t, err, &of, row.what)
			assert.EqualError(t, of, row.want, row.what)
			changes, err := shell.CheckSet(row.entries, effects.TimeOf(time.Now()))
			assert.ErrorContains(t, err, row.want, row.what)
			last := changes[len(changes)-1]
			kind, whose, name := row.entries[len(changes)-1].About()
			assert.Equal(t, []string{kind, whose.Namespace, whose.Tenant, name, row.entries[len(changes)-1].File}, []string{last.Kind, last.Namespace, last.Tenant, last.Name, last.File}, row.what)
			assert.Equal(t, shell.SetRefuses, last.Action, row.what)
		}
		res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{was("a", "a")}, shell.SetOptions{})
		require.NoError(t, err, "one that keeps its name")
		assert.Empty(t, res.Changes[0].Notes)
		assert.Empty(t, res.Changes[0].Was)

		_, err = e.Sets().Apply(bg(), "a b", nil, shell.SetOptions{})
		require.EqualError(t, err, `set: "a b" is no name: use letters, digits, ".", "_" and "-", at most 128 of them`)
		var refused *shell.Refusal
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, effects.CodeInvalid, refused.Code)

		job := setOf(1, 1)[1]
		job.Job.Alerts = core.AlertRules{Missed: true, Channel: "nobody"}
		res, err = e.Sets().Apply(bg(), "ours", []shell.SetEntry{job}, shell.SetOptions{DryRun: true})
		require.NoError(t, err)
		assert.Contains(t, res.Refused, `f1.toml: job job-1: alerts.channel: there is no channel "nobody": use one of ops, or leave it out`)
		assert.False(t, res.Changed(), "what is refused changes nothing")
	})
}

// A set that finds things otherwise each time it is carried out gives up, and says why.
func TestASetThatIsAlwaysOvertakenSaysByWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		tries := 0
		_, err := e.Sets().Apply(bg(), "ours", setOf(1, 1)[5:6], shell.SetOptions{Check: func([]shell.SetChange) error {
			tries++
			_, err := e.Semaphores().Send(bg(), shell.Scope{Namespace: "notifications", Tenant: "tenant-1"}, "semaphore-1", core.SemaphoreConfigure{
				Namespace: "notifications", Tenant: "tenant-1", Name: "semaphore-1", Slots: uint32(10 + tries),
			})
			return err
		}})
		var refused *shell.Refusal
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, effects.CodeConflict, refused.Code)
		assert.ErrorContains(t, err, "set: others change what it declares at the same time: try again: f1.toml: semaphore semaphore-1: ")
		assert.Greater(t, tries, 10)
		assert.Empty(t, ownedBy(t, e, "ours"))
	})
}

func TestASetWhoseCallerHasGoneIsNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		ctx, cancel := context.WithCancel(bg())
		res, err := e.Sets().Apply(ctx, "ours", setOf(1, 1), shell.SetOptions{Check: func([]shell.SetChange) error { cancel(); return nil }})
		require.ErrorIs(t, err, context.Canceled)
		assert.False(t, res.Applied)
		_, err = e.Sets().Apply(ctx, "ours", setOf(1, 1), shell.SetOptions{DryRun: true})
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestWhatHasEndedIsNotMadeAgainNorRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		job := setOf(1, 1)[1]
		job.Job.Schedule, job.Job.EndsAt = "* * * * *", effects.TimeOf(time.Now().Add(time.Hour))
		entries := []shell.SetEntry{job}
		made, err := e.Sets().Apply(bg(), "ours", entries, shell.SetOptions{})
		require.NoError(t, err)
		elapse(2 * time.Hour)
		res, err := e.Sets().Apply(bg(), "ours", entries, shell.SetOptions{Prune: true, Most: true})
		require.NoError(t, err)
		require.Len(t, res.Changes, 1, "it is still declared")
		assert.Equal(t, shell.SetKeeps, res.Changes[0].Action)
		assert.Equal(t, made.Changes[0].ID, res.Changes[0].ID)
		assert.Empty(t, res.Changes[0].Notes)

		other := setOf(2, 1)[1]
		other.Job.EndsAt = job.Job.EndsAt
		res, err = e.Sets().Apply(bg(), "ours", []shell.SetEntry{job, other}, shell.SetOptions{})
		require.NoError(t, err)
		assert.Equal(t, shell.SetKeeps, res.Changes[1].Action)
		assert.Zero(t, res.Changes[1].ID, "nothing has that id")
	})
}

func TestAScheduleThatHasEndedBeginsAnewIfItsEndMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		r := everyMinute()
		r.Name, r.EndsAt = "nightly", effects.TimeOf(time.Now().Add(5*time.Minute))
		apply := func() (shell.SetChange, bool) {
			t.Helper()
			spec := r
			res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{{File: "a.toml", Recurring: &spec}}, shell.SetOptions{})
			require.NoError(t, err)
			is, err := e.Recurring().Named(bg(), r.Namespace, r.Tenant, r.Name)
			require.NoError(t, err)
			return res.Changes[0], is.Enabled
		}
		apply()
		elapse(time.Hour)
		c, enabled := apply()
		assert.Equal(t, shell.SetKeeps, c.Action)
		assert.Len(t, c.Notes, 1)
		assert.False(t, enabled)
		r.EndsAt = effects.TimeOf(time.Now().Add(5 * time.Minute))
		c, enabled = apply()
		assert.Equal(t, shell.SetUpdates, c.Action)
		assert.Empty(t, c.Notes)
		assert.True(t, enabled)
		elapse(time.Hour)
		_, enabled = apply()
		require.False(t, enabled)
		r.Enabled = false
		c, _ = apply()
		assert.Empty(t, c.Notes, "its file disables it, too")
	})
}

func TestWhatTwoNamesOfARenamingHaveIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{})})
		both := []shell.SetEntry{recurringEntry("old", nil), recurringEntry("new", nil)}
		_, err := e.Sets().Apply(bg(), "ours", both, shell.SetOptions{})
		require.NoError(t, err)
		renamed := both[1]
		renamed.Was = "old"
		res, err := e.Sets().Apply(bg(), "ours", []shell.SetEntry{renamed}, shell.SetOptions{Prune: true, Most: true, DryRun: true})
		require.NoError(t, err)
		assert.Equal(t, []shell.SetAction{shell.SetRefuses}, actions(res))

		renamed.Was = "older"
		changes, err := shell.CheckSet([]shell.SetEntry{renamed}, effects.TimeOf(time.Now()))
		require.NoError(t, err)
		assert.Empty(t, changes[0].Notes, "whether there is one only an engine knows")
	})
}
