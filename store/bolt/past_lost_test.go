package bolt_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// TestACopyOfAFileWhoseJournalIsLostGoesOnWithTheSameNumbers copies it while it is open for
// reading only, so that nothing has begun its journal anew.
func TestACopyOfAFileWhoseJournalIsLostGoesOnWithTheSameNumbers(t *testing.T) {
	for name, copied := range map[string]func(from, to string) error{
		"compact": func(from, to string) error {
			_, err := bolt.Compact(ctx, from, to)
			return err
		},
		"backup": func(from, to string) error {
			s, err := bolt.Open(from, bolt.Options{ReadOnly: true})
			require.NoError(t, err)
			_, err = s.BackupFile(ctx, to)
			return errors.Join(err, s.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t, 5)
			require.NoError(t, os.RemoveAll(path+".journal"))
			to := filepath.Join(filepath.Dir(path), "copy.db")
			require.NoError(t, copied(path, to))
			s := open(t, to, bolt.Options{})
			require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
				seq, err := tx.Seq()
				assert.Equal(t, uint64(5), seq)
				return err
			}))
			require.NoError(t, commit(s, batchOf(1000, 20)))
			all := journalOf(t, s)
			require.Len(t, all, 1)
			assert.Equal(t, uint64(6), all[0].Seq)
			requireSoundStore(t, s)
			require.NoError(t, s.Close())
		})
	}
}

// TestALossOfSomeOfTheJournalIsToldOnce takes the last file away, as a whole or in part.
func TestALossOfSomeOfTheJournalIsToldOnce(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"cut":  func(path string) error { return os.Truncate(path, 100) },
		"gone": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t, 5)
			files, err := filepath.Glob(path + ".journal/*.past")
			require.NoError(t, err)
			require.NoError(t, harm(files[len(files)-1]))
			for i := range 3 {
				s := open(t, path, bolt.Options{})
				require.NoError(t, commit(s, batchOf(1000*(i+1), 20)))
				assert.Len(t, journalOf(t, s), i+1, fmt.Sprint("start ", i))
				requireSoundStore(t, s)
				require.NoError(t, s.Close())
			}
		})
	}
}

// TestABackupLeavesNothingOfTheJournalOutThatCannotBeRead damages the first block of the changes; the
// file is one of an earlier build, which has no table of that name.
func TestABackupLeavesNothingOfTheJournalOutThatCannotBeRead(t *testing.T) {
	path := filled(t, 5)
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("changes")) }))
	require.NoError(t, db.Close())
	files, err := filepath.Glob(path + ".journal/*.past")
	require.NoError(t, err)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	second := 40 + binary.BigEndian.Uint32(raw[44:]) // behind the head and the journal's block
	require.Equal(t, "changes", string(raw[second+21:][:7]))
	raw[second+100] ^= 8
	require.NoError(t, os.WriteFile(files[0], raw, 0o600))
	s := open(t, path, bolt.Options{})
	_, err = s.BackupFile(ctx, filepath.Join(filepath.Dir(path), "copy.db"))
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, files[0])
	require.NoError(t, s.Close())
}
