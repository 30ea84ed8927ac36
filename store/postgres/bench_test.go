package postgres_test

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// BenchmarkCreate commits batches of new records with a due time, two counted terms and an outer effect, one after the
// other and on the disk. Beside it: rows of as many bytes as such a commit has in the log, inserted into a bare table of the
// same server, which nothing can be faster than; and the same with the embedded store.
//
// Round trips and frames are counted by commit; rows that the server has written, and bytes of its write-ahead log, by record,
// checkpoints included.
func BenchmarkCreate(b *testing.B) {
	server := postgrestest.Start(b, postgrestest.Options{})
	for _, size := range []int{1, 32, 256} {
		frame := 1000
		b.Run(fmt.Sprintf("records=%d/postgres", size), func(b *testing.B) { frame = benchPostgres(b, server, size) })
		b.Run(fmt.Sprintf("records=%d/insert", size), func(b *testing.B) { benchInsert(b, server, size, frame) })
		b.Run(fmt.Sprintf("records=%d/bolt", size), func(b *testing.B) {
			s, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{})
			require.NoError(b, err)
			benchCreate(b, s, size)
			require.NoError(b, s.Close())
		})
	}
}

func benchCreate(b *testing.B, s store.Store, size int) {
	b.ReportAllocs()
	next := 0
	for b.Loop() {
		require.NoError(b, s.Update(ctx, func(tx store.Tx) error { return put(tx, next, size) }))
		next += size
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
}

// benchPostgres gives the bytes of a frame.
func benchPostgres(b *testing.B, server *postgrestest.Server, size int) (frame int) {
	url, w := server.Database(b), &wire{}
	s := open(b, url, w.options(postgres.Options{}))
	before := served(b, url)
	w.counted()
	benchCreate(b, s, size)
	frame = int(s.LogStats().Written) / b.N
	b.ReportMetric(float64(w.counted())/float64(b.N), "trips/commit")
	b.ReportMetric(float64(frame), "frame-B/commit")
	for b.Context().Err() == nil && s.LogStats().Frames > 0 { // the last checkpoint counts, too
		require.NoError(b, s.Renew(ctx))
	}
	require.NoError(b, s.Close())
	after := served(b, url)
	b.ReportMetric(float64(after.rows-before.rows)/float64(b.N*size), "rows/record")
	b.ReportMetric(float64(after.wal-before.wal)/float64(b.N*size), "wal-B/record")
	return frame
}

func benchInsert(b *testing.B, server *postgrestest.Server, size, bytes int) {
	c, err := pgx.Connect(ctx, server.Database(b))
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close(ctx)) }()
	_, err = c.Exec(ctx, `CREATE TABLE raw (n bigint PRIMARY KEY, frame bytea NOT NULL); ALTER TABLE raw ALTER COLUMN frame SET STORAGE EXTERNAL`)
	require.NoError(b, err)
	frame := make([]byte, bytes)
	_, err = rand.Read(frame)
	require.NoError(b, err)
	n := 0
	for b.Loop() {
		n++
		_, err := c.Exec(ctx, `INSERT INTO raw (n, frame) VALUES ($1, $2)`, n, frame)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
}

// serving is what a server has done.
type serving struct{ rows, wal int64 }

func served(b *testing.B, url string) (s serving) {
	c, err := pgx.Connect(ctx, url)
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close(ctx)) }()
	var wal string
	require.NoError(b, c.QueryRow(ctx, `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint, (pg_current_wal_lsn() - '0/0'::pg_lsn)::text
		FROM pg_stat_user_tables`).Scan(&s.rows, &wal))
	s.wal, err = strconv.ParseInt(wal, 10, 64)
	require.NoError(b, err)
	return s
}
