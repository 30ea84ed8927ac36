package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestRunnersPrintsHowTheyAre(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	r := cli(t, []string{"ORRERY_SERVER=" + p.url}, "", "runners")
	require.Zero(t, r.code, r.err)
	assert.Regexp(t, `^RUNNER +STATUS +SINCE \(UTC\) +SEEN +PODS +WAITING +NOTE\nlocal +works +- +- +0 of 100 +0 +-\n$|^RUNNER[^\n]+\nlocal +works +\d{4}-\S+ \S+ +- +0 of 100 +0 +-\n$`, r.out)
	var list wire.RunnerList
	require.NoError(t, json.Unmarshal([]byte(cli(t, []string{"ORRERY_SERVER=" + p.url}, "", "runners", "--json").out), &list))
	require.Len(t, list.Runners, 1)
	assert.Equal(t, "local", list.Runners[0].Name)
}

func TestARunnerThatIsDownSaysSinceWhenAndWhy(t *testing.T) {
	row := runnerRow(wire.Runner{
		Name: "cluster", Status: "down", Since: effects.Time(1_790_000_000_000), Error: "cannot watch jobs: refused",
		SeenAt: effects.Time(1_790_000_000_000), WatchAgeSeconds: 61.4,
	})
	assert.Equal(t, "1m1s ago", row[3])
	assert.Equal(t, []string{"-", "-", "cannot watch jobs: refused"}, row[4:])
	assert.Equal(t, "the cluster is away", runNote(wire.RunSummary{Note: "the cluster is away"}))
}
