package archive_test

import (
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
