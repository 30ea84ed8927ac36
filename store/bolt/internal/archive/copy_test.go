package archive_test

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
)

// requireCopied copies an archive and reads the copy: it has all that follows what is lost, and nothing that
// was not written.
func requireCopied(t *testing.T, d *disktest.Disk, at archive.Position, want model) archive.Copied {
	t.Helper()
	const to = "/copy"
	c, err := archive.Copy(context.Background(), dir, at, to, options(d))
	require.NoError(t, err)
	require.Equal(t, c.Lost != 0, len(c.Why) > 0)
	if c.Lost == math.MaxUint64 {
		return c
	}
	require.NotEqual(t, at.ID, c.At.ID)
	o := options(d)
	o.ReadOnly = true
	a, err := archive.Open(to, c.At, o)
	require.NoError(t, err)
	require.NoError(t, a.Lost())
	s := a.Current()
	for _, table := range tables {
		var all, behind []entry
		cursor := s.Cursor(table)
		for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
			all = append(all, entry{string(k), string(v)})
		}
		require.NoError(t, cursor.Err())
		require.Subset(t, want[table], all)
		isLost := func(e entry) bool { return binary.BigEndian.Uint64([]byte(e.key)) <= c.Lost }
		for _, e := range all {
			if !isLost(e) {
				behind = append(behind, e)
			}
		}
		require.Equal(t, append([]entry(nil), slices.DeleteFunc(slices.Clone(want[table]), isLost)...), behind, table)
		require.Equal(t, lastKey(want[table]), string(s.Position().LastKey(table)))
	}
	s.Release()
	require.NoError(t, a.Close())

	// It can be written on.
	a, err = archive.Open(to, c.At, options(d))
	require.NoError(t, err)
	next := put(t, a, 0, "journal", 1000)
	require.NoError(t, a.Close())
	a, err = archive.Open(to, next, options(d))
	require.NoError(t, err)
	require.NoError(t, a.Lost())
	require.NoError(t, a.Close())
	return c
}

func TestACopyOfAWholeArchiveHasAllOfIt(t *testing.T) {
	d, at, want := filled(t, 8)
	before := d.Clone()
	c := requireCopied(t, d, at, want)
	require.Zero(t, c.Lost)
	for _, path := range paths(t, before) {
		require.Equal(t, before.Content(path), d.Content(path), "nothing of it is changed")
	}
	c = requireCopied(t, disktest.New(), archive.Position{ID: at.ID}, model{})
	require.Zero(t, c.Lost)
}

// TestACopyHasAllBehindWhatADamageTakes flips each byte of each file.
func TestACopyHasAllBehindWhatADamageTakes(t *testing.T) {
	whole, at, want := filled(t, 4)
	all := paths(t, whole)
	some := 0
	for _, path := range all {
		for i := range whole.Content(path) {
			d := whole.Clone()
			bad := slices.Clone(d.Content(path))
			bad[i] ^= 1 << (i % 8)
			d.SetContent(path, bad)
			c := requireCopied(t, d, at, want)
			if c.Lost > 0 && c.Lost < uint64(len(want["journal"])) {
				some++
			}
			if c.Lost > 0 {
				require.ErrorContains(t, c.Why[0], path)
			}
			if c.Lost == math.MaxUint64 {
				require.Equal(t, all[len(all)-1], path, "only its end is needed for the rest")
			}
		}
	}
	require.NotZero(t, some)
}

func TestACopyHasAllBehindAFileThatIsMissingOrCut(t *testing.T) {
	whole, at, want := filled(t, 8)
	all := paths(t, whole)
	require.Greater(t, len(all), 3)
	for i, path := range all {
		for _, cut := range []bool{false, true} {
			d := whole.Clone()
			if cut {
				d.SetContent(path, d.Content(path)[:60])
			} else {
				d.Vanish(path)
			}
			c := requireCopied(t, d, at, want)
			require.Equal(t, i == len(all)-1, c.Lost == math.MaxUint64)
			require.NotZero(t, c.Lost)
		}
	}
	other := at
	other.ID = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
	c, err := archive.Copy(context.Background(), dir, other, "/copy", options(whole))
	require.NoError(t, err)
	require.Equal(t, uint64(math.MaxUint64), c.Lost)
	require.ErrorIs(t, c.Why[0], archive.ErrOther)
}

func TestACopyEndsWithItsContext(t *testing.T) {
	d, at, _ := filled(t, 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := archive.Copy(ctx, dir, at, "/copy", options(d))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, d.Opened())
}

// TestACopyForWhichTheDiskIsFullIsAnError, though a part of the archive cannot be read either.
func TestACopyForWhichTheDiskIsFullIsAnError(t *testing.T) {
	d, at, _ := filled(t, 8)
	first := paths(t, d)[0]
	d.SetContent(first, d.Content(first)[:60])
	for n := range 8 {
		full := d.Clone()
		full.Fail = func(op disktest.Op) error {
			if n--; n < 0 && op.Kind == disktest.Write {
				return syscall.ENOSPC
			}
			return nil
		}
		_, err := archive.Copy(context.Background(), dir, at, "/copy", options(full))
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Zero(t, full.Opened())
	}
}
