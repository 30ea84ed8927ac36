package wal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

func TestAFrameThatFollowsAnotherThanItWasWrittenBehindIsNone(t *testing.T) {
	d := disktest.New()
	require.NoError(t, d.Mkdir(dir, 0o700))
	content, other := wal.Segment(id, 4096, "one", "two"), wal.Segment(id, 4096, "ONE", "two")
	second := wal.Records(content)[1]
	copy(content[second.Off:second.End], other[second.Off:second.End])
	d.SetContent(filepath.Join(dir, "0000000000000001.log"), content)
	got, err := openBoth(t, d, wal.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, got)
}

// TestSegmentsOfTwoCopiesOfALogAreNotOne mixes the files of a log and of its copy, with
// which another process went on.
func TestSegmentsOfTwoCopiesOfALogAreNotOne(t *testing.T) {
	d := disktest.New()
	grow := func(d *disktest.Disk, l *wal.Log, letter string) {
		for range 60 {
			_, err := l.Append([]byte(strings.Repeat(letter, 100)))
			require.NoError(t, err)
			require.NoError(t, l.Sync())
		}
		require.NoError(t, l.Close())
	}
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 4096})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	copied := d.Clone()
	for letter, d := range map[string]*disktest.Disk{"a": d, "b": copied} {
		l, err := wal.Open(dir, id, wal.Options{FS: d, SegmentSize: 4096})
		require.NoError(t, err)
		grow(d, l, letter)
	}
	paths := segments(t, d)
	require.Greater(t, len(paths), 2)
	require.Equal(t, paths, segments(t, copied))
	for _, path := range paths[1:] {
		d.SetContent(path, copied.Content(path))
	}
	_, err = openBoth(t, d, wal.Options{})
	require.ErrorIs(t, err, wal.ErrDamaged)
	require.ErrorContains(t, err, "the segment begins with frame")
}

func TestOpeningALogAgainAndAgainDoesNotFillTheFolder(t *testing.T) {
	d := disktest.New()
	o := wal.Options{FS: d, SegmentSize: 8 << 10}
	l, err := wal.Create(dir, id, 1, o)
	require.NoError(t, err)
	var want []string
	for round := range 60 {
		if round%20 == 0 {
			want = append(want, fmt.Sprint("frame ", round))
			_, err = l.Append([]byte(want[len(want)-1]))
			require.NoError(t, err)
		}
		if round%3 == 0 {
			require.NoError(t, l.Close())
		}
		l, err = wal.Open(dir, id, o)
		require.NoError(t, err)
		require.Equal(t, want, frames(t, l, 1))
	}
	require.NoError(t, l.Drop(l.Last()))
	require.LessOrEqual(t, len(segments(t, d)), 5)
}

func TestASegmentNeverGrows(t *testing.T) {
	for size := 3300; size < 3700; size++ {
		d := disktest.New()
		l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 4096})
		require.NoError(t, err)
		for range 2 {
			_, err := l.Append(make([]byte, size))
			require.NoError(t, err)
		}
		require.NoError(t, l.Close())
		paths := segments(t, d)
		for _, path := range paths {
			records := wal.Records(d.Content(path))
			require.LessOrEqual(t, records[len(records)-1].End, int64(max(4096, size+700)), "%d", size)
		}
		require.Len(t, d.Content(paths[0]), max(4096, len(d.Content(paths[0]))&^4095), "%d", size)
		if len(paths) > 1 {
			d.Vanish(paths[len(paths)-1])
			_, err = openBoth(t, d, wal.Options{})
			require.ErrorIs(t, err, wal.ErrMissing, "%d", size)
		}
	}
}

func TestCloseCallsNothingSyncedThatWasNot(t *testing.T) {
	seed := seedtest.Seed(t)
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d})
	require.NoError(t, err)
	_, err = l.Append([]byte("one"))
	require.NoError(t, err)
	require.NoError(t, l.Sync())
	_, err = l.Append(make([]byte, 9000))
	require.NoError(t, err)
	lose := func(disktest.Op) {
		for round := range uint64(100) {
			r := rand.New(rand.NewPCG(seed, round))
			again, err := wal.Open(dir, id, wal.Options{FS: d.Lose(r.IntN)})
			require.NoError(t, err)
			require.GreaterOrEqual(t, again.Last(), uint64(1))
		}
	}
	d.After = lose
	require.NoError(t, l.Close())
	lose(disktest.Op{})
	require.NoError(t, l.Close(), "twice")
	_, err = l.Append(nil)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.NotErrorIs(t, err, wal.ErrBroken)
}

func TestALogWrittenWithoutSyncsIsDurableOnceItWasOpenedWithThem(t *testing.T) {
	seed := seedtest.Seed(t)
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 4096, NoSync: true})
	require.NoError(t, err)
	var want []string
	for range 50 {
		want = append(want, strings.Repeat("x", 200))
		_, err = l.Append([]byte(want[0]))
		require.NoError(t, err)
		require.NoError(t, l.Sync())
	}
	require.NoError(t, l.Close())
	_, err = wal.Open(dir, id, wal.Options{FS: d, SegmentSize: 4096})
	require.NoError(t, err)
	for round := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, round))
		again, err := wal.Open(dir, id, wal.Options{FS: d.Lose(r.IntN)})
		require.NoError(t, err)
		require.Equal(t, want, frames(t, again, 1))
	}
}

// TestALossWhileALogIsMadeOrRemoved loses the power at each operation of Create and
// Remove: what is left is a log with its ID, or none, and either is done again.
func TestALossWhileALogIsMadeOrRemoved(t *testing.T) {
	seed := seedtest.Seed(t)
	d := disktest.New()
	o := wal.Options{FS: d, SegmentSize: 4096}
	again := func(d *disktest.Disk, sure bool) {
		got, _, err := wal.Inspect(dir, wal.Options{FS: d})
		if err == nil {
			require.Equal(t, id, got)
			l, err := wal.Open(dir, id, wal.Options{FS: d})
			require.NoError(t, err)
			require.NoError(t, l.Close())
		} else {
			require.ErrorIs(t, err, wal.ErrMissing)
			require.False(t, sure)
		}
		require.NoError(t, wal.Remove(dir, wal.Options{FS: d}))
		l, err := wal.Create(dir, id, 9, wal.Options{FS: d})
		require.NoError(t, err)
		require.Equal(t, uint64(8), l.Last())
		require.NoError(t, l.Close())
	}
	lost := 0
	lose := func(disktest.Op) {
		again(d.Kill(), false)
		for round := range uint64(20) {
			lost++
			again(d.Lose(rand.New(rand.NewPCG(seed, round)).IntN), false)
		}
	}
	for range 3 {
		d.After = lose
		l, err := wal.Create(dir, id, 1, o)
		require.NoError(t, err)
		d.After = nil
		again(d.Lose(func(int) int { return 0 }), true)
		for range 100 {
			_, err := l.Append(make([]byte, 200))
			require.NoError(t, err)
			require.NoError(t, l.Sync())
		}
		require.NoError(t, l.Drop(60))
		require.NoError(t, l.Close())
		d.After = lose
		require.NoError(t, wal.Remove(dir, o))
		require.NoError(t, wal.Remove(dir, o), "again")
		_, _, err = wal.Inspect(dir, wal.Options{FS: d.Lose(func(int) int { return 0 })})
		require.ErrorIs(t, err, wal.ErrMissing)
	}
	require.Greater(t, lost, 500)
}

func TestSegmentsDoubleAndDroppedOnesAreUsedAnew(t *testing.T) {
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 64 << 10})
	require.NoError(t, err)
	made := 0
	d.After = func(op disktest.Op) {
		if op.Kind == disktest.Create {
			made++
		}
	}
	biggest := 0
	for n := range 2000 {
		_, err := l.Append(make([]byte, 500))
		require.NoError(t, err)
		require.NoError(t, l.Sync())
		if n == 1000 {
			made = 0
		}
		if n%100 == 0 {
			require.NoError(t, l.Drop(l.Last()))
		}
		biggest = max(biggest, len(segments(t, d)))
		require.LessOrEqual(t, l.Size(), int64(2*64<<10))
	}
	require.Zero(t, made, "at work no file is made any more")
	require.LessOrEqual(t, biggest, 5)
	require.NoError(t, l.Close())
}

// TestADroppedFileIsUsedAnewOnlyOnceItHasLostItsName kills the process between the
// renaming of a dropped segment and its becoming durable, and then loses the power at
// each operation of the next start.
func TestADroppedFileIsUsedAnewOnlyOnceItHasLostItsName(t *testing.T) {
	seed := seedtest.Seed(t)
	d := disktest.New()
	o := wal.Options{FS: d, SegmentSize: 4096}
	l, err := wal.Create(dir, id, 1, o)
	require.NoError(t, err)
	for range 60 {
		_, err := l.Append(make([]byte, 200))
		require.NoError(t, err)
		require.NoError(t, l.Sync())
	}
	kills, lost := 0, 0
	d.After = func(op disktest.Op) {
		if op.Kind != disktest.Rename {
			return
		}
		kills++
		killed := d.Kill()
		killed.After = func(op disktest.Op) {
			for round := range uint64(6) {
				lost++
				left, err := wal.Open(dir, id, wal.Options{FS: killed.Lose(rand.New(rand.NewPCG(seed, round)).IntN), SegmentSize: 4096})
				require.NoError(t, err)
				require.GreaterOrEqual(t, left.Last(), uint64(60))
			}
		}
		o := o
		o.FS = killed
		l, err := wal.Open(dir, id, o)
		require.NoError(t, err)
		_, err = l.Append(make([]byte, 3500))
		require.NoError(t, err)
	}
	require.NoError(t, l.Drop(60))
	require.Equal(t, 2, kills)
	require.Greater(t, lost, 100)
}

func TestAFrameGreaterThanASegmentGetsOneOfItsOwn(t *testing.T) {
	d := disktest.New()
	o := wal.Options{FS: d, SegmentSize: 4096}
	l, err := wal.Create(dir, id, 1, o)
	require.NoError(t, err)
	var want []string
	for _, size := range []int{10, 3 << 20, 0, 100_000, 0, 4096, 10} {
		want = append(want, strings.Repeat(fmt.Sprint(len(want)), size))
		_, err := l.Append([]byte(want[len(want)-1]))
		require.NoError(t, err)
	}
	require.NoError(t, l.Sync())
	require.Equal(t, want, frames(t, l, 1))
	require.Equal(t, want[3:], frames(t, l, 4))
	part := make([]byte, 128<<20)
	_, err = l.Append(part, part, part, part, part, part, part, part, part)
	require.ErrorIs(t, err, wal.ErrTooLarge)
	require.NoError(t, l.Drop(l.Last()))
	for _, path := range segments(t, d) {
		require.LessOrEqual(t, len(d.Content(path)), 8192, "a great segment is not kept")
	}
	l, err = wal.Open(dir, id, o)
	require.NoError(t, err)
	require.Equal(t, uint64(7), l.Last())
}

func TestAPreparedSegmentSparesTheAppendTheFilling(t *testing.T) {
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 1 << 20})
	require.NoError(t, err)
	preparing, filled := false, 0
	d.After = func(op disktest.Op) {
		if op.Kind == disktest.Write && op.Extends && !preparing {
			filled++
		}
	}
	for range 2000 {
		_, err := l.Append(make([]byte, 500))
		require.NoError(t, err)
		preparing = true
		require.NoError(t, l.Prepare())
		preparing = false
	}
	require.Zero(t, filled)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Prepare(), fs.ErrClosed)
}

func TestAFrameThatIsAppendedDuringASyncIsNotCoveredByIt(t *testing.T) {
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d})
	require.NoError(t, err)
	_, err = l.Append([]byte("before"))
	require.NoError(t, err)
	d.After = func(op disktest.Op) {
		if op.Kind == disktest.Sync && l.Last() == 1 {
			_, err := l.Append(make([]byte, 5000))
			require.NoError(t, err)
		}
	}
	require.NoError(t, l.Sync())
	for range 2 { // the second time it is
		again, err := wal.Open(dir, id, wal.Options{FS: d.Lose(func(int) int { return 0 })})
		require.NoError(t, err)
		require.Equal(t, uint64(2), l.Last())
		if again.Last() == 2 {
			return
		}
		require.Equal(t, uint64(1), again.Last())
		require.NoError(t, l.Sync())
	}
	t.Fatal("the second Sync did not sync the frame")
}

func TestWhatAKilledProcessHasLeftOfFilesIsRemoved(t *testing.T) {
	d := disktest.New()
	o := wal.Options{FS: d, SegmentSize: 4096}
	l, err := wal.Create(dir, id, 1, o)
	require.NoError(t, err)
	var kills []*disktest.Disk
	d.After = func(op disktest.Op) {
		if op.Kind == disktest.Create {
			kills = append(kills, d.Kill())
		}
	}
	for range 20 {
		_, err := l.Append(make([]byte, 300))
		require.NoError(t, err)
	}
	require.NotEmpty(t, kills)
	for _, killed := range kills {
		for n := range 5 {
			killed.SetContent(fmt.Sprintf("%s/%016x.spare", dir, 1000+n), make([]byte, 4096))
		}
		killed.SetContent(fmt.Sprintf("%s/%016x.spare", dir, 2000), make([]byte, 40960))
		killed.SetContent(fmt.Sprintf("%s/%016x.spare", dir, 3000), make([]byte, 100))
		o.FS = killed
		l, err := wal.Open(dir, id, o)
		require.NoError(t, err)
		require.LessOrEqual(t, len(segments(t, killed)), len(segmentsOf(t, killed))+2)
		require.NoError(t, l.Close())
		for _, path := range segments(t, killed) {
			require.NotEqual(t, ".fresh", filepath.Ext(path))
		}
	}
}

func TestReplayEndsWithTheErrorOfItsCaller(t *testing.T) {
	d, _, _ := threeSegments(t, true)
	l, err := wal.Open(dir, id, wal.Options{FS: d})
	require.NoError(t, err)
	defer l.Close()
	enough, seen := errors.New("enough"), 0
	err = l.Replay(1, func(n uint64, _ []byte) error {
		if seen++; n == 20 {
			return enough
		}
		return nil
	})
	require.Equal(t, enough, err)
	require.Equal(t, 20, seen)
	require.Equal(t, 1, d.Opened(), "the active segment")
}

// TestSyncAndDropRunBesideAppend has one goroutine that appends, one that syncs and one
// that drops.
func TestSyncAndDropRunBesideAppend(t *testing.T) {
	d := disktest.New()
	o := wal.Options{FS: d, SegmentSize: 16 << 10}
	l, err := wal.Create(dir, id, 1, o)
	require.NoError(t, err)
	var (
		wg       sync.WaitGroup
		appended = make(chan uint64, 1)
		synced   = make(chan uint64, 1)
		dropped  uint64
	)
	wg.Go(func() {
		defer close(appended)
		for n := range uint64(3000) {
			got, err := l.Append(fmt.Append(nil, "frame ", n+1), make([]byte, n%300))
			if !assert.NoError(t, err) || !assert.Equal(t, n+1, got) {
				return
			}
			select {
			case appended <- got:
			default:
			}
		}
	})
	wg.Go(func() {
		defer close(synced)
		for n := range appended {
			if !assert.NoError(t, l.Sync()) {
				return
			}
			select {
			case synced <- n:
			default:
			}
		}
	})
	wg.Go(func() {
		for n := range synced {
			dropped = n - min(n, 100)
			assert.NoError(t, l.Drop(dropped))
		}
	})
	wg.Go(func() {
		for l.Last() < 2900 {
			assert.NoError(t, l.Prepare())
			runtime.Gosched()
		}
	})
	wg.Wait()
	require.NoError(t, l.Sync())
	left := d.Lose(func(int) int { return 0 })
	o.FS = left
	l, err = wal.Open(dir, id, o)
	require.NoError(t, err)
	n := dropped + 1
	for _, f := range frames(t, l, n) {
		require.True(t, strings.HasPrefix(f, fmt.Sprint("frame ", n)))
		n++
	}
	require.Equal(t, uint64(3001), n)
}
