package core

// BackfillEvent is an event of [Backfill]. The set is closed.
//
//sumtype:decl
type BackfillEvent interface {
	Event
	backfillEvent()
}

type (
	// BackfillCreate makes a backfill. The id must be new.
	BackfillCreate struct {
		Spec BackfillSpec `json:"spec"`
	}
	// BackfillDue says that the next time is to be dispatched.
	BackfillDue struct {
		// Refusal is why that time could not be dispatched. Only the [Batch] gives one, see
		// [Batch.Apply]: the time then counts as refused, instead of being due for ever.
		Refusal string `json:"refusal,omitempty"`
		// Limited: a limit of the tenant is the reason, and the time is put off instead.
		Limited bool `json:"limited,omitempty"`
	}
	// BackfillCancel ends a backfill: it dispatches no more times.
	BackfillCancel struct {
		Reason string `json:"reason"`
	}
	// BackfillExpire ends the retention of a backfill that has ended.
	BackfillExpire struct{}
)

// BackfillTime asks a schedule to dispatch one of its past times now, beside its live times. A
// [Backfill] sends it. Once what the time has made has ended, or if nothing is made, the Owner is
// told by [ChildEnded].
type BackfillTime struct {
	At    Time  `json:"at"`
	Owner Owner `json:"owner"`
}

func (BackfillCreate) backfillEvent() {}
func (BackfillDue) backfillEvent()    {}
func (BackfillCancel) backfillEvent() {}
func (BackfillExpire) backfillEvent() {}
func (ChildEnded) backfillEvent()     {}

func (BackfillTime) recurringEvent() {}
func (BackfillTime) jobEvent()       {}

func (e BackfillTime) owner() Owner { return e.Owner }

// afterRefused gives the event that counts the time as refused instead: see [Batch.Apply].
func (BackfillDue) afterRefused(reason string, limited bool) Event {
	return BackfillDue{Refusal: reason, Limited: limited}
}

// EventType gives the discriminator in the journal.
func (BackfillCreate) EventType() string { return "create" }
func (BackfillDue) EventType() string    { return "due" }
func (BackfillCancel) EventType() string { return "cancel" }
func (BackfillExpire) EventType() string { return "expire" }
func (BackfillTime) EventType() string   { return "backfill" }

func (e BackfillCreate) stored() Event { return BackfillCreate{e.Spec.withDefaults()} }
func (e BackfillDue) stored() Event    { return BackfillDue{validText(e.Refusal), e.Limited} }
func (e BackfillCancel) stored() Event { return BackfillCancel{validText(e.Reason)} }

// backfillEvents are the events of Backfill, as the journal has them.
var backfillEvents = []eventType{
	event[BackfillCreate](), event[BackfillDue](), event[BackfillCancel](), event[BackfillExpire](), event[ChildEnded](),
}
