package core_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata/golden")

func typeName(v any) string {
	return strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", v), "core."), "effects.")
}

func goldenActionSpec() core.ActionSpec {
	return core.ActionSpec{
		ID: id(1), Namespace: "notifications", Tenant: "tenant-1", Label: "Größe <3 & \"more\"", ToolName: "http", ActionType: "send_digest",
		ToolInput: json.RawMessage(`{"to":"team@example.com","n":1.50,"html":"<b>"}`), Trigger: core.Scheduled(start),
		Recurrence: core.CronRecurrence("0 9 * * MON-FRI", "US/Eastern"),
		Policy:     core.RunPolicy{OnInterrupt: core.InterruptRetry, MaxAttempts: 3, TimeoutMS: 30_000},
		DedupKey:   "digest", Metadata: map[string]string{"b": "2", "a": "1"}, Labels: map[string]string{}, Occurrence: id(2),
	}
}

func goldenRecurringSpec() core.RecurringSpec {
	return core.RecurringSpec{
		ID: id(3), Namespace: "notifications", Tenant: "tenant-1", CronExpr: "0 9 * * MON-FRI", Timezone: "US/Eastern", Enabled: true,
		ActionTemplate: core.RecurringActionTemplate{
			Provider: "email", ActionType: "send_digest", Payload: json.RawMessage(`{"to":"team@example.com"}`),
			Metadata: map[string]string{"k": "v"}, DedupKey: "digest-{{execution_time}}",
		},
		EndsAt: start.Add(365 * 24 * time.Hour), Description: "Weekday morning digest", Labels: map[string]string{"team": "engineering"},
		StartDeadlineSeconds: 60, Policy: core.RunPolicy{OnInterrupt: core.InterruptFail, MaxAttempts: 3},
	}
}

// goldenRecurring is a recurring action that has a name.
func goldenRecurring(name string) core.RecurringAction {
	spec := goldenRecurringSpec()
	spec.ID, spec.Name = id(9), name
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	return r
}

// goldenPolicies is a recurring action with all that a schedule may say, but calendars.
func goldenPolicies() core.RecurringSpec {
	s := goldenRecurringSpec()
	s.ID, s.Overlap, s.ActionTemplate.DedupKey = id(8), core.OverlapBufferAll, ""
	s.ScheduleOptions = core.ScheduleOptions{
		DST: schedule.DSTSkip, DayMatch: schedule.DayMatchBoth, StartsAt: start, MaxExecutions: 9, JitterSeconds: 30, Missed: core.MissedAll,
		CatchUpSeconds: 86_400 * 7, CatchUpLimit: 20, CatchUpSpacingSeconds: 60, BufferLimit: 3, MaxWaitSeconds: 3600,
	}
	return s
}

var goldenAbsences = []core.Absence{{From: start, To: start.Add(time.Minute), Cause: core.AbsentKilled}, {From: start.Add(time.Hour), To: start.Add(2 * time.Hour), Cause: core.AbsentClockSet}}

func goldenStates() []core.State {
	clock := core.Clock{Now: start}
	pending, _ := core.Action{}.Apply(core.ActionCreate{Spec: goldenActionSpec()}, clock)
	running, _ := pending.Apply(core.ActionDue{}, clock)
	again, _ := running.Apply(core.ActionFail{Run: 1, Reason: "exit status 1"}, core.Clock{Now: start.Add(1500 * time.Millisecond)})
	bare, _ := core.Action{}.Apply(core.ActionCreate{Spec: core.ActionSpec{
		ID: id(4), ToolName: "command", Recurrence: core.Every(time.Hour),
		Trigger: core.Trigger{Type: core.TriggerWebhook, RawPayload: []byte{0, 0xff, '{'}, ReceivedAt: start, Route: "git", Header: json.RawMessage(`{"X-Event":"push"}`)},
	}}, clock)
	once := goldenActionSpec()
	once.Recurrence = core.Recurrence{}
	completed, _ := core.Action{}.Apply(core.ActionCreate{Spec: once}, clock)
	completed, _ = completed.Apply(core.ActionTrigger{}, clock)
	failed, _ := completed.Apply(core.ActionInterrupt{Run: 1}, clock) // pending again: it retries
	failed, _ = failed.Apply(core.ActionDue{}, clock)
	failed, _ = failed.Apply(core.ActionFail{Run: 2, Reason: "no\nroute", Result: json.RawMessage(`{"status":502}`)}, clock)
	retried := goldenActionSpec()
	retried.Policy.OnFailure, retried.Policy.Backoff = core.FailureRetry, &core.Backoff{InitialMS: 5000, FactorPercent: 150, MaxMS: 60_000, JitterPercent: 20, NoRetry: []string{"^no such <b>"}}
	waiting, _ := core.Action{}.Apply(core.ActionCreate{Spec: retried}, clock)
	waiting, _ = waiting.Apply(core.ActionDue{}, clock)
	waiting, _ = waiting.Apply(core.ActionFail{Run: 1, Reason: "exited <1>", TimedOut: true, RetryAfterMS: 7000, Result: json.RawMessage(`{"exit_code":1,"stdout":"","stderr":"no\nroute"}`)}, clock)
	cycled, _ := waiting.Apply(core.ActionTrigger{}, core.Clock{Now: start.Add(7 * time.Second)})
	cycled, _ = cycled.Apply(core.ActionComplete{Run: 2}, core.Clock{Now: start.Add(8 * time.Second)})
	completed, _ = completed.Apply(core.ActionComplete{Run: 1, Result: json.RawMessage(` {"ok": true} `)}, clock)
	cancelled, _ := bare.Apply(core.ActionCancel{}, clock)
	stopping, _ := running.Apply(core.ActionCancel{Mode: core.CancelAwait, Reason: "a <newer> one"}, clock)

	recurring, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: goldenRecurringSpec()}, clock)
	fired, _ := recurring.Apply(core.RecurringDue{}, core.Clock{Now: start.Add(24 * time.Hour), Rules: 9}) // as those that have no ledger are stored
	paused, _ := fired.Apply(core.RecurringPause{By: "ann", Reason: "holidays"}, core.Clock{Now: start.Add(25 * time.Hour), Rules: 9})
	whole, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: goldenPolicies()}, clock)
	whole, _ = whole.Apply(core.RecurringSkipNext{}, core.Clock{Now: start.Add(time.Minute), Step: 1})
	whole, _ = whole.Apply(core.RecurringDue{}, core.Clock{Now: start.Add(73 * time.Hour), Step: 2})
	whole, _ = whole.Apply(core.BackfillTime{At: whole.Running[0].DueAt.Add(-24 * time.Hour), Owner: recurringOwner}, core.Clock{Now: start.Add(73 * time.Hour), Step: 3})
	whole, _ = whole.Apply(core.RecurringTrigger{}, core.Clock{Now: start.Add(73 * time.Hour), Step: 4})
	closed, _ := whole.Apply(core.ChildEnded{N: uint32(whole.Running[0].N), Outcome: core.ChildSucceeded}, core.Clock{Now: start.Add(74 * time.Hour), Step: 5})
	closed, _ = closed.Apply(core.RecurringPause{Until: start.Add(100 * time.Hour)}, core.Clock{Now: start.Add(75 * time.Hour), Step: 6})
	full := core.Occurrence{
		ID: id(5), RecurringID: id(3), DueAt: start, LastDueAt: start.Add(time.Hour), DecidedAt: start.Add(2 * time.Hour), Verdict: core.VerdictMissed,
		Count: math.MaxUint64, CountCapped: true, Manual: true, ActionID: id(1), Outcome: "failed", Reason: "r", StartedAt: start, FinishedAt: start,
	}
	held, _ := core.Dedup{}.Apply(core.DedupClaim{Create: goldenActionSpec()}, clock)
	name := core.NamedRef(core.KindRecurring, "notifications", "tenant-1", "weekday-digest")
	named := goldenRecurring("weekday-digest")
	alerting := named
	alerting.ID, alerting.Name, alerting.Alerts = id(4), "nightly", allAlerts
	out := []core.State{named, alerting, core.Named{ID: name.ID, Kind: core.KindRecurring, Name: "weekday-digest", Holder: id(9)}, goldenDeclared(), pending, running, again, bare, completed, failed, cancelled, stopping, waiting, cycled, recurring, fired, paused, whole, closed, full, core.Occurrence{ID: id(6)}, goldenEntryOfLedger(), held}
	for _, kind := range kinds {
		if k, ok := kits[kind]; ok {
			out = append(out, k.states()...)
		}
	}
	return out
}

// goldenEntryOfLedger has every field that entries have since they name their schedule.
func goldenEntryOfLedger() core.Occurrence {
	return core.Occurrence{
		ID: id(7), RecurringID: id(3), DueAt: start, LastDueAt: start, DecidedAt: start, Verdict: core.VerdictDispatched, Count: 1, ActionID: id(1),
		Schedule: core.KindRecurring, Namespace: "ns", Tenant: "t", Name: "nightly <report>", Number: 12, Latest: true, Backfill: id(9),
	}
}

func goldenPolicyPatch() core.RecurringPatch {
	s := goldenPolicies()
	o := s.ScheduleOptions
	calendars, starts := []string{"holidays"}, int64(start)
	return core.RecurringPatch{Overlap: &s.Overlap, ScheduleOptionsPatch: core.ScheduleOptionsPatch{
		DST: &o.DST, DayMatch: &o.DayMatch, StartsAt: &starts, MaxExecutions: &o.MaxExecutions, JitterSeconds: &o.JitterSeconds, Calendars: &calendars, Missed: &o.Missed,
		CatchUpSeconds: &o.CatchUpSeconds, CatchUpLimit: &o.CatchUpLimit, CatchUpSpacingSeconds: &o.CatchUpSpacingSeconds, BufferLimit: &o.BufferLimit, MaxWaitSeconds: &o.MaxWaitSeconds,
	}}
}

// goldenEvents holds at least one event of each type.
func goldenEvents() map[effects.Kind][]core.Event {
	text, metadata := "x", map[string]string{}
	number, yes := int64(0), true
	all := map[effects.Kind][]core.Event{
		core.KindAction: {
			core.ActionCreate{Spec: goldenActionSpec()}, core.ActionDue{}, core.ActionTrigger{}, core.ActionCancel{Reason: "not needed"}, core.ActionCancel{Mode: core.CancelAwait}, core.ActionCancel{Reason: "hangs", Mode: core.CancelKill},
			core.ActionComplete{Run: 1, Result: json.RawMessage(`{"ok":true}`)}, core.ActionComplete{Run: math.MaxUint32, Result: json.RawMessage("{")}, core.ActionComplete{},
			core.ActionFail{Run: 1, Reason: "exit status 1"}, core.ActionFail{Run: 1, Reason: "exit status 1", Result: json.RawMessage(`{"exit_code":1}`)},
			core.ActionFail{Run: 2, Reason: "answered 503", Result: json.RawMessage(`{"status":503}`), RetryAfterMS: 7000}, core.ActionFail{Run: 2, Reason: "not found", Permanent: true, TimedOut: true}, core.ActionInterrupt{Run: 1, Reason: core.ReasonRecovered}, core.ActionHandBack{Run: 1}, core.ActionExpire{},
			core.ActionDue{Absences: goldenAbsences},
		},
		core.KindRecurring: {
			core.RecurringCreate{Spec: goldenRecurringSpec()}, core.RecurringDue{}, core.RecurringDue{Refusal: "id: action exists already"}, core.RecurringUpdate{},
			core.RecurringUpdate{Patch: core.RecurringPatch{
				CronExpr: &text, Timezone: &text, Enabled: &yes, Payload: json.RawMessage(`{}`), Metadata: &metadata, DedupKey: &text, Description: &text,
				Labels: &metadata, EndsAt: &number, Provider: &text, ActionType: &text, StartDeadlineSeconds: &number,
				Policy: &core.RunPolicy{OnInterrupt: core.InterruptFail, MaxAttempts: 1},
			}},
			core.RecurringPause{By: "ann", Reason: "holidays"}, core.RecurringResume{}, core.RecurringTrigger{}, core.RecurringDelete{}, core.RecurringDeduplicated{}, core.RecurringDeduplicated{LastExecutedAt: start},
			core.BackfillTime{At: start, Owner: core.Owner{Ref: effects.Ref{Kind: core.KindBackfill, ID: id(7)}, N: 3}},
			core.RecurringDue{Refusal: "id: action exists already", Absences: goldenAbsences}, core.RecurringUpdate{Absences: goldenAbsences},
			core.RecurringPause{By: "ann", Reason: "holidays", Absences: goldenAbsences}, core.RecurringDelete{Absences: goldenAbsences},
			core.RecurringCreate{Spec: goldenPolicies()}, core.RecurringPause{By: "ann", Reason: "holidays", Until: start}, core.RecurringTrigger{Payload: json.RawMessage(`{"n":1}`)},
			core.RecurringSkipNext{}, core.RecurringCancelWaiting{Occurrence: id(5), Reason: "not <now>"}, core.RecurringDeduplicated{LastExecutedAt: start, Manual: true, N: 7},
			core.RecurringCreate{Spec: goldenRecurring("weekday-digest").RecurringSpec}, core.RecurringUpdate{Patch: core.RecurringPatch{Name: &text}},
			core.RecurringUpdate{Patch: goldenPolicyPatch()}, core.BackfillTime{At: start, Owner: recurringOwner},
			core.ChildEnded{Child: effects.Ref{Kind: core.KindAction, ID: id(1)}, N: 7, Outcome: core.ChildRefused, Reason: "r", Limited: true},
		},
		core.KindOccurrence: {
			core.OccurrenceRecord{Occurrence: core.Occurrence{ID: id(5), RecurringID: id(3), DueAt: start, LastDueAt: start, DecidedAt: start, Verdict: core.VerdictDispatched, Count: 1, ActionID: id(1)}},
			core.OccurrenceSettle{Outcome: core.StatusFailed, Reason: "exit status 1", StartedAt: start, FinishedAt: start.Add(time.Second)},
			core.OccurrenceDeduplicate{Holder: id(1)}, core.OccurrenceExpire{},
			core.OccurrenceRecord{Occurrence: goldenEntryOfLedger()}, core.OccurrenceDecide{Verdict: core.VerdictDispatched, ActionID: id(1)},
			core.OccurrenceDecide{Verdict: core.VerdictExpired, Reason: "it waited <longer>"}, core.OccurrenceExtend{LastDueAt: start, Count: 1},
			core.OccurrenceExtend{LastDueAt: start, Count: math.MaxUint64, Capped: true}, core.OccurrenceOutlived{},
		},
		core.KindDedup: {core.DedupClaim{Create: goldenActionSpec()}, core.DedupClaim{Create: goldenActionSpec(), LastExecutedAt: start}, core.DedupClaim{Create: goldenActionSpec(), Manual: true, Whole: true}, core.DedupRelease{Holder: id(1)}},
	}
	for kind, k := range kits {
		all[kind] = k.events()
	}
	return all
}

func goldenEntry() core.Entry {
	return core.Entry{
		Seq: math.MaxUint64, At: start, Core: "1", TZDB: "2026a", Instance: "host-1", Inputs: []core.Input{
			{To: effects.Ref{Kind: core.KindAction, ID: id(1)}, Actor: "clock", Event: core.ActionDue{}},
			{To: effects.Ref{Kind: core.KindAction, ID: id(1)}, Actor: "tool", Event: core.ActionComplete{Run: 1, Result: json.RawMessage(`[1, 2]`)}, Ack: 7},
			{To: effects.Ref{Kind: core.KindRecurring, ID: id(9)}, Actor: "api:ann", Event: core.RecurringDelete{}, BySet: &core.Declaration{Set: "ours", File: "backup.toml", TakeOver: true}},
			{To: effects.Ref{Kind: core.KindRecurring, ID: id(3)}, Actor: "api:ann", Event: core.RecurringPause{By: "ann"}},
		},
	}
}

// golden compares with a file of one JSON document a line, or rewrites it.
func golden(t *testing.T, name string, lines [][]byte) [][]byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	got := append(bytes.Join(lines, []byte("\n")), '\n')
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test ./core -run Golden -update makes it")
	assert.Equal(t, string(want), string(got), "the JSON form is a contract: stored data and journals have it")
	return bytes.Split(bytes.TrimSuffix(want, []byte("\n")), []byte("\n"))
}

// goldenDeclared is the record of the set that owns a recurring action.
func goldenDeclared() core.Declared {
	of := effects.Ref{Kind: core.KindRecurring, ID: id(9)}
	return core.Declared{
		ID: core.DeclaredRef(of, "").ID, Kind: of.Kind, Machine: of.ID, Namespace: "n", Tenant: "t", Name: "nightly", Set: "ours", File: "backup.toml", Since: start,
	}
}

func TestTheStoredFormsOfTheStatesAreTheGoldenOnes(t *testing.T) {
	byKind := map[effects.Kind][]core.State{}
	for _, s := range goldenStates() {
		byKind[s.Ref().Kind] = append(byKind[s.Ref().Kind], s)
	}
	for _, kind := range append(slices.Clip(kinds), core.KindName, core.KindDeclared) {
		var lines [][]byte
		for _, s := range byKind[kind] {
			lines = append(lines, s.AppendJSON(nil))
		}
		for i, line := range golden(t, "state_"+string(kind)+".jsonl", lines) {
			s, err := core.DecodeState(kind, line)
			require.NoError(t, err, "line %d", i+1)
			assert.Equal(t, string(line), encoded(s), "read and written again")
			checkStateJSON(t, s)
		}
	}
}

func TestTheJournalFormsOfTheEventsAreTheGoldenOnes(t *testing.T) {
	for _, kind := range kinds {
		var lines [][]byte
		for _, e := range goldenEvents()[kind] {
			lines = append(lines, core.AppendEvent(nil, e))
		}
		for i, line := range golden(t, "event_"+string(kind)+".jsonl", lines) {
			e, err := core.DecodeEvent(kind, line)
			require.NoError(t, err, "line %d", i+1)
			assert.Equal(t, string(line), encoded(e), "read and written again")
		}
	}
}

func TestTheJournalFormOfABatchIsTheGoldenOne(t *testing.T) {
	for _, line := range golden(t, "batch.jsonl", [][]byte{goldenEntry().AppendJSON(nil), core.Entry{Seq: 1, At: start}.AppendJSON(nil)}) {
		b, err := core.DecodeEntry(line)
		require.NoError(t, err)
		assert.Equal(t, string(line), encoded(b), "read and written again")
	}
}

func TestTheOutboxFormOfTheOuterEffectsIsTheGoldenOne(t *testing.T) {
	outer := []effects.Outer{effects.RunTool{Run: 1, Tool: "http"}, effects.RunTool{Run: math.MaxUint32, Tool: "<Größe>"}}
	var lines [][]byte
	for _, e := range outer {
		lines = append(lines, e.AppendJSON(nil))
	}
	for i, line := range golden(t, "effect.jsonl", lines) {
		e, err := effects.DecodeOuter(line)
		require.NoError(t, err)
		assert.Equal(t, outer[i], e)
	}
}

func TestTheBusFormOfAnEventIsTheGoldenOne(t *testing.T) {
	e := effects.Event{
		ID: id(7), Kind: effects.EventKind{Category: "action", Action: "completed"}, Timestamp: start,
		Source: effects.EventSource{Component: "action", ID: id(1)},
	}
	withData := e
	withData.Data = json.RawMessage(`{"n":1}`)
	var lines [][]byte
	for _, e := range []effects.Event{e, withData} {
		b, err := json.Marshal(e)
		require.NoError(t, err)
		lines = append(lines, b)
	}
	golden(t, "bus_event.jsonl", lines)
	assert.Equal(t, "action:completed", e.Kind.String())
}
