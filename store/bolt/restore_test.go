package bolt_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// keepAll are options under which all redo is kept.
var keepAll = bolt.Options{NoSync: true, Redo: bolt.Redo{Bytes: 1 << 30}}

// everything gives all entries of a file that has no log, but for how it and its log belong together,
// with its journal.
func everything(t require.TestingT, path string) map[string]string {
	if _, err := os.Stat(path + ".journal"); err == nil {
		within := path + ".compact"
		_, err := bolt.Compact(ctx, path, within)
		require.NoError(t, err)
		defer func() { require.NoError(t, os.Remove(within)) }()
		path = within
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	require.NoError(t, err)
	all := map[string]string{}
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if string(name) == "log" {
				return nil
			}
			return b.ForEach(func(k, v []byte) error {
				all[string(name)+" "+string(k)] = string(v)
				return nil
			})
		})
	}))
	require.NoError(t, db.Close())
	return all
}

// era is a database in use, of which it is noted what it had after each batch.
type era struct {
	t    *rapid.T
	path string
	s    *bolt.Store
	seq  uint64
	had  map[uint64]map[string]string // by batch, before the next one
}

func (e *era) open() {
	var err error
	e.s, err = bolt.Open(e.path, keepAll)
	require.NoError(e.t, err)
}

func (e *era) note() {
	had, err := bolt.Everything(e.s)
	require.NoError(e.t, err)
	e.had[e.seq] = had
}

// batch commits one, with a clock that stands still or goes on.
func (e *era) batch() {
	n := rapid.IntRange(0, 30).Draw(e.t, "record")
	require.NoError(e.t, e.s.Update(context.Background(), func(tx store.Tx) error {
		w := store.Write{Kind: "action", ID: testID(n), State: fmt.Appendf(nil, `{"n":%d}`, e.seq), Due: effects.Time(e.seq), Terms: []store.Term{{Name: "all", At: 1, Counted: true}}}
		if r, err := tx.Get(w.Kind, w.ID); err == nil {
			w.Prev = store.Prev{Version: r.Version, Due: dueOf(r.State), Terms: w.Terms}
			if rapid.IntRange(0, 3).Draw(e.t, "delete") == 0 {
				w.State, w.Due, w.Terms = nil, 0, nil
			}
		}
		if err := tx.Put(e.seq+1, []store.Write{w}); err != nil {
			return err
		}
		if err := tx.PutOutbox(store.OutboxEntry{Key: store.EffectKey{ID: w.ID, N: 1}, Seq: e.seq + 1, Kind: w.Kind, Lane: "http", Effect: []byte(`{}`)}); err != nil {
			return err
		}
		return tx.AppendJournal(e.seq+1, timeOf(e.seq+1), fmt.Appendf(nil, `{"batch":%d}`, e.seq+1))
	}))
	e.seq++
}

// timeOf is the clock reading of a batch: two have the same one.
func timeOf(seq uint64) effects.Time { return effects.Time(1000 * (1 + seq/2)) }

func dueOf(state []byte) (due effects.Time) {
	_, _ = fmt.Sscanf(string(state), `{"n":%d}`, &due)
	return due
}

// other commits something that is in no batch.
func (e *era) other() {
	require.NoError(e.t, e.s.Update(context.Background(), func(tx store.Tx) error {
		switch rapid.IntRange(0, 4).Draw(e.t, "what") {
		case 0:
			_, err := tx.Acquire("loop", "me", time.Minute, effects.Time(e.seq))
			return err
		case 1:
			return tx.PutRunLog(testID(1), uint32(e.seq), []byte("said"))
		case 2:
			return tx.PutWebhook(store.Webhook{ID: testID(int(e.seq)), ReceivedAt: 1, Header: []byte("{}"), Body: []byte("{}")})
		case 3:
			return tx.BeginEpoch(effects.Time(e.seq))
		}
		return tx.SetMeta("name", fmt.Appendf(nil, `%d`, e.seq))
	}))
}

func (e *era) step() {
	switch rapid.IntRange(0, 9).Draw(e.t, "step") {
	case 0:
		require.NoError(e.t, bolt.Checkpoint(e.s))
	case 1:
		require.NoError(e.t, e.s.Close())
		e.open()
	case 2, 3, 4:
		e.other()
	default:
		e.batch()
	}
	e.note()
}

// TestARestoreHasWhatTheDatabaseHadAfterTheBatch compares all that is stored, byte for byte.
func TestARestoreHasWhatTheDatabaseHadAfterTheBatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "") //nolint:usetesting // one for each of the drawn runs
		require.NoError(rt, err)
		e := &era{t: rt, path: filepath.Join(dir, "orrery.db"), had: map[uint64]map[string]string{}}
		e.open()
		for range rapid.IntRange(0, 4).Draw(rt, "before") {
			e.step()
		}
		backup := filepath.Join(dir, "backup.db")
		_, err = e.s.BackupFile(context.Background(), backup)
		require.NoError(rt, err)
		from := e.seq
		for range rapid.IntRange(1, 10).Draw(rt, "after") {
			e.step()
		}
		require.NoError(rt, e.s.Close())

		to := uint64(rapid.IntRange(int(from), int(e.seq)).Draw(rt, "to"))
		o := bolt.RestoreOptions{Batch: to, Redo: []string{e.path + ".redo"}}
		if to+1 <= e.seq && timeOf(to) != timeOf(to+1) && rapid.Bool().Draw(rt, "by time") {
			o.Batch, o.At = 0, timeOf(to).Add(time.Millisecond*time.Duration(rapid.SampledFrom([]int{0, 1, 999}).Draw(rt, "later")))
		}
		if o.Batch == 0 && o.At == 0 {
			return
		}
		restored := filepath.Join(dir, "restored.db")
		r, err := bolt.Restore(context.Background(), backup, restored, o)
		require.NoError(rt, err)
		assert.Equal(rt, to, r.To.Batch)
		assert.Equal(rt, from, r.From.Batch)
		got := everything(rt, restored)
		require.Equal(rt, e.had[to], got)

		s, err := bolt.Open(restored, keepAll)
		require.NoError(rt, err)
		found, err := s.Check(context.Background())
		require.NoError(rt, err)
		require.Empty(rt, found)
		require.NoError(rt, s.Close())
	})
}

// redone commits that many batches of one record each, closes, and gives the backup that was
// made before the first one.
func redone(t *testing.T, o bolt.Options, batches int) (backup, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "orrery.db")
	s, err := bolt.Open(path, o)
	require.NoError(t, err)
	require.NoError(t, commit(s, batchOf(1000, 1)))
	backup = filepath.Join(t.TempDir(), "backup.db")
	_, err = s.BackupFile(ctx, backup)
	require.NoError(t, err)
	goOn(t, s, 0, batches)
	require.NoError(t, s.Close())
	return backup, path
}

func goOn(t *testing.T, s *bolt.Store, first, batches int) {
	t.Helper()
	for i := range batches {
		require.NoError(t, commit(s, batchOf(first+i, 1)))
	}
}

func TestARestoreSaysHowFarItCouldGo(t *testing.T) {
	backup, path := redone(t, keepAll, 5)
	to := filepath.Join(t.TempDir(), "restored.db")
	redo := []string{path + ".redo"}
	_, err := bolt.Restore(ctx, backup, to, bolt.RestoreOptions{Batch: 7, Redo: redo})
	require.ErrorIs(t, err, bolt.ErrNoRedo)
	require.ErrorContains(t, err, "it goes as far as batch 6 of 1970-01-01T00:00:00.006Z")
	_, err = bolt.Restore(ctx, backup, to, bolt.RestoreOptions{At: 7, Redo: redo})
	require.ErrorIs(t, err, bolt.ErrNoRedo)
	_, err = bolt.Restore(ctx, path, to, bolt.RestoreOptions{Batch: 3})
	require.ErrorIs(t, err, bolt.ErrBefore)
	require.ErrorContains(t, err, "it has batch 6")
	_, err = bolt.Restore(ctx, backup, to, bolt.RestoreOptions{Batch: 3})
	require.ErrorIs(t, err, bolt.ErrNoRedo)
	require.ErrorContains(t, err, "backup.db.redo")
	_, err = bolt.Restore(ctx, backup, to, bolt.RestoreOptions{Batch: 3, At: 3})
	require.ErrorContains(t, err, "not both")
	r, err := bolt.Restore(ctx, backup, to, bolt.RestoreOptions{Batch: 4, Redo: redo, DryRun: true})
	require.NoError(t, err)
	assert.Equal(t, uint64(3), r.Commits)
	require.NoFileExists(t, to)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(to), ".*"))
	require.NoError(t, err)
	assert.Empty(t, left)

	r, err = bolt.Restore(ctx, backup, to, bolt.RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, uint64(1), r.To.Batch, "as it is")
	assert.Equal(t, everything(t, backup), everything(t, to))
	_, err = bolt.Restore(ctx, backup, to, bolt.RestoreOptions{})
	require.ErrorIs(t, err, os.ErrExist)
}

func TestNothingIsKeptUnlessItIsAskedFor(t *testing.T) {
	_, path := redone(t, bolt.Options{NoSync: true}, 2)
	require.NoDirExists(t, path+".redo")
}

func TestDamagedMissingAndForeignRedoIsTold(t *testing.T) {
	backup, path := redone(t, keepAll, 4)
	s := open(t, path, keepAll)
	goOn(t, s, 10, 4)
	require.NoError(t, s.Close())
	s = open(t, path, keepAll)
	goOn(t, s, 20, 4)
	require.NoError(t, s.Close())
	files, err := filepath.Glob(path + ".redo/*")
	require.NoError(t, err)
	require.Len(t, files, 3)
	to := filepath.Join(t.TempDir(), "restored.db")
	restore := func(batch uint64, redo string) error {
		_, err := bolt.Restore(ctx, backup, to, bolt.RestoreOptions{Batch: batch, Redo: []string{redo}})
		return err
	}
	changed := func(change func(folder string, names []string)) string {
		folder := t.TempDir()
		require.NoError(t, os.CopyFS(folder, os.DirFS(path+".redo")))
		names, err := filepath.Glob(folder + "/*")
		require.NoError(t, err)
		change(folder, names)
		return folder
	}
	missing := changed(func(_ string, names []string) { require.NoError(t, os.Remove(names[1])) })
	err = restore(8, missing)
	require.ErrorIs(t, err, bolt.ErrNoRedo)
	require.ErrorContains(t, err, "it goes as far as batch 5")
	require.ErrorContains(t, err, "the frames from 6 to 9 were not kept")

	for at, says := range map[int64]string{20: "header", 700: "frame 6"} { // the head, and the first frame
		damaged := changed(func(_ string, names []string) {
			raw, err := os.ReadFile(names[1])
			require.NoError(t, err)
			raw[at] ^= 1
			require.NoError(t, os.WriteFile(names[1], raw, 0o600))
		})
		err = restore(8, damaged)
		require.ErrorIs(t, err, bolt.ErrNoRedo)
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "it goes as far as batch 5")
	}
	for _, nth := range []int{0, 2} { // the frame that is damaged of the piece
		damaged := changed(func(_ string, names []string) {
			raw, err := os.ReadFile(names[1])
			require.NoError(t, err)
			at := 0
			for range nth + 1 {
				at += bytes.Index(raw[at:], []byte("FRAM")) + 50
			}
			raw[at] ^= 1
			require.NoError(t, os.WriteFile(names[1], raw, 0o600))
		})
		require.ErrorContains(t, restore(9, damaged), fmt.Sprintf("it goes as far as batch %d", 5+nth))
		for _, redo := range [][]string{{damaged, path + ".redo"}, {path + ".redo", damaged}} {
			_, err := bolt.Restore(ctx, backup, filepath.Join(t.TempDir(), "restored.db"), bolt.RestoreOptions{Batch: 9, Redo: redo})
			require.NoError(t, err, "the other folder has a copy that is whole")
		}
	}
	cut := changed(func(_ string, names []string) { require.NoError(t, os.Truncate(names[1], 1000)) })
	require.ErrorContains(t, restore(8, cut), "the file has 1000 bytes")

	_, other := redone(t, keepAll, 9)
	err = restore(8, other+".redo")
	require.ErrorIs(t, err, bolt.ErrNoRedo)
	both := changed(func(folder string, _ []string) { require.NoError(t, os.CopyFS(folder, os.DirFS(other+".redo"))) })
	require.NoError(t, restore(13, both), "another database's harms nothing")
	require.NoFileExists(t, filepath.Join(t.TempDir(), "restored.db"))
}

func TestWhereTwoCopiesWentOnFromOnePlaceARestoreRefusesToChoose(t *testing.T) {
	_, path := redone(t, keepAll, 4)
	dir := t.TempDir()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var redo []string
	for i, name := range []string{"one.db", "two.db"} {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, raw, 0o600))
		require.NoError(t, os.CopyFS(name+".journal", os.DirFS(path+".journal")))
		s := open(t, name, keepAll)
		goOn(t, s, 100*(i+1), 2)
		require.NoError(t, s.Close())
		redo = append(redo, name+".redo")
	}
	to := filepath.Join(dir, "to.db")
	_, err = bolt.Restore(ctx, path, to, bolt.RestoreOptions{Batch: 7, Redo: redo})
	require.ErrorIs(t, err, bolt.ErrNoRedo)
	require.ErrorContains(t, err, "two logs go on from the same frame")
	require.ErrorContains(t, err, redo[0])
	require.ErrorContains(t, err, redo[1])
	_, err = bolt.Restore(ctx, path, to, bolt.RestoreOptions{Batch: 7, Redo: redo[1:]})
	require.NoError(t, err)
	require.Equal(t, everything(t, compacted(t, filepath.Join(dir, "two.db"))), everything(t, to))
}

func TestARestoredDatabaseIsNotTakenForTheOldOne(t *testing.T) {
	backup, path := redone(t, keepAll, 4)
	dir := t.TempDir()
	restored := filepath.Join(dir, "orrery.db")
	_, err := bolt.Restore(ctx, backup, restored, bolt.RestoreOptions{Batch: 3, Redo: []string{path + ".redo"}})
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(restored+".redo", os.DirFS(path+".redo")), "it has the same redo folder as before")
	s := open(t, restored, keepAll)
	goOn(t, s, 50, 3) // other batches 4 to 6
	require.NoError(t, s.Close())
	want := everything(t, compacted(t, restored))

	old := filepath.Join(t.TempDir(), "old.db")
	_, err = bolt.Restore(ctx, backup, old, bolt.RestoreOptions{Batch: 5, Redo: []string{restored + ".redo"}})
	require.NoError(t, err)
	s = open(t, old, bolt.Options{})
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		_, err := tx.Get("action", testID(2))
		return err
	}), "the log that the backup is of goes on first")
	require.NoError(t, s.Close())

	// A backup of the restored one goes on as that did.
	at3, now := filepath.Join(dir, "at3.db"), filepath.Join(dir, "now.db")
	_, err = bolt.Restore(ctx, backup, at3, bolt.RestoreOptions{Batch: 3, Redo: []string{path + ".redo"}})
	require.NoError(t, err)
	fork := filepath.Join(dir, "fork.db")
	_, err = bolt.Restore(ctx, at3, fork, bolt.RestoreOptions{Batch: 5, Redo: []string{restored + ".redo"}})
	require.NoError(t, err)
	require.Equal(t, everything(t, old), everything(t, fork), "also where both go on from the very place")
	files, err := filepath.Glob(path + ".redo/*")
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.Remove(filepath.Join(restored+".redo", filepath.Base(f))))
	}
	_, err = bolt.Restore(ctx, at3, now, bolt.RestoreOptions{Batch: 6, Redo: []string{restored + ".redo"}})
	require.NoError(t, err)
	require.Equal(t, want, everything(t, now))

	for _, beside := range []string{".log", ".journal"} { // what the old one has left there
		s := open(t, path, bolt.Options{})
		require.NoError(t, commit(s, batchOf(70+len(beside), 1)))
		folder := filepath.Join(t.TempDir(), "orrery.db")
		require.NoError(t, os.CopyFS(folder+beside, os.DirFS(path+beside)))
		require.NoError(t, s.Close())
		raw, err := os.ReadFile(at3)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(folder, raw, 0o600))
		_, err = bolt.Open(folder, bolt.Options{})
		require.ErrorIs(t, err, bolt.ErrOtherLog, beside)
	}
}
