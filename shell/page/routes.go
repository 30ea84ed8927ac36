package page

import "slices"

// viewRoutes lists the pages that are read.
func viewRoutes() []viewRoute {
	return slices.Concat(overviewViews(), scheduleViews(), actionViews(), jobViews(), runbookViews(), queueViews(), lockViews(), webhookViews(), systemViews())
}

// acts lists what a visitor may do.
func acts() []act {
	return slices.Concat(scheduleActs(), actionActs(), jobActs(), runbookActs(), queueActs(), lockActs(), manyActs())
}
