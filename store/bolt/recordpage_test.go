package bolt_test

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// leaves gives the leaf pages of the bucket of actions, in order.
func leaves(t *testing.T, path string) (pages []int64, size int64) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	require.NoError(t, err)
	size = int64(db.Info().PageSize)
	var root uint64
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		root = uint64(tx.Bucket([]byte("records/action")).Root())
		return nil
	}))
	require.NoError(t, db.Close())
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	var walk func(page int64)
	walk = func(page int64) {
		p := file[page*size:]
		if binary.NativeEndian.Uint16(p[8:]) != 1 {
			pages = append(pages, page)
			return
		}
		for n := range int(binary.NativeEndian.Uint16(p[10:])) {
			walk(int64(binary.NativeEndian.Uint64(p[16+16*n+8:])))
		}
	}
	walk(int64(root))
	return pages, size
}

func TestAWalkGoesOnBehindAPageThatCannotBeWalkedAndMeetsAllOtherRecordsOnce(t *testing.T) {
	skipWhereOpenFilesStay(t)
	const records = 800
	for name, which := range map[string]func(n int) []int{
		"the first":   func(int) []int { return []int{0} },
		"one between": func(n int) []int { return []int{n / 2} },
		"two":         func(n int) []int { return []int{n / 3, n / 2} },
		"the last":    func(n int) []int { return []int{n - 1} },
	} {
		for _, limit := range []int{1, 7, 10 * records} {
			t.Run(name, func(t *testing.T) {
				path := filled(t, records/20)
				pages, size := leaves(t, path)
				s, err := bolt.Open(path, bolt.Options{NoSync: true})
				require.NoError(t, err)
				defer func() { _ = s.Close() }()
				f, err := os.OpenFile(path, os.O_RDWR, 0)
				require.NoError(t, err)
				lost := 0
				for _, n := range which(len(pages)) {
					head := make([]byte, size)
					_, err := f.ReadAt(head, pages[n]*size)
					require.NoError(t, err)
					lost += int(binary.NativeEndian.Uint16(head[10:]))
					_, err = f.WriteAt(make([]byte, 16), pages[n]*size)
					require.NoError(t, err)
				}
				require.NoError(t, f.Close())

				seen, gaps, at := map[uuid.UUID]int{}, 0, effects.Ref{}
				require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
					for range 2 * records {
						last, err := tx.(store.Walker).RecordPage(at, limit, func(r store.Record) error {
							seen[r.ID]++
							return nil
						})
						if err != nil {
							assert.ErrorIs(t, err, store.ErrCorrupt)
							gaps++
						}
						if last == (effects.Ref{}) {
							return nil
						}
						at = last
					}
					assert.Fail(t, "the walk does not end", "at %s", at)
					return nil
				}))
				assert.Equal(t, records-lost, len(seen)) //nolint:testifylint // Len prints them all
				for id, times := range seen {
					assert.Equal(t, 1, times, id)
				}
				assert.NotZero(t, gaps)
				assert.LessOrEqual(t, gaps, len(which(len(pages))))
			})
		}
	}
}
