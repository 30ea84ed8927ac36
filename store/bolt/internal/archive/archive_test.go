package archive_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects/boundtest"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/bolt/internal/archive"
	"github.com/orrery-go/orrery/store/bolt/internal/disk/disktest"
)

const dir = "/past"

var tables = []string{"journal", "changes"}

func key(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// entry is one entry of the model.
type entry struct{ key, value string }

// model is what an archive must hold, by table.
type model map[string][]entry

func (m model) clone() model {
	out := model{}
	for table, list := range m {
		out[table] = slices.Clone(list)
	}
	return out
}

func (m model) from(floor int) model {
	out := model{}
	for table, list := range m {
		for _, e := range list {
			if e.key >= string(key(floor)) {
				out[table] = append(out[table], e)
			}
		}
	}
	return out
}

// requireHolds reads a snapshot in each way, from the floor on.
func requireHolds(t require.TestingT, s *archive.Snapshot, want model, floor int) {
	for _, table := range tables {
		c := s.Cursor(table)
		var up, down []entry
		for k, v := c.Seek(key(floor)); k != nil; k, v = c.Next() {
			up = append(up, entry{string(k), string(v)})
		}
		require.NoError(t, c.Err())
		for k, v := c.Last(); k != nil && string(k) >= string(key(floor)); k, v = c.Prev() {
			down = append(down, entry{string(k), string(v)})
		}
		require.NoError(t, c.Err())
		slices.Reverse(down)
		require.Equal(t, want.from(floor)[table], up, table)
		require.Equal(t, want.from(floor)[table], down, table)
		require.Equal(t, lastKey(want[table]), string(s.Position().LastKey(table)))
	}
}

func lastKey(list []entry) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].key
}

// machine is an archive beside its model.
type machine struct {
	disk  *disktest.Disk
	a     *archive.Archive
	at    archive.Position
	want  model
	floor int
	next  int
	views []view
}

type view struct {
	*archive.Snapshot
	want  model
	floor int
}

func options(d *disktest.Disk) archive.Options {
	return archive.Options{FS: d, File: 400, Block: 100}
}

func (m *machine) open(t require.TestingT) {
	var err error
	m.a, err = archive.Open(dir, m.at, options(m.disk))
	require.NoError(t, err)
	require.NoError(t, m.a.Lost())
	m.at = m.a.Position()
}

// write appends some entries, which count only where done is set.
func (m *machine) write(t *rapid.T, done bool) {
	next, n := m.want.clone(), m.next
	floor := m.floor
	if rapid.IntRange(0, 3).Draw(t, "floor?") == 0 {
		floor = rapid.IntRange(m.floor, n).Draw(t, "floor")
	}
	require.NoError(t, m.a.Begin(uint64(n), uint64(floor)))
	many := rapid.IntRange(0, 12).Draw(t, "entries")
	for _, table := range tables {
		for i := range many {
			value := strings.Repeat("v", rapid.IntRange(0, 60).Draw(t, "bytes"))
			require.NoError(t, m.a.Append(table, key(n+i), []byte(value)))
			next[table] = append(next[table], entry{string(key(n + i)), value})
		}
	}
	at, err := m.a.Flush()
	require.NoError(t, err)
	if !done {
		return
	}
	m.a.Publish(at).Release()
	m.at, m.want, m.floor, m.next = at, next, floor, n+many
}

func TestAnArchiveHoldsWhatCountsAndASnapshotWhatItBeganWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{disk: disktest.New(), want: model{}, next: 1}
		m.disk.Strict = true
		m.open(t)
		letGo := func(t *rapid.T) {
			if len(m.views) == 0 {
				t.Skip("none is held")
			}
			requireHolds(t, m.views[0].Snapshot, m.views[0].want, m.views[0].floor)
			m.views[0].Release()
			m.views = m.views[1:]
		}
		t.Repeat(map[string]func(*rapid.T){
			"append":                func(t *rapid.T) { m.write(t, true) },
			"append what is undone": func(t *rapid.T) { m.write(t, false) },
			"hold": func(*rapid.T) {
				m.views = append(m.views, view{m.a.Current(), m.want.clone(), m.floor})
			},
			"let go": letGo,
			"reopen": func(t *rapid.T) {
				for len(m.views) > 0 {
					letGo(t)
				}
				require.NoError(t, m.a.Close())
				m.open(t)
			},
			"": func(t *rapid.T) {
				s := m.a.Current()
				defer s.Release()
				requireHolds(t, s, m.want, m.floor)
			},
		})
		for len(m.views) > 0 {
			letGo(t)
		}
		require.NoError(t, m.a.Close())
		require.Zero(t, m.disk.Opened())
	})
}

// filled is an archive with several files, closed, and where it counts up to.
func filled(t *testing.T, rounds int) (*disktest.Disk, archive.Position, model) {
	t.Helper()
	m := &machine{disk: disktest.New(), want: model{}, next: 1}
	m.open(t)
	for range rounds {
		require.NoError(t, m.a.Begin(uint64(m.next), 0))
		for _, table := range tables {
			for i := range 8 {
				value := fmt.Sprintf("%s of %d", table, m.next+i)
				require.NoError(t, m.a.Append(table, key(m.next+i), []byte(value)))
				m.want[table] = append(m.want[table], entry{string(key(m.next + i)), value})
			}
		}
		at, err := m.a.Flush()
		require.NoError(t, err)
		m.a.Publish(at).Release()
		m.at, m.next = at, m.next+8
	}
	require.NoError(t, m.a.Close())
	return m.disk, m.at, m.want
}

func paths(t *testing.T, d *disktest.Disk) (all []string) {
	t.Helper()
	entries, err := d.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, filepath.Join(dir, e.Name()))
	}
	return all
}

// TestNoFlippedBitIsReadAsTruth flips each byte of each file: what is read then is what was
// written, or an error that names the file.
func TestNoFlippedBitIsReadAsTruth(t *testing.T) {
	d, at, want := filled(t, 4)
	all := paths(t, d)
	require.Greater(t, len(all), 1)
	for _, path := range all {
		whole := d.Content(path)
		for i := range whole {
			bad := slices.Clone(whole)
			bad[i] ^= 1 << (i % 8)
			d.SetContent(path, bad)
			requireTrueOrTold(t, d, at, want, path)
		}
		d.SetContent(path, whole)
	}
}

func requireTrueOrTold(t *testing.T, d *disktest.Disk, at archive.Position, want model, path string) {
	t.Helper()
	a, err := archive.Open(dir, at, options(d))
	if err != nil {
		require.ErrorContains(t, err, path)
		return
	}
	defer func() { require.NoError(t, a.Close()) }()
	s := a.Current()
	defer s.Release()
	for _, table := range tables {
		c, n := s.Cursor(table), 0
		for k, v := c.First(); k != nil; k, v = c.Next() {
			read := entry{string(k), string(v)}
			require.Equal(t, want[table][n], read)
			n++
		}
		if n < len(want[table]) {
			require.ErrorIs(t, c.Err(), archive.ErrCorrupt)
			require.ErrorContains(t, c.Err(), path)
		}
	}
}

// TestWhatIsMissingIsToldAndTheRestIsReadAndWrittenOn takes each file away, and cuts the last.
func TestWhatIsMissingIsToldAndTheRestIsReadAndWrittenOn(t *testing.T) {
	d, at, want := filled(t, 8)
	all := paths(t, d)
	require.Greater(t, len(all), 2)
	for i, path := range append(all, "") {
		left := d.Clone()
		lost := fmt.Sprintf("file %d to %d", i+1, i+1)
		if path == "" {
			last := all[len(all)-1]
			lost = fmt.Sprintf("of file %d", len(all))
			left.SetContent(last, d.Content(last)[:at.Size-1])
		} else {
			left.Vanish(path)
		}
		a, err := archive.Open(dir, at, options(left))
		require.NoError(t, err)
		require.ErrorIs(t, a.Lost(), archive.ErrCorrupt)
		require.ErrorContains(t, a.Lost(), lost)
		n := len(want["journal"]) + 1
		require.NoError(t, a.Begin(uint64(n), 0))
		require.NoError(t, a.Append("journal", key(n), []byte("new")))
		now, err := a.Flush()
		require.NoError(t, err)
		a.Publish(now).Release()
		s := a.Current()
		k, v := s.Cursor("journal").Last()
		assert.Equal(t, key(n), k)
		assert.Equal(t, "new", string(v))
		s.Release()
		require.NoError(t, a.Close())
		again, err := archive.Open(dir, now, options(left))
		require.NoError(t, err)
		if i == 0 {
			require.NoError(t, again.Lost(), "what was missing at the beginning is told once")
		}
		require.NoError(t, again.Close())
	}
}

func TestTheFilesOfAnotherArchiveAreRefused(t *testing.T) {
	d, at, _ := filled(t, 1)
	_, err := archive.Open(dir, archive.Position{}, options(d))
	require.ErrorIs(t, err, archive.ErrOther)
	at.ID = strings.Repeat("0f", 16)
	_, err = archive.Open(dir, at, options(d))
	require.ErrorIs(t, err, archive.ErrOther)
	at.ID = "zz"
	_, err = archive.Open(dir, at, options(d))
	require.ErrorIs(t, err, archive.ErrCorrupt)
	require.ErrorContains(t, err, `"zz"`)
}

// TestAFailureOfTheDiskTakesNothingThatCounts makes each operation of a run fail, in one run
// after the other; loses the power sometimes; and goes on.
func TestAFailureOfTheDiskTakesNothingThatCounts(t *testing.T) {
	seed := seedtest.Seed(t)
	for _, code := range []error{syscall.EIO, syscall.ENOSPC} {
		for from := range 40 {
			r := rand.New(rand.NewPCG(seed, uint64(from)))
			m := &machine{disk: disktest.New(), want: model{}, next: 1}
			count := 0
			m.disk.Fail = func(op disktest.Op) error {
				if count++; op.Kind != disktest.Read && count > 12*from/10+3 && count <= 12*from/10+3+1+from%3 {
					return code
				}
				return nil
			}
			for range 12 {
				m.try(t, r)
			}
			if m.a != nil {
				m.disk.Fail = nil
				require.NoError(t, m.a.Close())
			}
		}
	}
}

// try opens the archive if it is closed, appends, and now and then loses the power.
func (m *machine) try(t *testing.T, r *rand.Rand) {
	t.Helper()
	if m.a == nil {
		a, err := archive.Open(dir, m.at, options(m.disk))
		if err != nil {
			return
		}
		require.NoError(t, a.Lost())
		m.a, m.at = a, a.Position()
	}
	added, fail := m.append(t, r), m.disk.Fail
	m.disk.Fail = nil
	if added {
		s := m.a.Current()
		requireHolds(t, s, m.want, 0)
		s.Release()
	}
	if r.IntN(4) == 0 {
		_ = m.a.Close()
		m.a, m.disk = nil, m.disk.Lose(r.IntN)
	}
	m.disk.Fail = fail
}

func (m *machine) append(t *testing.T, r *rand.Rand) bool {
	t.Helper()
	next, many := m.want.clone(), 1+r.IntN(8)
	if err := m.a.Begin(uint64(m.next), 0); err != nil {
		return false
	}
	for _, table := range tables {
		for i := range many {
			value := strings.Repeat("v", r.IntN(60))
			if err := m.a.Append(table, key(m.next+i), []byte(value)); err != nil {
				return false
			}
			next[table] = append(next[table], entry{string(key(m.next + i)), value})
		}
	}
	at, err := m.a.Flush()
	if err != nil {
		return false
	}
	m.a.Publish(at).Release()
	m.at, m.want, m.next = at, next, m.next+many
	return true
}

func TestFilesThatNobodyNeedsGoOnceNobodyReadsThem(t *testing.T) {
	m := &machine{disk: disktest.New(), want: model{}, next: 1}
	m.disk.Strict = true
	m.open(t)
	r := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		require.True(t, m.append(t, r))
	}
	before := len(paths(t, m.disk))
	require.Greater(t, before, 4)
	held := m.a.Current()
	require.NoError(t, m.a.Begin(uint64(m.next), uint64(m.next)))
	at, err := m.a.Flush()
	require.NoError(t, err)
	m.a.Publish(at).Release()
	assert.Len(t, paths(t, m.disk), before, "they are being read")
	requireHolds(t, held, m.want, 0)
	held.Release()
	assert.Len(t, paths(t, m.disk), 1, "the last one stays")
	s := m.a.Current()
	total := s.Bytes(0, 0)
	first := int(binary.BigEndian.Uint64(must(s.Cursor("journal").First())))
	assert.Equal(t, total, s.Bytes(uint64(first), 0))
	assert.InDelta(t, total, s.Bytes(0, uint64(first+2))+s.Bytes(uint64(first+2), 0), 2)
	s.Release()
	require.NoError(t, m.a.Close())
}

func must(k, _ []byte) []byte { return k }

// FuzzAFileOfAnyBytesIsReadOrRefused reads files that hold anything.
func FuzzAFileOfAnyBytesIsReadOrRefused(f *testing.F) {
	t := &testing.T{}
	d, at, _ := filled(t, 2)
	for _, path := range paths(t, d) {
		f.Add(d.Content(path))
	}
	name := filepath.Base(paths(t, d)[0])
	f.Fuzz(func(t *testing.T, in []byte) {
		defer boundtest.Within(t, len(in))()
		d := disktest.New()
		require.NoError(t, d.Mkdir(dir, 0o700))
		d.SetContent(filepath.Join(dir, name), in)
		at := at
		at.First, at.File, at.Size = 1, 1, int64(len(in))
		a, err := archive.Open(dir, at, options(d))
		if err != nil {
			return
		}
		defer func() { require.NoError(t, a.Close()) }()
		s := a.Current()
		defer s.Release()
		for _, table := range tables {
			c := s.Cursor(table)
			var keys []string
			for k, _ := c.First(); k != nil && len(keys) < 1000; k, _ = c.Next() {
				keys = append(keys, string(k))
			}
			if err := c.Err(); err != nil {
				require.True(t, errors.Is(err, archive.ErrCorrupt) || errors.Is(err, fs.ErrInvalid), err)
			}
			_ = sort.StringsAreSorted(keys) // what has a right checksum and is not sorted was never written
			c.Seek(key(3))
			c.Prev()
			c.Last()
		}
	})
}
