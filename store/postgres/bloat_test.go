package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// remove deletes what put has made in the batch seq, as a queue and its retention do.
func remove(tx store.Tx, seq uint64, first, many int) error {
	writes := make([]store.Write, many)
	for i := range writes {
		r, err := tx.Get("action", id(first+i))
		if err != nil {
			return err
		}
		at := effects.Time(1_000_000 + first + i)
		writes[i] = store.Write{Kind: "action", ID: id(first + i), Prev: store.Prev{Version: r.Version, Seq: seq, Due: at, Terms: []store.Term{
			{Name: "all", At: at, Counted: true}, {Name: "status:pending", At: at, Counted: true},
		}}}
		if err := tx.DeleteOutbox(store.EffectKey{ID: id(first + i), N: 1}); err != nil {
			return err
		}
	}
	if err := tx.Put(seq+1, writes); err != nil {
		return err
	}
	return tx.AppendJournal(seq+1, 1, []byte(`{}`))
}

// TestTablesDoNotGrowWithWhatComesAndGoes has items come, be brought into the tables, and go again, over and over: what
// autovacuum cleans up is used anew. Beside a View that stays open nothing can be; once it has ended, all is used anew, too.
func TestTablesDoNotGrowWithWhatComesAndGoes(t *testing.T) {
	rounds, many := 4, 100
	if os.Getenv("ORRERY_SLOW") == "1" {
		rounds, many = 40, 1000
	}
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true, Settings: map[string]string{"autovacuum_naptime": "1s", "autovacuum_vacuum_cost_delay": "0"}})
	url := server.Database(t)
	s := open(t, url, postgres.Options{Checkpoint: time.Hour})
	c, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(ctx)) }()
	number := func(sql string) (n int64) {
		require.NoError(t, c.QueryRow(ctx, sql).Scan(&n))
		return n
	}
	size := func() int64 {
		return number(`SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables WHERE schemaname = 'orrery'`)
	}
	next := 0
	// work makes items come and go; where it is to be clean autovacuum keeps up.
	work := func(clean bool) {
		for range rounds {
			var seq uint64
			require.NoError(t, s.Update(ctx, func(tx store.Tx) (err error) {
				if seq, err = tx.Seq(); err != nil {
					return err
				}
				seq++
				return put(tx, next, many)
			}))
			require.NoError(t, postgres.Checkpoint(ctx, s))
			require.NoError(t, s.Update(ctx, func(tx store.Tx) error { return remove(tx, seq, next, many) }))
			require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
				if err := tx.BeginEpoch(effects.Time(next)); err != nil {
					return err
				}
				epochs, err := tx.Epochs()
				if err != nil {
					return err
				}
				_, err = tx.DropEpochs(epochs[len(epochs)-1].Number, 100_000)
				return err
			}))
			require.NoError(t, postgres.Checkpoint(ctx, s))
			next += many
			if clean {
				require.Eventually(t, func() bool {
					return number(`SELECT coalesce(max(n_dead_tup), 0) FROM pg_stat_user_tables WHERE schemaname = 'orrery'`) < 6000
				}, time.Minute, 10*time.Millisecond, "autovacuum cleans up")
			}
		}
	}
	work(true)
	once := size()
	work(true)
	work(true)
	thrice := size()
	t.Logf("%d items in %d rounds: %d bytes; three times as many: %d", rounds*many, rounds, once, thrice)
	require.Less(t, thrice, once*3/2+1<<20)

	require.NoError(t, s.View(ctx, func(store.ReadTx) error {
		work(false)
		return nil
	}))
	beside := size()
	work(true)
	work(true)
	after := size()
	t.Logf("beside a View: %d bytes; later: %d", beside, after)
	require.Less(t, after, max(beside, once)*3/2+1<<20)
}
