package bolt_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// dueNow is how many of the stored records are due in BenchmarkDue.
const dueNow = 1000

// BenchmarkDue scans what is due among that many stored records, and beside it
// a bare bbolt cursor over the same keys: the aim is at most 1.5 times as long,
// however many are stored (A5). Ten million take minutes to store: they need
// ORRERY_BENCH_HUGE=1.
func BenchmarkDue(b *testing.B) {
	sizes := []int{10_000, 1_000_000}
	if os.Getenv("ORRERY_BENCH_HUGE") != "" {
		sizes = append(sizes, 10_000_000)
	}
	for _, size := range sizes {
		path := filepath.Join(b.TempDir(), "orrery.db")
		fillDue(b, path, size)
		b.Run(fmt.Sprintf("stored=%d/store", size), func(b *testing.B) {
			s := open(b, path, bolt.Options{})
			b.ReportAllocs()
			var room []store.DueEntry // as the engine has it: one slice for all sweeps
			for b.Loop() {
				require.NoError(b, s.View(ctx, func(tx store.ReadTx) error {
					found, err := tx.Due(room[:0], nil, dueNow, 2*dueNow)
					room = found
					if len(found) != dueNow {
						b.Fatalf("%d are due", len(found))
					}
					return err
				}))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/dueNow, "ns/entry")
			require.NoError(b, s.Close())
		})
		b.Run(fmt.Sprintf("stored=%d/bare", size), func(b *testing.B) {
			db, err := bbolt.Open(path, 0o600, nil)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, db.View(func(tx *bbolt.Tx) error {
					var found [][]byte
					c := tx.Bucket([]byte("due")).Cursor()
					bound := store.DueUpperBound(dueNow)
					for k, v := c.First(); k != nil && string(k) <= string(bound[:]); k, v = c.Next() {
						found = append(found, slices.Clone(k))
						_ = v
					}
					if len(found) != dueNow {
						b.Fatalf("%d are due", len(found))
					}
					return nil
				}))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/dueNow, "ns/entry")
			require.NoError(b, db.Close())
		})
		b.Run(fmt.Sprintf("stored=%d/cursor", size), func(b *testing.B) {
			db, err := bbolt.Open(path, 0o600, nil)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, db.View(func(tx *bbolt.Tx) error {
					n, c := 0, tx.Bucket([]byte("due")).Cursor()
					bound := store.DueUpperBound(dueNow)
					for k, _ := c.First(); k != nil && string(k) <= string(bound[:]); k, _ = c.Next() {
						n++
					}
					if n != dueNow {
						b.Fatalf("%d are due", n)
					}
					return nil
				}))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/dueNow, "ns/entry")
			require.NoError(b, db.Close())
		})
	}
}

func fillDue(b *testing.B, path string, size int) {
	b.Helper()
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(b, err)
	for first := 0; first < size; first += 10_000 {
		var writes []store.Write
		for i := first; i < min(first+10_000, size); i++ {
			var id uuid.UUID
			binary.BigEndian.PutUint64(id[:], uint64(i)) // in order: it is only there to be stored
			id[15] = 1
			at := effects.Time(i + 1)
			if i >= dueNow {
				at += 1_000_000
			}
			writes = append(writes, store.Write{Kind: "action", ID: id, State: []byte(`{}`), Due: at})
		}
		require.NoError(b, s.Update(ctx, func(tx store.Tx) error {
			seq, err := tx.Seq()
			if err != nil {
				return err
			}
			if err := tx.Put(seq+1, writes); err != nil {
				return err
			}
			return tx.AppendJournal(seq+1, 1, []byte(`{}`))
		}))
	}
	require.NoError(b, s.Close())
}

// BenchmarkBatch commits batches of new records with due time and three terms,
// two of them counted, and beside it the same keys and values with bare bbolt.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{32, 256, 1000} {
		for _, sync := range []bool{true, false} {
			name := fmt.Sprintf("records=%d,sync=%t", size, sync)
			b.Run(name+"/store", func(b *testing.B) {
				s := open(b, filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{NoSync: !sync})
				b.ReportAllocs()
				next, seq := 0, uint64(0)
				for b.Loop() {
					writes := benchBatch(next, size)
					next, seq = next+size, seq+1
					require.NoError(b, s.Update(ctx, func(tx store.Tx) error {
						if err := tx.Put(seq, writes); err != nil {
							return err
						}
						return tx.AppendJournal(seq, 1, benchState)
					}))
				}
				b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
				require.NoError(b, s.Close())
			})
			b.Run(name+"/bare", func(b *testing.B) { benchBare(b, size, sync) })
		}
	}
}

var benchState = fmt.Appendf(nil, `{"label":"a","payload":"%0400d"}`, 1)

func benchBatch(first, n int) []store.Write {
	r := rand.New(rand.NewPCG(uint64(first), 1))
	writes := make([]store.Write, n)
	for i := range writes {
		var id uuid.UUID
		binary.NativeEndian.PutUint64(id[:], r.Uint64())
		binary.NativeEndian.PutUint64(id[8:], r.Uint64())
		at := effects.Time(1_000_000 + first + i)
		writes[i] = store.Write{Kind: "action", ID: id, State: benchState, Due: at, Terms: []store.Term{
			{Name: "all", At: at, Counted: true}, {Name: "status:pending", At: at, Counted: true}, {Name: "scope:ns\x1ftenant", At: at},
		}}
	}
	return writes
}

func benchBare(b *testing.B, size int, sync bool) {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "bare.db"), 0o600, &bbolt.Options{NoSync: !sync, FreelistType: bbolt.FreelistMapType})
	require.NoError(b, err)
	require.NoError(b, db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"records", "due", "lists", "journal"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}))
	b.ReportAllocs()
	next := 0
	for b.Loop() {
		writes := benchBatch(next, size)
		next += size
		require.NoError(b, db.Update(func(tx *bbolt.Tx) error {
			records, due, lists := tx.Bucket([]byte("records")), tx.Bucket([]byte("due")), tx.Bucket([]byte("lists"))
			for i := range writes {
				w := &writes[i]
				if err := records.Put(w.ID[:], w.State); err != nil {
					return err
				}
				k := store.NewDueKey(w.Due, w.ID)
				if err := due.Put(k[:], []byte("action")); err != nil {
					return err
				}
				for _, term := range w.Terms {
					key := append([]byte(term.Name), k[:]...)
					if err := lists.Put(key, nil); err != nil {
						return err
					}
				}
			}
			return tx.Bucket([]byte("journal")).Put(binary.BigEndian.AppendUint64(nil, uint64(next)), benchState)
		}))
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
	require.NoError(b, db.Close())
}
