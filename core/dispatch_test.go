package core_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// with gives the world as a batch leaves it.
func (w world) with(t *core.Batch) world {
	out := maps.Clone(w)
	out.store(t)
	return out
}

// load gives the states of one kind that exist.
func load[S core.State](w world, kind effects.Kind) map[effects.Ref]S {
	out := map[effects.Ref]S{}
	for ref := range w { // order-free: into a map
		if ref.Kind == kind {
			s, _ := w.Load(ref)
			out[ref] = s.(S)
		}
	}
	return out
}

// drawDispatchInput gives an input around the dispatches of two definitions,
// which are made, deleted and made again, and share a dedup key. Now and then it
// makes an action under the very id that the next dispatch would use.
func drawDispatchInput(t *rapid.T, w world, c core.Clock, step uint64) (in core.Input, squats bool) {
	key := rapid.SampledFrom([]string{"", "k", "k", "{{recurring_id}}"}).Draw(t, "dedup_key")
	ref := effects.Ref{Kind: core.KindRecurring, ID: id(rapid.IntRange(1, 2).Draw(t, "id"))}
	r, _ := w.Load(ref)
	if r == nil {
		spec := made(core.KindRecurring).(core.RecurringAction).RecurringSpec
		spec.ID, spec.ActionTemplate.DedupKey = ref.ID, key
		return core.Input{To: ref, Event: core.RecurringCreate{Spec: spec}}, false
	}
	var others []effects.Ref
	for _, other := range w.refs() {
		if other.Kind == core.KindAction || other.Kind == core.KindOccurrence {
			others = append(others, other)
		}
	}
	switch what := rapid.IntRange(0, 12).Draw(t, "what"); {
	case what < 3:
		return core.Input{To: ref, Event: core.RecurringDue{}}, false
	case what < 5:
		return core.Input{To: ref, Event: core.RecurringTrigger{}}, false
	case what < 7:
		return core.Input{To: ref, Event: core.RecurringDelete{}}, false
	case what == 7:
		return core.Input{To: ref, Event: core.RecurringUpdate{Patch: core.RecurringPatch{DedupKey: &key}}}, false
	case what < 10 || len(others) == 0:
		next := r.(core.RecurringAction).Sequence + uint64(rapid.IntRange(1, 2).Draw(t, "next"))
		spec := core.ActionSpec{
			ID:       core.ChildID(ref.ID, "action", step+1, next), // where this input is taken
			ToolName: "http", Trigger: core.Scheduled(c.Now.Add(1000 * time.Hour)),
		}
		return core.Input{To: effects.Ref{Kind: core.KindAction, ID: spec.ID}, Event: core.ActionCreate{Spec: spec}}, true
	}
	to := rapid.SampledFrom(others).Draw(t, "to")
	if to.Kind == core.KindOccurrence {
		return core.Input{To: to, Event: core.OccurrenceExpire{}}, false
	}
	e := rapid.SampledFrom([]core.Event{core.ActionTrigger{}, core.ActionCancel{}, core.ActionFail{Run: 1}, core.ActionExpire{}}).Draw(t, "event")
	return core.Input{To: to, Event: e}, false
}

// A dispatch is made whole or not at all, and under ids that were never used,
// whatever was deleted and made again within whichever millisecond.
func TestADispatchIsWholeAndNewOrNotMadeAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock, w := core.Clock{Now: start}, world{}
		used, squatted := map[effects.Ref]bool{}, map[effects.Ref]bool{}
		for seq := uint64(1); seq <= uint64(rapid.IntRange(3, 12).Draw(t, "turns")); seq++ {
			clock.Now = clock.Now.Add(rapid.SampledFrom([]time.Duration{0, 0, 1e6, time.Minute, time.Minute, time.Hour, -time.Minute, -time.Hour}).Draw(t, "jump"))
			batch, taken := core.NewBatch(w, clock, seq), 0
			for range rapid.IntRange(1, 8).Draw(t, "inputs") {
				before := w.with(batch)
				in, squats := drawDispatchInput(t, before, clock, stepOf(int(seq), taken))
				res, err := batch.Apply(in)
				require.NoError(t, err)
				if res.Changed {
					taken++
				}
				squatted[in.To] = squatted[in.To] || squats
				if r := res.Refused; r != nil && r.Code == effects.CodeExists && in.To.Kind == core.KindRecurring {
					require.True(t, squatted[r.To], "%s is used a second time: %s", r.To, r.Reason)
				}
				after := w.with(batch)
				checkDispatches(t, before, after)
				for ref := range after {
					if _, was := before[ref]; !was && !squats && (ref.Kind == core.KindAction || ref.Kind == core.KindOccurrence) {
						require.False(t, used[ref], "%s was used before", ref)
						used[ref] = true
					}
				}
				if _, due := in.Event.(core.RecurringDue); due && res.Changed {
					require.NotEqual(t, len(load[core.Occurrence](before, core.KindOccurrence)), len(load[core.Occurrence](after, core.KindOccurrence)), "no verdict was recorded")
				}
				if r, ok := load[core.RecurringAction](after, core.KindRecurring)[in.To]; ok {
					if _, due := in.Event.(core.RecurringDue); due {
						require.Greater(t, r.Deadline(), clock.Now, "it is due still: it would be for ever")
					}
				}
			}
			w.store(batch)
		}
	})
}

// checkDispatches checks what one input has done to all machines.
func checkDispatches(t tb, before, after world) {
	actions := load[core.Action](after, core.KindAction)
	live := func(id uuid.UUID) bool {
		a, ok := actions[effects.Ref{Kind: core.KindAction, ID: id}]
		return ok && !a.Status.Type.Terminal()
	}
	for _, d := range load[core.Dedup](after, core.KindDedup) {
		require.True(t, live(d.Holder), "dedup key %q is held by action %s, which does not live", d.Key, d.Holder)
		require.Equal(t, d.Key, actions[effects.Ref{Kind: core.KindAction, ID: d.Holder}].DedupKey)
	}
	made := map[string]uint64{}
	for ref, o := range load[core.Occurrence](after, core.KindOccurrence) {
		if o.Verdict != core.VerdictDispatched {
			continue
		}
		if o.Outcome == "" {
			require.True(t, live(o.ActionID), "occurrence %s waits for action %s, which does not live", o.ID, o.ActionID)
			require.Equal(t, o.ID, actions[effects.Ref{Kind: core.KindAction, ID: o.ActionID}].Occurrence)
		}
		if _, was := before[ref]; !was {
			made[o.RecurringID.String()]++
		}
	}
	was := load[core.RecurringAction](before, core.KindRecurring)
	for ref, r := range load[core.RecurringAction](after, core.KindRecurring) {
		require.Equal(t, was[ref].ExecutionCount+made[r.ID.String()], r.ExecutionCount, "dispatches of %s", r.ID)
	}
}

func TestADispatchWhoseRecordExistsAlreadyIsMissedToo(t *testing.T) {
	r := made(core.KindRecurring).(core.RecurringAction)
	record := core.Occurrence{ID: core.ChildID(r.ID, "occurrence", stepOf(2, 0), 1), RecurringID: r.ID, Verdict: core.VerdictMissed, Count: 1}
	w := world{r.Ref(): encoded(r), record.Ref(): encoded(record)}
	batch := core.NewBatch(w, core.Clock{Now: start.Add(time.Minute)}, 2)
	res, err := batch.Apply(core.Input{To: r.Ref(), Event: core.RecurringDue{}})
	require.NoError(t, err)
	require.True(t, res.Changed, "or it would be due for ever")
	require.NotNil(t, res.Refused)
	assert.Equal(t, record.Ref(), res.Refused.To)
	state, err := batch.State(r.Ref())
	require.NoError(t, err)
	after := state.(core.RecurringAction)
	assert.Zero(t, after.ExecutionCount)
	assert.EqualValues(t, 1, after.MissedCount)
	assert.Equal(t, start.Add(2*time.Minute), after.NextExecutionAt)
}

func TestTheKeysOfAnActionThatCannotBeReadAreFoundAndReleased(t *testing.T) {
	a := made(core.KindAction).(core.Action)
	d := made(core.KindDedup).(core.Dedup)
	require.Equal(t, []effects.Term{{Name: "holder:" + a.ID.String(), At: start}}, d.Terms())
	assert.Equal(t, core.HolderTerm(a.ID), d.Terms()[0].Name)
	batch := core.NewBatch(loader{d.Ref(): d}, core.Clock{Now: start}, 1) // the action is gone
	res, err := batch.Apply(core.Input{To: d.Ref(), Event: core.DedupRelease{Holder: a.ID}})
	require.NoError(t, err)
	require.True(t, res.Changed)
	require.Len(t, batch.Changes(), 1)
	assert.Nil(t, batch.Changes()[0].After)
	assert.Empty(t, core.Dedup{}.Terms())
}

// Whatever ends the wait for the times that are due decides as many of them.
func TestAPauseADeleteAndAnEditDecideTheTimesThatTheDueEventWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := made(core.KindRecurring).(core.RecurringAction).RecurringSpec
		spec.CronExpr = rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "*/20 * * * * *"}).Draw(t, "cron")
		if after := rapid.Int64Range(0, 7200).Draw(t, "ends"); after > 0 {
			spec.EndsAt = start.Add(time.Duration(after) * time.Second)
		}
		r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
		clock := core.Clock{Now: start.Add(time.Duration(rapid.Int64Range(0, 10_000).Draw(t, "outage")) * time.Second)}
		cron, never := "0 0 1 1 *", int64(0)
		decided := map[string]uint64{}
		for name, e := range map[string]core.RecurringEvent{
			"due": core.RecurringDue{}, "refused": core.RecurringDue{Refusal: "x"}, "pause": core.RecurringPause{}, "delete": core.RecurringDelete{},
			"edit": core.RecurringUpdate{Patch: core.RecurringPatch{CronExpr: &cron, EndsAt: &never}},
		} {
			after, effs := r.Apply(e, clock)
			for _, o := range sends[core.OccurrenceRecord](step{effs: effs}) {
				decided[name] += o.Occurrence.Count
			}
			if exists(after) {
				require.Equal(t, decided[name], after.MissedCount+after.ExecutionCount, name)
			}
		}
		for _, name := range []string{"refused", "pause", "delete", "edit"} {
			require.Equal(t, decided["due"], decided[name], name)
		}
	})
}
