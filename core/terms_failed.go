package core

import "github.com/orrery-go/orrery/effects"

// TermFailed is, within a tenant and for all, the list term of the machines of a kind that have failed, by the
// time at which they did: what failed today stands first, whenever it was made. Of runs it has those
// that were orphaned, of strategies those that are exhausted.
const TermFailed = "failed"

// FailedAt tells whether a machine has failed for good, and when. Of a kind that cannot fail it is false.
func FailedAt(s State) (Time, bool) {
	if f, ok := s.(interface{ failedAt() (Time, bool) }); ok {
		return f.failedAt()
	}
	return 0, false
}

// withFailure adds the term of what has failed.
func withFailure(terms []effects.Term, at Time, failed bool, of Scope) []effects.Term {
	if failed {
		terms = append(terms, effects.Term{Name: TermFailed, At: at}, effects.Term{Name: TermWithin(TermFailed, of), At: at})
	}
	return terms
}

// failedAt: see [FailedAt]. The time of an action is that of its last run.
func (a Action) failedAt() (Time, bool) { return a.FinishedAt, a.Status.Type == StatusFailed }

func (p Pipeline) failedAt() (Time, bool) { return p.FinishedAt, p.Phase.Type == PhaseFailure }

func (t Task) failedAt() (Time, bool) {
	return t.FinishedAt, t.State.Type == TaskDone && t.State.Result.Type == TaskFailed
}

func (s Strategy) failedAt() (Time, bool) { return s.FinishedAt, s.Status == StrategyExhausted }

func (o Orchestrator) failedAt() (Time, bool) {
	return o.CompletedAt, o.State == OrchestratorFailed || o.State == OrchestratorOrphaned
}

// WaitsTerm is, within a tenant, the list term of the pipelines that wait for an answer from outside: for one of
// [AnsweredWaits].
func WaitsTerm(what WaitFor) string { return "waits:" + string(what) }

// AnsweredWaits lists what a pipeline may wait for that somebody outside has to give.
func AnsweredWaits() []WaitFor { return []WaitFor{WaitApproval, WaitManual, WaitSignal} }

// withWaiting adds the term of a pipeline that waits for somebody.
func (p Pipeline) withWaiting(terms []effects.Term) []effects.Term {
	if p.Phase.Type != PhaseRunning {
		return terms
	}
	for _, what := range AnsweredWaits() {
		if p.Waiting.For == what {
			return append(terms, effects.Term{Name: TermWithin(WaitsTerm(what), p.scope()), At: p.CreatedAt})
		}
	}
	return terms
}
