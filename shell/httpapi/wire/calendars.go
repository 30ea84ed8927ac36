package wire

import (
	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Calendar is a calendar, with what its reader must know.
type Calendar struct {
	core.Calendar
	LastDate string   `json:"last_date"`          // the last of its dates; empty: it has none
	Warnings []string `json:"warnings,omitempty"` // such as that it runs out

	Declared *DeclaredBy `json:"declared,omitempty"` // the set that owns it, where one alone is shown
}

// CalendarChanged is the answer to PUT /v1/calendars/{name}.
type CalendarChanged struct {
	Calendar
	Moved []MovedSchedule `json:"moved"` // the schedules whose next five times are others now
	More  bool            `json:"more"`  // there are more schedules than were looked at
}

// MovedSchedule is a schedule whose next times a change has moved.
type MovedSchedule struct {
	Kind            effects.Kind   `json:"kind"` // recurring or job
	ID              string         `json:"id"`   // of a job its name
	Name            string         `json:"name,omitempty"`
	NextTimesBefore []effects.Time `json:"next_times_before"`
	NextTimes       []effects.Time `json:"next_times"`
}

// CalendarList is a page of GET /v1/calendars.
type CalendarList struct {
	Calendars     []Calendar `json:"calendars"`
	NextPageToken string     `json:"next_page_token"`
}

// CalendarRequest is the body of POST /v1/calendars. What of Namespace, Tenant and Timezone is left
// out is that of the token, or the default.
type CalendarRequest struct {
	Name        string            `json:"name"`
	Namespace   *string           `json:"namespace,omitempty"`
	Tenant      *string           `json:"tenant,omitempty"`
	Timezone    string            `json:"timezone,omitempty"`
	Description string            `json:"description,omitempty"`
	Exclude     core.CalendarDays `json:"exclude"`
	Include     core.CalendarDays `json:"include"`
}

// CalendarPatch is the body of PUT /v1/calendars/{name}: what is left out stays as it is.
type CalendarPatch struct {
	Timezone    Optional[string]            `json:"timezone,omitzero"`
	Description Optional[string]            `json:"description,omitzero"`
	Exclude     Optional[core.CalendarDays] `json:"exclude,omitzero"`
	Include     Optional[core.CalendarDays] `json:"include,omitzero"`
	// Revision is the one that the change was made for; 0: any.
	Revision uint64 `json:"revision,omitempty"`
}
