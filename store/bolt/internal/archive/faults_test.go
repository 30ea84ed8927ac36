package archive_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
)

// TestWhatWasFlushedIsThereAfterACloseWithoutPublish: the owner may have failed behind the
// moment in which its own file says that the position counts.
func TestWhatWasFlushedIsThereAfterACloseWithoutPublish(t *testing.T) {
	m := &machine{disk: disktest.New(), want: model{}, next: 1}
	m.open(t)
	require.NoError(t, m.a.Begin(1, 0))
	require.NoError(t, m.a.Append("journal", key(1), []byte("one")))
	at, err := m.a.Flush()
	require.NoError(t, err)
	require.NoError(t, m.a.Close())
	require.Zero(t, m.disk.Opened())
	a, err := archive.Open(dir, at, options(m.disk))
	require.NoError(t, err)
	require.NoError(t, a.Lost())
	s := a.Current()
	k, v := s.Cursor("journal").First()
	assert.Equal(t, key(1), k)
	assert.Equal(t, "one", string(v))
	s.Release()
	require.NoError(t, a.Close())
}

// TestALossIsToldOnceWhereNothingBeforeItIsAskedForAnyMore takes each file away, cuts the last, and
// has its owner ask for what is new only.
func TestALossIsToldOnceWhereNothingBeforeItIsAskedForAnyMore(t *testing.T) {
	d, at, want := filled(t, 8)
	all := paths(t, d)
	n := len(want["journal"]) + 1
	for _, path := range append(all, "") {
		for _, writes := range []bool{false, true} {
			left := d.Clone()
			if path == "" {
				last := all[len(all)-1]
				left.SetContent(last, d.Content(last)[:at.Size-1])
			} else {
				left.Vanish(path)
			}
			a, err := archive.Open(dir, at, options(left))
			require.NoError(t, err)
			require.Error(t, a.Lost())
			if first := uint64(0); writes {
				first = uint64(n)
				require.NoError(t, a.Begin(first, uint64(n)))
				require.NoError(t, a.Append("journal", key(n), []byte("new")))
			} else {
				require.NoError(t, a.Begin(first, uint64(n)))
			}
			now, err := a.Flush()
			require.NoError(t, err)
			a.Publish(now).Release()
			require.NoError(t, a.Close())
			again, err := archive.Open(dir, now, options(left))
			require.NoError(t, err)
			require.NoError(t, again.Lost(), "%q, new entries: %v", path, writes)
			s := again.Current()
			k, _ := s.Cursor("journal").Last()
			assert.Equal(t, writes, string(k) == string(key(n)))
			assert.NotEmpty(t, s.Position().LastKey("changes"), "what comes next is still known")
			s.Release()
			require.NoError(t, again.Close())
		}
	}
}

// TestAnotherArchivesFilesAreLeftAloneThoughTheHeadOfOneIsDamaged: without a head a file is nobody's,
// and is removed where it does not count.
func TestAnotherArchivesFilesAreLeftAloneThoughTheHeadOfOneIsDamaged(t *testing.T) {
	d, _, _ := filled(t, 8)
	all := paths(t, d)
	bad := d.Content(all[0])
	bad[3] ^= 1
	d.SetContent(all[0], bad)
	_, err := archive.Open(dir, archive.Position{}, options(d))
	require.ErrorIs(t, err, archive.ErrOther)
	require.Equal(t, all, paths(t, d))
}

// TestADropThatALossOfPowerHasUndoneIsDoneAgain brings files back that were dropped.
func TestADropThatALossOfPowerHasUndoneIsDoneAgain(t *testing.T) {
	d, at, want := filled(t, 8)
	before := d.Clone()
	n := len(want["journal"]) + 1
	a, err := archive.Open(dir, at, options(d))
	require.NoError(t, err)
	require.NoError(t, a.Begin(0, uint64(n)))
	at, err = a.Flush()
	require.NoError(t, err)
	a.Publish(at).Release()
	require.NoError(t, a.Close())
	left := paths(t, d)
	require.Len(t, left, 1)
	require.Greater(t, len(paths(t, before)), 1)
	a, err = archive.Open(dir, at, archive.Options{FS: before, ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, a.Lost())
	require.NoError(t, a.Close())
	require.Greater(t, len(paths(t, before)), 1, "nothing is removed by who only reads")
	a, err = archive.Open(dir, at, options(before))
	require.NoError(t, err)
	require.NoError(t, a.Lost())
	require.NoError(t, a.Close())
	require.Equal(t, left, paths(t, before))
}

// TestReadersGoOnWhileFilesAreAppendedToRolledAndDropped is for the race detector, too.
func TestReadersGoOnWhileFilesAreAppendedToRolledAndDropped(t *testing.T) {
	m := &machine{disk: disktest.New(), want: model{}, next: 1}
	m.open(t)
	require.True(t, m.append(t, rand.New(rand.NewPCG(1, 1))))
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		readers.Go(func() {
			for held := m.a.Current(); ; {
				select {
				case <-stop:
					held.Release()
					return
				default:
				}
				for _, table := range tables {
					c, last := held.Cursor(table), []byte{}
					for k, _ := c.Seek(key(0)); k != nil; k, _ = c.Next() {
						assert.Less(t, string(last), string(k))
						last = k
					}
					assert.NoError(t, c.Err())
					assert.Equal(t, held.Position().LastKey(table), last)
					held.Bytes(uint64(i), 0)
				}
				held.Release()
				held = m.a.Current()
			}
		})
	}
	for i := range 300 {
		floor := max(m.next-40, 0)
		require.NoError(t, m.a.Begin(uint64(m.next), uint64(floor)))
		for _, table := range tables {
			for n := range 3 {
				require.NoError(t, m.a.Append(table, key(m.next+n), []byte(strings.Repeat("v", i%50))))
			}
		}
		m.next += 3
		at, err := m.a.Flush()
		require.NoError(t, err)
		if i%5 > 0 {
			m.a.Publish(at).Release()
		} else {
			m.next -= 3 // it is undone
		}
	}
	close(stop)
	readers.Wait()
	require.NoError(t, m.a.Close())
	require.Zero(t, m.disk.Opened())
	require.Nil(t, m.a.Current())
}

// put appends entries of a table with these numbers, which count then.
func put(t *testing.T, a *archive.Archive, floor int, table string, numbers ...int) archive.Position {
	t.Helper()
	require.NoError(t, a.Begin(uint64(numbers[0]), uint64(floor)))
	for _, n := range numbers {
		require.NoError(t, a.Append(table, key(n), bytes.Repeat([]byte(fmt.Sprint(n)), 9)))
	}
	at, err := a.Flush()
	require.NoError(t, err)
	a.Publish(at).Release()
	return at
}

// TestAFileStaysWhileAnyTableHasAnythingInIt: the numbers of one table may be ahead of another's.
func TestAFileStaysWhileAnyTableHasAnythingInIt(t *testing.T) {
	d := disktest.New()
	a, err := archive.Open(dir, archive.Position{}, archive.Options{FS: d, File: 1})
	require.NoError(t, err)
	require.NoError(t, a.Begin(5, 0))
	require.NoError(t, a.Append("changes", key(5), nil))
	require.NoError(t, a.Append("changes", key(20), nil))
	require.NoError(t, a.Append("journal", key(6), nil))
	at, err := a.Flush()
	require.NoError(t, err)
	a.Publish(at).Release()
	put(t, a, 0, "journal", 7)
	put(t, a, 0, "journal", 8)
	put(t, a, 20, "journal", 15)
	s := a.Current()
	k, _ := s.Cursor("changes").Last()
	assert.Equal(t, key(20), k)
	s.Release()
	require.Len(t, paths(t, d), 4)
	put(t, a, 21, "journal", 21)
	require.Len(t, paths(t, d), 2)
	require.NoError(t, a.Close())
}

// TestAFileThatCannotBeReadStaysWhileItIsAskedFor, and its damage is no loss, which would have all
// of them go.
func TestAFileThatCannotBeReadStaysWhileItIsAskedFor(t *testing.T) {
	for file, at := range []int{1: 3, 0: 41} { // the file's head, and a block's
		d, pos, want := filled(t, 8)
		all := paths(t, d)
		bad := d.Content(all[file])
		bad[at] ^= 1
		d.SetContent(all[file], bad)
		a, err := archive.Open(dir, pos, options(d))
		require.NoError(t, err)
		require.NoError(t, a.Lost())
		n := len(want["journal"]) + 1
		put(t, a, 2, "journal", n)
		require.Subset(t, paths(t, d), all)
		put(t, a, n, "journal", n+1)
		require.NotContains(t, paths(t, d), all[file])
		require.NoError(t, a.Close())
	}
}

// TestNothingIsAppendedToAFileOfWhichASyncHasFailed: what it shows may not be on the disk.
func TestNothingIsAppendedToAFileOfWhichASyncHasFailed(t *testing.T) {
	d := disktest.New()
	a, err := archive.Open(dir, archive.Position{}, archive.Options{FS: d})
	require.NoError(t, err)
	put(t, a, 0, "journal", 1)
	require.EqualValues(t, 1, put(t, a, 0, "journal", 2).File)
	d.Fail = func(op disktest.Op) error {
		if op.Kind == disktest.Sync {
			return syscall.EIO
		}
		return nil
	}
	require.NoError(t, a.Begin(3, 0))
	require.NoError(t, a.Append("journal", key(3), nil))
	_, err = a.Flush()
	require.ErrorIs(t, err, syscall.EIO)
	d.Fail = nil
	require.EqualValues(t, 2, put(t, a, 0, "journal", 3).File)
	require.EqualValues(t, 2, put(t, a, 0, "journal", 4).File)
	require.NoError(t, a.Close())
}

// TestWhatANewerOwnerHasWrittenIsSetAside: an owner that was closed cleanly knows all that was written
// in its time.
func TestWhatANewerOwnerHasWrittenIsSetAside(t *testing.T) {
	d := disktest.New()
	o := archive.Options{FS: d, File: 1, Whole: true}
	a, err := archive.Open(dir, archive.Position{}, o)
	require.NoError(t, err)
	older := put(t, a, 0, "journal", 1)
	put(t, a, 0, "journal", 2)
	newer := put(t, a, 0, "journal", 3)
	require.NoError(t, a.Close())

	o.ReadOnly = true
	a, err = archive.Open(dir, older, o)
	require.NoError(t, err)
	require.Empty(t, a.Aside(), "who only reads moves nothing")
	require.NoError(t, a.Close())
	o.ReadOnly = false
	a, err = archive.Open(dir, older, o)
	require.NoError(t, err)
	left := a.Aside()
	require.Len(t, left, 2)
	put(t, a, 0, "journal", 2)
	require.NoError(t, a.Close())

	for _, path := range left {
		require.NoError(t, d.Rename(path, strings.TrimSuffix(path, ".left")))
	}
	a, err = archive.Open(dir, newer, archive.Options{FS: d})
	require.NoError(t, err)
	require.NoError(t, a.Lost())
	require.Empty(t, a.Aside())
	c, found := a.Current().Cursor("journal"), []byte{}
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		found = append(found, k[7])
	}
	require.Equal(t, []byte{1, 2, 3}, found)
	require.NoError(t, a.Close())
}

// TestAFileThatWasUndoneIsNotThereAnyMore and one that cannot be removed is told.
func TestAFileThatWasUndoneIsNotThereAnyMore(t *testing.T) {
	d := disktest.New()
	a, err := archive.Open(dir, archive.Position{}, archive.Options{FS: d, File: 1})
	require.NoError(t, err)
	put(t, a, 0, "journal", 1)
	before := paths(t, d)
	flush := func() {
		require.NoError(t, a.Begin(2, 0))
		require.NoError(t, a.Append("journal", key(2), nil))
		_, err = a.Flush()
		require.NoError(t, err)
	}
	flush()
	require.NoError(t, a.Begin(0, 0))
	require.Equal(t, before, paths(t, d))
	flush()
	d.Fail = func(op disktest.Op) error {
		if op.Kind == disktest.Remove {
			return syscall.EIO
		}
		return nil
	}
	require.ErrorIs(t, a.Begin(0, 0), syscall.EIO)
	d.Fail = nil
	put(t, a, 0, "journal", 2)
	require.NoError(t, a.Close())
	require.Zero(t, d.Opened())
}

// TestWhoOnlyReadsNeedsNoRightToWrite opens the last file, too.
func TestWhoOnlyReadsNeedsNoRightToWrite(t *testing.T) {
	d, at, want := filled(t, 3)
	d.Fail = func(op disktest.Op) error {
		if op.Changes() || op.Kind == disktest.OpenRW {
			return syscall.EROFS
		}
		return nil
	}
	a, err := archive.Open(dir, at, archive.Options{FS: d, ReadOnly: true})
	require.NoError(t, err)
	s := a.Current()
	requireHolds(t, s, want, 0)
	s.Release()
	require.NoError(t, a.Close())
}

// TestAKeyIsCopiedWhenItIsAppended: the caller may use its room for the next one.
func TestAKeyIsCopiedWhenItIsAppended(t *testing.T) {
	a, err := archive.Open(dir, archive.Position{}, archive.Options{FS: disktest.New()})
	require.NoError(t, err)
	require.NoError(t, a.Begin(1, 0))
	k := key(1)
	require.NoError(t, a.Append("journal", k, nil))
	copy(k, key(2))
	require.NoError(t, a.Append("journal", k, nil))
	copy(k, key(9))
	at, err := a.Flush()
	require.NoError(t, err)
	a.Publish(at).Release()
	require.Equal(t, key(2), at.LastKey("journal"))
	put(t, a, 0, "journal", 3)
	s := a.Current()
	for n := range 3 {
		found, _ := s.Cursor("journal").Seek(key(n + 1))
		require.Equal(t, key(n+1), found)
	}
	s.Release()
	require.NoError(t, a.Close())
}

// TestAPartOfTheBytesIsNeverMoreThanAll asks for ranges before, within and beyond what is there.
func TestAPartOfTheBytesIsNeverMoreThanAll(t *testing.T) {
	d, at, want := filled(t, 8)
	a, err := archive.Open(dir, at, options(d))
	require.NoError(t, err)
	s := a.Current()
	all, last := s.Bytes(0, 0), uint64(len(want["journal"]))
	require.Equal(t, all, s.Bytes(1, last+1))
	require.Equal(t, all, s.Bytes(1, 10*last))
	require.Zero(t, s.Bytes(last+1, 0))
	require.Positive(t, s.Bytes(last, 0))
	for from := range last {
		require.InDelta(t, all, s.Bytes(0, from+1)+s.Bytes(from+1, 0), float64(len(paths(t, d))))
	}
	s.Release()
	require.NoError(t, a.Close())
}
