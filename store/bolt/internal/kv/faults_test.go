package kv_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt/internal/disk"
	"github.com/orrery-go/orrery/store/bolt/internal/kv"
)

func putText(db *opened, key, value string) error {
	tx, err := db.Begin(context.Background(), true)
	if err != nil {
		return err
	}
	tx.Table("a").Put([]byte(key), []byte(value))
	return tx.Commit()
}

func get(t *testing.T, db *opened, key string) string {
	t.Helper()
	tx, err := db.Begin(context.Background(), false)
	require.NoError(t, err)
	defer tx.Rollback()
	v, _ := tx.Table("a").Get([]byte(key))
	return string(v)
}

// stubborn is a file system in which no name can be changed while it is set.
type stubborn struct {
	disk.FS
	set *atomic.Bool
}

func (s stubborn) Rename(from, to string) error {
	if s.set.Load() {
		return errors.New("not now")
	}
	return s.FS.Rename(from, to)
}

func (s stubborn) Remove(path string) error {
	if s.set.Load() {
		return errors.New("not now")
	}
	return s.FS.Remove(path)
}

func TestNothingIsAcknowledgedInALogThatTheFileNoLongerNeeds(t *testing.T) {
	dir := t.TempDir()
	var set atomic.Bool
	db := openAt(t, filepath.Join(dir, "orrery.db"), func(o *kv.Options) { o.Segment, o.FS = 4<<10, stubborn{disk.OS, &set} })
	want := strings.Repeat("x", 300)
	for range 40 {
		require.NoError(t, putText(db, "k", want))
	}
	set.Store(true)
	require.ErrorContains(t, db.Settle(), "not now")
	set.Store(false)
	if putText(db, "k", "acknowledged") == nil {
		want = "acknowledged"
	}
	again := db.crashed(t, dir)
	require.Equal(t, want, get(t, again, "k"))
	require.NoError(t, again.Close())
	require.NoError(t, db.Close())
}

func TestAFileDoesNotRemoveTheLogOfAnotherThatTookItsPlace(t *testing.T) {
	dir := t.TempDir()
	db := openAt(t, filepath.Join(dir, "orrery.db"), nil)
	require.NoError(t, putText(db, "k", "old"))
	require.NoError(t, os.Rename(db.path, filepath.Join(dir, "moved.db")))
	require.NoError(t, os.Rename(db.path+".log", filepath.Join(dir, "moved.db.log")))
	other := openAt(t, db.path, nil)
	require.NoError(t, putText(other, "k", "new"))
	_ = db.Close()
	again := other.crashed(t, t.TempDir())
	require.Equal(t, "new", get(t, again, "k"))
	require.NoError(t, again.Close())
	require.NoError(t, other.Close())
}

func TestAFileWhoseFirstCommitMayHaveFailedOpensAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	db := openAt(t, path, nil)
	db.OnWrite(func() { panic("as where the last sync has failed: what was written is there") })
	require.Error(t, putText(db, "k", "1"))
	_ = db.Close()
	again := openAt(t, path, nil)
	require.Empty(t, get(t, again, "k"))
	require.NoError(t, putText(again, "k", "2"))
	require.NoError(t, again.Close())
}

// unsynced is a file system that syncs no file while it is set, as a disk that has failed:
// what was written can be read all the same.
type unsynced struct {
	disk.FS
	set *atomic.Bool
}

func (u unsynced) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := u.FS.OpenFile(path, flag, mode)
	return unsyncedFile{f, u.set}, err
}

type unsyncedFile struct {
	disk.File
	set *atomic.Bool
}

func (u unsyncedFile) Sync() error {
	if u.set.Load() {
		return syscall.EIO
	}
	return u.File.Sync()
}

func TestACommitWhoseSyncFailedIsNotSaidToBeUndone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	var set atomic.Bool
	db := openAt(t, path, func(o *kv.Options) { o.NoSync, o.FS = false, unsynced{disk.OS, &set} })
	require.NoError(t, putText(db, "k", "1"))
	set.Store(true)

	err := putText(db, "k", "2")

	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, kv.ErrUnknownOutcome)
	require.ErrorIs(t, err, store.ErrUnconfirmed)
	<-db.Over()
	require.ErrorIs(t, db.Broken(), syscall.EIO)
	err = putText(db, "k", "3")
	require.ErrorIs(t, err, kv.ErrUnknownOutcome)
	require.NotErrorIs(t, err, store.ErrUnconfirmed, "nothing was written")
	_ = db.Close()
	again := openAt(t, path, nil)
	require.Equal(t, "2", get(t, again, "k"))
	require.NoError(t, again.Close())
}

// syncs counts the syncs of files, and lets each wait for a value if there is a channel.
type syncs struct {
	disk.FS
	n    *atomic.Int64
	wait *atomic.Pointer[chan struct{}]
}

func (s syncs) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := s.FS.OpenFile(path, flag, mode)
	return countedFile{f, s}, err
}

type countedFile struct {
	disk.File
	syncs
}

func (c countedFile) Sync() error {
	c.n.Add(1)
	if wait := c.wait.Load(); wait != nil {
		<-*wait
	}
	return c.File.Sync()
}

func stageText(t *testing.T, db *opened, key, value string) kv.Staged {
	t.Helper()
	tx, err := db.Begin(t.Context(), true)
	require.NoError(t, err)
	tx.Table("a").Put([]byte(key), []byte(value))
	s, err := tx.Stage()
	require.NoError(t, err)
	return s
}

func openCounted(t *testing.T) (*opened, syncs) {
	s := syncs{disk.OS, new(atomic.Int64), new(atomic.Pointer[chan struct{}])}
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), func(o *kv.Options) { o.NoSync, o.FS = false, s })
	require.NoError(t, putText(db, "k", "0"))
	return db, s
}

func TestWhatIsStagedIsSeenByWhoWritesAndByOthersOnceItIsDurable(t *testing.T) {
	db, _ := openCounted(t)
	first := stageText(t, db, "k", "1")
	second := stageText(t, db, "l", "2")
	require.Equal(t, "0", get(t, db, "k"))
	tx, err := db.Begin(t.Context(), true)
	require.NoError(t, err)
	v, _ := tx.Table("a").Get([]byte("k"))
	require.Equal(t, "1", string(v))
	seen, number := tx.Seen(), tx.Last()
	tx.Rollback()
	require.Equal(t, "0", get(t, db, "k"), "who only looked has synced nothing yet")

	require.NoError(t, seen.Wait())

	require.Equal(t, "1", get(t, db, "k"))
	require.Equal(t, "2", get(t, db, "l"))
	require.NoError(t, first.Wait())
	require.NoError(t, second.Wait())
	tx, err = db.Begin(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, number, tx.Last())
	tx.Rollback()
	require.NoError(t, db.Close())
}

func TestManyThatWaitForTheDiskShareOneSync(t *testing.T) {
	db, s := openCounted(t)
	var staged []kv.Staged
	for range 10 {
		staged = append(staged, stageText(t, db, "k", "1"))
	}
	before := s.n.Load()
	require.NoError(t, putText(db, "l", "2"))
	for _, c := range staged {
		require.NoError(t, c.Wait())
	}
	require.EqualValues(t, 1, s.n.Load()-before)
	require.NoError(t, db.Close())
}

func TestACheckpointTakesNothingThatIsNotSynced(t *testing.T) {
	db, s := openCounted(t)
	wait := make(chan struct{})
	s.wait.Store(&wait)
	staged := stageText(t, db, "k", "1")
	made := make(chan error)
	go func() { made <- db.Checkpoint() }()
	wait <- struct{}{} // the sync of the frame, without which no checkpoint comes so far
	s.wait.Store(nil)
	require.NoError(t, <-made)
	require.Equal(t, "1", get(t, db, "k"))
	require.NoError(t, staged.Wait())
	require.NoError(t, db.Close())
}

func TestAfterAFailedSyncNothingThatWasStagedIsAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	var set atomic.Bool
	db := openAt(t, path, func(o *kv.Options) { o.NoSync, o.FS = false, unsynced{disk.OS, &set} })
	require.NoError(t, putText(db, "k", "1"))
	first := stageText(t, db, "k", "2")
	tx, err := db.Begin(t.Context(), true)
	require.NoError(t, err)
	seen := tx.Seen()
	tx.Rollback()
	second := stageText(t, db, "k", "3")
	set.Store(true)
	require.ErrorIs(t, second.Wait(), store.ErrUnconfirmed)
	set.Store(false) // the page cache lies from now on

	require.ErrorIs(t, first.Wait(), store.ErrUnconfirmed)
	require.ErrorIs(t, first.Wait(), kv.ErrUnknownOutcome)
	require.ErrorIs(t, seen.Wait(), kv.ErrUnknownOutcome)
	require.NotErrorIs(t, seen.Wait(), store.ErrUnconfirmed, "it has written nothing")
	require.ErrorIs(t, putText(db, "k", "4"), kv.ErrUnknownOutcome)
	_, err = db.Begin(t.Context(), false)
	require.ErrorIs(t, err, kv.ErrUnknownOutcome)
	require.ErrorIs(t, db.Checkpoint(), kv.ErrUnknownOutcome)
	_ = db.Close()
	again := openAt(t, path, nil)
	require.Equal(t, "3", get(t, again, "k"))
	require.NoError(t, again.Close())
}

func TestTheLogOfAClosedFileIsNotRemovedWhereItHasMoreThanTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	db := openAt(t, path, nil)
	require.NoError(t, putText(db, "k", "1"))
	require.NoError(t, putText(db, "k", "2"))
	again := db.crashed(t, filepath.Dir(path))
	require.NoError(t, os.CopyFS(path+".kept", os.DirFS(path+".log")))
	require.NoError(t, again.Close())
	require.NoError(t, db.Close())
	closedWith := func(frame int) {
		b, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, b.Update(func(tx *bbolt.Tx) error {
			var state map[string]any
			bucket := tx.Bucket([]byte("log"))
			require.NoError(t, json.Unmarshal(bucket.Get([]byte("state")), &state))
			state["frame"] = frame
			raw, err := json.Marshal(state)
			require.NoError(t, err)
			return bucket.Put([]byte("state"), raw)
		}))
		require.NoError(t, b.Close())
	}
	require.NoError(t, os.Rename(path+".kept", path+".log"))
	for _, readOnly := range []bool{true, false} {
		closedWith(1)
		b, err := bbolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		o := options(path)
		o.ReadOnly = readOnly
		_, err = kv.New(b, o)
		require.ErrorIs(t, err, kv.ErrOtherLog)
		require.ErrorContains(t, err, "it goes on to frame 2, the file was closed with frame 1")
		require.NoError(t, b.Close())
		require.DirExists(t, path+".log")
	}
	closedWith(2)
	require.NoError(t, openAt(t, path, nil).Close())
	require.NoDirExists(t, path+".log")
}

func TestWhoHoldsCheckpointsWaitsNoLongerThanItsContext(t *testing.T) {
	db := openAt(t, filepath.Join(t.TempDir(), "orrery.db"), nil)
	release, err := db.Hold(context.Background())
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("no longer"))
	_, err = db.Hold(ctx)
	require.EqualError(t, err, "no longer")
	release()
	require.NoError(t, db.Close())
}
