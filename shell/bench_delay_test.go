package shell_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// trips counts round trips to a database.
type trips struct{ n atomic.Int64 }

func (t *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.n.Add(1)
	return ctx
}

func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (t *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	t.n.Add(1)
	return ctx
}

func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// BenchmarkDurableActionsFarFromPostgreSQL is BenchmarkDurableActions on a PostgreSQL whose answers come later by that much than the
// server gives them. Round trips, rows and bytes of the write-ahead log are counted by action, those of checkpoints included. The last two have batches that are so small that
// the delay binds, on one partition and on four with an engine each.
func BenchmarkDurableActionsFarFromPostgreSQL(b *testing.B) {
	server := postgrestest.Start(b, postgrestest.Options{TCP: true})
	for _, delay := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond} {
		for _, callers := range []int{1, 256, 1000} {
			b.Run(fmt.Sprintf("delay=%s/callers=%d", delay, callers), func(b *testing.B) { benchFar(b, server, delay, callers, 0, 1) })
		}
	}
	for _, partitions := range []int{1, 4} {
		b.Run(fmt.Sprintf("delay=20ms/callers=1000/max_batch=64/partitions=%d", partitions), func(b *testing.B) {
			benchFar(b, server, 20*time.Millisecond, 1000, 64, partitions)
		})
	}
}

func benchFar(b *testing.B, server *postgrestest.Server, delay time.Duration, callers, maxBatch, partitions int) {
	off := zerolog.Nop()
	// Without a delay the bytes are copied, too, so that rows can be compared.
	proxy := toxiproxy.NewProxy(&toxiproxy.ApiServer{Metrics: toxiproxy.NewMetricsContainer(nil), Logger: &off}, b.Name(), "127.0.0.1:0", server.Address())
	require.NoError(b, proxy.Start())
	defer proxy.Stop()
	_, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type": "latency", "stream": "downstream", "attributes": {"latency": %d}}`, delay.Milliseconds())))
	require.NoError(b, err)
	database, err := url.Parse(server.Database(b))
	require.NoError(b, err)
	far := postgrestest.TCPURL(proxy.Listen, strings.TrimPrefix(database.Path, "/"))
	counted := &trips{}
	var engines []*shell.Engine
	var ends []func()
	for n := range partitions {
		st, err := postgres.Open(bg(), far, postgres.Options{Partition: n, Configure: func(c *pgxpool.Config) { c.ConnConfig.Tracer = counted }})
		require.NoError(b, err)
		e, stop := start(b, shell.Options{Store: st, Partition: n, Tools: tools(noop), DefaultConcurrency: 1024, MaxBatch: maxBatch})
		engines = append(engines, e)
		ends = append(ends, func() {
			require.NoError(b, stop())
			for b.Context().Err() == nil && st.LogStats().Frames > 0 { // the last checkpoint counts, too
				require.NoError(b, st.Renew(bg()))
			}
			require.NoError(b, st.Close())
		})
	}
	near := server.URL(strings.TrimPrefix(database.Path, "/"))
	before := written(b, near)
	trips, cpu := counted.n.Load(), cpuTime()
	var turn atomic.Int64
	b.ResetTimer()
	each(callers, b.N, func() error { return execute(engines[turn.Add(1)%int64(partitions)]) }, b)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "actions/s")
	b.ReportMetric(float64(counted.n.Load()-trips)/float64(b.N), "trips/op")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
	var inputs, batches float64
	for _, e := range engines {
		s, err := e.Stats(bg())
		require.NoError(b, err)
		inputs, batches = inputs+float64(s.Inputs), batches+float64(s.Batches)
	}
	b.ReportMetric(inputs/batches, "inputs/batch")
	b.ReportMetric(batches/float64(b.N), "batches/op")
	for _, end := range ends {
		end()
	}
	after := written(b, near)
	b.ReportMetric(float64(after.rows-before.rows)/float64(b.N), "rows/op")
	b.ReportMetric(float64(after.wal-before.wal)/float64(b.N), "wal-B/op")
}

// writes is what a server has written: rows that were inserted, changed and deleted in the tables of a database, and bytes of its write-ahead log.
type writes struct{ rows, wal int64 }

func written(b *testing.B, url string) (w writes) {
	b.Helper()
	c, err := pgx.Connect(bg(), url)
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close(bg())) }()
	require.NoError(b, c.QueryRow(bg(), `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint
		FROM pg_stat_user_tables`).Scan(&w.rows, &w.wal))
	return w
}
