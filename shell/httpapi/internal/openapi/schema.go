package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/audit"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// schemas derives the schemas of [Types].
type schemas struct {
	names    map[reflect.Type]string
	requests map[reflect.Type]bool // types that requests have, which may leave fields out
	alwaysAt []string              // names of times that are never null
}

func newSchemas(alwaysAt []string) *schemas {
	s := &schemas{names: make(map[reflect.Type]string), requests: make(map[reflect.Type]bool), alwaysAt: alwaysAt}
	for _, name := range slices.Sorted(maps.Keys(Types)) {
		if _, twice := s.names[Types[name]]; !twice { // the first of two names
			s.names[Types[name]] = name
		}
	}
	for name, t := range Types {
		if isRequest(name) {
			s.markRequest(t)
		}
	}
	return s
}

// isRequest reports whether a schema is the body of a request, or a part of one that refuses
// unknown fields.
func isRequest(name string) bool {
	return strings.HasSuffix(name, "Request") || slices.Contains([]string{
		"Backoff", "LogPolicy", "QueueConfig", "QueueRate", "Reason", "RecurringPatch", "Retry", "RetryConfig", "RunPolicy",
		"SetEntry", "SetJob", "SetQueue", "SetSemaphore", "SetSubscriber", "SetWorker",
	}, name)
}

// markRequest marks a type and all that it has as part of a request.
func (s *schemas) markRequest(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		s.markRequest(t.Elem())
	case reflect.Struct:
		if s.requests[t] {
			return
		}
		s.requests[t] = true
		for f := range t.Fields() {
			s.markRequest(f.Type)
		}
	default:
	}
}

// A property is one field of a type in JSON.
type property struct {
	name    string
	typ     reflect.Type
	omitted bool // its zero value is left out
}

// properties lists the fields of a struct as they stand in JSON, each once: an outer field
// hides one of the same name in an embedded struct.
func properties(t reflect.Type) []property {
	var own, inner []property
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			inner = append(inner, properties(f.Type)...)
		case f.IsExported():
			own = append(own, property{name, f.Type, strings.Contains(options, "omit")})
		}
	}
	for _, p := range inner {
		if !slices.ContainsFunc(own, func(o property) bool { return o.name == p.name }) {
			own = append(own, p)
		}
	}
	return own
}

// object is the schema of a struct.
func (s *schemas) object(name string, t reflect.Type) (map[string]any, error) {
	out := map[string]any{"type": "object"}
	fields := &ordered{}
	var required []any
	always, err := s.encoded(t)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	for _, p := range properties(t) {
		fields.set(p.name, s.field(t, p))
		if s.requests[t] && isRequest(name) && fromWire(t) && !p.omitted || !s.requests[t] && slices.Contains(always, p.name) {
			required = append(required, p.name)
		}
	}
	out["properties"] = fields
	if len(required) > 0 {
		out["required"] = required
	}
	if isRequest(name) {
		out["additionalProperties"] = false
	}
	return out, nil
}

// encoded lists the fields that also the zero value of a type has in JSON.
func (s *schemas) encoded(t reflect.Type) ([]string, error) {
	b, err := json.Marshal(reflect.Zero(t).Interface())
	if err != nil {
		return nil, err
	}
	var m map[string]any
	err = json.Unmarshal(b, &m)
	return slices.Collect(maps.Keys(m)), err
}

// field is the schema of a field of the struct t.
func (s *schemas) field(t reflect.Type, p property) any {
	typ := p.typ
	if strings.HasPrefix(typ.Name(), "Optional[") {
		v, _ := typ.FieldByName("Value")
		return s.value(v.Type)
	}
	request := s.requests[t] && fromWire(t)
	switch {
	case typ == reflect.TypeFor[effects.Time]() && slices.Contains(s.alwaysAt, p.name):
		return ref("schemas", "Time")
	case typ.Kind() == reflect.Pointer && p.omitted != request: // it must be given, or is absent instead of null
		return s.value(typ.Elem())
	case typ.Kind() == reflect.Slice && typ != rawJSON && fromWire(t) && !request:
		return map[string]any{"type": "array", "items": s.element(typ.Elem())}
	}
	return s.value(typ)
}

// fromWire reports whether a struct is declared by package wire, whose answers have no null
// for an empty list.
func fromWire(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[wire.Error]().PkgPath() }

var rawJSON = reflect.TypeFor[json.RawMessage]()

// value is the schema of a value of some type.
func (s *schemas) value(t reflect.Type) any {
	switch t {
	case reflect.TypeFor[effects.Time]():
		return map[string]any{"type": []any{"string", "null"}, "format": "date-time"}
	case reflect.TypeFor[uuid.UUID]():
		return map[string]any{"type": "string", "format": "uuid"}
	case rawJSON:
		return map[string]any{}
	case reflect.TypeFor[core.Owner]():
		return map[string]any{"type": []any{"object", "null"}}
	}
	if name, ok := s.names[t]; ok {
		return ref("schemas", name)
	}
	if name, ok := byHand[t.Name()]; ok {
		return ref("schemas", name)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.value(t.Elem()))
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": []any{"array", "null"}, "items": s.element(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": s.value(t.Elem())}
	default:
		return map[string]any{"type": "object"}
	}
}

// element is the schema of an element of a list. Times there are never null.
func (s *schemas) element(t reflect.Type) any {
	if t == reflect.TypeFor[effects.Time]() {
		return ref("schemas", "Time")
	}
	return s.value(t)
}

// byHand are the schemas that api.yaml has whole, by the names of their Go types.
var byHand = map[string]string{"Trigger": "Trigger", "Recurrence": "Recurrence", "RunPolicy": "RunPolicy"}

// nullable lets a schema be null, too.
func nullable(schema any) any {
	m, _ := schema.(map[string]any)
	if typ, ok := m["type"].(string); ok {
		m["type"] = []any{typ, "null"}
		return m
	}
	if m["$ref"] != nil {
		return map[string]any{"oneOf": []any{m, map[string]any{"type": "null"}}}
	}
	return m
}

// ref is a reference to a component.
func ref(kind, name string) map[string]any {
	return map[string]any{"$ref": "#/components/" + kind + "/" + name}
}

// Types are the Go types of the schemas by their names. Those of package wire have the names of
// their types; the names of others stay as users know them, whatever their types are called.
var Types = func() map[string]reflect.Type {
	types := make(map[string]reflect.Type)
	for name, v := range renamed {
		types[name] = reflect.TypeOf(v)
	}
	for _, v := range slices.Concat(states, bodies) {
		types[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	return types
}()

// renamed are the types whose schemas have another name.
var renamed = map[string]any{
	"AuditEntry":       audit.Entry{},
	"ConstraintAction": core.ActionRequest{},
	"Item":             core.QueueItem{},
	"ItemOrigin":       core.QueueOrigin{},
	"Moved":            core.QueueMoved{},
	"PhaseRetry":       core.Retry{},
	"Run":              wire.Run{},
	"RunDecision":      core.Decision{},
	"RunLeaving":       core.RunExit{},
	"RunMetrics":       core.OrchestratorMetrics{},
}

// states are the machines and their parts.
var states = []any{
	core.Action{}, core.ActionRecord{}, core.ActiveRun{}, core.AgentPrompt{}, core.AlertCounts{}, core.AlertFailure{}, core.AlertRules{}, core.AlertView{}, core.OpenAlert{}, core.Silence{}, core.Approach{}, core.ApproachAction{},
	core.ApproachOutcome{}, core.ApprovalPhase{}, core.Attempt{}, core.Awaited{}, core.Backfill{}, core.BackfillCounts{}, core.BackfillProblem{}, core.BackfillRun{}, core.Backoff{}, core.CalendarDate{}, core.CalendarDays{}, core.CalendarWindow{}, core.Checkpoint{}, core.CheckpointPhase{},
	core.ConstraintCheck{}, core.EndedRun{}, effects.Event{}, effects.EventKind{}, core.EventMatch{},
	effects.EventSource{}, core.Failing{}, core.FallbackCondition{}, core.Hold{}, core.InputDef{}, core.ItemState{},
	core.ActionLedger{}, core.JobCounts{}, core.JobSpec{}, core.JobTriggered{}, core.LastRun{}, core.Ledger{}, core.Lock{}, core.LockPhase{},
	core.LockWaiter{}, core.LogPolicy{}, core.MachineName{}, core.ManualPhase{}, core.MergeRun{}, core.NotifyPhase{},
	core.Occurrence{}, core.Phase{}, core.PhaseDef{}, core.PastAttempt{}, core.PhaseRecord{}, core.Pipeline{}, core.PipelineDef{},
	core.PipelineReaction{}, core.PipelineStartDef{}, core.PipelinesPhase{}, core.Pod{}, core.PodTimes{}, core.PushPhase{},
	core.PushReaction{}, core.QueueConfig{}, core.QueueRate{}, core.Reaction{}, effects.Ref{}, core.Retry{},
	core.RetryConfig{}, core.RunCleanup{}, core.RunLogs{}, core.RunPolicy{}, core.Semaphore{}, core.SemaphoreHolder{},
	core.SemaphorePhase{}, core.SemaphoreWaiter{}, core.SetPhase{}, core.Signal{}, core.SignalPhase{},
	core.SignalReaction{}, core.Status{}, core.Strategy{}, core.StrategyPhase{}, core.StuckReason{},
	core.Task{}, core.TaskConfig{}, core.TaskResult{}, core.TaskState{}, core.ToolRun{},
	core.UnlockPhase{}, core.WaitPhase{}, core.Waiting{}, core.WakePhase{}, core.When{}, core.Worker{},
	core.WorkerDo{}, core.WorkerJob{}, core.WorktreePhase{},
}

// bodies are the requests and answers of package wire.
var bodies = []any{
	wire.AcquireRequest{}, wire.AcquireSlotsRequest{}, wire.ActionBatch{}, wire.ActionBatchRequest{}, wire.ActionList{}, wire.ActionRequest{}, wire.ActionResult{}, wire.ActionSummary{}, wire.Alert{}, wire.AlertList{}, wire.SilenceRequest{}, wire.ItemSummary{}, wire.ApprovalRequest{},
	wire.AuditList{}, wire.BackfillList{}, wire.BackfillPlan{}, wire.BackfillRequest{}, wire.BackfillSummary{}, wire.BreakSlotsRequest{}, wire.Bulk{}, wire.BulkRequest{}, wire.BulkResult{}, wire.Calendar{}, wire.CalendarChanged{}, wire.CalendarList{}, wire.CalendarPatch{}, wire.CalendarRequest{}, wire.CancelActionRequest{}, wire.CheckpointRequest{}, wire.CompleteRequest{}, wire.Error{}, wire.EvaluateRequest{},
	wire.Channel{}, wire.ChannelList{}, wire.NotifyResult{}, wire.NotifyTestRequest{}, wire.NotifyTested{}, wire.Resumed{}, wire.ChannelAlerts{},
	wire.EventAccepted{}, wire.Found{}, wire.FoundList{}, wire.EventRequest{}, wire.ExtendRequest{}, wire.FailRequest{}, wire.Health{},
	wire.HeartbeatRequest{}, wire.HistoryList{}, wire.HoldRequest{}, wire.HolderRequest{}, wire.Info{},
	wire.InputRequest{}, wire.ItemList{}, wire.Job{}, wire.JobApplied{}, wire.JobList{}, wire.JobPauseRequest{}, wire.JobPlanned{}, wire.JobRequest{},
	wire.JobSummary{}, wire.JobTriggerRequest{}, wire.LimitsList{}, wire.LockList{}, wire.OccurrenceList{}, wire.PhaseCompleteRequest{}, wire.PhaseFailRequest{},
	wire.PipelineList{}, wire.PipelineRequest{}, wire.PipelineSummary{}, wire.Preview{}, wire.PurgeRequest{},
	wire.PushBatch{}, wire.PushBatchRequest{}, wire.PushRequest{}, wire.PushResult{}, wire.Pushed{}, wire.Queue{}, wire.QueueGauges{}, wire.QueueList{}, wire.QueueTotals{},
	wire.MovedSchedule{}, wire.Pause{}, wire.Reason{}, wire.RecoverRequest{}, wire.RetryActionRequest{}, wire.RecurringAction{}, wire.RecurringActionTemplate{},
	wire.RecurringChanged{}, wire.RecurringCreated{}, wire.RecurringList{}, wire.RecurringPatch{}, wire.RecurringRequest{},
	wire.Declared{}, wire.DeclaredBy{}, wire.DeclaredList{}, wire.SemaphoreDetail{}, wire.SubscriberDetail{}, wire.WorkerDetail{}, wire.SetChange{}, wire.SetEntry{}, wire.SetField{}, wire.SetJob{}, wire.SetQueue{}, wire.SetRefused{}, wire.SetRequest{}, wire.SetResult{}, wire.SetSemaphore{}, wire.SetSubscriber{}, wire.SetWorker{},
	wire.Change{}, wire.ChangeSet{}, wire.Store{}, wire.System{}, wire.PartitionSystem{}, wire.Cluster{}, wire.ClusterDrain{}, wire.ClusterAcceptLoss{}, wire.ClusterPlacing{}, wire.ClusterPlace{}, wire.ClusterPartition{}, wire.ClusterFormerOwner{}, wire.ClusterInstance{}, wire.Instance{}, wire.SetAside{}, wire.ChangedField{}, wire.ChangeInput{}, wire.ChangeEffect{}, wire.ChangeList{}, wire.RecurringState{}, wire.RecurringSummary{}, wire.RecurringTrigger{}, wire.RedriveRequest{}, wire.ReleaseRequest{}, wire.RunList{}, wire.Runner{}, wire.RunnerList{},
	wire.RunSummary{}, wire.SemaphoreList{}, wire.SignalRequest{}, wire.SlotsRequest{}, wire.SourceRequest{},
	wire.StrategyList{}, wire.StrategyRequest{}, wire.StrategySummary{}, wire.Subscriber{}, wire.SubscriberList{},
	wire.SubscriberRequest{}, wire.TakeRequest{}, wire.UpcomingList{}, wire.UpcomingSchedule{}, wire.Taken{}, wire.TaskCompleteRequest{}, wire.TaskFailRequest{},
	wire.TaskList{}, wire.TaskRequest{}, wire.TaskScreen{}, wire.TaskSummary{}, wire.TenantBounds{}, wire.TenantLimits{}, wire.TenantUsage{}, wire.TriggerRequest{}, wire.WebhookAccepted{}, wire.WebhookIgnored{}, wire.WebhookMatch{}, wire.WebhookRoute{}, wire.WebhookRouteList{},
	wire.WorkerDeleteRequest{}, wire.WorkerList{}, wire.WorkerRequest{},
}
