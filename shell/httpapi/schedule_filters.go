package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// The values of the filter by the state of a schedule.
const (
	scheduleOn     = "on"
	schedulePaused = "paused"
	scheduleEnded  = "ended"
)

// scheduleState is how a schedule stands: what has ended is not paused, since nobody can resume it.
func scheduleState(on, ended bool) string {
	switch {
	case ended:
		return scheduleEnded
	case on:
		return scheduleOn
	default:
		return schedulePaused
	}
}

// state reads the filter by how schedules stand; on says which of the two lists, of those that are on and of those that are not, has all of these:
// nil if neither has.
func (q query) state() (state string, on *bool, err error) {
	v := q.opt("state")
	if v == nil {
		return "", nil, nil
	}
	switch *v {
	case scheduleOn, schedulePaused:
		b := *v == scheduleOn
		return *v, &b, nil
	case scheduleEnded:
		return *v, nil, nil
	default:
		return "", nil, failf(http.StatusBadRequest, "state: %q is unknown: use on, paused or ended", clip(*v))
	}
}

// named makes a filter by name of the parameter name: one of the names has it in it, in capitals or not. nil: the parameter is not given.
func (q query) named() func(names ...string) bool {
	part := strings.ToLower(q.get("name"))
	if part == "" {
		return nil
	}
	return func(names ...string) bool {
		for _, name := range names {
			if strings.Contains(strings.ToLower(name), part) {
				return true
			}
		}
		return false
	}
}

// chooseRecurring keeps what the filters by state and name choose.
func (s *Server) chooseRecurring(q query, state string) func(core.RecurringAction) bool {
	named := q.named()
	return func(a core.RecurringAction) bool {
		return (named == nil || named(a.Name, cmp.Or(a.Description, a.ActionTemplate.Provider+" "+a.ActionTemplate.ActionType))) &&
			(state == "" || state == scheduleState(a.Enabled, a.Ended(s.now())))
	}
}

// chooseJob keeps what the filters by state and name choose.
func (s *Server) chooseJob(q query, state string) func(core.Job) bool {
	named := q.named()
	return func(j core.Job) bool {
		return (named == nil || named(j.ID, j.Name)) && (state == "" || state == scheduleState(!j.Paused, j.Ended(s.now())))
	}
}

// chooseAction keeps what the filter by name chooses.
func chooseAction(q query) func(core.Action) bool {
	named := q.named()
	if named == nil {
		return nil
	}
	return func(a core.Action) bool { return named(cmp.Or(a.Label, a.ToolName+" "+a.ActionType)) }
}

// now is the time of the server's clock, which tests set.
func (s *Server) now() effects.Time { return effects.TimeOf(s.o.Clock.Now()) }
