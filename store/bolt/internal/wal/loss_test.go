package wal_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// losses uses a log, loses the power after any operation of the disk, uses what is left
// and loses that again.
type losses struct {
	t      require.TestingT
	draw   func(n int) int
	size   int64
	images int
	every  []int // at each depth: one of how many operations is followed by a loss
	steps  []int // at each depth: how many steps are done
}

func (w *losses) run(d *disktest.Disk, p promise, depth int) {
	a := &actor{t: w.t, disk: d, p: &p, o: wal.Options{FS: d, SegmentSize: w.size}}
	if w.draw(3) == 0 {
		a.o.Synced = p.synced
	}
	d.After = func(op disktest.Op) {
		if !op.Changes() || depth+1 == len(w.every) || w.draw(w.every[depth]) > 0 {
			return
		}
		w.images++
		switch w.draw(8) {
		case 0: // the process alone ends, at this moment
			w.run(d.Kill(), p.copied(), depth+1)
		case 1:
			w.missing(d.Lose(w.draw), p.copied())
		default:
			w.run(d.Lose(w.draw), p.copied(), depth+1)
		}
	}
	require.NoError(w.t, a.open())
	for range w.steps[depth] {
		require.NoError(w.t, a.step(w.draw))
	}
	require.NoError(w.t, a.check())
}

// missing takes one segment away after the loss: then the log is refused, or has all that
// was promised.
func (w *losses) missing(d *disktest.Disk, p promise) {
	paths := segmentsOf(w.t, d)
	if len(paths) == 0 {
		return
	}
	d.Vanish(paths[max(0, len(paths)-1-w.draw(3)/2)]) // the last one mostly
	a := &actor{t: w.t, disk: d, p: &p, o: wal.Options{FS: d, SegmentSize: w.size}}
	p.created = true
	if err := a.open(); err != nil {
		require.ErrorIs(w.t, err, wal.ErrMissing)
	}
}

func TestALossOfPowerTakesNothingThatWasSynced(t *testing.T) {
	seed := seedtest.Seed(t)
	images := 0
	for round := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, round))
		w := &losses{t: t, draw: r.IntN, size: []int64{4 << 10, 16 << 10, 1 << 20}[round%3],
			every: []int{1, 30, 30, 30, 30, 1}, steps: []int{60, 6, 5, 4, 3, 2}}
		w.run(disktest.New(), promise{first: 1 + uint64(r.IntN(3))*1000}, 0)
		images += w.images
	}
	t.Log(images, "images")
	require.Greater(t, images, 3000)
}

// TestNoFileThatIsOpenIsRenamedOrRemoved is how Windows wants it.
func TestNoFileThatIsOpenIsRenamedOrRemoved(t *testing.T) {
	wal.CloseToRename(t)
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 0))
	d := disktest.New()
	d.Strict = true
	a := &actor{t: t, disk: d, p: &promise{first: 1}, o: wal.Options{FS: d, SegmentSize: 16 << 10}}
	require.NoError(t, a.open())
	for range 300 {
		for range r.IntN(20) / 19 * 2 { // the second time the last segment is empty
			require.NoError(t, a.log.Close())
			require.Zero(t, d.Opened())
			require.NoError(t, a.open())
		}
		require.NoError(t, a.append(sizeOf(r.IntN)))
		require.NoError(t, a.sync())
		require.NoError(t, a.drop(a.p.first+uint64(r.IntN(len(a.p.appended)+1))))
	}
	require.NoError(t, a.check())
	require.NoError(t, a.log.Close())
	require.NoError(t, wal.Remove(dir, wal.Options{FS: d}))
}

func TestPropertyALossOfPowerTakesNothingThatWasSynced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
		w := &losses{t: t, draw: draw, size: int64(4<<10) << draw(4), every: []int{20, 30, 30, 1}, steps: []int{12, 4, 3, 2}}
		w.run(disktest.New(), promise{first: 1}, 0)
	})
}
