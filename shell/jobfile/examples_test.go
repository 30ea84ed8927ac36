package jobfile_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobfile"
)

func TestThereIsAnExampleOfEachPolicyOfASchedule(t *testing.T) {
	overlap, missed := map[core.OverlapPolicy]bool{}, map[core.MissedPolicy]bool{}
	for _, name := range []string{"overlap.yaml", "missed.yaml"} {
		specs, err := jobfile.Load(filepath.Join("../../examples/jobs/policies", name), jobfile.Options{ParsePodSpec: plainPodSpec})
		require.NoError(t, err)
		for _, s := range specs {
			require.NoError(t, s.Validate())
			overlap[s.Overlap.Plain()], missed[s.Missed] = true, true
		}
	}
	for _, p := range []core.OverlapPolicy{
		core.OverlapAllow, core.OverlapSkip, core.OverlapBufferOne, core.OverlapBufferAll, core.OverlapCancelOther, core.OverlapTerminateOther,
	} {
		assert.True(t, overlap[p], p)
	}
	for _, p := range []core.MissedPolicy{core.MissedSkip, core.MissedLatest, core.MissedAll} {
		assert.True(t, missed[p], p)
	}
}
