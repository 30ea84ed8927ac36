package core_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// declarations are what a set may own: how each is made, changed and ended, and by which name the bus knows it.
func declarations() []struct {
	what, name         string
	to                 effects.Ref
	part               string
	make, change, drop core.Event
	edit               core.Event   // another change
	others             []core.Event // what anybody may do with it
} {
	spec := recurringNamed(1, "t", "nightly")
	described, edited, on := "another one", "a third one", true
	job := core.JobSpec{ID: "report", Namespace: "n", Tenant: "t", Name: "report", Schedule: "0 9 * * *", PodSpec: []byte(`{"containers":[{"name":"c","image":"i"}]}`)}
	job2, job3 := job, job
	job2.Schedule, job3.Schedule = "0 10 * * *", "0 11 * * *"
	worker := core.WorkerSpec{Namespace: "n", Tenant: "t", Name: "w", Queue: "q", Do: core.WorkerDo{Run: &core.ToolRun{Tool: "http", Input: []byte(`{}`)}}}
	worker2 := worker
	worker2.Concurrency = 2
	subscriber := core.Subscription{Name: "s", Match: core.EventMatch{Category: "action"}, Do: core.Reaction{WakeWorker: &core.MachineName{Namespace: "n", Tenant: "t", Name: "w"}}}
	subscriber2 := subscriber
	subscriber2.Match.Action = "failed"
	return []struct {
		what, name         string
		to                 effects.Ref
		part               string
		make, change, drop core.Event
		edit               core.Event
		others             []core.Event
	}{
		{
			"a recurring action", "nightly", effects.Ref{Kind: core.KindRecurring, ID: id(1)}, "",
			core.RecurringCreate{Spec: spec}, core.RecurringUpdate{Patch: core.RecurringPatch{Description: &described}}, core.RecurringDelete{}, core.RecurringUpdate{Patch: core.RecurringPatch{Description: &edited}},
			[]core.Event{core.RecurringPause{}, core.RecurringResume{}, core.RecurringTrigger{}, core.RecurringSkipNext{}, core.RecurringUpdate{Patch: core.RecurringPatch{Enabled: &on}}},
		},
		{"a job", "report", core.JobRef("n", "t", "report"), "", core.JobApply{Spec: job}, core.JobApply{Spec: job2}, core.JobDelete{}, core.JobApply{Spec: job3}, []core.Event{core.JobPause{By: "me"}, core.JobResume{}}},
		{
			"a queue", "q", core.QueueRef("n", "t", "q"), "", core.QueueCreate{Namespace: "n", Tenant: "t", Name: "q"},
			core.QueueConfigure{Config: core.QueueConfig{Concurrency: 3}}, core.QueueDelete{}, core.QueueConfigure{}, []core.Event{core.QueuePause{}, core.QueueResume{}},
		},
		{"a worker", "w", core.WorkerRef("n", "t", "w"), "", core.WorkerConfigure{Spec: worker}, core.WorkerConfigure{Spec: worker2}, core.WorkerDelete{}, core.WorkerConfigure{Spec: worker}, []core.Event{core.WorkerPause{}, core.WorkerResume{}}},
		{
			"a calendar", "c", core.CalendarRef("n", "t", "c"), "", core.CalendarCreate{Spec: core.CalendarSpec{Namespace: "n", Tenant: "t", Name: "c"}},
			core.CalendarUpdate{Patch: core.CalendarPatch{Description: &described}}, core.CalendarDelete{}, core.CalendarUpdate{Patch: core.CalendarPatch{Description: &edited}}, nil,
		},
		{
			"a semaphore", "s", core.SemaphoreRef("n", "t", "s"), "", core.SemaphoreConfigure{Namespace: "n", Tenant: "t", Name: "s", Slots: 2},
			core.SemaphoreConfigure{Namespace: "n", Tenant: "t", Name: "s", Slots: 3}, core.SemaphoreConfigure{Namespace: "n", Tenant: "t", Name: "s"}, core.SemaphoreConfigure{Namespace: "n", Tenant: "t", Name: "s", Slots: 4}, nil,
		},
		{
			"a subscriber", "s", core.BusOf("n", "t"), "s", core.BusSubscribe{Namespace: "n", Tenant: "t", Subscriber: subscriber},
			core.BusSubscribe{Namespace: "n", Tenant: "t", Subscriber: subscriber2}, core.BusUnsubscribe{Name: "s"}, core.BusSubscribe{Namespace: "n", Tenant: "t", Subscriber: subscriber}, nil,
		},
	}
}

func TestWhatASetDeclaresIsChangedByThatSetAlone(t *testing.T) {
	ours, theirs, taking := &core.Declaration{Set: "ours", File: "all.toml"}, &core.Declaration{Set: "theirs", File: "x.toml"}, &core.Declaration{Set: "theirs", File: "x.toml", TakeOver: true}
	byHand := &core.Declaration{TakeOver: true}
	for _, d := range declarations() {
		t.Run(d.what, func(t *testing.T) {
			w, seq := world{}, uint64(0)
			noted := false // the last event has changed whose it is
			apply := func(e core.Event, by *core.Declaration) *effects.Refused {
				seq++
				batch := core.NewBatch(w, core.Clock{Now: start + core.Time(seq)}, seq)
				res, err := batch.Apply(core.Input{To: d.to, Event: e, BySet: by})
				require.NoError(t, err)
				if res.Refused != nil {
					assert.Empty(t, batch.Changes(), "what is refused leaves nothing")
				}
				noted = slices.ContainsFunc(batch.Changes(), func(c core.Change) bool { return c.Ref.Kind == core.KindDeclared })
				w.store(batch)
				return res.Refused
			}
			since := core.Time(0)
			owner := func() string {
				s, err := w.Load(core.DeclaredRef(d.to, d.part))
				require.NoError(t, err)
				own, _ := s.(core.Declared)
				if own.Set != "" {
					assert.Equal(t, d.to, own.Of())
					assert.Equal(t, d.name, own.Name)
					assert.Equal(t, d.part, own.Part)
				}
				since = own.Since
				return own.Set
			}
			taken := func(e core.Event, by *core.Declaration, then string) {
				t.Helper()
				assert.Nil(t, apply(e, by), "%s", e.EventType())
				assert.Equal(t, then, owner())
			}
			refused := func(e core.Event, by *core.Declaration, reason string) {
				t.Helper()
				r := apply(e, by)
				require.NotNil(t, r, "%s", e.EventType())
				assert.Equal(t, effects.Refused{To: d.to, Event: e.EventType(), Code: effects.CodeConflict, Reason: reason}, *r)
			}
			taken(d.make, nil, "")
			assert.False(t, noted, "it is nobody's")
			taken(d.change, ours, "ours") // nobody's before
			first := since
			assert.True(t, noted)
			taken(d.change, ours, "ours")
			assert.False(t, noted, "it is theirs already")
			assert.Equal(t, first, since)
			taken(d.change, nil, "ours") // as who starts a pipeline declares its runbook's queues again
			assert.False(t, noted, "it stays theirs")
			refused(d.edit, nil, `the set "ours" declares it, in all.toml: change it there and apply the set, or take it over`)
			refused(d.drop, nil, `the set "ours" declares it, in all.toml: change it there and apply the set, or take it over`)
			refused(d.change, theirs, `the set "ours" declares it, in all.toml: take it out there, or let "theirs" take it over`)
			refused(d.drop, theirs, `the set "ours" declares it, in all.toml: take it out there, or let "theirs" take it over`)
			if d.to.Kind == core.KindRecurring {
				taken(core.RecurringUpdate{}, nil, "ours") // which changes nothing
			}
			for _, e := range d.others {
				assert.Nil(t, apply(e, nil), "anybody may %s", e.EventType())
			}
			taken(d.change, taking, "theirs")
			assert.Greater(t, since, first, "since it was taken over")
			refused(d.change, ours, `the set "theirs" declares it, in x.toml: take it out there, or let "ours" take it over`)
			taken(d.change, byHand, "")
			taken(d.change, nil, "")
			taken(d.change, ours, "ours")
			taken(d.drop, ours, "")
			taken(d.make, ours, "ours")
			oursToo := &core.Declaration{Set: "ours", File: "all.toml", For: "n/t"}
			refused(d.drop, oursToo, `the set "ours" was applied on behalf of no tenant in particular when it declared it: it is removed only so`)
			taken(d.change, oursToo, "ours")
			refused(d.drop, ours, `the set "ours" was applied on behalf of n/t when it declared it: it is removed only so`)
			taken(d.change, ours, "ours")
			if d.part == "" { // its record is set aside
				before := since
				delete(w, d.to)
				taken(d.make, ours, "ours")
				assert.Greater(t, since, before, "since it was made anew")
				delete(w, d.to)
				taken(d.make, nil, "")
			}
		})
	}
}

// To disable a schedule is an edit, since the next apply would enable it again; to pause it is none, nor to resume it.
func TestToDisableWhatASetDeclaresIsAnEdit(t *testing.T) {
	w, seq := world{}, uint64(0)
	ours := &core.Declaration{Set: "ours", File: "all.toml"}
	apply := func(e core.Event, by *core.Declaration) *effects.Refused {
		seq++
		batch := core.NewBatch(w, core.Clock{Now: start}, seq)
		res, err := batch.Apply(core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: id(1)}, Event: e, BySet: by})
		require.NoError(t, err)
		w.store(batch)
		return res.Refused
	}
	enable := func(on bool) core.Event {
		return core.RecurringUpdate{Patch: core.RecurringPatch{Enabled: &on}}
	}
	require.Nil(t, apply(core.RecurringCreate{Spec: recurringNamed(1, "t", "nightly")}, ours))
	assert.Nil(t, apply(enable(true), nil), "it is enabled already")
	r := apply(enable(false), nil)
	require.NotNil(t, r)
	assert.Equal(t, `the set "ours" declares it, in all.toml: change it there and apply the set, or take it over; to stop it for a while, pause it: that outlives each apply`, r.Reason)
	require.Nil(t, apply(core.RecurringPause{By: "ann"}, nil))
	assert.Nil(t, apply(enable(false), nil), "it is not enabled already")
	assert.Nil(t, apply(enable(true), nil), "that resumes it")

	require.Nil(t, apply(enable(false), ours), "its file disables it")
	r = apply(enable(true), nil)
	require.NotNil(t, r)
	assert.Equal(t, `the set "ours" declares it, in all.toml: change it there and apply the set, or take it over`, r.Reason)
	assert.Nil(t, apply(enable(false), &core.Declaration{TakeOver: true}), "who takes it over may")
}

// A worker that a set does not declare any more drains, and belongs to nobody while it does: anybody may define it again.
func TestAWorkerThatDrainsBelongsToNoSet(t *testing.T) {
	w, seq := world{}, uint64(0)
	ref := core.WorkerRef("n", "t", "w")
	spec := core.WorkerSpec{Namespace: "n", Tenant: "t", Name: "w", Queue: "q", Do: core.WorkerDo{Run: &core.ToolRun{Tool: "http", Input: []byte(`{}`)}}}
	apply := func(to effects.Ref, e core.Event, by *core.Declaration) {
		t.Helper()
		seq++
		batch := core.NewBatch(w, core.Clock{Now: start}, seq)
		res, err := batch.Apply(core.Input{To: to, Event: e, BySet: by})
		require.NoError(t, err)
		require.Nil(t, res.Refused)
		w.store(batch)
	}
	worker := func() core.Worker {
		s, err := w.Load(ref)
		require.NoError(t, err)
		return s.(core.Worker)
	}
	apply(ref, core.WorkerConfigure{Spec: spec}, &core.Declaration{Set: "ours", File: "a.toml"})
	apply(core.QueueRef("n", "t", "q"), core.QueuePush{Namespace: "n", Tenant: "t", Name: "q", Data: []byte(`1`)}, nil)
	apply(ref, core.WorkerWake{}, nil)
	require.Len(t, worker().Running, 1)
	apply(ref, core.WorkerDelete{Drain: true}, &core.Declaration{Set: "ours", File: "a.toml"})
	require.True(t, worker().Draining)
	s, err := w.Load(core.DeclaredRef(ref, ""))
	require.NoError(t, err)
	assert.Nil(t, s)

	apply(ref, core.WorkerConfigure{Spec: spec}, &core.Declaration{Set: "theirs", File: "b.toml"})
	assert.False(t, worker().Draining)
	s, err = w.Load(core.DeclaredRef(ref, ""))
	require.NoError(t, err)
	assert.Equal(t, "theirs", s.(core.Declared).Set)
}

func TestAFileThatIsRenamedIsNotedAndSinceStays(t *testing.T) {
	w := world{}
	for n, file := range []string{"a.toml", "b.toml"} {
		batch := core.NewBatch(w, core.Clock{Now: start + core.Time(n)}, uint64(n+1))
		var e core.Event = core.RecurringCreate{Spec: recurringNamed(1, "t", "nightly")}
		if n > 0 {
			e = core.RecurringUpdate{Patch: core.PatchTo(recurringNamed(1, "t", "nightly"))}
		}
		res, err := batch.Apply(core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: id(1)}, Event: e, BySet: &core.Declaration{Set: "ours", File: file}})
		require.NoError(t, err)
		require.Nil(t, res.Refused)
		w.store(batch)
	}
	s, err := w.Load(core.DeclaredRef(effects.Ref{Kind: core.KindRecurring, ID: id(1)}, ""))
	require.NoError(t, err)
	own := s.(core.Declared)
	assert.Equal(t, "b.toml", own.File)
	assert.Equal(t, "nightly", own.Name)
	assert.Equal(t, start, own.Since)
	assert.Equal(t, core.Scope{Namespace: "n", Tenant: "t"}, core.Scope{Namespace: own.Namespace, Tenant: own.Tenant})
	assert.Equal(t, []effects.Term{
		{Name: core.TermAll, At: start}, {Name: core.SetTerm("ours"), At: start},
		{Name: core.TermWithin(core.TermOwn, core.Scope{Namespace: "n", Tenant: "t"}), At: start}, {Name: core.TermWithin(core.SetTerm("ours"), core.Scope{Namespace: "n", Tenant: "t"}), At: start},
	}, own.Terms())
}

func TestADeclarationIsCheckedBeforeTheJournal(t *testing.T) {
	for _, row := range []struct {
		by   core.Declaration
		want string
	}{
		{core.Declaration{Set: "ours", File: "a b/c.toml"}, ""},
		{core.Declaration{TakeOver: true}, ""},
		{core.Declaration{File: "a.toml"}, "by_set.set: must not be empty where a file is named"},
		{core.Declaration{Set: "a b"}, `by_set.set: "a b" has ' ' at byte 1`},
		{core.Declaration{Set: "a", File: "\x00"}, "by_set.file"},
	} {
		_, err := core.Given(core.Input{Event: core.RecurringDelete{}, BySet: &row.by})
		if row.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, row.want)
	}
}

// A patch to a definition gives it whatever the definition was: no field is left out.
func TestPatchToHasEachFieldThatCanBeChanged(t *testing.T) {
	full := reflect.ValueOf(core.PatchTo(core.RecurringSpec{CronExpr: "0 9 * * *"}))
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Anonymous {
				walk(v.Field(i))
				continue
			}
			assert.False(t, v.Field(i).IsZero(), "%s is left as it was", f.Name)
		}
	}
	walk(full)
}

func TestADisabledOneSaysWhetherItsDefinitionOrAHandDisabledIt(t *testing.T) {
	spec := recurringNamed(1, "t", "nightly")
	off, on := false, true
	disabled := spec
	disabled.Enabled = false
	for _, row := range []struct {
		what           string
		events         []core.RecurringEvent
		hand, declared bool
	}{
		{"enabled", []core.RecurringEvent{core.RecurringCreate{Spec: spec}}, false, false},
		{"created disabled", []core.RecurringEvent{core.RecurringCreate{Spec: disabled}}, false, true},
		{"disabled by an update", []core.RecurringEvent{core.RecurringCreate{Spec: spec}, core.RecurringUpdate{Patch: core.RecurringPatch{Enabled: &off}}}, false, true},
		{"paused", []core.RecurringEvent{core.RecurringCreate{Spec: spec}, core.RecurringPause{By: "me"}}, true, false},
		{"paused up to a time", []core.RecurringEvent{core.RecurringCreate{Spec: spec}, core.RecurringPause{Until: start + 1000}}, true, false},
		{"paused although it was disabled", []core.RecurringEvent{core.RecurringCreate{Spec: disabled}, core.RecurringPause{Reason: "the database moves"}}, true, false},
		{"enabled again", []core.RecurringEvent{core.RecurringCreate{Spec: spec}, core.RecurringPause{By: "me"}, core.RecurringUpdate{Patch: core.RecurringPatch{Enabled: &on}}}, false, false},
	} {
		r := core.RecurringAction{}
		for _, e := range row.events {
			var effs []effects.Effect
			r, effs = r.Apply(e, core.Clock{Now: start})
			require.Nil(t, refusal(effs), row.what)
		}
		assert.Equal(t, row.hand, r.PausedByHand(), row.what)
		assert.Equal(t, row.declared, r.DisabledByDefinition(), row.what)
	}
}

func TestASemaphoreThatIsDeclaredNoMoreBelongsToNobodyWhileItIsHeld(t *testing.T) {
	w, seq := world{}, uint64(0)
	ref, ours := core.SemaphoreRef("n", "t", "s"), &core.Declaration{Set: "ours"}
	apply := func(e core.Event, by *core.Declaration) {
		t.Helper()
		seq++
		batch := core.NewBatch(w, core.Clock{Now: start}, seq)
		res, err := batch.Apply(core.Input{To: ref, Event: e, BySet: by})
		require.NoError(t, err)
		require.Nil(t, res.Refused)
		w.store(batch)
	}
	apply(core.SemaphoreConfigure{Namespace: "n", Tenant: "t", Name: "s", Slots: 2}, ours)
	apply(core.SemaphoreAcquire{Namespace: "n", Tenant: "t", Name: "s", Holder: "ann", Total: 2, TTLMS: 60_000}, nil)
	require.Contains(t, w, core.DeclaredRef(ref, ""))
	apply(core.SemaphoreConfigure{Namespace: "n", Tenant: "t", Name: "s"}, ours)
	require.Contains(t, w, ref, "ann holds a slot")
	assert.NotContains(t, w, core.DeclaredRef(ref, ""))
}

func TestTheRefusalSaysTheFileIfThereIsOne(t *testing.T) {
	d := core.Declared{Set: "ours"}
	assert.Equal(t, `the set "ours" declares it: change it there and apply the set, or take it over`, d.Refusal(nil))
	assert.Equal(t, `the set "ours" declares it: change it there and apply the set, or take it over`, d.Refusal(&core.Declaration{}), "of an edit")
	assert.Equal(t, `the set "ours" declares it: take it out there, or let "theirs" take it over`, d.Refusal(&core.Declaration{Set: "theirs"}))
}

// unreadable is a store whose records of what sets own cannot be read.
type unreadable struct{ world }

func (u unreadable) Load(ref effects.Ref) (core.State, error) {
	if ref.Kind == core.KindDeclared {
		return nil, errors.New("the disk is gone")
	}
	return u.world.Load(ref)
}

func TestNobodyChangesWhatMayBelongToASetThatCannotBeRead(t *testing.T) {
	for _, d := range declarations() {
		w := world{}
		batch := core.NewBatch(w, core.Clock{Now: start}, 1)
		_, err := batch.Apply(core.Input{To: d.to, Event: d.make, BySet: &core.Declaration{Set: "ours"}})
		require.NoError(t, err)
		w.store(batch)
		_, err = core.NewBatch(unreadable{w}, core.Clock{Now: start}, 2).Apply(core.Input{To: d.to, Event: d.change})
		require.ErrorContains(t, err, "the disk is gone", d.what)
	}
}
