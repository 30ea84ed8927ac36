package kv_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestWhatTheFileCannotHoldIsRefusedBeforeItIsCommitted(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), nil)
	defer func() { require.NoError(t, db.Close()) }()
	longest := strings.Repeat("k", bbolt.MaxKeySize)
	for key, want := range map[string]string{
		"":            "table a: an empty key: want 1 to 32768 bytes",
		longest + "k": "table a: a key of 32769 bytes: want at most 32768",
	} {
		tx, err := db.Begin(context.Background(), true)
		require.NoError(t, err)
		tx.Table("b").Put([]byte("beside it"), nil)
		tx.Table("a").PutNew([]byte(key), []byte("v"))
		require.EqualError(t, tx.Commit(), want)
		require.NoError(t, db.Checkpoint())
	}
	require.NoError(t, putText(db, longest, "v"))
	require.NoError(t, db.Checkpoint())
	require.Equal(t, "v", get(t, db, longest))
	tx, err := db.Begin(context.Background(), false)
	require.NoError(t, err)
	defer tx.Rollback()
	_, ok := tx.Table("b").Get([]byte("beside it"))
	require.False(t, ok, "nothing of a transaction that was refused is there")
}
