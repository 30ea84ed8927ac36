package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// commitsAsked gives how many commits a phase of the load has: as many as ORRERY_LOAD says, few without ORRERY_SLOW.
func commitsAsked(t *testing.T) (commits int, asked bool) {
	if v := os.Getenv("ORRERY_LOAD"); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err, "ORRERY_LOAD")
		require.Positive(t, n, "ORRERY_LOAD")
		return n, true
	}
	if os.Getenv("ORRERY_SLOW") == "1" {
		return 1500, false
	}
	return 150, false
}

// load commits batches as a queue does: each creates records, completes those of the batch before, and deletes those that
// have been kept for long enough. The journal of the oldest batches is dropped.
type load struct {
	s      *postgres.Store
	many   int // records in a batch
	keep   int // batches whose records are kept
	epochs int // batches in an epoch of the journal, of which three are kept
	next   int // number of the next batch
	seqs   []uint64
}

func (l *load) terms(status string, n int) []store.Term {
	at := effects.Time(1_000_000 + n)
	return []store.Term{{Name: "all", At: at, Counted: true}, {Name: status, At: at, Counted: true}}
}

const journaled = 80 // bytes in the journal for each record that a batch concerns

// batch commits one.
func (l *load) batch() error {
	k := l.next
	var seq uint64
	err := l.s.Update(ctx, func(tx store.Tx) (err error) {
		if seq, err = tx.Seq(); err != nil {
			return err
		}
		seq++
		var writes []store.Write
		for i := range l.many {
			n := k*l.many + i
			at := effects.Time(1_000_000 + n)
			writes = append(writes, store.Write{Kind: "action", ID: id(n), State: fmt.Appendf(nil, `{"n":%d,"status":"pending"}`, n), Due: at, Terms: l.terms("status:pending", n)})
			if err := tx.PutOutbox(store.OutboxEntry{Key: store.EffectKey{ID: id(n), N: 1}, Seq: seq, Kind: "call", Lane: "tool"}); err != nil {
				return err
			}
			if k == 0 {
				continue
			}
			n -= l.many
			writes = append(writes, store.Write{Kind: "action", ID: id(n), State: fmt.Appendf(nil, `{"n":%d,"status":"completed"}`, n), Terms: l.terms("status:completed", n),
				Prev: store.Prev{Version: 1, Seq: l.seqs[k-1], Due: at - effects.Time(l.many), Terms: l.terms("status:pending", n)}})
			if err := tx.DeleteOutbox(store.EffectKey{ID: id(n), N: 1}); err != nil {
				return err
			}
			if k < l.keep {
				continue
			}
			n -= (l.keep - 1) * l.many
			writes = append(writes, store.Write{Kind: "action", ID: id(n), Prev: store.Prev{Version: 2, Seq: l.seqs[k-l.keep+1], Terms: l.terms("status:completed", n)}})
		}
		if err := tx.Put(seq, writes); err != nil {
			return err
		}
		if err := tx.AppendJournal(seq, 1, fmt.Appendf(nil, `{"inputs":%q}`, bytes.Repeat([]byte{'a' + byte(k%26)}, journaled*len(writes)))); err != nil {
			return err
		}
		if k == 0 || k%l.epochs != 0 {
			return nil
		}
		return l.turn(tx, k)
	})
	l.next++
	l.seqs = append(l.seqs, seq)
	return err
}

// turn begins an epoch, and drops the one that is too old.
func (l *load) turn(tx store.Tx, k int) error {
	if err := tx.BeginEpoch(effects.Time(k)); err != nil {
		return err
	}
	epochs, err := tx.Epochs()
	if err != nil || len(epochs) <= 3 {
		return err
	}
	_, err = tx.DropEpochs(epochs[len(epochs)-3].Number, 1_000_000)
	return err
}

// want is what is to be there: the state of each record.
func (l *load) want() map[string]bool {
	want := make(map[string]bool)
	for k := max(0, l.next-l.keep); k < l.next; k++ {
		status := "completed"
		if k == l.next-1 {
			status = "pending"
		}
		for i := range l.many {
			want[fmt.Sprintf(`{"n":%d,"status":"%s"}`, k*l.many+i, status)] = true
		}
	}
	return want
}

// found is what is there.
func found(tx store.ReadTx) (map[string]bool, error) {
	found := make(map[string]bool)
	return found, tx.Records(func(r store.Record) error {
		found[string(r.State)] = true
		return nil
	})
}

// measured is what the server says of the tables after a phase.
type measured struct {
	rate               float64
	p50, p99           time.Duration
	log, entries, part int64 // bytes, indexes included
	dead               [3]int64
	wal                int64 // bytes for each commit
	touched            int64 // pages of the partition's row for each commit
}

func (m measured) bytes() int64 { return m.log + m.entries + m.part }

func (m measured) String() string {
	return fmt.Sprintf("%6.0f commits/s, p50 %.2f ms, p99 %.2f ms; MB: log %.1f, entries %.1f, partitions %.2f; dead rows: %d, %d, %d; %d B of write-ahead log and %d pages of the partition's row by commit",
		m.rate, m.p50.Seconds()*1000, m.p99.Seconds()*1000, float64(m.log)/1e6, float64(m.entries)/1e6, float64(m.part)/1e6, m.dead[0], m.dead[1], m.dead[2], m.wal, m.touched)
}

// TestNothingIsLostBesideAReaderThatStaysOpen loads a database before, beside and after a transaction that stays open, with a snapshot and locks
// as pg_dump has them, and beside a View of somebody who only looks. Both see what they saw at first, nothing of the load is lost, and the room that dead
// rows took meanwhile is used anew. How fast it was and how large the tables became is printed: in the soak, with ORRERY_LOAD commits in each phase, it says something.
func TestNothingIsLostBesideAReaderThatStaysOpen(t *testing.T) {
	commits, asked := commitsAsked(t)
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true, Settings: map[string]string{"autovacuum_naptime": "1s", "autovacuum_vacuum_cost_delay": "0", "max_wal_size": "4GB"}})
	url := server.Database(t)
	o := postgres.Options{}
	if !asked { // so that checkpoints are made within few commits, too
		o.LogBytes = 256 << 10
	}
	l := &load{s: open(t, url, o), many: 8, keep: commits / 2, epochs: max(commits/4, 1)}
	c, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close(ctx)) }()
	number := func(sql string) (n int64) {
		require.NoError(t, c.QueryRow(ctx, sql).Scan(&n))
		return n
	}
	dead := func(table string) int64 {
		return number(`SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'orrery' AND relname = '` + table + `'`)
	}
	pages := func() int64 {
		return number(`SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit FROM pg_statio_user_tables WHERE schemaname = 'orrery' AND relname = 'partitions'`)
	}
	phase := func(name string) (m measured) {
		wal, touched := number(`SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint`), pages()
		took := make([]time.Duration, commits)
		began := time.Now()
		for i := range took {
			since := time.Now()
			require.NoError(t, l.batch())
			took[i] = time.Since(since)
		}
		m.rate = float64(commits) / time.Since(began).Seconds()
		slices.Sort(took)
		m.p50, m.p99 = took[commits/2], took[commits*99/100]
		m.wal = (number(`SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint`) - wal) / int64(commits)
		m.touched = (pages() - touched) / int64(commits)
		m.log, m.entries, m.part = number(`SELECT pg_total_relation_size('orrery.log')`), number(`SELECT pg_total_relation_size('orrery.entries')`), number(`SELECT pg_total_relation_size('orrery.partitions')`)
		m.dead = [3]int64{dead("log"), dead("entries"), dead("partitions")}
		t.Logf("%-8s %s", name, m)
		return m
	}
	phase("fill")
	before := phase("before")
	require.NoError(t, postgres.Checkpoint(ctx, l.s))

	dump, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, dump.Close(ctx)) }()
	begin, err := dump.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE orrery.partitions, orrery.log, orrery.entries, orrery.tables IN ACCESS SHARE MODE`)
	require.NoError(t, err, begin)
	digest := func() (all string) {
		for _, sql := range []string{
			`SELECT count(*) || md5(string_agg(md5(part || ',' || n || ',' || encode(frame, 'hex')), '' ORDER BY part, n)) FROM orrery.log`,
			`SELECT count(*) || md5(string_agg(md5(part || ',' || tab || ',' || encode(k, 'hex') || encode(v, 'hex')), '' ORDER BY part, tab, k)) FROM orrery.entries`,
			`SELECT count(*) || md5(string_agg(p::text, '' ORDER BY part)) FROM orrery.partitions p`,
		} {
			var one *string
			require.NoError(t, dump.QueryRow(ctx, sql).Scan(&one))
			if one != nil {
				all += *one
			}
			all += " "
		}
		return all
	}
	seen := digest()
	var beside measured
	looks := open(t, url, postgres.Options{ReadOnly: true})
	require.NoError(t, looks.View(ctx, func(tx store.ReadTx) error {
		want := l.want()
		for _, name := range []string{"beside", "beside"} {
			beside = phase(name)
		}
		records, err := found(tx)
		assert.Equal(t, want, records, "the View sees what was there as it began")
		return err
	}))
	assert.Equal(t, seen, digest(), "the reader sees what it saw at first")
	_, err = dump.Exec(ctx, `ROLLBACK`)
	require.NoError(t, err)

	isClean := func() bool {
		return dead("log") < 6000 && dead("entries") < 6000+number(`SELECT n_live_tup FROM pg_stat_user_tables WHERE schemaname = 'orrery' AND relname = 'entries'`)/20
	}
	var after measured
	for _, name := range []string{"after", "after", "after"} {
		after = phase(name)
		require.NoError(t, postgres.Checkpoint(ctx, l.s))
		require.Eventually(t, isClean, time.Minute, 10*time.Millisecond, "autovacuum cleans up")
	}
	if commits >= 1000 { // fewer make no more dead rows than are left until autovacuum comes
		assert.Less(t, after.bytes(), max(before.bytes(), beside.bytes())*3/2+2<<20, "what the dead rows took is used anew")
	}

	whole := func(s *postgres.Store) {
		require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
			records, err := found(tx)
			assert.Equal(t, l.want(), records)
			return err
		}))
		wrong, err := s.Check(context.WithoutCancel(ctx))
		require.NoError(t, err)
		assert.Empty(t, wrong)
	}
	whole(l.s)
	whole(looks)
	require.NoError(t, l.s.Close())
	whole(open(t, url, o))
}
