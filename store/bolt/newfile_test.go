package bolt_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt"
)

// makers are all that make a database file; each gets a whole database, a stream of it, and where to make it.
var makers = map[string]func(from string, sent []byte, to string) error{
	"backup": func(from string, _ []byte, to string) error {
		s, err := bolt.Open(from, bolt.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		_, err = s.BackupFile(ctx, to)
		return err
	},
	"receive": func(_ string, sent []byte, to string) error {
		_, err := bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent), nil)
		return err
	},
	"compact": func(from string, _ []byte, to string) error {
		_, err := bolt.Compact(ctx, from, to)
		return err
	},
	"restore": func(from string, _ []byte, to string) error {
		_, err := bolt.Restore(ctx, from, to, bolt.RestoreOptions{})
		return err
	},
	"restore a stream": func(from string, sent []byte, to string) error {
		kept := from + ".stream"
		if err := os.WriteFile(kept, sent, 0o600); err != nil {
			return err
		}
		_, err := bolt.Restore(ctx, kept, to, bolt.RestoreOptions{})
		return err
	},
	"salvage": func(from string, _ []byte, to string) error {
		_, err := bolt.Salvage(ctx, from, to, bolt.SalvageOptions{})
		return err
	},
}

// sources gives a database with three batches, and its stream.
func sources(t *testing.T) (from string, sent []byte) {
	from = filled(t, 3)
	var b bytes.Buffer
	s, err := bolt.Open(from, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	_, err = s.Backup(ctx, &b)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return from, b.Bytes()
}

func TestNothingThatMakesAFileTakesTheLogOrTheJournalOfAnother(t *testing.T) {
	from, sent := sources(t)
	for name, make := range makers {
		for _, beside := range []string{".journal", ".log"} {
			to := filepath.Join(t.TempDir(), "copy.db")
			require.NoError(t, os.Mkdir(to+beside, 0o700))
			err := make(from, sent, to)
			require.ErrorIs(t, err, os.ErrExist, name)
			require.ErrorContains(t, err, "the folder "+to+beside+" stands there without the database file", name)
			assert.Equal(t, []string{"copy.db" + beside}, namesIn(t, filepath.Dir(to)), name)
		}
	}
}

func TestWhatMakesAFileRemovesWhatAKilledMakerHasLeftAndNothingElse(t *testing.T) {
	from, sent := sources(t)
	for name, make := range makers {
		to := filepath.Join(t.TempDir(), "a[b].db")
		require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(to), ".a[b].db.new-1"), 0o700)) // killed before its lock
		left := filepath.Join(filepath.Dir(to), ".a[b].db.new-2")
		require.NoError(t, os.MkdirAll(filepath.Join(left, "file.journal"), 0o700))
		for _, file := range []string{"lock", "file", "file.journal/1.past"} { // its lock was not whole
			require.NoError(t, os.WriteFile(filepath.Join(left, file), []byte("half"), 0o600))
		}
		others := filepath.Join(filepath.Dir(to), ".ab.db.new-1")
		require.NoError(t, os.Mkdir(others, 0o700))
		require.NoError(t, bolt.NewFile(to+".other", func(io.Writer) error {
			return make(from, sent, to)
		}), name)
		names := namesIn(t, filepath.Dir(to))
		assert.Subset(t, []string{".ab.db.new-1", "a[b].db", "a[b].db.journal", "a[b].db.other"}, names, name)
		assert.Contains(t, names, ".ab.db.new-1", name)
		requireSound(t, to)
	}
}

// TestAMakerLeavesAnotherOneOfTheSameNameAlone: the second one is done before the first.
func TestAMakerLeavesAnotherOneOfTheSameNameAlone(t *testing.T) {
	from, sent := sources(t)
	for name, make := range makers {
		to := filepath.Join(t.TempDir(), "copy.db")
		err := bolt.NewFile(to, func(w io.Writer) error {
			require.NoError(t, make(from, sent, to), name)
			_, err := w.Write(sent)
			return err
		})
		require.ErrorIs(t, err, os.ErrExist, name)
		require.NotContains(t, namesIn(t, filepath.Dir(to)), ".copy.db.new")
		requireSound(t, to)
	}
}
