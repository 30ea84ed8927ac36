package wal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// fault makes the operations of a run fail that it counts, from one on for a while.
type fault struct {
	err   error
	of    func(disktest.Op) bool
	from  int
	times int
	count int
}

func (f *fault) hook(op disktest.Op) error {
	if !f.of(op) {
		return nil
	}
	f.count++
	if f.count > f.from && f.count <= f.from+f.times {
		return f.err
	}
	return nil
}

func ofFrames(op disktest.Op) bool { return op.Kind == disktest.Write && !op.Extends }
func syncs(op disktest.Op) bool    { return op.Kind == disktest.Sync || op.Kind == disktest.SyncDir }
func extends(op disktest.Op) bool  { return op.Extends }
func anything(op disktest.Op) bool { return op.Kind != disktest.Read }
func reads(op disktest.Op) bool {
	return op.Kind == disktest.Read || op.Kind == disktest.ReadDir || op.Kind == disktest.Open || op.Kind == disktest.Stat
}

// TestNoErrorOfTheDiskTakesWhatWasSynced makes each operation of a run fail, in one run
// after the other. After an error the log is used on, opened anew if it is broken, and
// the power is lost too.
func TestNoErrorOfTheDiskTakesWhatWasSynced(t *testing.T) {
	seed := seedtest.Seed(t)
	for name, row := range map[string]fault{
		"a write of frames":            {err: syscall.EIO, of: ofFrames, times: 1},
		"a sync":                       {err: syscall.EIO, of: syncs, times: 1},
		"a sync and the next":          {err: syscall.EIO, of: syncs, times: 2},
		"all syncs for a while":        {err: syscall.EIO, of: syncs, times: 12},
		"what needs room":              {err: syscall.ENOSPC, of: extends, times: 1},
		"what needs room, for a while": {err: syscall.ENOSPC, of: extends, times: 5},
		"anything":                     {err: syscall.EIO, of: anything, times: 1},
		"anything for a while":         {err: syscall.EMFILE, of: anything, times: 4},
		"a read":                       {err: syscall.EIO, of: reads, times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			for from, more := 0, true; more; from++ {
				f := row
				f.from = from
				f.run(t, seed)
				more = f.count > from
			}
		})
	}
}

func (f *fault) run(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(f.from)))
	steps := rand.New(rand.NewPCG(seed, 0)) // the same in each run, up to the fault
	d := disktest.New()
	d.Fail = f.hook
	p := promise{first: 1}
	a := &actor{t: t, disk: d, p: &p, o: wal.Options{FS: d, SegmentSize: 8 << 10}}
	var err error
	open := func() {
		for range 20 {
			if err = a.open(); err == nil {
				return
			}
			require.NotErrorIs(t, err, wal.ErrDamaged, "%d", f.from)
			require.NotErrorIs(t, err, wal.ErrMissing, "%d", f.from)
		}
		require.NoError(t, err, "%d", f.from)
	}
	lose := func() {
		left := &actor{t: t, disk: d.Lose(r.IntN), p: new(p.copied()), o: a.o}
		left.o.FS = left.disk
		require.NoError(t, left.open(), "%d", f.from)
		require.NoError(t, left.step(r.IntN))
	}
	open()
	for range 40 {
		err := a.step(steps.IntN)
		switch {
		case err == nil:
		case a.log == nil: // it could not be opened
			lose()
			open()
		case errors.Is(err, wal.ErrBroken):
			_, again := a.log.Append([]byte("x"))
			assert.ErrorIs(t, again, wal.ErrBroken)
			assert.ErrorIs(t, a.log.Sync(), wal.ErrBroken)
			assert.ErrorIs(t, a.log.Drop(0), wal.ErrBroken)
			lose()
			open()
			lose()
		default:
			require.ErrorIs(t, err, f.err, "%d", f.from)
			lose()
			if a.append(10) != nil { // it was closed, or this failed too
				open()
			}
		}
	}
	lose()
}

func TestAFullDiskRefusesAFrameAndTheSameFrameIsTakenLater(t *testing.T) {
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 8 << 10})
	require.NoError(t, err)
	defer l.Close()
	full := fault{err: syscall.ENOSPC, of: extends, times: 1 << 30}
	d.Fail = full.hook
	var want []string
	for err == nil {
		require.Less(t, len(want), 100)
		want = append(want, fmt.Sprintf("%0500d", len(want)))
		_, err = l.Append([]byte(want[len(want)-1]))
	}
	want = want[:len(want)-1]
	require.NotEmpty(t, want)
	for range 3 {
		_, err = l.Append(make([]byte, 500))
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NotErrorIs(t, err, wal.ErrBroken)
		require.NoError(t, l.Sync())
		require.Equal(t, uint64(len(want)), l.Last())
	}
	names, err := d.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1, "of the segments that could not be made nothing is left")
	d.Fail = nil
	n, err := l.Append([]byte("there is room"))
	require.NoError(t, err)
	require.Equal(t, uint64(len(want)+1), n)
	require.Equal(t, append(want, "there is room"), frames(t, l, 1))
}

func TestASegmentThatCannotBeSyncedIsGivenUpAndTheLogGoesOn(t *testing.T) {
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 4096})
	require.NoError(t, err)
	_, err = l.Append(make([]byte, 3000))
	require.NoError(t, err)
	d.Fail = func(op disktest.Op) error {
		if op.Kind != disktest.Sync || filepath.Ext(op.Path) != ".fresh" {
			return nil
		}
		if _, err := d.Stat(op.Path); err != nil {
			return nil // the active segment was opened under such a name, too
		}
		return syscall.EIO
	}
	_, err = l.Append(make([]byte, 3000))
	require.ErrorIs(t, err, syscall.EIO)
	require.NotErrorIs(t, err, wal.ErrBroken)
	require.Len(t, segments(t, d), 1)
	require.Zero(t, d.Opened()-1)
	d.Fail = nil
	n, err := l.Append(make([]byte, 3000))
	require.NoError(t, err)
	require.Equal(t, uint64(2), n)
}

func TestWhatCannotBeReadIsNoTornTail(t *testing.T) {
	d := disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 128 << 20})
	require.NoError(t, err)
	_, err = l.Append([]byte("one"))
	require.NoError(t, err)
	require.NoError(t, l.Sync())
	d.Fail = func(op disktest.Op) error {
		if op.Kind == disktest.Read && op.Off > 512<<10 {
			return syscall.EIO
		}
		return nil
	}
	for _, o := range []wal.Options{{FS: d}, {FS: d, ReadOnly: true}} {
		_, err = wal.Open(dir, id, o)
		require.ErrorIs(t, err, syscall.EIO)
		require.NotErrorIs(t, err, wal.ErrDamaged)
	}
	d.Fail = nil
	l, err = wal.Open(dir, id, wal.Options{FS: d})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, frames(t, l, 1))
}

func TestAfterAFailedSyncWhatReadsShowCountsOnlyOnceItWasWrittenAnew(t *testing.T) {
	d := disktest.New()
	o := wal.Options{FS: d, SegmentSize: 64 << 10}
	l, err := wal.Create(dir, id, 1, o)
	require.NoError(t, err)
	_, err = l.Append([]byte("one"))
	require.NoError(t, err)
	require.NoError(t, l.Sync())
	_, err = l.Append(make([]byte, 9000)) // its pages are its own, mostly
	require.NoError(t, err)
	failing := fault{err: syscall.EIO, of: syncs, times: 1}
	d.Fail = failing.hook
	err = l.Sync()
	require.ErrorIs(t, err, wal.ErrBroken)
	require.ErrorContains(t, err, "sync /db.log/0000000000000002.log: input/output error")
	require.NoError(t, l.Close())

	for round := range uint64(200) {
		r := rand.New(rand.NewPCG(1, round))
		again := d.Lose(r.IntN)
		l, err = wal.Open(dir, id, wal.Options{FS: again})
		require.NoError(t, err)
		require.GreaterOrEqual(t, l.Last(), uint64(1))
		require.NoError(t, l.Close())
	}
	// The process alone ends: the next one reads the frame, and says that it is there.
	l, err = wal.Open(dir, id, o)
	require.NoError(t, err)
	require.Equal(t, uint64(2), l.Last())
	for round := range uint64(200) {
		r := rand.New(rand.NewPCG(2, round))
		again, err := wal.Open(dir, id, wal.Options{FS: d.Lose(r.IntN)})
		require.NoError(t, err)
		require.Equal(t, []string{"one", string(make([]byte, 9000))}, frames(t, again, 1))
	}
}
