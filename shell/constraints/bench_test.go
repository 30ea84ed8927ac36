package constraints_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

const benched = `
constraints:
- timeWindow: {config: {from: "06:00", to: "18:00", weekdays: [mon-fri], timezone: Europe/Berlin}}
- previousRun: {config: {must: finished}}
- maxAllowedRunTime: {config: {limit: 1h}}
- lock: {config: {name: warehouse}}
- expression: {config: {expression: "attempt < 3 && job.labels['team'] == 'data'"}}
`

func BenchmarkCheckPreExecution(b *testing.B) {
	w, j := newWorld(), job(b, benched, "")
	w.run(j, day(1), ended(core.OrchestratorCompleted))
	w.run(j, noon, nil)
	c := checker(b, w, nil)
	id := core.RunID(j.ID, noon)
	b.ReportAllocs()
	for b.Loop() {
		r, err := c.CheckPreExecution(b.Context(), j, id)
		require.NoError(b, err)
		require.True(b, r.ShouldProceed, r.Message)
	}
}

func BenchmarkValidateOfAConfigurationThatIsNew(b *testing.B) {
	w, j := newWorld(), job(b, benched, "")
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := checker(b, w, nil)
		b.StartTimer()
		require.NoError(b, c.Validate(j))
	}
}
