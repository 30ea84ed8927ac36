package page

import "slices"

func runbookViews() []viewRoute {
	return []viewRoute{
		{"/pipelines", "/pipelines", (*visit).pipelines},
		{"/pipelines/{id}", "/pipelines", (*visit).pipeline},
		{"/pipelines/{id}/phases/{phase}", "/pipelines", (*visit).phase},
		{"/tasks", "/tasks", (*visit).tasks},
		{"/tasks/{id}", "/tasks", (*visit).task},
		{"/strategies", "/strategies", (*visit).strategies},
		{"/strategies/{id}", "/strategies", (*visit).strategy},
		{"/events", "/events", (*visit).events},
		{"/subscribers", "/subscribers", (*visit).subscribers},
		{"/subscribers/{name}", "/subscribers", (*visit).subscriber},
		{"/backfills", "/backfills", (*visit).backfills},
		{"/backfills/{id}", "/backfills", (*visit).backfill},
		{"/calendars", "/calendars", (*visit).calendars},
		{"/calendars/{name}", "/calendars", (*visit).calendarNamed},
	}
}

func runbookActs() []act {
	return slices.Concat(pipelineActs(), taskActs(), strategyActs(), eventActs(), backfillActs(), calendarActs())
}
