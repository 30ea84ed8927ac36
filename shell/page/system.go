package page

func systemViews() []viewRoute { return nil }

func systemActs() []act { return nil }
