package core_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestAScheduleHasEndedOnceNoTimeOfItIsToCome(t *testing.T) {
	now := effects.TimeOf(time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC))
	const daily, past = "0 9 * * *", "0 0 9 1 1 ? 2025"
	for _, row := range []struct {
		name, expr      string
		ends            core.Time
		most, executed  uint64
		waiting         int
		recurring, jobs bool
	}{
		{name: "it is paused", expr: daily},
		{name: "its end is to come", expr: daily, ends: now.Add(24 * time.Hour)},
		{name: "no time of it comes before its end", expr: daily, ends: now.Add(time.Hour), recurring: true, jobs: true},
		{name: "its end has come", expr: daily, ends: now, recurring: true, jobs: true},
		{name: "it may dispatch one more", expr: daily, most: 2, executed: 1},
		{name: "it has dispatched as many as it may", expr: daily, most: 2, executed: 2, recurring: true, jobs: true},
		{name: "one of those that it may dispatch waits", expr: daily, most: 2, executed: 2, waiting: 1, jobs: true},
		{name: "its expression names no further time", expr: past, recurring: true, jobs: true},
	} {
		options := core.ScheduleOptions{MaxExecutions: row.most}
		r := core.RecurringAction{CreatedAt: now - 1000, Executions: row.executed, Waiting: make([]core.WaitingTime, row.waiting)}
		r.RecurringSpec = core.RecurringSpec{ID: uuid.New(), CronExpr: row.expr, Timezone: "UTC", EndsAt: row.ends, ScheduleOptions: options}
		assert.Equal(t, row.recurring, r.Ended(now), "recurring action: %s", row.name)
		r.Enabled = true
		assert.False(t, r.Ended(now), "its due event decides: %s", row.name)
		j := core.Job{JobSpec: core.JobSpec{ID: "j", Schedule: row.expr, Timezone: "UTC", EndsAt: row.ends, ScheduleOptions: options}, CreatedAt: now - 1000, Executions: row.executed}
		assert.Equal(t, row.jobs, j.Ended(now), "job: %s", row.name)
		j.NextRunAt = now + 1000
		assert.False(t, j.Ended(now), row.name)
	}
	assert.False(t, core.Job{JobSpec: core.JobSpec{ID: "j"}}.Ended(now), "it runs when it is triggered alone")
}
