package engine

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
)

// listEntry is one entry of a list index.
type listEntry struct {
	kind effects.Kind
	term string
	at   effects.Time
	id   uuid.UUID
}

// listsOf gives the entries of all lists, as they are and as the records have them, and the
// records themselves.
func listsOf(t *testing.T, st store.Store) (are, should []listEntry, records []store.Record) {
	t.Helper()
	byName := func(a, b listEntry) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.term, b.term), cmp.Compare(a.at, b.at), bytes.Compare(a.id[:], b.id[:]))
	}
	const all = 1 << 20
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		kinds := map[effects.Kind]bool{}
		err := tx.Records(func(r store.Record) error {
			kinds[r.Kind] = true
			r.State = bytes.Clone(r.State)
			records = append(records, r)
			s, err := core.DecodeState(r.Kind, r.State)
			require.NoError(t, err)
			for _, term := range s.Terms() {
				should = append(should, listEntry{r.Kind, term.Name, term.At, r.ID})
			}
			return nil
		})
		require.NoError(t, err)
		for kind := range kinds {
			names, err := tx.TermNames(kind, "", all)
			require.NoError(t, err)
			for _, name := range names {
				found, err := tx.Scan(kind, name, store.Cursor{}, false, all)
				require.NoError(t, err)
				for _, c := range found {
					are = append(are, listEntry{kind, name, c.At, c.ID})
				}
			}
		}
		return nil
	}))
	slices.SortFunc(are, byName)
	slices.SortFunc(should, byName)
	return are, should, records
}

func unpacked(t *testing.T, path string) *bolt.Store {
	t.Helper()
	packed, err := os.ReadFile(path)
	require.NoError(t, err)
	in, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	plain, err := io.ReadAll(in)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "orrery.db")
	require.NoError(t, os.WriteFile(name, plain, 0o600))
	st, err := bolt.Open(name, bolt.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// The databases are those of earlier commits that replay verifies.
func TestTheRecordsOfAnEarlierCommitStandInTheListsOfThisOneAlsoIfItIsKilledMeanwhile(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "replay", "testdata", "written-by-*", "*.db.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		for name, killed := range map[string]bool{"at once": false, "killed again and again": true} {
			t.Run(filepath.Base(path)+"/"+name, func(t *testing.T) {
				st := unpacked(t, path)
				are, should, before := listsOf(t, st)
				require.NotEqual(t, should, are, "it is of an earlier version")
				e, err := New(Options{Store: st})
				require.NoError(t, err)
				require.ErrorIs(t, e.Indexed(t.Context()), ErrReindexing)
				for killed {
					killed = !reindexedSome(t, st)
				}
				require.NoError(t, e.reindex(t.Context()))

				require.NoError(t, e.Indexed(t.Context()))
				are, should, after := listsOf(t, st)
				require.Equal(t, should, are)
				require.Equal(t, before, after, "no record is written")
				problems, err := st.Check(t.Context())
				require.NoError(t, err)
				require.Empty(t, problems, "totals fit, too")
			})
		}
	}
}

// reindexedSome is a process that is killed after one part, and reports whether that was the last one.
func reindexedSome(t *testing.T, st store.Store) bool {
	t.Helper()
	e, err := New(Options{Store: st})
	require.NoError(t, err)
	require.ErrorIs(t, e.Indexed(t.Context()), ErrReindexing)
	var x indexes
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		x, err = readIndexes(tx)
		return err
	}))
	x, n, err := e.reindexPart(t.Context(), x, 7)
	require.NoError(t, err)
	require.LessOrEqual(t, n, 7)
	return x.Done
}

func TestAnEmptyDatabaseIsNotedAsOneOfThisVersion(t *testing.T) {
	st := memory.New()
	e, err := New(Options{Store: st})
	require.NoError(t, err)
	require.NoError(t, e.reindex(t.Context()))
	require.NoError(t, e.loop.register(t.Context()))
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.AppendJournal(1, 1, []byte(`{}`)) }))
	again, err := New(Options{Store: st})
	require.NoError(t, err)
	assert.NoError(t, again.Indexed(t.Context()))
}

func TestAPartOfTheReindexingThatIsNotStoredIsDoneAgain(t *testing.T) {
	st := memory.New()
	a := core.Action{ActionSpec: core.ActionSpec{ID: uuid.UUID{1}, ToolName: "x"}, Status: core.Status{Type: core.StatusCompleted}, CreatedAt: 5, UpdatedAt: 6}
	w := store.Write{Kind: core.KindAction, ID: a.ID, State: a.AppendJSON(nil), Terms: append(core.FormerTerms(a), store.Term{Name: core.TermAll, At: 5, Counted: true})}
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		return errors.Join(tx.Put(1, []store.Write{w}), tx.AppendJournal(1, 1, []byte(`{}`)))
	}))
	e, err := New(Options{Store: st})
	require.NoError(t, err)
	full := errors.New("disk full")
	st.FailNextCommit(full)
	require.ErrorIs(t, e.reindex(t.Context()), full)
	require.ErrorIs(t, e.Indexed(t.Context()), ErrReindexing)
	require.NoError(t, e.reindex(t.Context()))
	are, should, _ := listsOf(t, st)
	assert.Equal(t, should, are)
	assert.Len(t, are, 4, "all, status, tool, end")
}
