package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// makers are all that make a database file; each gets a whole database, a stream of it, and where to make it.
var makers = map[string]func(from string, sent []byte, to string) error{
	"backup": func(from string, _ []byte, to string) error {
		s, err := bolt.Open(from, bolt.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		_, err = s.BackupFile(ctx, to)
		return err
	},
	"receive": func(_ string, sent []byte, to string) error {
		_, err := bolt.ReceiveBackup(ctx, to, bytes.NewReader(sent), nil)
		return err
	},
	"compact": func(from string, _ []byte, to string) error {
		_, err := bolt.Compact(ctx, from, to)
		return err
	},
	"restore": func(from string, _ []byte, to string) error {
		_, err := bolt.Restore(ctx, from, to, bolt.RestoreOptions{})
		return err
	},
	"restore a stream": func(from string, sent []byte, to string) error {
		kept := from + ".stream"
		if err := os.WriteFile(kept, sent, 0o600); err != nil {
			return err
		}
		_, err := bolt.Restore(ctx, kept, to, bolt.RestoreOptions{})
		return err
	},
	"salvage": func(from string, _ []byte, to string) error {
		_, err := bolt.Salvage(ctx, from, to, bolt.SalvageOptions{})
		return err
	},
}

// sources gives a database with three batches, and its stream.
func sources(t *testing.T) (from string, sent []byte) {
	from = filled(t, 3)
	var b bytes.Buffer
	s, err := bolt.Open(from, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	_, err = s.Backup(ctx, &b)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return from, b.Bytes()
}

func TestNothingThatMakesAFileTakesTheLogOrTheJournalOfAnother(t *testing.T) {
	from, sent := sources(t)
	for name, make := range makers {
		for _, beside := range []string{".journal", ".log"} {
			to := filepath.Join(t.TempDir(), "copy.db")
			require.NoError(t, os.Mkdir(to+beside, 0o700))
			err := make(from, sent, to)
			require.ErrorIs(t, err, os.ErrExist, name)
			require.ErrorContains(t, err, "the folder "+to+beside+" stands there without the database file", name)
			assert.Equal(t, []string{"copy.db" + beside}, namesIn(t, filepath.Dir(to)), name)
		}
	}
}

func TestWhatMakesAFileRemovesWhatAKilledMakerHasLeftAndNothingElse(t *testing.T) {
	from, sent := sources(t)
	for name, make := range makers {
		to := filepath.Join(t.TempDir(), "a[b].db")
		require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(to), ".a[b].db.new-1"), 0o700)) // killed before its lock
		left := filepath.Join(filepath.Dir(to), ".a[b].db.new-2")
		require.NoError(t, os.MkdirAll(filepath.Join(left, "file.journal"), 0o700))
		for _, file := range []string{"lock", "file", "file.journal/1.past"} { // its lock was not whole
			require.NoError(t, os.WriteFile(filepath.Join(left, file), []byte("half"), 0o600))
		}
		others := filepath.Join(filepath.Dir(to), ".ab.db.new-1")
		require.NoError(t, os.Mkdir(others, 0o700))
		require.NoError(t, bolt.NewFile(to+".other", func(io.Writer) error {
			return make(from, sent, to)
		}), name)
		names := namesIn(t, filepath.Dir(to))
		assert.Subset(t, []string{".ab.db.new-1", "a[b].db", "a[b].db.journal", "a[b].db.other"}, names, name)
		assert.Contains(t, names, ".ab.db.new-1", name)
		requireSound(t, to)
	}
}

// TestAMakerLeavesAnotherOneOfTheSameNameAlone: the second one is done before the first.
func TestAMakerLeavesAnotherOneOfTheSameNameAlone(t *testing.T) {
	from, sent := sources(t)
	for name, make := range makers {
		to := filepath.Join(t.TempDir(), "copy.db")
		err := bolt.NewFile(to, func(w io.Writer) error {
			require.NoError(t, make(from, sent, to), name)
			_, err := w.Write(sent)
			return err
		})
		require.ErrorIs(t, err, os.ErrExist, name)
		require.NotContains(t, namesIn(t, filepath.Dir(to)), ".copy.db.new")
		requireSound(t, to)
	}
}

// intruder is an exporter in whose time a folder appears.
type intruder struct {
	*bolt.Store
	folder string
}

func (i intruder) Export(ctx context.Context, to store.Sink) error {
	return errors.Join(i.Store.Export(ctx, to), os.Mkdir(i.folder, 0o700))
}

func TestAJournalThatAppearsWhileAFileIsMadeIsNotTaken(t *testing.T) {
	to := filepath.Join(t.TempDir(), "copy.db")
	_, err := bolt.MakeFile(ctx, to, intruder{open(t, filled(t, 3), bolt.Options{ReadOnly: true}), to + ".journal"})
	require.ErrorIs(t, err, os.ErrExist)
	assert.Equal(t, []string{"copy.db.journal"}, namesIn(t, filepath.Dir(to)))
	assert.Empty(t, namesIn(t, to+".journal"))
}

const makeEnv = "ORRERY_TEST_MAKE_CHILD"

// makeUntilKilled makes a file as one of the makers does: the variable has its name, the source and the new file.
func makeUntilKilled(what string) {
	part := strings.Split(what, "|")
	sent, err := os.ReadFile(part[1] + ".sent")
	if err == nil {
		err = makers[part[0]](part[1], sent, part[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestAMakerThatIsKilledLeavesNoFileOrAWholeOneWithItsJournal kills each of them when it has come to some
// step, or a little later; the next one then makes the file.
func TestAMakerThatIsKilledLeavesNoFileOrAWholeOneWithItsJournal(t *testing.T) {
	r := rand.New(rand.NewPCG(seedtest.Seed(t), 5))
	from, sent := sources(t)
	require.NoError(t, os.WriteFile(from+".sent", sent, 0o600))
	s := open(t, from, bolt.Options{ReadOnly: true})
	want := journalOf(t, s)
	require.NoError(t, s.Close())
	without, whole := 0, 0
	for _, name := range slices.Sorted(maps.Keys(makers)) {
		for _, step := range []string{".copy.db.new-*", ".copy.db.new-*/file", ".copy.db.new-*/file.journal", "copy.db.journal", "copy.db"} {
			dir := t.TempDir()
			to := filepath.Join(dir, "copy.db")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), makeEnv+"="+name+"|"+from+"|"+to)
			require.NoError(t, cmd.Start())
			var failed error
			ended := make(chan struct{})
			go func() {
				failed = cmd.Wait()
				close(ended)
			}()
			for there, over := false, false; !there && !over; {
				found, err := filepath.Glob(filepath.Join(dir, step))
				require.NoError(t, err)
				there = len(found) > 0
				select {
				case <-ended: // it made the file without that step, or faster than it was looked at
					require.NoError(t, failed, name)
					over = true
				default:
					runtime.Gosched()
				}
			}
			for range r.IntN(2000) {
				runtime.Gosched()
			}
			_ = cmd.Process.Kill()
			<-ended

			what := fmt.Sprintf("%s, killed behind %s", name, step)
			if _, err := os.Lstat(to); err == nil {
				whole++
			} else {
				without++
				require.NoError(t, os.RemoveAll(to+".journal"), "as the error says that the next one gives")
				require.NoError(t, makers[name](from, sent, to), what)
				assert.Subset(t, []string{"copy.db", "copy.db.journal"}, namesIn(t, dir), what)
			}
			requireSound(t, to)
			s := open(t, to, bolt.Options{ReadOnly: true})
			assert.Equal(t, want, journalOf(t, s), what)
			require.NoError(t, s.Close())
		}
	}
	t.Logf("%d kills left no file, %d a whole one", without, whole)
	require.Positive(t, without)
	require.Positive(t, whole)
}

// TestMakersOfOneNameAtOnceMakeOneFile: each takes what the others have just begun, or are about to remove, for what a killed
// one has left, unless it is locked.
func TestMakersOfOneNameAtOnceMakeOneFile(t *testing.T) {
	for range 30 {
		to := filepath.Join(t.TempDir(), "copy.db")
		var makers sync.WaitGroup
		var made atomic.Int64
		for range 6 {
			makers.Go(func() {
				err := bolt.NewFile(to, func(w io.Writer) error {
					_, err := w.Write([]byte("x"))
					return err
				})
				if err == nil {
					made.Add(1)
				} else {
					assert.ErrorIs(t, err, os.ErrExist)
					assert.NotErrorIs(t, err, syscall.ENOTEMPTY) // which is an os.ErrExist, too
				}
			})
		}
		makers.Wait()
		require.EqualValues(t, 1, made.Load())
		require.Equal(t, []string{"copy.db"}, namesIn(t, filepath.Dir(to)))
	}
}
