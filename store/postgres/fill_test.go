package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// broken gives some of another store's content, and then fails.
type broken struct{ store.Exporter }

var errBroken = errors.New("the line broke")

func (b broken) Export(ctx context.Context, to store.Sink) error {
	return errors.Join(b.Exporter.Export(ctx, to), errBroken)
}

// content is a store with so many records.
func content(t *testing.T, many byte) *memory.Store {
	t.Helper()
	st := memory.New()
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		var writes []store.Write
		for n := range many {
			writes = append(writes, store.Write{Kind: core.KindAction, ID: uuid.UUID{15: n + 1}, State: []byte(`{"n":1}`)})
		}
		require.NoError(t, tx.Put(1, writes))
		return tx.AppendJournal(1, 1000, []byte(`{}`))
	}))
	return st
}

func records(t *testing.T, st store.Store) (n int) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		return tx.Records(func(store.Record) error { n++; return nil })
	}))
	return n
}

func TestAPartitionThatIsFilledIsOpenedByNobodyUntilAllIsThere(t *testing.T) {
	url := postgrestest.Database(t)
	open := func(o postgres.Options) (*postgres.Store, error) { return postgres.Open(t.Context(), url, o) }
	begun, err := open(postgres.Options{Fill: true})
	require.NoError(t, err)
	require.ErrorIs(t, begun.Import(t.Context(), broken{content(t, 20)}), errBroken)
	for _, o := range []postgres.Options{{TakeOver: true}, {TakeOver: true, AcceptLoss: true}} {
		_, err := open(o)
		require.ErrorIs(t, err, postgres.ErrUnfilled)
	}
	cluster, err := postgres.Connect(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	defer cluster.Close()
	half, err := cluster.Look(t.Context(), 0)
	require.NoError(t, err)
	require.False(t, half.Lost)
	err = cluster.AcceptLoss(t.Context(), 0, half.Halted)
	require.ErrorIs(t, err, store.ErrNotLost)
	require.ErrorIs(t, err, postgres.ErrUnfilled)
	beside, err := open(postgres.Options{ReadOnly: true})
	require.NoError(t, err)
	require.ErrorIs(t, beside.View(t.Context(), func(store.ReadTx) error { return nil }), postgres.ErrUnfilled)
	require.NoError(t, begun.Close())
	_, err = open(postgres.Options{})
	require.ErrorIs(t, err, postgres.ErrUnfilled, "closing it changes nothing")
	assert.EqualError(t, err, "open the database: partition 0: it was being filled with another database's content, and that has not come to its end: fill it again")

	again, err := open(postgres.Options{Fill: true})
	require.NoError(t, err)
	require.NoError(t, again.Import(t.Context(), content(t, 3)))
	assert.Equal(t, 3, records(t, again), "what was left of the first attempt is gone")
	assert.Equal(t, 3, records(t, beside))
	require.NoError(t, again.Close())
	require.NoError(t, beside.Close())

	_, err = open(postgres.Options{Fill: true})
	require.ErrorIs(t, err, postgres.ErrFull)
	opened, err := open(postgres.Options{})
	require.NoError(t, err)
	assert.Equal(t, 3, records(t, opened))
	require.NoError(t, opened.Close())
}

func TestAFrozenFillerDeletesNothingOfWhatItsSuccessorHasFilled(t *testing.T) {
	for _, table := range []string{"entries", "log", "tables"} {
		t.Run(table, func(t *testing.T) {
			url := postgrestest.Database(t)
			begun, err := postgres.Open(t.Context(), url, postgres.Options{Fill: true})
			require.NoError(t, err)
			require.ErrorIs(t, begun.Import(t.Context(), broken{content(t, 20)}), errBroken)
			require.NoError(t, begun.Close())

			w, frozen, thaw := &wire{}, make(chan struct{}), make(chan struct{})
			freeze := sync.OnceFunc(func() { close(frozen); <-thaw })
			w.onSQL(func(sql string) {
				if strings.HasPrefix(sql, `DELETE FROM "orrery".`+table) {
					freeze()
				}
			})
			var late error
			var filler sync.WaitGroup
			filler.Go(func() {
				_, late = postgres.Open(t.Context(), url, w.options(postgres.Options{Fill: true, Lease: time.Minute}))
			})
			<-frozen
			next, err := postgres.Open(t.Context(), url, postgres.Options{Fill: true, TakeOver: true})
			require.NoError(t, err)
			require.NoError(t, next.Import(t.Context(), content(t, 7)))
			require.NoError(t, create(next, 0, 5)) // which is in the log alone
			close(thaw)
			filler.Wait()
			require.ErrorIs(t, late, store.ErrFenced)
			require.NoError(t, next.Close())
			again, err := postgres.Open(t.Context(), url, postgres.Options{})
			require.NoError(t, err)
			assert.Equal(t, 12, records(t, again))
			require.NoError(t, again.Close())
		})
	}
}
