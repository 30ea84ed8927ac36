package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// kinds are all kinds of machines; TestEverySealedEventInterfaceIsCovered holds
// that none is missing.
var kinds = []effects.Kind{core.KindAction, core.KindRecurring, core.KindOccurrence, core.KindDedup}

// start is where the tests' clocks begin: a Tuesday.
const start core.Time = 1_770_732_000_000 // 2026-02-10T14:00:00.000Z

// id gives the n-th id of the tests, which traces write as #n.
func id(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
}

// absent gives the state of a machine that does not exist.
func absent(kind effects.Kind) core.State {
	switch kind {
	case core.KindAction:
		return core.Action{}
	case core.KindRecurring:
		return core.RecurringAction{}
	case core.KindOccurrence:
		return core.Occurrence{}
	case core.KindDedup:
		return core.Dedup{}
	}
	return kitOf(kind).absent
}

// apply carries out one transition of whatever machine it is.
func apply(s core.State, e core.Event, c core.Clock) (core.State, []effects.Effect) {
	switch s := s.(type) {
	case core.Action:
		return s.Apply(e.(core.ActionEvent), c)
	case core.RecurringAction:
		return s.Apply(e.(core.RecurringEvent), c)
	case core.Occurrence:
		return s.Apply(e.(core.OccurrenceEvent), c)
	case core.Dedup:
		return s.Apply(e.(core.DedupEvent), c)
	}
	return kitOf(kindOf(s)).apply(s, e, c)
}

// exists reports whether the machine exists.
func exists(s core.State) bool { return !s.Ref().IsZero() }

// refusal gives the refusal among the effects, or nil.
func refusal(effs []effects.Effect) *effects.Refused {
	for _, e := range effs {
		if r, ok := e.(effects.Refused); ok {
			return &r
		}
	}
	return nil
}

// drawClock moves the clock: mostly on, sometimes back, by little or by decades.
func drawClock(t *rapid.T, c core.Clock) core.Clock {
	jump := rapid.SampledFrom([]time.Duration{
		0, time.Millisecond, time.Second, 59 * time.Second, time.Minute, time.Hour, 25 * time.Hour,
		-time.Millisecond, -time.Hour, -24 * time.Hour, 40 * 24 * time.Hour, 30 * 365 * 24 * time.Hour, -30 * 365 * 24 * time.Hour,
	}).Draw(t, "jump")
	return core.Clock{Now: c.Now.Add(jump), Step: c.Step + 1}
}

// drawTime gives an instant near the clock, or now and then far from it.
func drawTime(t *rapid.T, c core.Clock) core.Time {
	switch rapid.IntRange(0, 9).Draw(t, "when") {
	case 0:
		return core.Time(rapid.Int64().Draw(t, "any time"))
	case 1:
		return rapid.SampledFrom([]core.Time{0, effects.MinTime, effects.MaxTime, -1}).Draw(t, "edge")
	default:
		return c.Now.Add(time.Duration(rapid.Int64Range(-100_000, 100_000).Draw(t, "offset")) * time.Millisecond)
	}
}

// drawText gives names and reasons: mostly plain, some hostile.
func drawText(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "http", "<script>&amp;</script>", "\xff\xfe", "tail \xe2\x82", "nul\x00", "\u2028", "Zürich ☃", strings.Repeat("x", 300)}),
		rapid.String(),
	).Draw(t, label)
}

func drawName(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.StringMatching(`[a-z]{1,6}`), rapid.Just("http"), rapid.Just("")).Draw(t, label)
}

// drawJSON gives payloads: mostly valid, some not.
func drawJSON(t *rapid.T, label string) json.RawMessage {
	s := rapid.SampledFrom([]string{
		"", "null", "{}", ` {"a": [1, 2.50, "<&>"]} `, `"\ud800"`, "\"\xff\"", "\u00a0{}", "{", "\xff", "[1e400]", `{"a":1,"a":2}`, "\"\u2028\"",
		strings.Repeat("[", 150) + strings.Repeat("]", 150), strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998),
	}).Draw(t, label)
	return json.RawMessage(s)
}

func drawMap(t *rapid.T, label string) map[string]string {
	if rapid.IntRange(0, 3).Draw(t, label+" shape") == 0 {
		return nil
	}
	n := rapid.SampledFrom([]int{0, 1, 3, 3, core.MaxMapEntries - 2, core.MaxMapEntries - 1, core.MaxMapEntries, core.MaxMapEntries + 1}).Draw(t, label+" size")
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("k%d", i)] = "<v>"
	}
	return m
}

func drawID(t *rapid.T, label string) uuid.UUID {
	n := rapid.IntRange(0, 5).Draw(t, label)
	if n == 0 {
		return uuid.Nil
	}
	return id(n)
}

func drawPolicy(t *rapid.T) core.RunPolicy {
	return core.RunPolicy{
		OnInterrupt: rapid.SampledFrom([]core.OnInterrupt{"", core.InterruptFail, core.InterruptRetry, core.InterruptRetry}).Draw(t, "on_interrupt"),
		MaxAttempts: rapid.SampledFrom([]uint32{0, 1, 2, 3, core.MaxAttemptsEver}).Draw(t, "max_attempts"),
		TimeoutMS:   rapid.SampledFrom([]int64{0, 1, 60_000}).Draw(t, "timeout_ms"),
		OnFailure:   rapid.SampledFrom([]core.OnFailure{"", core.FailureFail, core.FailureRetry, core.FailureRetry}).Draw(t, "on_failure"),
		Backoff:     maybe(t, "backoff", func() core.Backoff { return drawBackoff(t) }),
	}
}

func drawBackoff(t *rapid.T) core.Backoff {
	ms := []int64{0, 1, 250, 30_000, core.MaxBackoffMS, core.MaxBackoffMS + 1, -1}
	return core.Backoff{
		InitialMS:     rapid.SampledFrom(ms).Draw(t, "initial_ms"),
		FactorPercent: rapid.SampledFrom([]uint32{0, 100, 150, 10_000, 99}).Draw(t, "factor_percent"),
		MaxMS:         rapid.SampledFrom(ms).Draw(t, "max_ms"),
		JitterPercent: rapid.SampledFrom([]uint32{0, 30, 100, 101}).Draw(t, "jitter_percent"),
		NoRetry:       rapid.SampledFrom([][]string{nil, {}, {"^a$"}, {"<script>", "x{300}"}, {"("}}).Draw(t, "no_retry"),
	}
}

func drawTrigger(t *rapid.T, c core.Clock) core.Trigger {
	at := max(drawTime(t, c), 1)
	if rapid.IntRange(0, 3).Draw(t, "trigger") == 0 {
		return core.Trigger{
			Type: core.TriggerWebhook, ReceivedAt: min(at, effects.MaxTime), Route: drawName(t, "route"),
			RawPayload: rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "raw_payload"),
			Header:     rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"X":"y"}`), json.RawMessage(" null"), json.RawMessage("\u00a0{}")}).Draw(t, "header"),
		}
	}
	return core.Scheduled(min(at, effects.MaxTime))
}

var cronExprs = []string{"* * * * *", "*/10 * * * * *", "0 9 * * MON-FRI", "30 2 * * *", "0 0 29 2 *", "@every 90s", "@at 2030-01-01T00:00:00Z", "* * * * * *"}

func drawCron(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "odd cron") == 0 {
		return rapid.SampledFrom([]string{"", "0 0 30 2 *", "garbage", "\xff", "0 0 0 1 1 * 1999"}).Draw(t, "bad cron")
	}
	return rapid.SampledFrom(cronExprs).Draw(t, "cron")
}

func drawZone(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "UTC", "Europe/Zurich", "US/Eastern", "Australia/Lord_Howe", "Local", "Mars/Olympus"}).Draw(t, "zone")
}

// drawActionSpec gives specs of which most are accepted.
func drawActionSpec(t *rapid.T, c core.Clock) core.ActionSpec {
	s := core.ActionSpec{
		ID: drawID(t, "id"), ToolName: "http", Trigger: drawTrigger(t, c), Policy: drawPolicy(t),
		DedupKey: rapid.SampledFrom([]string{"", "", "k", "k2"}).Draw(t, "dedup_key"),
	}
	if rapid.Bool().Draw(t, "rich") {
		s.Namespace, s.Tenant, s.ActionType = drawName(t, "namespace"), drawName(t, "tenant"), drawName(t, "action_type")
		s.Metadata, s.Labels = drawMap(t, "metadata"), drawMap(t, "labels")
		s.Occurrence = drawID(t, "occurrence")
		s.ToolInput = drawJSON(t, "tool_input")
		s.Label = drawText(t, "label")
	}
	switch rapid.IntRange(0, 5).Draw(t, "recurrence") {
	case 0:
		s.Recurrence = core.Every(time.Duration(rapid.Int64Range(1, 100_000).Draw(t, "period")) * time.Second)
	case 1:
		s.Recurrence = core.CronRecurrence(drawCron(t), drawZone(t))
	case 2:
		s.Recurrence = core.Recurrence{Period: rapid.SampledFrom([]time.Duration{1, -1, time.Millisecond, math.MaxInt64}).Draw(t, "odd period")}
	}
	return s
}

func drawRecurringSpec(t *rapid.T, c core.Clock) core.RecurringSpec {
	s := core.RecurringSpec{
		ID: drawID(t, "id"), CronExpr: drawCron(t), Timezone: drawZone(t),
		Enabled: rapid.IntRange(0, 3).Draw(t, "enabled") > 0,
		ActionTemplate: core.RecurringActionTemplate{
			Provider: "http", ActionType: "get",
			DedupKey: rapid.SampledFrom([]string{"", "{{recurring_id}}", "d-{{execution_time}}"}).Draw(t, "dedup_key"),
		},
		StartDeadlineSeconds: rapid.SampledFrom([]int64{0, 0, 1, 30, 3600, 3601, -1}).Draw(t, "start_deadline_seconds"),
		Policy:               drawPolicy(t),
	}
	if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
		s.EndsAt = drawTime(t, c)
	}
	if rapid.IntRange(0, 3).Draw(t, "policies") > 0 {
		s.ScheduleOptions, s.Overlap = drawPolicies(t, c), drawOverlapPolicy(t)
	}
	s.Name = drawGivenName(t)
	if rapid.Bool().Draw(t, "rich") {
		s.Namespace, s.Tenant = drawName(t, "namespace"), drawName(t, "tenant")
		s.ActionTemplate.Payload = drawJSON(t, "payload")
		s.ActionTemplate.Metadata, s.Labels = drawMap(t, "metadata"), drawMap(t, "labels")
		s.Description = drawText(t, "description")
	}
	return s
}

// drawGivenName gives a name of a machine, of which many have the same, or none.
func drawGivenName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", "nightly", "nightly", "weekly", "0.9_b-2", "-v"}).Draw(t, "name")
}

func drawOverlapPolicy(t *rapid.T) core.OverlapPolicy {
	return rapid.SampledFrom([]core.OverlapPolicy{
		"", core.OverlapAllow, core.OverlapSkip, core.OverlapForbid, core.OverlapBufferOne, core.OverlapBufferAll, core.OverlapBufferAll,
		core.OverlapCancelOther, core.OverlapReplace, core.OverlapTerminateOther, "queue",
	}).Draw(t, "overlap")
}

// drawPolicies gives options of which most are accepted.
func drawPolicies(t *rapid.T, c core.Clock) core.ScheduleOptions {
	o := core.ScheduleOptions{
		DST:                   rapid.SampledFrom([]schedule.DST{"", "", schedule.DSTOnceShifted, schedule.DSTSkip, schedule.DSTTwice}).Draw(t, "dst"),
		MaxExecutions:         rapid.SampledFrom([]uint64{0, 0, 1, 3, math.MaxUint64}).Draw(t, "max_executions"),
		JitterSeconds:         rapid.SampledFrom([]int64{0, 0, 0, 30, core.MaxJitterSeconds, -1}).Draw(t, "jitter_seconds"),
		Missed:                rapid.SampledFrom([]core.MissedPolicy{"", core.MissedSkip, core.MissedLatest, core.MissedAll, core.MissedAll, core.MissedAll}).Draw(t, "missed"),
		CatchUpSeconds:        rapid.SampledFrom([]int64{0, 0, 90, core.MaxCatchUpSeconds}).Draw(t, "catch_up_seconds"),
		CatchUpLimit:          rapid.SampledFrom([]uint32{0, 1, 3, 3, core.MaxCatchUpLimit}).Draw(t, "catch_up_limit"),
		CatchUpSpacingSeconds: rapid.SampledFrom([]int64{0, 0, 1, 60}).Draw(t, "catch_up_spacing_seconds"),
		BufferLimit:           rapid.SampledFrom([]uint32{0, 1, 2, core.MaxBufferLimit}).Draw(t, "buffer_limit"),
		MaxWaitSeconds:        rapid.SampledFrom([]int64{0, 0, 1, 90, -1}).Draw(t, "max_wait_seconds"),
	}
	if rapid.IntRange(0, 9).Draw(t, "odd options") == 0 {
		o.Calendars, o.DayMatch = []string{drawName(t, "calendar")}, schedule.DayMatchBoth
	}
	if rapid.IntRange(0, 9).Draw(t, "starts") == 0 {
		o.StartsAt = drawTime(t, c)
	}
	if rapid.IntRange(0, 2).Draw(t, "alerts") == 0 {
		o.Alerts = drawAlertRules(t)
	}
	return o
}

// maybe gives a pointer to a drawn value, or nil.
func maybe[T any](t *rapid.T, label string, draw func() T) *T {
	if rapid.IntRange(0, 3).Draw(t, label+"?") > 0 {
		return nil
	}
	v := draw()
	return &v
}

func drawPatch(t *rapid.T, c core.Clock) core.RecurringPatch {
	p := core.RecurringPatch{
		Name:                 maybe(t, "name", func() string { return drawGivenName(t) }),
		CronExpr:             maybe(t, "cron_expr", func() string { return drawCron(t) }),
		Timezone:             maybe(t, "timezone", func() string { return drawZone(t) }),
		Enabled:              maybe(t, "enabled", func() bool { return rapid.Bool().Draw(t, "enabled") }),
		Metadata:             maybe(t, "metadata", func() map[string]string { return drawMap(t, "metadata") }),
		DedupKey:             maybe(t, "dedup_key", func() string { return drawName(t, "dedup_key") }),
		Description:          maybe(t, "description", func() string { return drawText(t, "description") }),
		Labels:               maybe(t, "labels", func() map[string]string { return drawMap(t, "labels") }),
		EndsAt:               maybe(t, "ends_at", func() int64 { return int64(drawTime(t, c)) }),
		Provider:             maybe(t, "provider", func() string { return drawName(t, "provider") }),
		ActionType:           maybe(t, "action_type", func() string { return drawName(t, "action_type") }),
		StartDeadlineSeconds: maybe(t, "start_deadline_seconds", func() int64 { return rapid.Int64Range(0, 3600).Draw(t, "start_deadline_seconds") }),
		Policy:               maybe(t, "policy", func() core.RunPolicy { return drawPolicy(t) }),
		Overlap:              maybe(t, "overlap", func() core.OverlapPolicy { return drawOverlapPolicy(t) }),
	}
	if rapid.IntRange(0, 3).Draw(t, "policies") == 0 {
		o := drawPolicies(t, c)
		p.ScheduleOptionsPatch = core.ScheduleOptionsPatch{
			DST: &o.DST, MaxExecutions: &o.MaxExecutions, JitterSeconds: &o.JitterSeconds, Calendars: &o.Calendars, Missed: &o.Missed, CatchUpSeconds: &o.CatchUpSeconds,
			CatchUpLimit: &o.CatchUpLimit, CatchUpSpacingSeconds: &o.CatchUpSpacingSeconds, BufferLimit: &o.BufferLimit, MaxWaitSeconds: &o.MaxWaitSeconds, Alerts: &o.Alerts,
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "payload?") == 0 {
		p.Payload = drawJSON(t, "payload")
	}
	return p
}

// drawEvent gives an event for the machine, biased to those that it can take.
// It draws every event type; TestTheGeneratorsDrawEveryEvent holds that.
func drawEvent(t *rapid.T, s core.State, c core.Clock) core.Event {
	switch s := s.(type) {
	case core.Action:
		return drawActionEvent(t, s, c)
	case core.RecurringAction:
		return drawRecurringEvent(t, s, c)
	case core.Occurrence:
		return drawOccurrenceEvent(t, s, c)
	case core.Dedup:
		return drawDedupEvent(t, s, c)
	}
	return kitOf(kindOf(s)).draw(t, s, c)
}

func drawActionEvent(t *rapid.T, a core.Action, c core.Clock) core.Event {
	if !exists(a) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.ActionCreate{Spec: drawActionSpec(t, c)}
	}
	run := rapid.OneOf(rapid.Just(a.Run), rapid.Just(a.Run), rapid.SampledFrom([]uint32{0, 1, math.MaxUint32})).Draw(t, "run")
	switch rapid.SampledFrom([]string{"due", "due", "trigger", "cancel", "complete", "complete", "fail", "interrupt", "interrupt", "hand_back", "expire", "create"}).Draw(t, "event") {
	case "due":
		return core.ActionDue{Absences: drawAbsences(t, c.Now.Add(-time.Hour), c.Now)}
	case "trigger":
		return core.ActionTrigger{}
	case "cancel":
		mode := rapid.SampledFrom([]core.CancelMode{"", core.CancelAwait, core.CancelAwait, core.CancelKill, "later"}).Draw(t, "mode")
		return core.ActionCancel{Reason: drawText(t, "reason"), Mode: mode}
	case "complete":
		return core.ActionComplete{Run: run, Result: drawJSON(t, "result")}
	case "fail":
		return core.ActionFail{
			Run: run, Reason: drawText(t, "reason"), Result: drawJSON(t, "result"),
			Permanent: rapid.IntRange(0, 4).Draw(t, "permanent") == 0, TimedOut: rapid.Bool().Draw(t, "timed_out"),
			RetryAfterMS: rapid.SampledFrom([]int64{0, 0, 1, 60_000, math.MaxInt64, -1}).Draw(t, "retry_after_ms"),
		}
	case "interrupt":
		return core.ActionInterrupt{Run: run, Reason: drawText(t, "reason")}
	case "hand_back":
		return core.ActionHandBack{Run: run}
	case "expire":
		return core.ActionExpire{}
	}
	return core.ActionCreate{Spec: drawActionSpec(t, c)}
}

func drawRecurringEvent(t *rapid.T, r core.RecurringAction, c core.Clock) core.Event {
	if !exists(r) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.RecurringCreate{Spec: drawRecurringSpec(t, c)}
	}
	switch rapid.SampledFrom([]string{
		"due", "due", "due", "due", "update", "update", "pause", "resume", "resume", "trigger", "deduplicated", "delete", "create",
		"skip", "cancel", "backfill", "ended", "ended", "ended",
	}).Draw(t, "event") {
	case "due":
		return core.RecurringDue{Refusal: rapid.SampledFrom([]string{"", "", "", "id: action exists already", "\xff"}).Draw(t, "refusal"), Absences: drawAbsences(t, c.Now.Add(-time.Hour), c.Now)}
	case "update":
		return core.RecurringUpdate{Patch: drawPatch(t, c), Absences: drawAbsences(t, c.Now.Add(-time.Hour), c.Now)}
	case "pause":
		e := core.RecurringPause{By: drawText(t, "by"), Reason: drawText(t, "reason")}
		if rapid.Bool().Draw(t, "until?") {
			e.Until = drawTime(t, c)
		}
		return e
	case "resume":
		return core.RecurringResume{}
	case "trigger":
		return core.RecurringTrigger{Payload: drawJSON(t, "payload")}
	case "skip":
		return core.RecurringSkipNext{}
	case "cancel":
		return core.RecurringCancelWaiting{Occurrence: drawWaiting(t, r), Reason: drawText(t, "reason")}
	case "backfill":
		at := drawTime(t, c)
		if next := r.Upcoming(c.Now.Add(-time.Hour), 1, nil); len(next) > 0 && rapid.IntRange(0, 3).Draw(t, "due") > 0 {
			at = next[0]
		}
		return core.BackfillTime{At: at, Owner: rapid.SampledFrom([]core.Owner{recurringOwner, recurringOwner, {}}).Draw(t, "owner")}
	case "deduplicated":
		return core.RecurringDeduplicated{LastExecutedAt: c.Now, N: uint32(drawRunning(t, r).N)}
	case "ended":
		n := drawRunning(t, r)
		return core.ChildEnded{
			Child: effects.Ref{Kind: core.KindAction, ID: n.Action}, N: uint32(n.N), Reason: drawText(t, "reason"),
			Outcome: rapid.SampledFrom([]core.ChildOutcome{core.ChildSucceeded, core.ChildFailed, core.ChildCancelled, core.ChildRefused}).Draw(t, "outcome"),
			Limited: rapid.Bool().Draw(t, "limited"),
		}
	case "delete":
		return core.RecurringDelete{Absences: drawAbsences(t, c.Now.Add(-time.Hour), c.Now)}
	}
	return core.RecurringCreate{Spec: drawRecurringSpec(t, c)}
}

// drawRunning gives one of the dispatches that have not ended, if there are any.
func drawRunning(t *rapid.T, r core.RecurringAction) core.RunningTime {
	if len(r.Running) == 0 {
		return core.RunningTime{N: rapid.Uint64Range(0, 2).Draw(t, "n"), Action: id(7)}
	}
	return rapid.SampledFrom(r.Running).Draw(t, "runs")
}

// drawWaiting gives the entry of a time that waits, if there are any.
func drawWaiting(t *rapid.T, r core.RecurringAction) uuid.UUID {
	if len(r.Waiting) == 0 || r.Ledger == nil {
		return drawID(t, "occurrence")
	}
	return core.ChildID(r.ID, "occurrence", r.Ledger.Epoch, rapid.SampledFrom(r.Waiting).Draw(t, "waits").N)
}

func drawOccurrence(t *rapid.T, c core.Clock) core.Occurrence {
	o := core.Occurrence{
		ID: drawID(t, "id"), RecurringID: drawID(t, "recurring"), DueAt: c.Now, LastDueAt: c.Now, DecidedAt: c.Now,
		Verdict: rapid.SampledFrom(append(core.Verdicts(), core.VerdictDispatched)).Draw(t, "verdict"),
		Count:   rapid.SampledFrom([]uint64{1, 0, math.MaxUint64}).Draw(t, "count"), CountCapped: rapid.Bool().Draw(t, "capped"),
		ActionID: drawID(t, "action"), Reason: strings.ToValidUTF8(drawText(t, "reason"), "?"), // it comes from the kernel
	}
	if rapid.IntRange(0, 3).Draw(t, "of an earlier build") == 0 {
		return o
	}
	o.Schedule = rapid.SampledFrom(core.OccurrenceSchedules()).Draw(t, "schedule")
	o.Namespace, o.Tenant = drawName(t, "namespace"), drawName(t, "tenant")
	o.Name, o.Number, o.Latest = strings.ToValidUTF8(drawText(t, "name"), "?"), 1, rapid.Bool().Draw(t, "latest")
	o.Manual = rapid.Bool().Draw(t, "manual")
	if rapid.Bool().Draw(t, "backfilled") {
		o.Backfill = drawID(t, "backfill")
	}
	return o
}

func drawOccurrenceEvent(t *rapid.T, o core.Occurrence, c core.Clock) core.Event {
	if !exists(o) && rapid.IntRange(0, 9).Draw(t, "make") > 0 {
		return core.OccurrenceRecord{Occurrence: drawOccurrence(t, c)}
	}
	switch rapid.SampledFrom([]string{"settle", "deduplicate", "decide", "extend", "outlived", "expire", "record"}).Draw(t, "event") {
	case "settle":
		outcome := rapid.SampledFrom([]core.StatusType{core.StatusCompleted, core.StatusFailed, core.StatusCancelled}).Draw(t, "outcome")
		return core.OccurrenceSettle{Outcome: outcome, Reason: drawText(t, "reason"), StartedAt: c.Now, FinishedAt: c.Now}
	case "deduplicate":
		return core.OccurrenceDeduplicate{Holder: drawID(t, "holder")}
	case "decide":
		return core.OccurrenceDecide{Verdict: rapid.SampledFrom(core.Verdicts()).Draw(t, "verdict"), Reason: drawText(t, "reason"), ActionID: drawID(t, "action")}
	case "extend":
		return core.OccurrenceExtend{LastDueAt: c.Now.Add(time.Minute), Count: rapid.SampledFrom([]uint64{1, math.MaxUint64}).Draw(t, "count"), Capped: rapid.Bool().Draw(t, "capped")}
	case "outlived":
		return core.OccurrenceOutlived{}
	case "expire":
		return core.OccurrenceExpire{}
	}
	return core.OccurrenceRecord{Occurrence: drawOccurrence(t, c)}
}

func drawDedupEvent(t *rapid.T, d core.Dedup, c core.Clock) core.Event {
	if rapid.Bool().Draw(t, "claim") {
		return core.DedupClaim{Create: drawActionSpec(t, c), LastExecutedAt: c.Now}
	}
	return core.DedupRelease{Holder: rapid.OneOf(rapid.Just(d.Holder), rapid.Just(id(1)), rapid.Just(uuid.Nil)).Draw(t, "holder")}
}
