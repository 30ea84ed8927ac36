package page

func lockViews() []viewRoute { return nil }

func lockActs() []act { return nil }
