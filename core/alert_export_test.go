package core

// Watched gives what the alert of a schedule is to know of it; ok is false for one that has none.
func Watched(s State) (w AlertWatch, ok bool) {
	switch s := s.(type) {
	case RecurringAction:
		return s.alertWatch(), !s.Alerts.None()
	case Job:
		return s.alertWatch(), !s.Alerts.None()
	}
	return w, false
}
