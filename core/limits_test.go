package core_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func nested(depth int) json.RawMessage {
	return json.RawMessage(strings.Repeat(`[`, depth) + strings.Repeat("]", depth))
}

func TestAnActionIsRefusedWithTheFieldAndTheValueThatIsWrong(t *testing.T) {
	for _, row := range []struct {
		name, want string
		change     func(*core.ActionSpec)
	}{
		{"no id", "id: must be a UUID", func(s *core.ActionSpec) { s.ID = [16]byte{} }},
		{"no tool", "tool_name: must not be empty", func(s *core.ActionSpec) { s.ToolName = "" }},
		{"long tool", "tool_name: 256 bytes is longer than 255", func(s *core.ActionSpec) { s.ToolName = strings.Repeat("x", 256) }},
		{"invalid UTF-8", `label: "\xff" is not valid UTF-8`, func(s *core.ActionSpec) { s.Label = "\xff" }},
		{"NUL byte", "label: ", func(s *core.ActionSpec) { s.Label = "a\x00" }},
		{"control character", "tenant: ", func(s *core.ActionSpec) { s.Tenant = "a\x1fb" }},
		{"scope that no list index could name", "namespace and tenant: together 501 bytes are longer than 500", func(s *core.ActionSpec) {
			s.Namespace, s.Tenant = strings.Repeat("n", 250), strings.Repeat("t", 251)
		}},
		{"no trigger type", `trigger.type: "" is unknown: use "scheduled" or "webhook"`, func(s *core.ActionSpec) { s.Trigger = core.Trigger{} }},
		{"no time", "trigger.next_tick_at: missing", func(s *core.ActionSpec) { s.Trigger = core.Scheduled(0) }},
		{"before 1970", "trigger.next_tick_at: -1 ms is out of range", func(s *core.ActionSpec) { s.Trigger = core.Scheduled(-1) }},
		{"after 9999", "trigger.next_tick_at: 253402300800000 ms is out of range", func(s *core.ActionSpec) { s.Trigger = core.Scheduled(effects.MaxTime + 1) }},
		{"input no JSON", `tool_input: "{" is not valid JSON`, func(s *core.ActionSpec) { s.ToolInput = json.RawMessage("{") }},
		{"white space that JSON does not know", "tool_input: ", func(s *core.ActionSpec) { s.ToolInput = json.RawMessage("\u00a0{}") }},
		{"input too deep", "tool_input: nested deeper than 200 levels", func(s *core.ActionSpec) { s.ToolInput = nested(201) }},
		{"huge input", "tool_input: 1048577 bytes is more than 1048576", func(s *core.ActionSpec) { s.ToolInput = make(json.RawMessage, core.MaxInputBytes+1) }},
		{"too many labels", "labels: 65 entries are more than 64", func(s *core.ActionSpec) {
			s.Labels = map[string]string{}
			for i := range 65 {
				s.Labels[fmt.Sprint(i)] = ""
			}
		}},
		{"negative period", "recurrence: a period of -1s", func(s *core.ActionSpec) { s.Recurrence = core.Every(-time.Second) }},
		{"period of a fraction", "recurrence: a period of 1.5s", func(s *core.ActionSpec) { s.Recurrence = core.Every(1500 * time.Millisecond) }},
		{"30 February", `recurrence.cron: "0 0 30 2 *" never fires`, func(s *core.ActionSpec) { s.Recurrence = core.CronRecurrence("0 0 30 2 *", "") }},
		{"no cron", `recurrence.cron: minute field "61": 61 is out of range 0-59`, func(s *core.ActionSpec) { s.Recurrence = core.CronRecurrence("61 * * * *", "") }},
		{"too many attempts", "policy.max_attempts: 1000001 is not between 1 and 1000000; 0 means the default, 3", func(s *core.ActionSpec) { s.Policy.MaxAttempts = 1_000_001 }},
		{"unknown zone", `recurrence.timezone: "Mars/Olympus" is not`, func(s *core.ActionSpec) { s.Recurrence = core.CronRecurrence("* * * * *", "Mars/Olympus") }},
		{"two recurrences", "recurrence: has both", func(s *core.ActionSpec) { s.Recurrence = core.Recurrence{Period: time.Hour, Cron: "* * * * *"} }},
		{"unknown policy", `policy.on_interrupt: "again" is unknown`, func(s *core.ActionSpec) { s.Policy.OnInterrupt = "again" }},
		{"negative time-out", "policy.timeout_ms: -1 is not between", func(s *core.ActionSpec) { s.Policy.TimeoutMS = -1 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			after, effs := core.Action{}.Apply(core.ActionCreate{Spec: changed(goldenActionSpec(), row.change)}, core.Clock{Now: start})
			requireInvalid(t, after, effs, row.want)
		})
	}
}

func TestEveryNestingThatIsAcceptedCanBeReadBack(t *testing.T) {
	deep := nested(core.MaxJSONDepth)
	spec := goldenActionSpec()
	spec.Recurrence, spec.ToolInput = core.Recurrence{}, deep
	state, effs := core.Action{}.Apply(core.ActionCreate{Spec: spec}, core.Clock{Now: start})
	require.Empty(t, effs)
	state, _ = state.Apply(core.ActionDue{}, core.Clock{Now: start})
	complete := core.ActionComplete{Run: 1, Result: deep}
	state, _ = state.Apply(complete, core.Clock{Now: start})
	assert.Equal(t, core.StatusCompleted, state.Status.Type)
	checkStateJSON(t, state)
	batch := core.Entry{Seq: 1, At: start, Inputs: []core.Input{{To: state.Ref(), Event: core.ActionCreate{Spec: spec}}, {To: state.Ref(), Event: complete}}}
	_, err := core.DecodeEntry(batch.AppendJSON(nil))
	require.NoError(t, err)
}

func TestAResultThatIsNestedTooDeepFailsTheRunAndPoisonsNeitherStateNorJournal(t *testing.T) {
	for _, depth := range []int{core.MaxJSONDepth + 1, 9_999, 10_001} {
		running, _ := made(core.KindAction).(core.Action).Apply(core.ActionDue{}, core.Clock{Now: start})
		e := core.ActionComplete{Run: 1, Result: nested(depth)}
		after, _ := running.Apply(e, core.Clock{Now: start})
		assert.Equal(t, core.StatusFailed, after.Status.Type)
		assert.Contains(t, after.Status.Reason, "not valid JSON of at most 200 levels")
		checkStateJSON(t, after)
		checkEventJSON(t, core.KindAction, e)
	}
}

func TestBracketsInsideStringsAreNoNesting(t *testing.T) {
	spec := goldenActionSpec()
	spec.ToolInput = json.RawMessage(`"\"` + strings.Repeat("[{", 300) + `"`)
	assert.NoError(t, spec.Validate())
}

// A command's error output has invalid bytes in a row; a replay sees them after
// JSON, where each has become one U+FFFD.
func TestAReasonWithInvalidBytesIsTheSameLiveAndReplayed(t *testing.T) {
	running, _ := made(core.KindAction).(core.Action).Apply(core.ActionDue{}, core.Clock{Now: start})
	e := core.ActionFail{Run: 1, Reason: "exit status 1: \xff\xfe\xfd"}
	live, _ := running.Apply(e, core.Clock{Now: start})
	replayed := reapply(t, core.KindAction, running, e, core.Clock{Now: start})
	assert.Equal(t, "exit status 1: \uFFFD\uFFFD\uFFFD", live.Status.Reason)
	assert.Equal(t, encoded(live), encoded(replayed))
}

func TestARecurringActionWithoutPayloadIsTheSameLiveAndReplayed(t *testing.T) {
	e := core.RecurringCreate{Spec: goldenRecurringSpec()}
	e.Spec.ActionTemplate.Payload = nil
	live, effs := core.RecurringAction{}.Apply(e, core.Clock{Now: start})
	require.Nil(t, refusal(effs))
	replayed := reapply(t, core.KindRecurring, core.RecurringAction{}, e, core.Clock{Now: start})
	assert.JSONEq(t, `{}`, string(live.ActionTemplate.Payload))
	assert.Equal(t, encoded(live), encoded(replayed))
}

func TestAMapThatIsClearedByANilMapIsTheSameLiveAndReplayed(t *testing.T) {
	before, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: goldenRecurringSpec()}, core.Clock{Now: start})
	var none map[string]string
	e := core.RecurringUpdate{Patch: core.RecurringPatch{Metadata: &none, Labels: &none}}
	live, _ := before.Apply(e, core.Clock{Now: start})
	assert.Empty(t, live.Labels)
	assert.Empty(t, live.ActionTemplate.Metadata)
	assert.Equal(t, encoded(live), encoded(reapply(t, core.KindRecurring, before, e, core.Clock{Now: start})))
}

// The action has two entries more than its template (C3): were the template
// full, each occurrence would announce an action that its machine refuses.
func TestATemplateThatLeavesNoRoomForTheMarksOfADispatchIsRefused(t *testing.T) {
	for entries, accepted := range map[int]bool{core.MaxMapEntries - 2: true, core.MaxMapEntries - 1: false, core.MaxMapEntries: false} {
		spec := goldenRecurringSpec()
		spec.ActionTemplate.Metadata = map[string]string{}
		for i := range entries {
			spec.ActionTemplate.Metadata[fmt.Sprint(i)] = "v"
		}
		_, effs := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
		assert.Equal(t, accepted, refusal(effs) == nil, "%d entries", entries)
	}
}

func TestWhatWasMissedBeforeTheEndIsDecidedEvenWhereTheClockJumpsBack(t *testing.T) {
	spec := goldenRecurringSpec()
	spec.CronExpr, spec.Timezone, spec.EndsAt = "0 * * * *", "UTC", start.Add(150*time.Minute)
	r, _ := core.RecurringAction{}.Apply(core.RecurringCreate{Spec: spec}, core.Clock{Now: start})
	r, _ = r.Apply(core.RecurringDue{}, core.Clock{Now: start.Add(3 * time.Hour)})
	require.EqualValues(t, 2, r.MissedCount, "15:00 and 16:00")
	never, yes := int64(0), true
	r, effs := r.Apply(core.RecurringUpdate{Patch: core.RecurringPatch{EndsAt: &never, Enabled: &yes}}, core.Clock{Now: start.Add(-time.Hour)})
	require.Nil(t, refusal(effs))
	assert.Equal(t, start.Add(3*time.Hour), r.NextExecutionAt, "15:00 and 16:00 must not be decided a second time")
}

func TestAPeriodThatNoValidationLetsThroughEndsTheRecurrenceInsteadOfPanicking(t *testing.T) {
	a, _ := made(core.KindAction).(core.Action).Apply(core.ActionDue{}, core.Clock{Now: start})
	a.Recurrence = core.Recurrence{Period: 1}
	a, _ = a.Apply(core.ActionComplete{Run: 1}, core.Clock{Now: start})
	assert.Equal(t, core.StatusCompleted, a.Status.Type)
}

func TestAClaimWhoseActionExistsAlreadyLeavesTheKeyFree(t *testing.T) {
	existing := made(core.KindAction)
	spec := core.ActionSpec{ID: id(1), ToolName: "http", DedupKey: "new", Trigger: core.Scheduled(start)}
	key := core.DedupRef("", "", "new")
	batch := core.NewBatch(loader{existing.Ref(): existing}, core.Clock{Now: start}, 1)
	res, err := batch.Apply(core.Input{To: key, Event: core.DedupClaim{Create: spec}})
	require.NoError(t, err)
	require.NotNil(t, res.Refused)
	assert.Equal(t, effects.CodeExists, res.Refused.Code)
	assert.False(t, res.Changed)
	assert.Empty(t, batch.Changes())
	held, err := batch.State(key)
	require.NoError(t, err)
	assert.Nil(t, held)
}

func TestAKeyThatIsEmptyCannotBeClaimed(t *testing.T) {
	_, effs := core.Dedup{}.Apply(core.DedupClaim{Create: core.ActionSpec{ID: id(1), ToolName: "http", Trigger: core.Scheduled(start)}}, core.Clock{Now: start})
	require.NotNil(t, refusal(effs))
	assert.Equal(t, "dedup_key: must not be empty", refusal(effs).Reason)
}

func TestAnInputThatWouldMakeAnotherMachineThanItIsSentToLeavesNoTrace(t *testing.T) {
	for name, in := range map[string]core.Input{
		"create":   {To: effects.Ref{Kind: core.KindAction, ID: id(9)}, Event: core.ActionCreate{Spec: goldenActionSpec()}},
		"claim":    {To: effects.Ref{Kind: core.KindDedup, ID: id(9)}, Event: core.DedupClaim{Create: goldenActionSpec()}},
		"no event": {To: effects.Ref{Kind: core.KindAction, ID: id(9)}},
		"no kind":  {To: effects.Ref{Kind: "planet", ID: id(9)}, Event: core.ActionDue{}},
	} {
		batch := core.NewBatch(loader{}, core.Clock{Now: start}, 1)
		res, err := batch.Apply(in)
		require.Error(t, err, name)
		assert.Zero(t, res)
		assert.Empty(t, batch.Changes(), name)
	}
}

func TestEveryTermFitsIntoAStore(t *testing.T) {
	spec := goldenActionSpec()
	spec.Namespace, spec.Tenant, spec.ToolName = strings.Repeat("n", 245), strings.Repeat("t", 255), strings.Repeat("o", 255)
	spec.Labels = map[string]string{"k": strings.Repeat("v", core.MaxListedLabel-1), "l": strings.Repeat("v", core.MaxTextBytes)}
	require.NoError(t, spec.Validate())
	terms := (core.Action{ActionSpec: spec}).Terms()
	require.Len(t, terms, 4, "all, status, tool, and one of the labels")
	for _, term := range terms {
		assert.LessOrEqual(t, len(term.Name), 1024)
	}
}

func TestATemplateOfADedupKeyWithAnotherPlaceholderIsRefused(t *testing.T) {
	r := made(core.KindRecurring).(core.RecurringAction)
	for template, want := range map[string]string{
		"{{recurring_id}}/{{execution_time}}": "",
		"plain":                               "",
		"{{execution_tme}}":                   `dedup_key: "{{execution_tme}}" has the placeholder "{{execution_tme}}": use {{recurring_id}} or {{execution_time}}`,
		"{{recurring_id}}-{{x":                `dedup_key: "{{recurring_id}}-{{x" has the placeholder "{{x": use {{recurring_id}} or {{execution_time}}`,
	} {
		_, effs := r.Apply(core.RecurringUpdate{Patch: core.RecurringPatch{DedupKey: &template}}, core.Clock{Now: start})
		refusal, refused := effs[0].(effects.Refused)
		assert.Equal(t, want != "", refused, template)
		assert.Equal(t, want, refusal.Reason)
	}
}
