package replay_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// restored gives the URL of a database that has what pg_dump --inserts has written as text.
func restored(t *testing.T, path string) string {
	t.Helper()
	packed, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, packed.Close()) }()
	in, err := gzip.NewReader(packed)
	require.NoError(t, err)
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	var sql strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, `\`) { // what is for psql alone
			sql.WriteString(line)
		}
	}
	url := postgrestest.Database(t)
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(t.Context())) }()
	_, err = c.PgConn().Exec(t.Context(), sql.String()).ReadAll()
	require.NoError(t, err)
	return url
}

// clusterTenants are those of cluster.sql.gz: both partitions have some.
var clusterTenants = []string{"ann", "bob", "cid", "dan", "eve", "fay"}

// works has an engine work on a partition, and gives what stops it.
func works(t *testing.T, st store.Store, partition int) (e *shell.Engine, stop func()) {
	t.Helper()
	e, err := shell.New(shell.Options{
		Store: st, Partition: partition, Logger: slog.New(slog.DiscardHandler),
		Tools: map[string]shell.Tool{"ok": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return json.RawMessage(`"done"`), nil })},
	})
	require.NoError(t, err)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, func() {
		end()
		require.NoError(t, <-done)
	}
}

// cluster.sql.gz of 4159e153 is a dump of a database of two partitions, in the tables of format 4, while two engines worked on them that never gave
// them back: part of each partition stands in the log alone, behind its checkpoint. It has tenants with actions, a recurring one, items of a queue and a lock.
func TestTheClusterOfAnEarlierCommitReplaysByteForByteAndGoesOn(t *testing.T) {
	const commit, partitions = "4159e153", 2
	url := restored(t, filepath.Join("testdata", "written-by-"+commit, "cluster.sql.gz"))
	cluster, err := postgres.Connect(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	layout, err := cluster.Layout(t.Context())
	require.NoError(t, err)
	assert.Equal(t, store.Layout{Partitions: partitions, Rule: core.PartitionRule}, layout)
	cluster.Close()
	tenants := 0
	for n := range partitions {
		st, err := postgres.Open(t.Context(), url, postgres.Options{Partition: n, TakeOver: true})
		require.NoError(t, err)
		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		assert.Greater(t, rep.Inputs, uint64(20))
		problems, err := st.Check(t.Context())
		require.NoError(t, err)
		assert.Empty(t, problems)
		kinds := map[effects.Kind]bool{}
		for _, kind := range kindsIn(t, st) {
			kinds[kind] = true
		}
		for _, kind := range []effects.Kind{core.KindAction, core.KindRecurring, core.KindOccurrence, core.KindQueue, core.KindQueueItem, core.KindLock} {
			assert.True(t, kinds[kind], "partition %d has no %s", n, kind)
		}
		e, stop := works(t, st, n)
		for _, tenant := range clusterTenants {
			if core.Partition(core.Scope{Namespace: "ns", Tenant: tenant}, partitions) != n {
				continue
			}
			tenants++
			_, duplicate, err := e.Queues().Push(t.Context(), "ns", tenant, "mail", shell.PushOptions{DedupKey: "kept"})
			require.NoError(t, err, "it goes on")
			assert.True(t, duplicate, "what it has of %s is known", tenant)
			lock, err := e.Locks().Get(t.Context(), shell.Scope{Namespace: "ns", Tenant: tenant}, "door")
			require.NoError(t, err)
			assert.Equal(t, "h0", lock.Holder)
		}
		stop()
		rep, err = replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		require.NoError(t, st.Close())
	}
	assert.Len(t, clusterTenants, tenants, "each is where its name says")
}
