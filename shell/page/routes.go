package page

import "slices"

// viewRoutes lists the pages that are read.
func viewRoutes() []viewRoute {
	return slices.Concat(overviewViews(), scheduleViews(), alertViews(), backfillViews(), calendarViews(), actionViews(), jobViews(), runbookViews(), eventViews(), queueViews(), lockViews(), webhookViews(), systemViews(), instanceViews())
}

// acts lists what a visitor may do.
func acts() []act {
	return slices.Concat(scheduleActs(), silenceActs("/recurring/{id}", "/v1/recurring/{id}"), silenceActs("/jobs/{id}", "/v1/jobs/{id}"), backfillActs(), calendarActs(), actionActs(), jobActs(), runbookActs(), eventActs(), queueActs(), lockActs(), pausedActs(), instanceActs(), acceptLossActs(), manyActs())
}
