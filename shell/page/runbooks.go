package page

import "slices"

// runbookViews are the pages of what a runbook starts.
func runbookViews() []viewRoute {
	return []viewRoute{
		{"/pipelines", "/pipelines", (*visit).pipelines},
		{"/pipelines/{id}", "/pipelines", (*visit).pipeline},
		{"/pipelines/{id}/logs", "/pipelines", (*visit).pipelineLogs},
		{"/pipelines/{id}/phases/{phase}", "/pipelines", (*visit).phase},
		{"/tasks", "/tasks", (*visit).tasks},
		{"/tasks/{id}", "/tasks", (*visit).task},
		{"/strategies", "/strategies", (*visit).strategies},
		{"/strategies/{id}", "/strategies", (*visit).strategy},
	}
}

func runbookActs() []act {
	return slices.Concat(pipelineActs(), taskActs(), strategyActs())
}
