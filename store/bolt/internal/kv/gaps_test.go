package kv_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

// consumed is a file in which that many keys stand, of which the log deletes the first.
func consumed(t testing.TB, keys, deleted int) *opened {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), nil)
	change := func(n int, do func(*kv.Table, []byte)) {
		tx, err := db.Begin(context.Background(), true)
		require.NoError(t, err)
		for i := range n {
			do(tx.Table("a"), fmt.Appendf(nil, "%06d", i))
		}
		require.NoError(t, tx.Commit())
	}
	change(keys, func(table *kv.Table, k []byte) { table.PutNew(k, []byte("v")) })
	require.NoError(t, db.Checkpoint())
	change(deleted, func(table *kv.Table, k []byte) { table.Delete(k) })
	return db
}

func TestWhatWasFoundToBeDeletedIsNotSteppedOverAgain(t *testing.T) {
	db := consumed(t, 1000, 900)
	defer func() { require.NoError(t, db.Close()) }()
	read := func(do func(*kv.Table)) {
		tx, err := db.Begin(context.Background(), false)
		require.NoError(t, err)
		defer tx.Rollback()
		do(tx.Table("a"))
	}
	read(func(table *kv.Table) {
		require.Empty(t, table.Gaps())
		c := table.Cursor()
		k, _ := c.First()
		require.Equal(t, "000900", string(k))
		require.Equal(t, []string{"000000-000900"}, table.Gaps())
		k, _ = c.Prev()
		require.Nil(t, k)
	})
	read(func(table *kv.Table) {
		require.Equal(t, []string{"000000-000900"}, table.Gaps(), "another transaction knows")
		k, _ := table.Cursor().Seek([]byte("000500"))
		require.Equal(t, "000900", string(k))
	})

	tx, err := db.Begin(context.Background(), true)
	require.NoError(t, err)
	tx.Table("a").Put([]byte("000300"), []byte("back"))
	require.Equal(t, []string{"000000-000300"}, tx.Table("a").Gaps())
	k, _ := tx.Table("a").Cursor().First()
	require.Equal(t, "000300", string(k))
	require.NoError(t, tx.Commit())
}

// TestSteppingOverDeletedKeysChangesNothingOfWhatIsSeen is the property of the whole
// package with gaps of few keys, and many deletions.
func TestSteppingOverDeletedKeysChangesNothingOfWhatIsSeen(t *testing.T) {
	defer kv.LeastGap(1)()
	deletions = 6
	defer func() { deletions = 0 }()
	rapid.Check(t, repeat)
}

// BenchmarkDeletedFront finds the first key behind many that were deleted since the last
// checkpoint.
func BenchmarkDeletedFront(b *testing.B) {
	for _, deleted := range []int{0, 1000, 50_000} {
		b.Run(fmt.Sprint(deleted), func(b *testing.B) {
			db := consumed(b, deleted+1000, deleted)
			tx, err := db.Begin(context.Background(), false)
			require.NoError(b, err)
			for b.Loop() {
				if k, _ := tx.Table("a").Cursor().First(); k == nil {
					b.Fatal("it is empty")
				}
			}
			tx.Rollback()
			require.NoError(b, db.Close())
		})
	}
}
