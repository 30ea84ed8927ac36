package openapi

import (
	"reflect"
	"slices"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

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
	"ConstraintAction": core.ActionRequest{},
	"Item":             core.QueueItem{},
	"ItemOrigin":       core.QueueOrigin{},
	"Moved":            core.QueueMoved{},
	"PhaseRetry":       core.Retry{},
	"Run":              core.Orchestrator{},
	"RunDecision":      core.Decision{},
	"RunLeaving":       core.RunExit{},
	"RunMetrics":       core.OrchestratorMetrics{},
}

// states are the machines and their parts.
var states = []any{
	core.Action{}, core.ActionRecord{}, core.ActiveRun{}, core.AgentPrompt{}, core.Approach{}, core.ApproachAction{},
	core.ApproachOutcome{}, core.ApprovalPhase{}, core.Awaited{}, core.Checkpoint{}, core.CheckpointPhase{},
	core.ConstraintCheck{}, core.EndedRun{}, effects.Event{}, effects.EventKind{}, core.EventMatch{},
	effects.EventSource{}, core.Failing{}, core.FallbackCondition{}, core.Hold{}, core.InputDef{}, core.ItemState{},
	core.JobCounts{}, core.JobSpec{}, core.JobTriggered{}, core.LastRun{}, core.Lock{}, core.LockPhase{},
	core.LockWaiter{}, core.LogPolicy{}, core.MachineName{}, core.ManualPhase{}, core.MergeRun{}, core.NotifyPhase{},
	core.Occurrence{}, core.Phase{}, core.PhaseDef{}, core.PhaseRecord{}, core.Pipeline{}, core.PipelineDef{},
	core.PipelineReaction{}, core.PipelineStartDef{}, core.PipelinesPhase{}, core.Pod{}, core.PushPhase{},
	core.PushReaction{}, core.QueueConfig{}, core.QueueRate{}, core.Reaction{}, effects.Ref{}, core.Retry{},
	core.RetryConfig{}, core.RunLogs{}, core.RunPolicy{}, core.Semaphore{}, core.SemaphoreHolder{},
	core.SemaphorePhase{}, core.SemaphoreWaiter{}, core.SetPhase{}, core.Signal{}, core.SignalPhase{},
	core.SignalReaction{}, core.Status{}, core.Strategy{}, core.StrategyPhase{}, core.StuckReason{},
	core.Subscription{}, core.Task{}, core.TaskConfig{}, core.TaskResult{}, core.TaskState{}, core.ToolRun{},
	core.UnlockPhase{}, core.WaitPhase{}, core.Waiting{}, core.WakePhase{}, core.When{}, core.Worker{},
	core.WorkerDo{}, core.WorkerJob{}, core.WorktreePhase{},
}

// bodies are the requests and answers of package wire.
var bodies = []any{
	wire.AcquireRequest{}, wire.AcquireSlotsRequest{}, wire.ActionList{}, wire.ActionRequest{}, wire.ApprovalRequest{},
	wire.BreakSlotsRequest{}, wire.CheckpointRequest{}, wire.CompleteRequest{}, wire.Error{}, wire.EvaluateRequest{},
	wire.EventAccepted{}, wire.EventRequest{}, wire.ExtendRequest{}, wire.FailRequest{}, wire.Health{},
	wire.HeartbeatRequest{}, wire.HistoryList{}, wire.HoldRequest{}, wire.HolderRequest{}, wire.Info{},
	wire.InputRequest{}, wire.ItemList{}, wire.Job{}, wire.JobList{}, wire.JobPlanned{}, wire.JobRequest{},
	wire.JobSummary{}, wire.JobTriggerRequest{}, wire.LockList{}, wire.PhaseCompleteRequest{}, wire.PhaseFailRequest{},
	wire.PipelineList{}, wire.PipelineRequest{}, wire.PipelineSummary{}, wire.Preview{}, wire.PurgeRequest{},
	wire.PushRequest{}, wire.Pushed{}, wire.Queue{}, wire.QueueGauges{}, wire.QueueList{}, wire.QueueTotals{},
	wire.Reason{}, wire.RecoverRequest{}, wire.RecurringAction{}, wire.RecurringActionTemplate{},
	wire.RecurringCreated{}, wire.RecurringList{}, wire.RecurringPatch{}, wire.RecurringRequest{},
	wire.RecurringState{}, wire.RecurringSummary{}, wire.RedriveRequest{}, wire.ReleaseRequest{}, wire.RunList{},
	wire.RunSummary{}, wire.SemaphoreList{}, wire.SignalRequest{}, wire.SlotsRequest{}, wire.SourceRequest{},
	wire.StrategyList{}, wire.StrategyRequest{}, wire.StrategySummary{}, wire.SubscriberList{},
	wire.SubscriberRequest{}, wire.TakeRequest{}, wire.Taken{}, wire.TaskCompleteRequest{}, wire.TaskFailRequest{},
	wire.TaskList{}, wire.TaskRequest{}, wire.TaskSummary{}, wire.TriggerRequest{}, wire.WebhookAccepted{},
	wire.WorkerDeleteRequest{}, wire.WorkerList{}, wire.WorkerRequest{},
}
