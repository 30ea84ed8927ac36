package bolt_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/stream"
)

// testID makes an id of a number.
func testID(n int) uuid.UUID {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:], uint64(n)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(u[8:], uint64(n)+1)
	return u
}

// batchOf is a batch of new records, with all that goes with an action.
func batchOf(first, n int) []store.Write {
	var writes []store.Write
	for i := first; i < first+n; i++ {
		at := effects.Time(1_000_000 + i)
		writes = append(writes, store.Write{
			Kind: "action", ID: testID(i), State: fmt.Appendf(nil, `{"label":"action %d","status":{"type":"pending"}}`, i), Due: at,
			Terms: []store.Term{{Name: "all", At: at, Counted: true}, {Name: "status:pending", At: at, Counted: true}, {Name: "scope:ns\x1ftenant", At: at}},
		})
	}
	return writes
}

func commit(s store.Store, writes []store.Write) error {
	return s.Update(ctx, func(tx store.Tx) error {
		seq, err := tx.Seq()
		if err != nil {
			return err
		}
		if err := tx.Put(seq+1, writes); err != nil {
			return err
		}
		for _, w := range writes {
			if err := tx.PutOutbox(store.OutboxEntry{Key: store.EffectKey{ID: w.ID, N: 1}, Seq: seq + 1, Kind: w.Kind, Lane: "http", Effect: []byte(`{}`)}); err != nil {
				return err
			}
		}
		return tx.AppendJournal(seq+1, effects.Time(seq+1), fmt.Appendf(nil, `{"batch":%d}`, seq+1))
	})
}

// filled makes a closed database file of that many batches of 20.
func filled(t testing.TB, batches int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orrery.db")
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	for b := range batches {
		require.NoError(t, commit(s, batchOf(20*b, 20)))
	}
	require.NoError(t, s.Close())
	return path
}

func requireSound(t testing.TB, path string) {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	found, err := s.Check(ctx)
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, s.Close())
}

func TestOpenCreatesAPrivateFileAndItsFolderButNoMore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data", "orrery.db")
	s := open(t, path, bolt.Options{})
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	info, err = os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	assert.Equal(t, path, s.Path())
	_, err = bolt.Open(filepath.Join(dir, "a", "b", "orrery.db"), bolt.Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "the folder "+filepath.Join(dir, "a", "b")+" does not exist")
	_, err = os.Stat(filepath.Join(dir, "a"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestWhatWasCommittedIsThereAfterOpeningAgainInAnotherSession(t *testing.T) {
	path := filled(t, 3)
	a, err := bolt.Open(path, bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, a.Close())
	b := open(t, path, bolt.Options{})
	assert.NotEqual(t, a.Session(), b.Session())
	require.NoError(t, b.View(ctx, func(tx store.ReadTx) error {
		n, err := tx.Count("action", "all")
		require.NoError(t, err)
		assert.Equal(t, uint64(60), n)
		return nil
	}))
}

func TestAPathThatCannotBeADatabaseIsRefusedWithItsReason(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	foreign := filepath.Join(dir, "foreign.bolt")
	makeBolt(t, foreign, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("pets")); return err })
	unnamed := filepath.Join(dir, "unnamed.bolt")
	makeBolt(t, unnamed, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("system")); return err })
	for _, c := range []struct {
		path, text string
		is         error
		opts       bolt.Options
	}{
		{path: dir, text: "directory"},
		{path: file("sqlite.db", append([]byte("SQLite format 3\x00"), make([]byte, 20000)...)), is: bolt.ErrForeign},
		{path: file("short", []byte("x")), is: bolt.ErrForeign},
		{path: file("zeros", make([]byte, 1<<16)), is: bolt.ErrForeign},
		{path: file("stream", append([]byte(stream.Magic), make([]byte, 20000)...)), is: bolt.ErrForeign, text: "it is a backup as a stream, of which `orreryd restore` makes a database"},
		{path: file("short stream", []byte(stream.Magic)), is: bolt.ErrForeign, text: "orreryd restore"},
		{path: foreign, is: bolt.ErrForeign, text: `"pets"`},
		{path: unnamed, is: bolt.ErrForeign},
		{path: filepath.Join(dir, "none"), is: fs.ErrNotExist, opts: bolt.Options{ReadOnly: true}},
		{path: file("empty", nil), is: bolt.ErrForeign, opts: bolt.Options{ReadOnly: true}},
	} {
		_, err := bolt.Open(c.path, c.opts)
		require.ErrorContains(t, err, c.path)
		require.ErrorContains(t, err, c.text)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, c.path)
		}
	}
	s, err := bolt.Open(file("empty-for-writing", nil), bolt.Options{})
	require.NoError(t, err, "a process that ended while creating the file leaves an empty one")
	require.NoError(t, s.Close())
}

func TestCompactionMakesNoDatabaseOfWhatIsNone(t *testing.T) {
	dir := t.TempDir()
	empty, missing := filepath.Join(dir, "empty.db"), filepath.Join(dir, "missing.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err := bolt.CompactFile(ctx, empty)
	require.ErrorIs(t, err, bolt.ErrForeign)
	require.ErrorContains(t, err, "it is empty")
	_, err = bolt.CompactFile(ctx, missing)
	require.ErrorIs(t, err, fs.ErrNotExist)
	info, err := os.Stat(empty)
	require.NoError(t, err)
	assert.Zero(t, info.Size())
	_, err = os.Stat(missing)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestAPermissionThatIsMissingIsSaidOnceWithThePath(t *testing.T) {
	err := bolt.Explain(&fs.PathError{Op: "open", Path: "r.db", Err: syscall.EACCES})
	require.ErrorIs(t, err, bolt.ErrReadOnly)
	require.ErrorIs(t, err, fs.ErrPermission)
	assert.Equal(t, "read-only: no permission to write: permission denied", err.Error(), "Open names the path")
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err = bolt.Open(filepath.Join(dir, "orrery.db"), bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrReadOnly)
	require.ErrorContains(t, err, "none can be made in the folder "+dir)
}

func makeBolt(t testing.TB, path string, fn func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(fn))
	require.NoError(t, db.Close())
}

func TestAFileOfANewerFormatIsRefusedAndSaysWhich(t *testing.T) {
	path := filled(t, 1)
	makeBolt(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("system")).Put([]byte("format"), bolt.FormatValue("orrery", bolt.Format+1))
	})
	_, err := bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrNewer)
	require.ErrorContains(t, err, fmt.Sprintf("format %d, this one reads up to %d", bolt.Format+1, bolt.Format))
	makeBolt(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("system")).Put([]byte("format"), bolt.FormatValue("other", 1))
	})
	_, err = bolt.Open(path, bolt.Options{})
	require.ErrorIs(t, err, bolt.ErrForeign)
}

func TestASecondOpeningIsToldThatTheFileIsInUse(t *testing.T) {
	path := filled(t, 1)
	open(t, path, bolt.Options{})
	for _, o := range []bolt.Options{{LockTimeout: -1}, {LockTimeout: -1, ReadOnly: true}} {
		_, err := bolt.Open(path, o)
		require.ErrorIs(t, err, bolt.ErrLocked)
		require.ErrorContains(t, err, "another process")
	}
}

func TestReadersShareAStoppedDatabaseAndCannotWrite(t *testing.T) {
	path := filled(t, 2)
	require.NoError(t, os.Chmod(path, 0o400))
	a, b := open(t, path, bolt.Options{ReadOnly: true}), open(t, path, bolt.Options{ReadOnly: true})
	require.ErrorIs(t, a.Update(ctx, func(store.Tx) error { panic("called") }), bolt.ErrReadOnly)
	require.NoError(t, b.View(ctx, func(tx store.ReadTx) error {
		seq, err := tx.Seq()
		assert.Equal(t, uint64(2), seq)
		return err
	}))
	found, err := bolt.Check(ctx, path)
	require.NoError(t, err)
	assert.Empty(t, found)
	_, err = bolt.Open(path, bolt.Options{LockTimeout: -1})
	if os.Getuid() == 0 { // may write to any file
		require.ErrorIs(t, err, bolt.ErrLocked)
	} else {
		require.ErrorIs(t, err, bolt.ErrReadOnly)
	}
}

func TestAFileThatIsCutOffIsRefusedAtEveryLength(t *testing.T) {
	whole, err := os.ReadFile(filled(t, 10))
	require.NoError(t, err)
	used := usedBytes(whole)
	path := filepath.Join(t.TempDir(), "cut.db")
	for n := 1; n < used; n += 509 {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		for _, o := range []bolt.Options{{}, {ReadOnly: true}} {
			_, err := bolt.Open(path, o)
			require.Error(t, err, "%d bytes", n)
			require.True(t, errors.Is(err, store.ErrCorrupt) || errors.Is(err, bolt.ErrForeign) && n < 80, "%d bytes: %v", n, err)
		}
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(whole[:n], after), "a damaged file is not changed")
	}
	require.NoError(t, os.WriteFile(path, whole[:used], 0o600))
	requireSound(t, path)
}

// usedBytes is how much of a file bbolt uses: it grows in steps.
func usedBytes(b []byte) int {
	size := int(binary.NativeEndian.Uint32(b[24:]))
	meta := b[16:]
	if binary.NativeEndian.Uint64(b[size+16+48:]) > binary.NativeEndian.Uint64(b[16+48:]) {
		meta = b[size+16:]
	}
	return size * int(binary.NativeEndian.Uint64(meta[40:]))
}

// flipper gives a function that writes a filled file with one bit flipped, and gives the
// file and the place of the bit: half of them in the first bytes of a page, where the
// structure is.
func flipper(t *testing.T, r *rand.Rand, head int) func() (path string, at int) {
	whole, err := os.ReadFile(filled(t, 20))
	require.NoError(t, err)
	whole = whole[:usedBytes(whole)]
	path := filepath.Join(t.TempDir(), "flipped.db")
	return func() (string, int) {
		bad := bytes.Clone(whole)
		at := r.IntN(len(bad))
		if r.IntN(2) == 0 {
			at = at&^4095 + r.IntN(head)
		}
		bad[at] ^= 1 << r.IntN(8)
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		return path, at
	}
}

func TestAFlippedBitIsAnErrorOrMakesNoDifference(t *testing.T) {
	flip := flipper(t, rand.New(rand.NewPCG(1, 2)), 256)
	rounds := 500
	if testing.Short() {
		rounds = 150
	}
	refused, noticed := 0, 0
	for range rounds {
		path, at := flip()
		s, err := bolt.Open(path, bolt.Options{NoSync: true})
		if err != nil {
			require.True(t, errors.Is(err, store.ErrCorrupt) || errors.Is(err, bolt.ErrForeign) || errors.Is(err, bolt.ErrNewer), "byte %d: %v", at, err)
			refused++
			continue
		}
		found, err := s.Check(ctx)
		require.NoError(t, err)
		if len(found) > 0 {
			noticed++
		}
		readAll(t, s, at)
		_ = commit(s, batchOf(100_000, 5)) // may fail, must not crash
		require.NoError(t, s.Close())
	}
	t.Logf("%d flips: Open refused %d, Check found %d more", rounds, refused, noticed)
	assert.NotZero(t, refused)
	assert.NotZero(t, noticed)
}

// readAll holds every record and batch that can be read to be the true one.
func readAll(t *testing.T, s *bolt.Store, at int) {
	want := map[uuid.UUID]string{}
	for _, w := range batchOf(0, 400) {
		want[w.ID] = string(w.State)
	}
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		for id, state := range want {
			r, err := tx.Get("action", id)
			if err != nil {
				require.True(t, errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound), "byte %d: %v", at, err)
				continue
			}
			require.Equal(t, state, string(r.State))
		}
		_ = tx.Records(func(r store.Record) error {
			require.Equal(t, want[r.ID], string(r.State))
			return nil
		})
		_ = tx.Journal(0, func(seq uint64, b []byte) error {
			require.Equal(t, fmt.Sprintf(`{"batch":%d}`, seq), string(b))
			return nil
		})
		_ = tx.Outbox(func(e store.OutboxEntry) error { return nil })
		_, _ = tx.Due(nil, nil, effects.MaxTime, 10_000)
		_, _ = tx.Scan("action", "all", store.Cursor{}, true, 10_000)
		_, _ = tx.Waiting("http", 10_000)
		_, _ = tx.WaitingLanes()
		return nil
	}))
}

const childEnv = "ORRERY_TEST_STORE_CHILD"

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		writeUntilKilled(path)
	}
	if path := os.Getenv(receiveEnv); path != "" {
		receiveUntilKilled(path)
	}
	if what := os.Getenv(makeEnv); what != "" {
		makeUntilKilled(what)
	}
	os.Exit(m.Run())
}

// writeUntilKilled commits batch after batch, and names each that is durable.
func writeUntilKilled(path string) {
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	for {
		var seq uint64
		err := s.View(ctx, func(tx store.ReadTx) (err error) { seq, err = tx.Seq(); return err })
		if err == nil {
			err = commit(s, batchOf(int(seq)*5, 5))
		}
		if err != nil {
			fmt.Println("commit:", err)
			os.Exit(1)
		}
		fmt.Println("durable", seq+1)
	}
}

func TestAProcessThatIsKilledLosesNothingThatItWasToldIsDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines, last := bufio.NewScanner(out), uint64(0)
		stopAfter := 1 + r.IntN(12)
		for n := 0; lines.Scan(); n++ {
			_, err := fmt.Sscanf(lines.Text(), "durable %d", &last)
			require.NoError(t, err, lines.Text())
			if n == stopAfter { // it is somewhere in the next commit
				require.NoError(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait()
		s, err := bolt.Open(path, bolt.Options{})
		require.NoError(t, err)
		require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
			seq, err := tx.Seq()
			require.NoError(t, err)
			require.GreaterOrEqual(t, seq, last)
			n, err := tx.Count("action", "all")
			require.NoError(t, err)
			require.Equal(t, 5*seq, n, "a batch is there whole or not at all")
			return nil
		}))
		require.NoError(t, s.Close())
	}
	requireSound(t, path)
}

func TestARoundTripThroughNamesThatLookAlikeIsTold(t *testing.T) {
	path := filled(t, 1)
	s := open(t, path, bolt.Options{})
	err := s.View(ctx, func(tx store.ReadTx) error { _, err := tx.Get("action", uuid.Max); return err })
	var re *store.RecordError
	require.ErrorAs(t, err, &re)
	assert.Equal(t, uuid.Max, re.ID)
	assert.True(t, strings.HasPrefix(err.Error(), "get action/ffffffff"))
}
