//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/local"
)

func ofDatabase(t *testing.T, dir, id string) *local.Runner {
	t.Helper()
	r, err := local.New(local.Options{Dir: dir})
	require.NoError(t, err)
	r.UseDatabase(id)
	return r
}

// A daemon ends, its pods go on, and a daemon with another database begins with its folder.
func TestThePodsOfAnotherDatabaseAreNeitherHeldNorToldNorDeleted(t *testing.T) {
	dir := t.TempDir()
	first := watch(t, ofDatabase(t, dir, "first"))
	run, before := script("echo begun; exec sleep 1000"), script("exec sleep 1000")
	first.create(run)
	first.reaches(run.Attempt, jobs.PhaseRunning)
	assert.True(t, first.Lives(run.Attempt))
	first.stop()
	unmarked, err := local.New(local.Options{Dir: dir}) // a build before
	require.NoError(t, err)
	_, err = unmarked.Create(t.Context(), before)
	require.NoError(t, err)

	second := watch(t, ofDatabase(t, dir, "second"))
	held, err := second.Held(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []jobs.Attempt{before.Attempt}, held)
	assert.False(t, second.Lives(run.Attempt))
	assert.False(t, second.Lives(before.Attempt))
	there, remedy := second.Foreign()
	require.Len(t, there, 1)
	assert.Equal(t, "first", there[0].Database)
	assert.Equal(t, run.Name(), filepath.Base(there[0].Name))
	assert.Equal(t, "give one of the two daemons another dir", remedy)
	_, err = second.Create(t.Context(), run)
	assert.True(t, shell.IsPermanent(err))
	require.ErrorContains(t, err, "is of database first, and this one is second: give one of the two daemons another dir")
	second.delete(run.Attempt)
	second.reaches(before.Attempt, jobs.PhaseRunning)
	assert.Empty(t, second.of(run.Attempt))
	second.delete(before.Attempt)
	second.stop()

	again := watch(t, ofDatabase(t, dir, "first"))
	again.reaches(run.Attempt, jobs.PhaseRunning)
	assert.Equal(t, "begun\n", again.log(run.Attempt, ""))
	there, _ = again.Foreign()
	assert.Empty(t, there)
	again.delete(run.Attempt)
	held, err = again.Held(t.Context())
	require.NoError(t, err)
	assert.Empty(t, held)
}
