package wal_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
	"github.com/orrery-go/orrery/store/bolt/internal/wal"
)

// threeSegments is a log of three segments in which all frames were synced, and the
// paths of those. It is closed, or its process was killed.
func threeSegments(t *testing.T, closed bool) (d *disktest.Disk, paths, want []string) {
	t.Helper()
	d = disktest.New()
	l, err := wal.Create(dir, id, 1, wal.Options{FS: d, SegmentSize: 4 << 10})
	require.NoError(t, err)
	for {
		frame := fmt.Sprintf("frame %d %0*d", len(want)+1, 150+len(want)%9, 0)
		_, err := l.Append([]byte(frame))
		require.NoError(t, err)
		require.NoError(t, l.Sync())
		want = append(want, frame)
		if paths = segments(t, d); len(paths) == 3 && len(wal.Records(d.Content(paths[2]))) == 5 {
			break
		}
	}
	if closed {
		require.NoError(t, l.Close())
	}
	return d, paths, want
}

func segments(t *testing.T, d *disktest.Disk) (paths []string) {
	t.Helper()
	entries, err := d.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}

// segmentsOf lists the segments of a disk that may have other files, or no log.
func segmentsOf(t require.TestingT, d *disktest.Disk) (paths []string) {
	entries, err := d.ReadDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".log" {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// openBoth opens the log read-only and then for writing, which must come to the same.
func openBoth(t *testing.T, d *disktest.Disk, o wal.Options) ([]string, error) {
	t.Helper()
	o.FS, o.ReadOnly = d, true
	d.Fail = func(op disktest.Op) error {
		if op.Changes() || op.Kind == disktest.OpenRW {
			return syscall.EROFS
		}
		return nil
	}
	l, failed := wal.Open(dir, id, o)
	var got []string
	if failed == nil {
		got = frames(t, l, 1)
		_, err := l.Append(nil)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorIs(t, l.Sync(), fs.ErrPermission)
		require.ErrorIs(t, l.Drop(1), fs.ErrPermission)
		require.NoError(t, l.Close())
	}
	d.Fail, o.ReadOnly = nil, false
	before := make(map[string]string)
	for _, path := range segments(t, d) {
		before[path] = string(d.Content(path))
	}
	l, err := wal.Open(dir, id, o)
	if failed != nil {
		require.EqualError(t, err, failed.Error())
		for path, content := range before {
			require.Equal(t, content, string(d.Content(path)), "nothing is changed in what is refused")
		}
		return nil, failed
	}
	require.NoError(t, err)
	require.Equal(t, got, frames(t, l, 1))
	require.NoError(t, l.Close())
	require.Zero(t, d.Opened())
	return got, nil
}

// holder is the record that has the byte, if one has it.
func holder(records []wal.Place, off int64) (wal.Place, bool) {
	for _, p := range records {
		if p.Off <= off && off < p.End {
			return p, true
		}
	}
	return wal.Place{}, false
}

func TestAFlippedBitIsToldWithItsPlace(t *testing.T) {
	for _, row := range []struct {
		name   string
		closed bool
		o      wal.Options
		loses  bool // damage to the last frame cannot be told from its never having been synced
	}{
		{name: "closed", closed: true},
		{name: "killed", loses: true},
		{name: "killed, and the caller knows what was synced", o: wal.Options{Synced: 1 << 32}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, paths, want := threeSegments(t, row.closed)
			if row.o.Synced > 0 {
				row.o.Synced = uint64(len(want))
			}
			for i, path := range paths {
				content := d.Content(path)
				records := wal.Records(content)
				for off := range int64(len(content)) {
					at, held := holder(records, off)
					if (!held || off > at.Off+48) && off > wal.HeaderUsed && off%11 != 0 {
						continue // of payloads and zeros some will do
					}
					flipped := d.Clone()
					content[off] ^= 1 << (off % 8)
					flipped.SetContent(path, content)
					content[off] ^= 1 << (off % 8)
					got, err := openBoth(t, flipped, row.o)
					var damage *wal.Damage
					switch last := i == len(paths)-1 && at.Number == uint64(len(want)); {
					case off < wal.HeaderUsed:
						require.ErrorAs(t, err, &damage, "%s %d", path, off)
						require.Equal(t, wal.Damage{File: path, Reason: damage.Reason}, *damage)
					case !held || !at.Frame:
						require.NoError(t, err)
						require.Equal(t, want, got)
					case last && row.loses:
						require.NoError(t, err)
						require.Equal(t, want[:len(want)-1], got)
					default:
						require.ErrorAs(t, err, &damage, "%s %d", path, off)
						require.Equal(t, wal.Damage{File: path, Offset: at.Off, Frame: at.Number, Reason: damage.Reason}, *damage)
						require.ErrorIs(t, err, wal.ErrDamaged)
						require.ErrorIs(t, err, store.ErrCorrupt)
					}
				}
			}
		})
	}
}

func TestAnEndThatIsDamagedOnlyHidesALostSuccessor(t *testing.T) {
	d, paths, want := threeSegments(t, true)
	content := d.Content(paths[1])
	records := wal.Records(content)
	end := records[len(records)-1]
	require.False(t, end.Frame)
	content[end.Off] ^= 1
	d.SetContent(paths[1], content)
	got, err := openBoth(t, d, wal.Options{})
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestWhatIsMissingOrNotTheLogsOwnIsRefused(t *testing.T) {
	other := disktest.New()
	l, err := wal.Create(dir, [16]byte{9}, 1, wal.Options{FS: other})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	foreign := other.Content(segments(t, other)[0])
	for _, row := range []struct {
		name string
		do   func(d *disktest.Disk, paths []string)
		want error
		text string
	}{
		{"the last segment is missing", func(d *disktest.Disk, p []string) { d.Vanish(p[2]) }, wal.ErrMissing, "the segment behind"},
		{"the last two segments are missing", func(d *disktest.Disk, p []string) { d.Vanish(p[1]); d.Vanish(p[2]) }, wal.ErrMissing, "the segment behind"},
		{"a middle segment is missing", func(d *disktest.Disk, p []string) { d.Vanish(p[1]) }, wal.ErrMissing, "the segment before"},
		{"all segments are missing", func(d *disktest.Disk, p []string) { d.Vanish(p[0]); d.Vanish(p[1]); d.Vanish(p[2]) }, wal.ErrMissing, "has no segment"},
		{"a segment of another log", func(d *disktest.Disk, p []string) { d.SetContent(p[0], foreign) }, wal.ErrForeign, "belongs to"},
		{"another log", func(d *disktest.Disk, p []string) {
			for _, path := range p {
				d.Vanish(path)
			}
			d.SetContent(p[0], foreign)
		}, wal.ErrForeign, "belongs to 09000000000000000000000000000000"},
		{"a segment has another's name", func(d *disktest.Disk, p []string) { d.SetContent(p[1], d.Content(p[0])) }, wal.ErrDamaged, "is that of segment"},
		{"the first segment is empty", func(d *disktest.Disk, p []string) { d.SetContent(p[0], nil) }, wal.ErrDamaged, "has 0 bytes"},
		{"the last segment is empty", func(d *disktest.Disk, p []string) { d.SetContent(p[2], nil) }, wal.ErrDamaged, "has 0 bytes"},
		{"a segment is cut short", func(d *disktest.Disk, p []string) {
			c := d.Content(p[1])
			d.SetContent(p[1], c[:len(c)-1])
		}, wal.ErrDamaged, "not 4096 as when it was made"},
		{"the last segment is cut short where it holds nothing", func(d *disktest.Disk, p []string) {
			c := d.Content(p[2])
			d.SetContent(p[2], c[:len(c)-1])
		}, wal.ErrDamaged, "not 4096 as when it was made"},
		{"a segment is all zeros", func(d *disktest.Disk, p []string) { d.SetContent(p[2], make([]byte, 4096)) }, wal.ErrDamaged, "checksum"},
		{"a segment is of another program", func(d *disktest.Disk, p []string) {
			d.SetContent(p[1], []byte(fmt.Sprintf("%04096d", 1)))
		}, wal.ErrDamaged, "checksum"},
		{"frames are zeroed in the middle", func(d *disktest.Disk, p []string) {
			c := d.Content(p[2])
			clear(c[wal.HeaderSize:1024])
			d.SetContent(p[2], c)
		}, wal.ErrDamaged, "frame"},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, paths, _ := threeSegments(t, true)
			row.do(d, paths)
			_, err := openBoth(t, d, wal.Options{})
			require.ErrorIs(t, err, row.want)
			require.ErrorContains(t, err, row.text)
			t.Log(err)
		})
	}
}

func TestALogWhoseFirstSegmentIsMissingDoesNotReplayWhatWasInIt(t *testing.T) {
	d, paths, _ := threeSegments(t, true)
	first := wal.Records(d.Content(paths[1]))[0].Number
	d.Vanish(paths[0])
	l, err := wal.Open(dir, id, wal.Options{FS: d})
	require.NoError(t, err)
	defer l.Close()
	require.ErrorIs(t, l.Replay(first-1, nil), wal.ErrMissing)
	require.Len(t, frames(t, l, first), int(l.Last()-first+1))
	require.NoError(t, l.Replay(l.Last()+1, nil))
}

func TestOtherFilesInTheFolderAreLeftAlone(t *testing.T) {
	d, _, want := threeSegments(t, true)
	strays := []string{"README", "0000000000000001.log.bak", "0000000000000002", "00000000000000AA.log", "2.log", "0000000000000099.journal"}
	for _, name := range strays {
		d.SetContent(filepath.Join(dir, name), []byte("keep me"))
	}
	require.NoError(t, d.Mkdir(filepath.Join(dir, "0000000000000077.log"), 0o700))
	l, err := wal.Open(dir, id, wal.Options{FS: d})
	require.NoError(t, err)
	require.Equal(t, want, frames(t, l, 1))
	require.NoError(t, l.Close())
	require.NoError(t, wal.Remove(dir, wal.Options{FS: d}))
	for _, name := range strays {
		require.Equal(t, "keep me", string(d.Content(filepath.Join(dir, name))))
	}
	require.Len(t, segments(t, d), len(strays)+1)
	// And a new log can be made there.
	l, err = wal.Create(dir, id, 5, wal.Options{FS: d})
	require.NoError(t, err)
	require.Equal(t, uint64(4), l.Last())
	require.NoError(t, l.Close())
}

func TestALogIsMadeOnlyWhereThereIsNone(t *testing.T) {
	d, _, want := threeSegments(t, true)
	_, err := wal.Create(dir, id, 1, wal.Options{FS: d})
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = wal.Create("/a/b", id, 1, wal.Options{FS: d})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = wal.Create("/new", id, 0, wal.Options{FS: d})
	require.ErrorContains(t, err, "frame 1 or a later one, not 0")
	_, err = wal.Create("/new", id, 1, wal.Options{FS: d, ReadOnly: true})
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorIs(t, wal.Remove(dir, wal.Options{FS: d, ReadOnly: true}), fs.ErrPermission)
	_, err = wal.Open("/new", id, wal.Options{FS: d})
	require.ErrorIs(t, err, wal.ErrMissing)
	_, _, err = wal.Inspect("/new", wal.Options{FS: d})
	require.ErrorIs(t, err, wal.ErrMissing)
	got, err := openBoth(t, d, wal.Options{})
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestALogInAFolderThatCannotBeWrittenToOpensReadOnly(t *testing.T) {
	d, _, want := threeSegments(t, false)
	d.Fail = func(op disktest.Op) error {
		if op.Changes() {
			return syscall.EROFS
		}
		return nil
	}
	_, err := wal.Open(dir, id, wal.Options{FS: d})
	require.ErrorIs(t, err, syscall.EROFS)
	l, err := wal.Open(dir, id, wal.Options{FS: d, ReadOnly: true})
	require.NoError(t, err)
	require.Equal(t, want, frames(t, l, 1))
	require.NoError(t, l.Close())
	got, has, err := wal.Inspect(dir, wal.Options{FS: d})
	require.NoError(t, err)
	assert.Equal(t, id, got)
	assert.True(t, has)
}

// FuzzSegment reads what is not a segment, or not any more.
func FuzzSegment(f *testing.F) {
	whole := wal.Segment(id, 4096, "one", "two", "", "four")
	f.Add(whole[wal.HeaderSize:])
	f.Add(whole[wal.HeaderSize:700])
	long := wal.Segment(id, 4096, "one")[wal.HeaderSize:]
	binary.LittleEndian.PutUint32(long[32:], 1<<31)
	f.Add(long)
	for i := range 12 {
		b := append([]byte(nil), whole[wal.HeaderSize:800]...)
		b[i*17] ^= 0x10
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		body = body[:min(len(body), 64<<10)]
		defer boundtest.Within(t, len(body))()
		content := append(wal.Segment(id, max(wal.HeaderSize+len(body), 1024))[:wal.HeaderSize], body...)
		content = append(content, make([]byte, max(0, 1024-len(content)))...)
		d := disktest.New()
		require.NoError(t, d.Mkdir(dir, 0o700))
		d.SetContent(filepath.Join(dir, "0000000000000001.log"), content)
		got, err := openBoth(t, d, wal.Options{})
		if err != nil {
			require.True(t, errors.Is(err, wal.ErrDamaged) || errors.Is(err, wal.ErrMissing), "%v", err)
			return
		}
		again, err := openBoth(t, d, wal.Options{})
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}
