package bolt_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/stream"
)

// backupOf gives the stream of a store with that many batches.
func backupOf(t *testing.T, batches int) []byte {
	t.Helper()
	var sent bytes.Buffer
	_, err := open(t, filled(t, batches), bolt.Options{ReadOnly: true}).Backup(ctx, &sent)
	require.NoError(t, err)
	return sent.Bytes()
}

// namesIn gives the names in a folder.
func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}

func TestABackupDoesNotTakeTheJournalOfAnotherFile(t *testing.T) {
	file, err := os.ReadFile(filled(t, 3)) // which an earlier daemon sends
	require.NoError(t, err)
	for name, sent := range map[string][]byte{"a stream": backupOf(t, 3), "a file": file} {
		for _, beside := range []string{".journal", ".log"} {
			to := filepath.Join(t.TempDir(), "copy.db")
			require.NoError(t, os.Mkdir(to+beside, 0o700))
			_, err := bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent), nil)
			require.ErrorIs(t, err, os.ErrExist, name)
			require.ErrorContains(t, err, "the folder "+to+beside+" stands there without the database file")
			assert.Equal(t, []string{"copy.db" + beside}, namesIn(t, filepath.Dir(to)), name)
		}
	}
}

const receiveEnv = "ORRERY_TEST_RECEIVE_CHILD"

// receiveUntilKilled makes a file of the backup on the standard input, and says when it has read a block.
func receiveUntilKilled(path string) {
	_, err := bolt.ReceiveBackup(ctx, path, os.Stdin, func(p stream.Progress) { fmt.Println(p.Section) })
	fmt.Println("ended:", err)
	os.Exit(1)
}

// TestAReceiverThatIsKilledLeavesNoFileUnderTheName kills one after each block, with all but the last byte sent.
func TestAReceiverThatIsKilledLeavesNoFileUnderTheName(t *testing.T) {
	sent := backupOf(t, 3)
	for blocks, more := 1, true; more; blocks++ {
		to := filepath.Join(t.TempDir(), "copy.db")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), receiveEnv+"="+to)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = in.Write(sent[:len(sent)-1])
		require.NoError(t, err)
		lines := bufio.NewScanner(out)
		for range blocks {
			require.True(t, lines.Scan())
		}
		require.NotContains(t, lines.Text(), "ended")
		more = lines.Text() != "epochs" // the last one before the end
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		left := namesIn(t, filepath.Dir(to))
		assert.NotContains(t, left, "copy.db")
		assert.NotContains(t, left, "copy.db.journal")
		assert.NotEmpty(t, left)
		_, err = bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent), nil)
		require.NoError(t, err)
		assert.Equal(t, []string{"copy.db", "copy.db.journal"}, namesIn(t, filepath.Dir(to)), "what was left is removed")
		requireSound(t, to)
	}
}

func TestTheJournalOfACopyIsPrivateToo(t *testing.T) {
	to := filepath.Join(t.TempDir(), "copy.db")
	_, err := bolt.ReceiveBackup(ctx, to, bytes.NewReader(backupOf(t, 3)), nil)
	require.NoError(t, err)
	info, err := os.Stat(to + ".journal")
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	files := namesIn(t, to+".journal")
	require.NotEmpty(t, files)
	for _, name := range files {
		info, err := os.Stat(filepath.Join(to+".journal", name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
}

// ahead is an exporter whose head says one batch more than comes.
type ahead struct{ *bolt.Store }

func (a ahead) Export(ctx context.Context, to store.Sink) error {
	return a.Store.Export(ctx, aheadSink{to})
}

type aheadSink struct{ store.Sink }

func (s aheadSink) Begin(h store.Head) error {
	h.Seq++
	return s.Sink.Begin(h)
}

// TestAFileThatCannotBeMadeLeavesNoJournalEither: it fails when all was brought into file and journal.
func TestAFileThatCannotBeMadeLeavesNoJournalEither(t *testing.T) {
	to := filepath.Join(t.TempDir(), "copy.db")
	_, err := bolt.MakeFile(ctx, to, ahead{open(t, filled(t, 3), bolt.Options{ReadOnly: true})})
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, "the journal ends with batch 3, the head says 4")
	assert.Empty(t, namesIn(t, filepath.Dir(to)))
}
