package page

import (
	"slices"
	"strconv"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// A runStep is one state on the way of a run.
type runStep struct {
	state core.OrchestratorStatus
	at    effects.Time // when it was entered; zero: the record does not keep it
	about string       // what of the time is not known; empty: the record has it
	guess bool         // the time is not that of the border, but near it
}

// runSteps gives the states that the present attempt of a run went through, in their order, as
// far as the run's record tells: it keeps the time of most borders, and not of all.
func runSteps(o core.Orchestrator) (out []runStep) {
	add := func(s core.OrchestratorStatus, at effects.Time, about string) {
		out = append(out, runStep{state: s, at: at, about: about})
	}
	waited := true
	if o.RetryAttempt == 0 {
		add(core.OrchestratorPreRun, o.CreatedAt, "")
		waited = o.State != core.OrchestratorPreRun && (!o.State.Terminal() || o.PreviousState != core.OrchestratorPreRun)
	} else {
		add(core.OrchestratorRetrying, 0, "when the attempt before failed is not kept")
	}
	if waited {
		out = append(out, askedStep(o))
	}
	if !o.ConstraintCheckStarted.IsZero() && len(o.Config.ConstraintConfig) > 0 {
		add(core.OrchestratorConditionPending, o.ConstraintCheckStarted, "")
		add(core.OrchestratorConditionRunning, o.ConstraintCheckStarted, "")
	}
	if actedBefore(o) {
		add(core.OrchestratorActionPending, 0, "not kept")
		add(core.OrchestratorActionRunning, 0, "not kept: the table of actions has when each was taken")
	}
	for _, kept := range []runStep{
		{state: core.OrchestratorContainerCreating, at: o.CreationAskedAt},
		{state: core.OrchestratorRunning, at: o.ExecutionStartedAt, about: "when Orrery heard of it"},
		{state: core.OrchestratorTerminating, at: o.ExecutionEndedAt, about: "when Orrery heard of it, or stopped it"},
	} {
		if !kept.at.IsZero() {
			out = append(out, kept)
		}
	}
	return upToNow(o, out)
}

// askedStep is how the present attempt of a run came to pending.
func askedStep(o core.Orchestrator) runStep {
	step := runStep{state: core.OrchestratorPending}
	switch {
	case o.RetryAttempt > 0:
		step.at = o.ConstraintCheckStarted
	case !o.AskedAt.IsZero():
		step.at = o.AskedAt
	default:
		step.at = max(o.ScheduledAt, o.NotBefore, o.CreatedAt)
		step.about, step.guess = "its time: when it asked for a slot is not kept", true
	}
	return step
}

// actedBefore reports whether actions of constraints were taken before the pod, in the present attempt.
func actedBefore(o core.Orchestrator) bool {
	acting := []core.OrchestratorStatus{core.OrchestratorActionPending, core.OrchestratorActionRunning}
	return slices.Contains(acting, o.State) || slices.Contains(acting, o.PreviousState) ||
		slices.ContainsFunc(o.Actions, func(a core.ActionRecord) bool { return a.Attempt == o.RetryAttempt && a.Phase == "pre" })
}

// upToNow adds the state that the run has now, by way of the one that it had before.
func upToNow(o core.Orchestrator, out []runStep) []runStep {
	last := func() core.OrchestratorStatus { return out[len(out)-1].state }
	if last() == o.State {
		return out
	}
	if o.PreviousState != "" && last() != o.PreviousState && o.PreviousState != core.OrchestratorPreRun {
		out = append(out, runStep{state: o.PreviousState, about: "not kept"})
	}
	if last() == o.State {
		return out
	}
	step := runStep{state: o.State, at: o.CompletedAt}
	if step.at.IsZero() {
		step.at, step.about, step.guess = o.UpdatedAt, "or before: when its record changed last", true
	}
	return append(out, step)
}

// runMap draws the states of a run with its way through them, and tells the same in a table.
func (q *visit) runMap(o core.Orchestrator) []block {
	path := runSteps(o)
	t := &table{Caption: "The run's way", Head: []string{"State", "Entered", "For"}}
	for i, s := range path {
		at := q.at(s.at)
		at.Hint = s.about
		stayed := cell{}
		switch {
		case s.at.IsZero(), s.state.Terminal():
		case i+1 < len(path):
			if next := path[i+1].at; !next.IsZero() {
				stayed = q.lasted(s.at, next)
			}
		default:
			stayed = textOf(q.took(s.at, effects.TimeOf(q.now)) + " so far")
		}
		t.Rows = append(t.Rows, []cell{runBadge(s.state), at.wide(), stayed})
	}
	note := "Every state that a run can be in, and every way between two. The bold way is this run's, with the times at which it came to each state."
	if o.RetryAttempt > 0 {
		note += " It is that of attempt " + strconv.FormatUint(uint64(o.RetryAttempt), 10) + ": of earlier attempts the record keeps when their pods ran, and not their ways."
	}
	return []block{{Title: "State", ID: "state", Note: note, SVG: q.drawRunMap(path)}, {Title: "The run's way", Table: t}}
}
