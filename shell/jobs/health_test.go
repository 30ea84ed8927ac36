package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/jobs"
)

func TestTroubleIsASentenceWithoutItsSubject(t *testing.T) {
	since := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	for want, h := range map[string]jobs.Health{
		"":                       {Status: jobs.HealthWorks, LastError: "it has passed"},
		"is down":                {Status: jobs.HealthDown},
		"is degraded: no events": {Status: jobs.HealthDegraded, Error: "no events"},
		"is down since 2026-11-21T18:00:00Z: connection refused": {Status: jobs.HealthDown, Since: since, Error: "connection refused"},
	} {
		assert.Equal(t, want, h.Trouble())
	}
	var err error = &jobs.DownError{Runner: "cluster", Health: jobs.Health{Status: jobs.HealthDown}}
	down := errors.As(err, new(*jobs.DownError))
	assert.True(t, down)
	assert.Equal(t, "runner cluster is down", err.Error())
}
