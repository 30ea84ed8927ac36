package kv_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

// churn writes up to a thousand values, no more than 1 MiB, under a thousand keys, and has them in the file.
func churn(t *testing.T, db *opened, r *rand.Rand, size int) {
	t.Helper()
	tx, err := db.Begin(context.Background(), true)
	require.NoError(t, err)
	value := make([]byte, size)
	for range min(1000, 1<<20/size) {
		key := binary.BigEndian.AppendUint32(nil, uint32(r.IntN(1000)))
		binary.BigEndian.PutUint64(value, r.Uint64())
		tx.Table("a").Put(key, value)
	}
	require.NoError(t, tx.Commit())
	require.NoError(t, db.Checkpoint())
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// TestAViewThatLivesOnDoesNotHaveTheFileGrowWithoutEnd has one that reads again and again, and one
// of which the caller sleeps, which must not hold anything either.
func TestAViewThatLivesOnDoesNotHaveTheFileGrowWithoutEnd(t *testing.T) {
	for name, size := range map[string]int{"of pages of the file": 100, "of the log, for values that stand there": 16 << 10} {
		t.Run(name, func(t *testing.T) {
			told := &bytes.Buffer{}
			const most = 4 << 20
			db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) {
				o.Behind, o.Segment, o.Logger = most, 1<<20, slog.New(slog.NewTextHandler(told, nil))
			})
			db.Alone()
			r := rand.New(rand.NewPCG(1, 2))
			for range 3 {
				churn(t, db, r, size)
			}
			require.NoError(t, putText(db, "kept", strings.Repeat("k", size)))
			asleep, reads := viewOf(t, db), viewOf(t, db)
			c := reads.Table("a").Cursor()
			k, v := c.First()
			before, beforeKey := string(v), string(k)
			ends, rounds := error(nil), 0
			for ; ends == nil && rounds < 1000; rounds++ {
				churn(t, db, r, size)
				_, ends = read(t, reads, "kept")
			}
			require.ErrorIs(t, ends, store.ErrViewTooOld)
			require.NotErrorIs(t, ends, store.ErrCorrupt)
			require.ErrorContains(t, ends, "at most 4194304 are; read in shorter Views")
			require.Greater(t, rounds, 1, "not before it has kept that much")
			grown := fileSize(t, db.path)
			for range 3 * rounds {
				churn(t, db, r, size)
			}
			assert.LessOrEqual(t, fileSize(t, db.path), grown+most, "of the one that sleeps nothing is kept either")
			segments, err := filepath.Glob(filepath.Join(db.path+".log", "*"))
			require.NoError(t, err)
			kept := int64(0)
			for _, path := range segments {
				kept += fileSize(t, path)
			}
			assert.LessOrEqual(t, kept, int64(most+32<<20))
			_, err = read(t, asleep, "kept")
			require.ErrorIs(t, err, store.ErrViewTooOld)
			for _, fn := range []func(){func() { c.Next() }, func() { c.Seek([]byte("a")) }, func() { reads.Names("") }, func() { reads.Table("b") }, func() { reads.Base() }} {
				err := func() (err error) {
					defer kv.Guard("read", &err)
					fn()
					return nil
				}()
				require.ErrorIs(t, err, store.ErrViewTooOld)
			}
			require.Equal(t, before, string(v), "what it had handed out is as it was")
			require.Equal(t, beforeKey, string(k))
			require.EqualValues(t, 2, db.Stats().ViewsEnded)
			require.Equal(t, 2, strings.Count(told.String(), "a View was ended"))
			reads.Rollback()
			asleep.Rollback()
			require.Len(t, get(t, db, "kept"), size)
			require.NoError(t, db.Close())
		})
	}
}

// TestWhatAViewHasHandedOutStaysAsItWasOnceItWasEnded reads what stands in the file alone, of which the
// pages are then used anew.
func TestWhatAViewHasHandedOutStaysAsItWasOnceItWasEnded(t *testing.T) {
	for name, walk := range map[string]func(a *kv.Table, keep func(...[]byte)){
		"Get": func(a *kv.Table, keep func(...[]byte)) {
			for n := range uint32(1000) {
				v, _ := a.Get(binary.BigEndian.AppendUint32(nil, n))
				keep(v)
			}
		},
		"Next": func(a *kv.Table, keep func(...[]byte)) {
			c := a.Cursor()
			for k, v := c.First(); k != nil; k, v = c.Next() {
				keep(k, v)
			}
		},
		"Prev": func(a *kv.Table, keep func(...[]byte)) {
			c := a.Cursor()
			for k, v := c.Last(); k != nil; k, v = c.Prev() {
				keep(k, v)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.Behind = 1 })
			db.Alone()
			r := rand.New(rand.NewPCG(1, 2))
			churn(t, db, r, 100)
			var handed [][]byte
			var was []string
			tx := viewOf(t, db)
			walk(tx.Table("a"), func(parts ...[]byte) {
				for _, b := range parts {
					handed, was = append(handed, b), append(was, string(b))
				}
			})
			require.Greater(t, len(handed), 500)
			for range 20 {
				churn(t, db, r, 100)
			}
			require.EqualValues(t, 1, db.Stats().ViewsEnded)
			for i, b := range handed {
				require.Equal(t, was[i], string(b))
			}
			tx.Rollback()
			require.NoError(t, db.Close())
		})
	}
}

// TestAViewIsEndedAlsoIfItIsTheLogAloneThatIsKeptForIt puts what is deleted before it comes to the
// file: of such values only the log has anything.
func TestAViewIsEndedAlsoIfItIsTheLogAloneThatIsKeptForIt(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.Behind, o.Segment = 4<<20, 1<<20 })
	db.Alone()
	require.NoError(t, putText(db, "kept", large))
	tx := viewOf(t, db)
	err, rounds := error(nil), 0
	for ; err == nil && rounds < 1000; rounds++ {
		for range 20 {
			require.NoError(t, putText(db, "gone", large))
		}
		w, werr := db.Begin(context.Background(), true)
		require.NoError(t, werr)
		w.Table("a").Delete([]byte("gone"))
		require.NoError(t, w.Commit())
		require.NoError(t, db.Checkpoint())
		_, err = read(t, tx, "kept")
	}
	require.ErrorIs(t, err, store.ErrViewTooOld)
	require.Greater(t, rounds, 4)
	require.Less(t, rounds, 40, "the file alone would have taken some 250")
	tx.Rollback()
	require.NoError(t, db.Close())
}

// openTight opens a file of which no more is mapped than it has.
func openTight(t *testing.T, bytes int64) *opened {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orrery.db")
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, Timeout: time.Second})
	require.NoError(t, err)
	o := options(path)
	o.Bytes, o.After, o.Map = bytes, time.Second, 0
	db, err := kv.New(b, o)
	require.NoError(t, err)
	return &opened{db, path}
}

func TestCommitsGoOnWhileAViewKeepsTheMapFromGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTight(t, 1<<20)
		require.NoError(t, put(db.DB, 0))
		tx := viewOf(t, db)
		for n := range 2000 { // some 200 KB, of which 32 are mapped
			require.NoError(t, put(db.DB, n+1))
		}
		<-time.After(time.Minute)
		require.NoError(t, put(db.DB, 2001))
		require.Equal(t, 2002, size(t, db.DB))
		require.Zero(t, db.Stats().Checkpoints, "it waits for the View")
		require.NotZero(t, db.Stats().Frames)
		require.Zero(t, db.Stats().ViewsEnded)
		_, ok := tx.Table("a").Get([]byte("000001"))
		require.False(t, ok)
		tx.Rollback()
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Zero(t, db.Stats().Frames)
		require.Zero(t, db.Stats().ViewsEnded)
		require.NoError(t, db.Close())
	})
}

func TestAViewThatKeepsTheMapFromGrowingIsEndedBeforeCommitsHaveToWait(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, db *opened){
		"as the log becomes full": func(t *testing.T, db *opened) {
			for n := range 20000 { // of which the log has room for some 4000
				require.NoError(t, put(db.DB, n+1))
				if n%50 == 0 {
					<-time.After(10 * time.Millisecond)
				}
			}
		},
		"as somebody waits for the checkpoint": func(t *testing.T, db *opened) {
			for n := range 500 {
				require.NoError(t, put(db.DB, n+1))
			}
			require.NoError(t, db.Checkpoint())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := openTight(t, 128<<10)
				require.NoError(t, put(db.DB, 0))
				tx := viewOf(t, db)
				do(t, db)
				_, err := read(t, tx, "000000")
				require.ErrorIs(t, err, store.ErrViewTooOld)
				require.ErrorContains(t, err, "outgrows its map")
				require.EqualValues(t, 1, db.Stats().ViewsEnded)
				require.NotZero(t, db.Stats().Checkpoints)
				tx.Rollback()
				require.NoError(t, db.Close())
			})
		})
	}
}

// TestAViewIsNotEndedForWhatTheLogKeptForAnother has one that is old and others that are as young as
// a checkpoint: what the log kept for the old one goes only at the end of the next.
func TestAViewIsNotEndedForWhatTheLogKeptForAnother(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.Behind, o.Segment = 1900<<10, 1<<20 })
	db.Alone()
	require.NoError(t, putText(db, "kept", large))
	old := viewOf(t, db)
	err, rounds := error(nil), 0
	for ; err == nil && rounds < 1000; rounds++ {
		for range 10 {
			require.NoError(t, putText(db, "gone", large))
		}
		w, werr := db.Begin(context.Background(), true)
		require.NoError(t, werr)
		w.Table("a").Delete([]byte("gone"))
		require.NoError(t, w.Commit())
		young := viewOf(t, db)
		require.NoError(t, db.Checkpoint())
		if _, err = read(t, old, "kept"); err != nil {
			require.NoError(t, putText(db, "other", large))
			require.NoError(t, db.Checkpoint())
		}
		_, yerr := read(t, young, "kept")
		require.NoError(t, yerr, "round %d", rounds)
		young.Rollback()
	}
	require.ErrorIs(t, err, store.ErrViewTooOld)
	require.Greater(t, rounds, 5)
	require.EqualValues(t, 1, db.Stats().ViewsEnded)
	old.Rollback()
	require.NoError(t, db.Close())
}

// TestAViewIsEndedAlsoIfTheMapMustGrowForLargeValuesBesideWhatWasWritten changes a small value that has
// large neighbours, with which it is written anew. Where the test hangs bbolt waits for the View.
func TestAViewIsEndedAlsoIfTheMapMustGrowForLargeValuesBesideWhatWasWritten(t *testing.T) {
	for name, change := range map[string]func(*kv.Table, int){
		"a value": func(a *kv.Table, n int) { a.Put([]byte("bb"), []byte{byte(n)}) },
		"a deletion that leaves a node with its neighbour": func(a *kv.Table, n int) {
			for i := range 30 {
				if key := fmt.Appendf(nil, "e%02d", i); n%2 == 0 {
					a.Put(key, make([]byte, 100))
				} else if i > 5 {
					a.Delete(key)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := openTight(t, 64<<20)
				db.Alone()
				write := func(fn func(*kv.Table)) {
					w, err := db.Begin(context.Background(), true)
					require.NoError(t, err)
					fn(w.Table("a"))
					require.NoError(t, w.Commit())
					require.NoError(t, db.Checkpoint())
				}
				write(func(a *kv.Table) {
					for _, key := range []string{"a", "b", "c", "d"} {
						a.Put([]byte(key), make([]byte, 400<<10))
					}
				})
				for n := range 4 {
					tx := viewOf(t, db)
					write(func(a *kv.Table) { change(a, n) })
					tx.Rollback()
				}
				require.NotZero(t, db.Stats().ViewsEnded)
				require.NoError(t, db.Close())
			})
		})
	}
}
