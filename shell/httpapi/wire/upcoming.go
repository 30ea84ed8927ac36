package wire

import (
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// UpcomingList is the answer of GET /v1/upcoming: the schedules that are due next, by their next times.
type UpcomingList struct {
	Schedules []UpcomingSchedule `json:"schedules"`
	More      bool               `json:"more"` // there are more of them, or may be
}

// UpcomingSchedule is a schedule of any kind that is due.
type UpcomingSchedule struct {
	Kind      effects.Kind      `json:"kind"` // recurring, job or action
	ID        string            `json:"id"`   // of a job the one that its tenant gave it
	Name      string            `json:"name"` // of a recurring action its description, of an action its label, or what stands for it
	Namespace string            `json:"namespace"`
	Tenant    string            `json:"tenant"`
	CronExpr  string            `json:"cron_expr,omitempty"`
	Timezone  string            `json:"timezone,omitempty"`
	DayMatch  schedule.DayMatch `json:"day_match,omitempty"`
	PeriodMS  int64             `json:"period_ms,omitempty"` // of a periodic action without a cron expression
	DueAt     effects.Time      `json:"due_at"`              // its next time; in the past: it is late
	Times     []effects.Time    `json:"times"`               // when it fires, of what was asked for
	MoreTimes bool              `json:"more_times"`          // it fires more often
}
