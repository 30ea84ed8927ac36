package kv_test

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

// TestACheckpointTakesFilesOfThePastAwayOnceNobodyReadsThem moves the floor while a View reads.
func TestACheckpointTakesFilesOfThePastAwayOnceNobodyReadsThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	db := openAt(t, path, func(o *kv.Options) { o.Past.Floor = floor })
	files := func() int {
		found, err := os.ReadDir(path + ".past")
		require.NoError(t, err)
		return len(found)
	}
	want := content{}
	write := func(at uint64) {
		tx, err := db.Begin(context.Background(), true)
		require.NoError(t, err)
		appendPast(tx, "past", string(make([]byte, 400)), want)
		if at != 0 {
			tx.Table("floor").Put([]byte("at"), binary.BigEndian.AppendUint64(nil, at))
		}
		require.NoError(t, tx.Commit())
		require.NoError(t, db.Checkpoint())
	}
	for range 20 {
		write(0)
	}
	before := files()
	require.Greater(t, before, 3)
	held, err := db.Begin(context.Background(), false)
	require.NoError(t, err)
	last := keysOf(want["past"])[len(want["past"])-1]

	write(binary.BigEndian.Uint64([]byte(last)))
	write(0) // the floor is that of the checkpoint before
	assert.GreaterOrEqual(t, files(), before, "they are being read")
	k, _ := held.Table("past").Cursor().First()
	assert.Equal(t, "00000001", string(k))

	held.Rollback()
	assert.LessOrEqual(t, files(), 3, "the last ones stay")
	require.NoError(t, db.Close())
}
