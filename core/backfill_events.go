package core

// BackfillTime asks a recurring action or a job for the dispatch of a time of its schedule that has
// passed. It is refused if the time is none of the schedule, is left out by a calendar or the
// clock change, has not come, waits for its dispatch, or was dispatched. The owner is told when
// what was dispatched has ended, and of a refusal.
type BackfillTime struct {
	At    Time  `json:"at"`
	Owner Owner `json:"owner"`
}

func (BackfillTime) recurringEvent() {}
func (BackfillTime) jobEvent()       {}

// EventType gives the discriminator in the journal.
func (BackfillTime) EventType() string { return "backfill" }

func (e BackfillTime) owner() Owner { return e.Owner }
