package httpapi

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/httpapi/internal/openapi"
)

// bodies are the types of all bodies that openapi.json describes.
func bodies(t *testing.T) []reflect.Type {
	t.Helper()
	var d struct {
		Paths map[string]map[string]struct {
			RequestBody json.RawMessage `json:"requestBody"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(openAPIDocument, &d))
	schema := regexp.MustCompile(`#/components/schemas/(\w+)`)
	found := map[string]reflect.Type{}
	for _, ops := range d.Paths {
		for _, op := range ops {
			for _, m := range schema.FindAllStringSubmatch(string(op.RequestBody), -1) {
				require.Contains(t, openapi.Types, m[1])
				found[m[1]] = openapi.Types[m[1]]
			}
		}
	}
	require.Greater(t, len(found), 20)
	var out []reflect.Type
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[name])
	}
	return out
}

// couldName lists the fields within a type that could name a machine: texts and ids, and what
// is made of them, as "Type.field".
func couldName(typ reflect.Type, seen map[reflect.Type]bool, fields map[string]bool) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice && typ != reflect.TypeFor[json.RawMessage]() {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || seen[typ] {
		return
	}
	seen[typ] = true
	for f := range typ.Fields() {
		if !f.IsExported() {
			continue
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Map || inner.Kind() == reflect.Slice && inner != reflect.TypeFor[json.RawMessage]() {
			inner = inner.Elem()
		}
		if name, _, _ := strings.Cut(inner.Name(), "["); name == "Optional" {
			v, _ := inner.FieldByName("Value")
			inner = v.Type
		}
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if inner.Kind() == reflect.String || inner == reflect.TypeFor[uuid.UUID]() || inner == reflect.TypeFor[json.RawMessage]() || inner.Kind() == reflect.Uint8 {
			fields[strings.TrimSuffix(typ.Name(), "Request")+"."+tag] = true
		}
		couldName(inner, seen, fields)
	}
}

func TestEachFieldThatCouldNameAnotherMachineHasItsRule(t *testing.T) {
	fields := map[string]bool{}
	for _, typ := range bodies(t) {
		couldName(typ, map[reflect.Type]bool{}, fields)
	}
	var listed []string
	for _, rule := range fieldRules {
		listed = append(listed, strings.Fields(rule.fields)...)
	}
	assert.ElementsMatch(t, slices.Sorted(maps.Keys(fields)), slices.Sorted(slices.Values(listed)), "a field that could name another machine stands in fieldRules, with what keeps it from naming one that the caller does not see")
}

// fieldRules says of each field of a request what keeps it from naming a machine that the caller
// does not see.
var fieldRules = []struct{ rule, fields string }{
	{"an id that mayRead or dependencies looks at: it names only what the caller sees", `
		Pipeline.depends_on PipelinesPhase.await`},
	{"an id of anybody's machine, in a route of who is bound to nothing", `
		Source.component Source.id EventKind.action EventKind.category Event.data Event.namespace Event.tenant`},
	{"what a subscriber hears, which is of its own tenant or of none: core/tenants_test.go", `
		EventMatch.source_id EventMatch.action EventMatch.category EventMatch.component EventMatch.data`},
	{"what a subscriber reaches, which is of its own tenant alone, whatever id it names: core/tenants_test.go; the core refuses another tenant's name", `
		SignalReaction.pipeline SignalReaction.name MachineName.name MachineName.namespace MachineName.tenant
		PipelineReaction.context PipelineReaction.namespace PipelineReaction.tenant`},
	{"a channel of the configuration, for an admin", `
		NotifyTest.channel`},
	{"an instance of the cluster, for an admin", `
		ClusterDrain.instance`},
	{"the reason why a partition of the cluster is stopped, for an admin", `
		ClusterAcceptLoss.stopped`},
	{"a schedule that the caller could trigger: backfillOf", `
		Backfill.recurring_id Backfill.job`},
	{"the id of the machine that is made, which must be free", `
		Action.id Pipeline.id RetryAction.id Strategy.id Task.id`},
	{"the name of the machine that is made or renamed, which must be free in its tenant", `
		Recurring.name RecurringPatch.name`},
	{"the name of what a set declares, or what that had before: of the tenant of the entry, in which a token that is bound to tools declares nothing", `
		SetEntry.was SetJob.id SetQueue.name SetSemaphore.name SetSubscriber.name SetWorker.name`},
	{"an item of the queue of the path", `
		Redrive.item`},
	{"where the machine is made: homeOf refuses another tenant's", `
		Action.namespace Action.tenant Backfill.namespace Backfill.tenant Calendar.namespace Calendar.tenant Job.namespace Job.tenant Pipeline.namespace Pipeline.tenant Recurring.namespace Recurring.tenant
		SetQueue.namespace SetQueue.tenant SetSemaphore.namespace SetSemaphore.tenant SetSubscriber.namespace SetSubscriber.tenant SetWorker.namespace SetWorker.tenant
		Strategy.namespace Strategy.tenant Task.namespace Task.tenant`},
	{"a name within the tenant, of what a token that is bound to tools may not do at all", `
		PushPhase.queue PushPhase.key PushPhase.dedup_key PushPhase.data WakePhase.worker Worker.queue QueueConfig.dead_letter_queue
		Push.data Push.dedup_key Push.key Take.holder Hold.holder Fail.error Complete.result`},
	{"a lock or a semaphore of the tenant, by its name: they are open to all of the tenant, see leases.go", `
		LockPhase.name UnlockPhase.name SemaphorePhase.name Acquire.holder AcquireSlots.holder Holder.holder Release.holder`},
	{"a calendar of the tenant, by its name: they are open to all of the tenant, see calendars.go", `
		ScheduleOptions.calendars`},
	{"a tool: permitUses, and its input: permitInput", `
		Action.tool_name Action.tool_input Recurring.provider Recurring.payload RecurringPatch.provider RecurringPatch.payload RecurringTrigger.payload ToolRun.tool ToolRun.input`},
	{"what a job reaches: permitJob", `
		Job.constraint_config Job.action_config Job.runner Job.pod_spec JobTrigger.env`},
	{"what a right is asked for: sessions and git", `
		AgentPrompt.command AgentPrompt.env AgentPrompt.prompt AgentPrompt.workspace Task.command Task.env Task.prompt Task.workspace
		MergeRun.branch MergeRun.into MergeRun.repo MergeRun.strategy
		WorktreePhase.base WorktreePhase.branch WorktreePhase.op WorktreePhase.path WorktreePhase.repo`},
	{"a dedup key of the tenant", `
		Action.dedup_key JobTrigger.dedup_key Recurring.dedup_key RecurringPatch.dedup_key`},
	{"a name within the definition, or a value that its references read", `
		Approach.name Approval.phase InputDef.default InputDef.name PhaseDef.name PhaseDef.next PhaseDef.on_failure PhaseDef.output Pipeline.context
		PipelineDef.name PipelineDef.on_failure PipelineDef.result PipelineStartDef.context SetPhase.values When.equals When.ref`},
	{"as in a request for each machine of the ids, which is served with all its checks", `Bulk.act Bulk.body Bulk.ids Bulk.status`},
	{"said to the machine of the path", `
		Approval.by Approval.comment BreakSlots.reason Checkpoint.message Evaluate.error Evaluate.output Heartbeat.output Heartbeat.progress
		Heartbeat.session Heartbeat.status Input.text JobPause.reason Pause.reason Silence.reason PhaseComplete.result PhaseFail.error Purge.reason Purge.states Reason.reason Recover.action
		Recover.message Signal.name Signal.payload TaskComplete.output TaskFail.error`},
	{"names no machine", `
		SetEntry.file
		AlertRules.channel Recurring.overlap RecurringPatch.missed RecurringPatch.overlap ScheduleOptions.missed
		Backfill.reason Calendar.description Calendar.name Calendar.timezone CalendarDate.date CalendarDate.name CalendarDate.to CalendarPatch.description
		CalendarPatch.timezone CalendarWindow.days CalendarWindow.from CalendarWindow.name CalendarWindow.to
		Action.action_type Action.label Action.labels CancelAction.mode Action.metadata ActionBatch.mode PushBatch.mode ApprovalPhase.channel ApprovalPhase.message CheckpointPhase.message
		FallbackCondition.error Job.constraint_errors ScheduleOptions.day_match ScheduleOptions.dst Job.labels Job.name Job.orphan_policy Job.overlap Job.schedule Job.timezone
		ManualPhase.instructions NotifyPhase.channel NotifyPhase.message NotifyPhase.title Pipeline.label Pipeline.runbook PipelineStartDef.label
		Recurrence. Recurring.action_type Recurring.cron_expr Recurring.description Recurring.labels Recurring.metadata Recurring.timezone
		RecurringPatch.action_type RecurringPatch.cron_expr RecurringPatch.day_match RecurringPatch.description RecurringPatch.dst RecurringPatch.timezone Backoff.no_retry Retry.no_retry
		RunPolicy.on_failure RunPolicy.on_interrupt ToolRun.on_interrupt SignalPhase.name Strategy.label Task.label TaskConfig.nudge Trigger.type WaitPhase.until`},
}
