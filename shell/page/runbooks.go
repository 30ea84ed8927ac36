package page

func runbookViews() []viewRoute { return nil }

func runbookActs() []act { return nil }
