package core

// BackfillTime has a schedule dispatch a time that has passed, beside its live times. The owner
// is told how what was made for it has ended, or why nothing was made.
type BackfillTime struct {
	At    Time  `json:"at"` // a due instant of the schedule
	Owner Owner `json:"owner"`
}

func (BackfillTime) recurringEvent() {}
func (BackfillTime) jobEvent()       {}

// EventType gives the discriminator in the journal.
func (BackfillTime) EventType() string { return "backfill" }

func (e BackfillTime) owner() Owner { return e.Owner }
