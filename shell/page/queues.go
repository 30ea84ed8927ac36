package page

func queueViews() []viewRoute { return nil }

func queueActs() []act { return nil }
