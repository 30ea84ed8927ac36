package page

import "slices"

// viewRoutes lists the pages that are read.
func viewRoutes() []viewRoute {
	return slices.Concat(overviewViews(), scheduleViews(), backfillViews(), calendarViews(), actionViews(), jobViews(), runbookViews(), eventViews(), queueViews(), lockViews(), webhookViews(), systemViews())
}

// acts lists what a visitor may do.
func acts() []act {
	return slices.Concat(scheduleActs(), backfillActs(), calendarActs(), actionActs(), jobActs(), runbookActs(), eventActs(), queueActs(), lockActs(), manyActs())
}
