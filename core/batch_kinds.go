package core

import "github.com/orrery-go/orrery/effects"

// DueEvent is the event that tells a machine of that kind that its deadline has
// come; nil for a kind that waits for nothing.
func DueEvent(kind effects.Kind) Event {
	switch kind {
	case KindAction:
		return ActionDue{}
	case KindRecurring:
		return RecurringDue{}
	case KindTask:
		return TaskDue{}
	case KindStrategy:
		return StrategyDue{}
	case KindPipeline:
		return PipelineDue{}
	case KindWorker:
		return WorkerDue{}
	case KindQueue:
		return QueueDue{}
	case KindLock:
		return LockDue{}
	case KindSemaphore:
		return SemaphoreDue{}
	case KindJob:
		return JobDue{}
	case KindOrchestrator:
		return OrchestratorDue{}
	case KindScheduler:
		return SchedulerDue{}
	}
	return nil
}

// ExpireEvent is the event that ends the retention of a machine of that kind;
// nil for a kind that is kept until it is deleted.
func ExpireEvent(kind effects.Kind) Event {
	switch kind {
	case KindAction:
		return ActionExpire{}
	case KindOccurrence:
		return OccurrenceExpire{}
	case KindTask:
		return TaskExpire{}
	case KindStrategy:
		return StrategyExpire{}
	case KindPipeline:
		return PipelineExpire{}
	case KindOrchestrator:
		return OrchestratorExpire{}
	}
	return nil
}

// InterruptEvent is the event that tells a machine that the holder of its outer
// effect is gone; nil for a kind that has no outer effects.
func InterruptEvent(kind effects.Kind, n uint32, reason string) Event {
	switch kind {
	case KindAction:
		return ActionInterrupt{Run: n, Reason: reason}
	case KindPipeline, KindTask, KindStrategy, KindOrchestrator:
		return EffectInterrupted{N: n, Reason: reason}
	}
	return nil
}

// HandBackEvent is the event that gives back an outer effect that was not
// begun; nil for a kind that has no outer effects.
func HandBackEvent(kind effects.Kind, n uint32) Event {
	switch kind {
	case KindAction:
		return ActionHandBack{Run: n}
	case KindPipeline, KindTask, KindStrategy, KindOrchestrator:
		return EffectHandedBack{N: n}
	}
	return nil
}
