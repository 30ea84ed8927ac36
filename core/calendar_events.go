package core

// CalendarEvent is an event of [Calendar]. The set is closed.
//
//sumtype:decl
type CalendarEvent interface {
	Event
	calendarEvent()
}

type (
	// CalendarCreate makes a calendar. Its name must be new in the tenant. It is answered with the
	// [Calendar], as is an update.
	CalendarCreate struct {
		Spec CalendarSpec `json:"spec"`
	}
	// CalendarUpdate changes the given fields.
	CalendarUpdate struct {
		Patch CalendarPatch `json:"patch"`
		// Revision is the one that the change was made for; 0: any.
		Revision uint64 `json:"revision,omitempty"`
	}
	// CalendarDelete ends the calendar.
	CalendarDelete struct {
		// Force ends it although schedules name it: they skip all their times from then on.
		Force bool `json:"force,omitempty"`
	}
	// CalendarUse says that more schedules name the calendar, or fewer.
	CalendarUse struct {
		N int64 `json:"n"`
	}
)

// CalendarPatch holds the fields to change; nil leaves a field as it is.
type CalendarPatch struct {
	Timezone    *string       `json:"timezone,omitempty"`
	Description *string       `json:"description,omitempty"`
	Exclude     *CalendarDays `json:"exclude,omitempty"` // instead of all that is excluded
	Include     *CalendarDays `json:"include,omitempty"` // instead of all that is included
}

// apply gives the spec with the changes.
func (p CalendarPatch) apply(to CalendarSpec) CalendarSpec {
	set(&to.Timezone, p.Timezone)
	set(&to.Description, p.Description)
	set(&to.Exclude, p.Exclude)
	set(&to.Include, p.Include)
	return to
}

func (CalendarCreate) calendarEvent() {}
func (CalendarUpdate) calendarEvent() {}
func (CalendarDelete) calendarEvent() {}
func (CalendarUse) calendarEvent()    {}

// EventType gives the discriminator in the journal.
func (CalendarCreate) EventType() string { return "create" }
func (CalendarUpdate) EventType() string { return "update" }
func (CalendarDelete) EventType() string { return "delete" }
func (CalendarUse) EventType() string    { return "use" }

// calendarEvents are the events of Calendar, as the journal has them.
var calendarEvents = []eventType{
	event[CalendarCreate](), event[CalendarUpdate](), event[CalendarDelete](), event[CalendarUse](),
}
