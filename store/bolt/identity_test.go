package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// taken are the ways in which a database file is taken away under a process; each
// gives what puts it back.
var taken = map[string]func(t *testing.T, path string) (putBack func()){
	"removed, and another name of it is left": func(t *testing.T, path string) func() {
		require.NoError(t, os.Link(path, path+".kept"))
		require.NoError(t, os.Remove(path))
		return func() { require.NoError(t, os.Rename(path+".kept", path)) }
	},
	"renamed": func(t *testing.T, path string) func() {
		require.NoError(t, os.Rename(path, path+".away"))
		return func() { require.NoError(t, os.Rename(path+".away", path)) }
	},
	"replaced by a copy": func(t *testing.T, path string) func() {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+".copy", raw, 0o600))
		require.NoError(t, os.Link(path, path+".kept"))
		require.NoError(t, os.Rename(path+".copy", path))
		return func() { require.NoError(t, os.Rename(path+".kept", path)) }
	},
	"in a folder that was renamed": func(t *testing.T, path string) func() {
		require.NoError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".away"))
		return func() { require.NoError(t, os.Rename(filepath.Dir(path)+".away", filepath.Dir(path))) }
	},
	"behind a link that leads elsewhere": func(t *testing.T, path string) func() {
		require.NoError(t, os.Rename(path, path+".away"))
		other := filepath.Join(t.TempDir(), "other.db")
		require.NoError(t, os.WriteFile(other, nil, 0o600))
		require.NoError(t, os.Symlink(other, path))
		return func() { require.NoError(t, os.Rename(path+".away", path)) }
	},
}

func skipWhereOpenFilesStay(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not let a file go that is open")
	}
}

func actions(t *testing.T, s store.Store) (n uint64) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) (err error) {
		n, err = tx.Count("action", "all")
		return err
	}))
	return n
}

func TestNothingIsCommittedWhileTheFileIsNotInItsPlaceAndAllGoesOnOnceItIsBack(t *testing.T) {
	skipWhereOpenFilesStay(t)
	for how, take := range taken {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data", "orrery.db")
			s := open(t, path, bolt.Options{NoSync: true})
			require.NoError(t, commit(s, batchOf(0, 20)))
			require.NoError(t, s.InPlace())

			putBack := take(t, path)

			asked := false
			err := s.Update(ctx, func(store.Tx) error {
				asked = true
				return nil
			})
			require.ErrorIs(t, err, store.ErrMoved)
			require.ErrorContains(t, err, path, "it names the file")
			require.ErrorContains(t, err, "put the same file back there, or stop this process", "and what to do")
			assert.False(t, asked, "nothing is decided for a commit that cannot be")
			require.ErrorIs(t, s.InPlace(), store.ErrMoved)
			assert.EqualValues(t, 20, actions(t, s), "what is read is read")

			putBack()
			require.NoError(t, s.InPlace())
			require.NoError(t, commit(s, batchOf(20, 20)))
			assert.EqualValues(t, 40, actions(t, s))
		})
	}
}

func TestACommitFromWhichTheFileIsTakenAwayIsRolledBack(t *testing.T) {
	skipWhereOpenFilesStay(t)
	path := filepath.Join(t.TempDir(), "orrery.db")
	s := open(t, path, bolt.Options{})
	err := s.Update(ctx, func(tx store.Tx) error {
		require.NoError(t, os.Rename(path, path+".away"))
		return tx.SetMeta("written", []byte(`1`))
	})
	require.ErrorIs(t, err, store.ErrMoved)
	require.NotErrorIs(t, err, store.ErrUnconfirmed)
	require.NoError(t, os.Rename(path+".away", path))
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		written, err := tx.Meta("written")
		assert.Empty(t, written)
		return err
	}))
}

func TestAFileThatIsTakenAwayWhileACommitIsWrittenLeavesItUnconfirmed(t *testing.T) {
	skipWhereOpenFilesStay(t)
	path := filepath.Join(t.TempDir(), "orrery.db")
	s := open(t, path, bolt.Options{})
	err := s.Update(ctx, func(tx store.Tx) error {
		bolt.OnCommit(tx, func() { require.NoError(t, os.Rename(path, path+".away")) })
		return tx.SetMeta("written", []byte(`1`))
	})
	require.ErrorIs(t, err, store.ErrUnconfirmed)
	require.ErrorIs(t, err, store.ErrMoved)
	require.ErrorIs(t, commit(s, batchOf(0, 1)), store.ErrMoved)
	require.NoError(t, os.Rename(path+".away", path))
	require.NoError(t, commit(s, batchOf(0, 1)), "the same file is back")
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		written, err := tx.Meta("written")
		assert.Equal(t, `1`, string(written), "it was written")
		return err
	}))
}

func TestAFileThatWasCutFromOutsideTakesNothingMoreEvenIfItGrowsAgain(t *testing.T) {
	skipWhereOpenFilesStay(t)
	path := filepath.Join(t.TempDir(), "orrery.db")
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	defer func() { _ = s.Close() }() // what it finds on its pages does not matter here
	require.NoError(t, commit(s, batchOf(0, 200)))
	info, err := os.Stat(path)
	require.NoError(t, err)

	require.NoError(t, os.Truncate(path, 4096))

	err = commit(s, batchOf(200, 1))
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, path+" has 4096 bytes")
	require.ErrorContains(t, err, "restore a backup")
	require.NoError(t, os.Truncate(path, info.Size()))
	require.ErrorIs(t, commit(s, batchOf(200, 1)), store.ErrCorrupt, "what was cut off is not back")
	require.ErrorIs(t, s.InPlace(), store.ErrCorrupt)
}

func TestAFileWhoseFirstPagesAreGoneIsAnErrorForReadersAndWritersAndHoldsNobodyUp(t *testing.T) {
	skipWhereOpenFilesStay(t)
	for name, damage := range map[string]func(t *testing.T, path string){
		"cut to nothing": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Truncate(path, 0))
		},
		"overwritten with something else": func(t *testing.T, path string) {
			t.Helper()
			info, err := os.Stat(path)
			require.NoError(t, err)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.Write(bytes.Repeat([]byte("else"), int(info.Size())/4))
			require.NoError(t, errors.Join(err, f.Close()))
		},
	} {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, written before: %v", name, written), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "orrery.db")
				s, err := bolt.Open(path, bolt.Options{NoSync: true})
				require.NoError(t, err)
				if written {
					require.NoError(t, commit(s, batchOf(0, 20)))
				}
				inView, damaged, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- s.View(ctx, func(store.ReadTx) error {
						close(inView)
						<-damaged
						return nil
					})
				}()
				<-inView

				damage(t, path)

				view := func() error { return s.View(ctx, func(store.ReadTx) error { return nil }) }
				require.ErrorIs(t, view(), store.ErrCorrupt)
				require.ErrorIs(t, view(), store.ErrCorrupt, "and nobody waits for a lock")
				close(damaged)
				require.NoError(t, <-ended, "a View that was under way ends")
				require.ErrorIs(t, commit(s, batchOf(20, 1)), store.ErrCorrupt)
				_ = s.Close() // it returns
			})
		}
	}
}

func TestARelativePathIsThatOfTheFolderInWhichTheFileWasOpened(t *testing.T) {
	t.Chdir(t.TempDir())
	s := open(t, "orrery.db", bolt.Options{})
	t.Chdir(t.TempDir())
	require.NoError(t, commit(s, batchOf(0, 1)))
}

func BenchmarkInPlace(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
	for b.Loop() {
		require.NoError(b, s.InPlace())
	}
}

func TestACompactionThroughALinkTakesThePlaceOfTheFileItself(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real.db"), filepath.Join(dir, "link.db")
	s, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, os.Symlink(path, link))
	before, err := os.Stat(path)
	require.NoError(t, err)

	_, err = bolt.CompactFile(t.Context(), link)

	require.NoError(t, err)
	at, err := os.Readlink(link)
	require.NoError(t, err, "it is a link as before")
	require.Equal(t, path, at)
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.False(t, os.SameFile(before, after))
}
