package archive_test

import (
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
)

// few are options with which three files stay open.
func few(d disk.FS) archive.Options {
	return archive.Options{FS: d, File: 1, Open: 3}
}

// manyFiles is an archive of 40 files, each with one entry.
func manyFiles(t *testing.T, d *disktest.Disk) *archive.Archive {
	t.Helper()
	a, err := archive.Open(dir, archive.Position{}, few(d))
	require.NoError(t, err)
	for n := range 40 {
		put(t, a, 0, "journal", n+1)
	}
	require.Len(t, paths(t, d), 40)
	return a
}

func TestFewFilesAreOpenHoweverManyAreRead(t *testing.T) {
	d := disktest.New()
	a := manyFiles(t, d)
	require.Zero(t, d.Opened(), "nothing was read yet")
	s := a.Current()
	c := s.Cursor("journal")
	for range 3 {
		n := 0
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			require.LessOrEqual(t, d.Opened(), 3)
			n++
		}
		require.NoError(t, c.Err())
		require.Equal(t, 40, n)
	}
	require.Equal(t, 3, d.Opened())
	at := a.Position()
	s.Release()
	require.NoError(t, a.Close())
	require.Zero(t, d.Opened())

	reads := map[string]int{}
	d.Fail = func(op disktest.Op) error {
		if strings.HasPrefix(op.Path, dir+"/") {
			reads[op.Path]++
		}
		return nil
	}
	a, err := archive.Open(dir, at, few(d))
	require.NoError(t, err)
	require.Len(t, reads, 40)
	for path, n := range reads {
		require.LessOrEqual(t, n, 4, "%s: one open, read, stat and close", path)
	}
	require.NoError(t, a.Close())
}

// counted is a Disk that counts the files that are open at once.
type counted struct {
	*disktest.Disk
	open, most *atomic.Int64
}

type countedFile struct {
	disk.File
	open *atomic.Int64
}

func (c counted) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := c.Disk.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	for n, most := c.open.Add(1), c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return countedFile{f, c.open}, nil
}

func (f countedFile) Close() error {
	f.open.Add(-1)
	return f.File.Close()
}

// TestReadersOfManyFilesShareFewOfThemWhileFilesAreDropped is for the race detector, too.
func TestReadersOfManyFilesShareFewOfThemWhileFilesAreDropped(t *testing.T) {
	d := counted{disktest.New(), new(atomic.Int64), new(atomic.Int64)}
	at := func() archive.Position {
		a := manyFiles(t, d.Disk)
		defer func() { require.NoError(t, a.Close()) }()
		return a.Position()
	}()
	a, err := archive.Open(dir, at, few(d))
	require.NoError(t, err)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 30 {
				s := a.Current()
				c, last := s.Cursor("journal"), s.Position().LastKey("journal")
				for k, _ := c.First(); k != nil; k, _ = c.Next() {
					last = k
				}
				assert.NoError(t, c.Err())
				assert.Equal(t, s.Position().LastKey("journal"), last)
				s.Release()
			}
		})
	}
	for n := range 60 {
		put(t, a, n, "journal", 41+n)
	}
	readers.Wait()
	assert.LessOrEqual(t, d.most.Load(), int64(3+4+1), "those that stay open, one for each reader, the writer's")
	require.NoError(t, a.Close())
	require.Zero(t, d.Opened())
}

// TestAFileThatCannotBeOpenedIsToldAndReadLater: the process may have no descriptor left for it.
func TestAFileThatCannotBeOpenedIsToldAndReadLater(t *testing.T) {
	d := disktest.New()
	a := manyFiles(t, d)
	s := a.Current()
	c := s.Cursor("journal")
	d.Fail = func(op disktest.Op) error {
		if op.Kind == disktest.Open {
			return syscall.EMFILE
		}
		return nil
	}
	k, _ := c.First()
	require.Nil(t, k)
	require.ErrorIs(t, c.Err(), syscall.EMFILE)
	require.ErrorContains(t, c.Err(), paths(t, d)[0])
	require.NotErrorIs(t, c.Err(), archive.ErrCorrupt)
	d.Fail = nil
	k, _ = c.First()
	require.Equal(t, key(1), k)
	s.Release()
	require.NoError(t, a.Close())
}

// TestAnArchiveWhoseLastFileIsTakenAwayGoesOnInTheNextOne, and the next start tells what is lost.
func TestAnArchiveWhoseLastFileIsTakenAwayGoesOnInTheNextOne(t *testing.T) {
	for name, harm := range map[string]func(*disktest.Disk, string){
		"removed": func(d *disktest.Disk, path string) { d.Vanish(path) },
		"cut":     func(d *disktest.Disk, path string) { d.SetContent(path, d.Content(path)[:50]) },
	} {
		t.Run(name, func(t *testing.T) {
			d := disktest.New()
			a, err := archive.Open(dir, archive.Position{}, archive.Options{FS: d})
			require.NoError(t, err)
			require.EqualValues(t, 1, put(t, a, 0, "journal", 1).File)
			harm(d, paths(t, d)[0])
			require.EqualValues(t, 2, put(t, a, 0, "journal", 2).File)
			at := put(t, a, 0, "journal", 3)
			require.EqualValues(t, 2, at.File)
			require.NoError(t, a.Close())
			a, err = archive.Open(dir, at, archive.Options{FS: d})
			require.NoError(t, err)
			require.ErrorIs(t, a.Lost(), archive.ErrCorrupt)
			require.ErrorContains(t, a.Lost(), "file 1")
			require.NoError(t, a.Close())
		})
	}
}

// TestAFileThatIsReplacedUnderItsReadersIsNotReadAsTruth: the blocks stand where they did, and have other keys.
func TestAFileThatIsReplacedUnderItsReadersIsNotReadAsTruth(t *testing.T) {
	d := disktest.New()
	a := manyFiles(t, d)
	s := a.Current()
	c := s.Cursor("journal")
	k, _ := c.Last() // of each file it is known where its blocks stand
	for ; k != nil; k, _ = c.Prev() {
	}
	for k, _ = c.Seek(key(20)); k != nil; k, _ = c.Next() { // the first one is closed meanwhile
	}
	all := paths(t, d)
	d.SetContent(all[0], d.Content(all[1]))
	c = s.Cursor("journal") // which has read nothing yet
	k, _ = c.Seek(key(1))
	require.Nil(t, k)
	require.ErrorIs(t, c.Err(), archive.ErrCorrupt)
	require.ErrorContains(t, c.Err(), all[0])
	s.Release()
	require.NoError(t, a.Close())
}

// TestAFileThatCannotBeOpenedIsNotDropped: nobody knows whether it has something that is still asked for.
func TestAFileThatCannotBeOpenedIsNotDropped(t *testing.T) {
	d := disktest.New()
	a, err := archive.Open(dir, archive.Position{}, few(d))
	require.NoError(t, err)
	put(t, a, 0, "journal", 7)
	require.NoError(t, a.Begin(6, 0)) // of another table: it begins before the first file ends
	require.NoError(t, a.Append("bases", key(6), nil))
	at, err := a.Flush()
	require.NoError(t, err)
	a.Publish(at).Release()
	first := paths(t, d)[0]
	d.Fail = func(op disktest.Op) error {
		if op.Kind == disktest.Open && op.Path == first {
			return syscall.EMFILE
		}
		return nil
	}
	require.EqualValues(t, 1, put(t, a, 6, "journal", 8).First)
	d.Fail = nil
	require.EqualValues(t, 1, put(t, a, 7, "journal", 9).First)
	require.EqualValues(t, 3, put(t, a, 8, "journal", 10).First, "it is, once all in it is older")
	require.NoError(t, a.Close())
}
