package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestTheMapTellsTimesWithTheirZoneAndTheDateWhereItIsAnotherOne(t *testing.T) {
	q := &visit{zone: time.FixedZone("CET", 3600)}
	at := func(text string) effects.Time {
		v, err := time.Parse(time.RFC3339Nano, text)
		assert.NoError(t, err)
		return effects.TimeOf(v)
	}
	shown := string(q.drawRunMap([]runStep{
		{state: core.OrchestratorPreRun, at: at("2026-02-10T22:59:58.5Z")}, {state: core.OrchestratorPending, at: at("2026-02-10T22:59:59.5Z"), guess: true},
		{state: core.OrchestratorActionPending}, {state: core.OrchestratorContainerCreating, at: at("2026-02-10T23:00:00.25Z")}, {state: core.OrchestratorRunning, at: at("2026-02-10T23:00:01Z")},
	}))
	for _, want := range []string{">2026-02-10 23:59:58.500 CET<", ">about 23:59:59 CET<", ">2026-02-11 00:00:00.250 CET<", ">00:00:01.000 CET<"} {
		assert.Contains(t, shown, want)
	}
}
