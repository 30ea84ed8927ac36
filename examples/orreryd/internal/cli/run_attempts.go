package cli

import (
	"cmp"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// ranText says when a pod began, and whose time that is unless it is the cluster's.
func ranText(ran core.PodTimes) string {
	if ran.StartedAt.IsZero() || ran.StartedBy == core.TimeCluster {
		return timeText(ran.StartedAt)
	}
	return fmt.Sprintf("%s (%s)", timeText(ran.StartedAt), ran.StartedBy)
}

// attemptRows shows the attempts of a run, the oldest that it knows first.
func attemptRows(r core.Orchestrator) [][]string {
	var rows [][]string
	first := r.RetryAttempt
	if len(r.PastAttempts) > 0 {
		first = r.PastAttempts[0].Attempt
	}
	if first > 0 {
		rows = append(rows, []string{unknownAttempts(first), "-", "-", "-", "-", "-", "-", "not known any more"})
	}
	for _, a := range r.PastAttempts {
		ran := a.Ran
		if ran.StartedAt.IsZero() && !a.StartedAt.IsZero() {
			ran = core.PodTimes{StartedAt: a.StartedAt, StartedBy: core.TimeObserved}
		}
		rows = append(rows, attemptRow(a.Attempt, core.Pod{Name: a.Pod, Node: a.Node, ExitCode: a.ExitCode}, ran, cmp.Or(a.Failure, a.Reason)))
	}
	if r.RetryAttempt == 0 && r.CreationAskedAt.IsZero() {
		return rows // nothing was tried yet
	}
	return append(rows, attemptRow(r.RetryAttempt, r.Pod, r.Ran, cmp.Or(r.Error, podReason(r.Pod))))
}

// unknownAttempts names those before the first that is known.
func unknownAttempts(first uint32) string {
	if first == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", first-1)
}

func attemptRow(n uint32, p core.Pod, ran core.PodTimes, cause string) []string {
	return []string{
		number(n), text.OrDash(p.Name), text.OrDash(p.Node), shortTime(ran.StartedAt), took(ran.StartedAt, ran.EndedAt), timesText(ran), exitText(p.ExitCode), text.OrDash(cause),
	}
}

// timesText says whose the times are: of the beginning and of the end where they differ.
func timesText(ran core.PodTimes) string {
	began, ended := string(ran.StartedBy), string(ran.EndedBy)
	if ended == "" || began == ended {
		return text.OrDash(began)
	}
	return began + ", " + ended
}
