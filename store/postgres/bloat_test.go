package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
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

// comings has items come and go in a database of its own.
type comings struct {
	t    *testing.T
	s    *postgres.Store
	c    *pgx.Conn
	next int
}

func newComings(t *testing.T, settings map[string]string) *comings {
	settings["autovacuum_naptime"] = "1s"
	url := postgrestest.Start(t, postgrestest.Options{NoFsync: true, Settings: settings}).Database(t)
	o := &comings{t: t, s: open(t, url, postgres.Options{Checkpoint: time.Hour})}
	var err error
	o.c, err = pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, o.c.Close(ctx)) })
	return o
}

func (o *comings) number(sql string) (n int64) {
	require.NoError(o.t, o.c.QueryRow(ctx, sql).Scan(&n))
	return n
}

func (o *comings) size() int64 {
	return o.number(`SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables WHERE schemaname = 'orrery'`)
}

// round has items come, be brought into the tables, and go again.
func (o *comings) round(many int) {
	var seq uint64
	require.NoError(o.t, o.s.Update(ctx, func(tx store.Tx) (err error) {
		if seq, err = tx.Seq(); err != nil {
			return err
		}
		seq++
		return put(tx, o.next, many)
	}))
	require.NoError(o.t, postgres.Checkpoint(ctx, o.s))
	require.NoError(o.t, o.s.Update(ctx, func(tx store.Tx) error { return remove(tx, seq, o.next, many) }))
	require.NoError(o.t, o.s.Update(ctx, func(tx store.Tx) error {
		if err := tx.BeginEpoch(effects.Time(o.next)); err != nil {
			return err
		}
		epochs, err := tx.Epochs()
		if err != nil {
			return err
		}
		_, err = tx.DropEpochs(epochs[len(epochs)-1].Number, 100_000)
		return err
	}))
	require.NoError(o.t, postgres.Checkpoint(ctx, o.s))
	o.next += many
}

// TestTablesDoNotGrowWithWhatComesAndGoes has items come, be brought into the tables, and go again, over and over: what a
// vacuum cleans up is used anew. Beside a View that stays open nothing can be; once it has ended, all is used anew, too. The test
// vacuums after each round itself: how large tables become depends on how far autovacuum is behind.
func TestTablesDoNotGrowWithWhatComesAndGoes(t *testing.T) {
	rounds, many := 4, 100
	if os.Getenv("ORRERY_SLOW") == "1" {
		rounds, many = 40, 1000
	}
	o := newComings(t, map[string]string{"autovacuum": "off"})
	work := func() {
		for range rounds {
			o.round(many)
			_, err := o.c.Exec(ctx, "VACUUM (TRUNCATE off)")
			require.NoError(t, err)
		}
	}
	work()
	once := o.size()
	work()
	work()
	thrice := o.size()
	t.Logf("%d items in %d rounds: %d bytes; three times as many: %d", rounds*many, rounds, once, thrice)
	require.Less(t, thrice, once*5/4+1<<17)

	require.NoError(t, o.s.View(ctx, func(store.ReadTx) error {
		work()
		return nil
	}))
	beside := o.size()
	if rounds*many > 10_000 {
		require.Greater(t, beside, thrice+once, "nothing is used anew beside a View")
	}
	work()
	work()
	after := o.size()
	t.Logf("beside a View: %d bytes; later: %d", beside, after)
	require.Less(t, after, beside*5/4+1<<17)
}

// TestAutovacuumCleansUpWhatComesAndGoes has autovacuum keep up, with its own thresholds.
func TestAutovacuumCleansUpWhatComesAndGoes(t *testing.T) {
	o := newComings(t, map[string]string{"autovacuum_vacuum_cost_delay": "0"})
	for range 3 {
		o.round(1000)
	}
	require.Eventually(t, func() bool {
		cleaned := o.number(`SELECT coalesce(sum(autovacuum_count), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = 'orrery'`)
		dead := o.number(`SELECT coalesce(max(n_dead_tup), 0) FROM pg_stat_user_tables WHERE schemaname = 'orrery'`)
		return cleaned > 0 && dead < 6000
	}, time.Minute, 10*time.Millisecond, "autovacuum cleans up")
}
