package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

const identity = "abcdefghijklmnopqrstuvwxyz"

func TestPartitionZeroGivesTheClusterItsIdentity(t *testing.T) {
	m := &marker{}
	withRig(t, func(r *rig) {
		marking(m)(r)
		r.o.Place = &jobs.Place{Partitions: 4}
		_, err := jobs.Identity(t.Context(), r.store)
		require.ErrorIs(t, err, store.ErrNotFound)
	}, func(t *testing.T, r *rig) {
		pass(time.Second)
		own := m.databases()[0]
		assert.Equal(t, []string{"0 of 4 of " + own}, m.placed())
		id, err := jobs.Identity(t.Context(), r.store)
		require.NoError(t, err)
		assert.Equal(t, own, id)
	})
}

func TestAPartitionWaitsUntilTheIdentityOfTheClusterIsKnownAndKeepsIt(t *testing.T) {
	m := &marker{}
	var answers []error
	asked := 0
	withRig(t, func(r *rig) {
		marking(m)(r)
		answers = []error{store.ErrNotFound, errors.New("the server is away"), nil}
		r.o.Place = &jobs.Place{Partition: 3, Partitions: 4, Cluster: func(context.Context) (string, error) {
			asked++
			return identity, answers[min(asked, len(answers))-1]
		}}
	}, func(t *testing.T, r *rig) {
		pass(time.Minute)
		assert.Equal(t, []string{"3 of 4 of " + identity}, m.placed())
		assert.Equal(t, 3, asked)
		assert.Equal(t, 1, strings.Count(r.log.String(), "waiting for partition 0 to begin"))
		assert.Equal(t, 1, strings.Count(r.log.String(), "could not find out which database this is"))
		id, err := jobs.Identity(t.Context(), r.store)
		require.NoError(t, err)
		assert.Equal(t, identity, id, "a copy that begins with this one is of the same cluster")
		r.restart()
		pass(time.Minute)
		assert.Len(t, m.placed(), 2)
		assert.Equal(t, 3, asked, "it has noted it")
	})
}

func TestWhatIsNoIdentityOfAClusterIsNotNoted(t *testing.T) {
	m := &marker{}
	withRig(t, func(r *rig) {
		marking(m)(r)
		r.o.Place = &jobs.Place{Partition: 1, Partitions: 4, Cluster: func(context.Context) (string, error) { return "mine", nil }}
	}, func(t *testing.T, r *rig) {
		pass(time.Minute)
		assert.Empty(t, m.placed())
		assert.Contains(t, r.log.String(), `Options.Place.Cluster is \"mine\", which is no identity of a database`)
	})
}

func TestAPlaceThatCannotBeIsRefused(t *testing.T) {
	for want, p := range map[string]jobs.Place{
		"Place.Partitions is 0: it must be between 1 and 4096": {},
		"Place.Partition is 4: it must be between 0 and 3":     {Partition: 4, Partitions: 4},
		"Place.Cluster is nil: partition 2 needs it":           {Partition: 2, Partitions: 4},
	} {
		_, err := jobs.New(jobs.Options{Runners: map[string]jobs.Runner{"fake": &runnertest.Fake{}}, Place: &p})
		require.ErrorContains(t, err, want)
	}
}

func TestIdentityOfADatabaseThatNothingHasWorkedOn(t *testing.T) {
	st := memory.New()
	_, err := jobs.Identity(t.Context(), st)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.SetMeta("jobs/database", []byte("what?")) }))
	_, err = jobs.Identity(t.Context(), st)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.NoError(t, st.Close())
}
