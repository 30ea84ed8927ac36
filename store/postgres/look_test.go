package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

func TestAClusterThatOnlyLooksMakesNoTablesAndBringsNoneToANewFormat(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	looks := func() (*postgres.Cluster, error) {
		return postgres.Connect(t.Context(), url, postgres.Options{ReadOnly: true})
	}
	for range 2 { // the first one has made none
		_, err := looks()
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	writes, err := postgres.Connect(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	defer writes.Close()
	require.NoError(t, writes.SetLayout(t.Context(), store.Layout{Partitions: 3, Rule: 1}))

	c, err := looks()
	require.NoError(t, err)
	defer c.Close()
	l, err := c.Layout(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, l.Partitions)
	_, err = c.Claim(t.Context(), store.PartitionClaim{Seen: store.Partition{Number: 1}, Owner: "who looks"})
	require.ErrorIs(t, err, postgres.ErrReadOnly)
	all, err := c.Partitions(t.Context())
	require.NoError(t, err)
	assert.Empty(t, all)

	exec(t, url, `UPDATE orrery.meta SET format = 3`)
	_, err = looks()
	require.ErrorIs(t, err, postgres.ErrOlder)
	require.ErrorContains(t, err, "the tables of schema orrery have format 3, and who only reads needs ")
	_, err = looks()
	require.ErrorIs(t, err, postgres.ErrOlder, "it has not brought them to the new one")
}

func TestAPartitionCanBeFilledIfItIsEmptyOrWasNotFilledToTheEnd(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	c, err := postgres.Connect(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	defer c.Close()
	can := func() error {
		p, err := c.Look(t.Context(), 0)
		require.NoError(t, err)
		return postgres.CanFill(p)
	}
	half, err := postgres.Open(t.Context(), url, postgres.Options{Fill: true})
	require.NoError(t, err)
	require.ErrorIs(t, half.Import(t.Context(), broken{content(t, 20)}), errBroken)
	require.NoError(t, half.Close())
	require.NoError(t, can())
	st, err := postgres.Open(t.Context(), url, postgres.Options{Fill: true})
	require.NoError(t, err)
	require.NoError(t, st.Import(t.Context(), content(t, 20)))
	require.NoError(t, st.Close())
	require.ErrorIs(t, can(), postgres.ErrFull)
	_, err = postgres.Open(t.Context(), url, postgres.Options{Fill: true})
	require.ErrorIs(t, err, postgres.ErrFull, "as the opening says")
}
