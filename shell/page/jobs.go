package page

func jobViews() []viewRoute { return nil }

func jobActs() []act { return nil }
