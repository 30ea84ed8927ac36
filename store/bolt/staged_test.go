package bolt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func lastCommit(t *testing.T, s store.Store) (n uint64) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) (err error) {
		n, err = tx.LastCommit()
		return err
	}))
	return n
}

func TestTheNumberOfTheLastCommitGrowsOverRestartsAndCrashes(t *testing.T) {
	path := crashed(t, 3)
	seen := uint64(0)
	for round := range 3 {
		s := open(t, path, bolt.Options{})
		now := lastCommit(t, s)
		require.GreaterOrEqual(t, now, seen)
		require.NoError(t, commit(s, batchOf(10*(round+1), 1)))
		seen = lastCommit(t, s)
		require.Greater(t, seen, now)
		require.NoError(t, s.Close())
	}
}

func TestOfSeveralRecordsThoseThatCannotBeReadAreMarkedAndNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	s := open(t, path, bolt.Options{NoSync: true})
	require.NoError(t, commit(s, batchOf(0, 3)))
	var refs []effects.Ref
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		return tx.Records(func(r store.Record) error {
			refs = append(refs, effects.Ref{Kind: r.Kind, ID: r.ID})
			return nil
		})
	}))
	require.NoError(t, s.Close())
	flipped(t, path, "records/action", refs[1].ID[:], func(k, v []byte) ([]byte, []byte) { return k, flip(v, 8*len(v)-3) })
	s = open(t, path, bolt.Options{NoSync: true})
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		got, err := tx.GetMany(nil, refs)
		bad, rest := store.Unreadable(err)
		require.NoError(t, rest)
		require.Len(t, bad, 1)
		assert.Equal(t, refs[1].ID, bad[0].ID)
		require.Len(t, got, 3)
		assert.Equal(t, store.Record{Kind: refs[1].Kind, ID: refs[1].ID}, got[1])
		assert.NotZero(t, got[0].Version)
		assert.NotZero(t, got[2].Version)
		return nil
	}))
}

func TestWhatWasStagedIsNotConfirmedWhereTheFileWasTakenAwayMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	s := open(t, path, bolt.Options{})
	stage := func(name string) func() error {
		durable, err := s.Stage(ctx, func(tx store.Tx) error { return tx.SetMeta(name, bytes.Repeat([]byte("x"), 10)) })
		require.NoError(t, err)
		return durable
	}
	first, second := stage("a"), stage("b")
	require.NoError(t, os.Rename(path, path+".away"))
	require.ErrorIs(t, first(), store.ErrUnconfirmed)
	require.NoError(t, os.Rename(path+".away", path))
	require.NoError(t, second())
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		v, err := tx.Meta("a")
		assert.NotEmpty(t, v, "it goes on, so it is there")
		return err
	}))
}
