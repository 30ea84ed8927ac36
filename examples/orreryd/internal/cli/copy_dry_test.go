//go:build unix

package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// hasSchema says whether the database has tables of Orrery.
func hasSchema(t *testing.T, url string) (there bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'orrery')`).Scan(&there))
	return there
}

// owned gives what the database says of the partitions that were opened.
func owned(t *testing.T, url string) []postgres.Partition {
	t.Helper()
	cluster, err := postgres.Connect(t.Context(), url, postgres.Options{ReadOnly: true})
	require.NoError(t, err)
	defer cluster.Close()
	all, err := cluster.Partitions(t.Context())
	require.NoError(t, err)
	return all
}

func TestADryRunOfACopyTellsWhatWouldGoWhereAndWritesNothing(t *testing.T) {
	t.Parallel()
	const tenants = 10
	db, four, one := database(t), postgrestest.Database(t), database(t)
	p := start(t, "--db", db)
	for n := range tenants {
		p.add(append([]string{"--in", "1h"}, append(tenantOf(n), "--", "echo", "later")...)...)
	}
	p.stop()
	into := []string{"copy", "--from", db, "--to", four, "--partitions", "4"}
	dry := copiesInto(t, db, four, "--partitions", "4", "--dry-run")
	assert.True(t, dry.DryRun)
	assert.False(t, dry.Journal)
	require.Len(t, dry.Records, 4)
	assert.False(t, hasSchema(t, four), "no table was made")
	r := cli(t, nil, "", append(into, "--dry-run")...)
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, fmt.Sprintf(" would have %d records of %s, which has 1 partition, in 4 partitions; the journal would stay behind, and a new one begin with batch %d\n", dry.Entries, db, dry.Batch+1))
	assert.Contains(t, r.out, fmt.Sprintf("\npartition 3: %s\n", counted(int(dry.Records[3]), "record")))
	assert.True(t, strings.HasSuffix(r.out, "\nnothing was written\n"), r.out)

	// The copy does what was told.
	did := copiesInto(t, db, four, "--partitions", "4")
	assert.Equal(t, []any{dry.Batch, dry.Entries, dry.Partitions, dry.Left}, []any{did.Batch, did.Entries, did.Partitions, did.Left})
	assert.Nil(t, did.Records)
	before := owned(t, four)
	for k := range 4 {
		n := 0
		for _, entry := range ofPartition(t, four, k) {
			if strings.HasPrefix(entry, "[record ") {
				n++
			}
		}
		assert.EqualValues(t, dry.Records[k], n, "partition %d", k)
	}

	// Back, of several partitions, and with the journal, if the number stays.
	back := copiesInto(t, four, one, "--dry-run")
	assert.Equal(t, []uint64{back.Entries}, back.Records)
	assert.GreaterOrEqual(t, back.Entries, uint64(tenants))
	require.NoFileExists(t, one)
	other := postgrestest.Database(t)
	same := copiesInto(t, four, other, "--partitions", "4", "--dry-run")
	assert.True(t, same.Journal)
	assert.Equal(t, dry.Records, same.Records)
	assert.False(t, hasSchema(t, other))
	alone := cli(t, nil, "", "copy", "--from", db, "--to", one, "--dry-run")
	require.Zero(t, alone.code, alone.err)
	assert.Regexp(t, ` in 1 partition; with the journal, up to batch \d+\nnothing was written\n$`, alone.out)
	assert.Equal(t, before, owned(t, four), "no partition was claimed")
}

// ofPartition lists all that a partition holds.
func ofPartition(t *testing.T, url string, partition int) exported {
	t.Helper()
	st, err := postgres.Open(t.Context(), url, postgres.Options{ReadOnly: true, Partition: partition})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	var l exported
	require.NoError(t, st.Export(t.Context(), &l))
	return l
}

func TestADryRunOfACopyFailsAsTheCopyWould(t *testing.T) {
	t.Parallel()
	db, url := stoppedFile(t), postgrestest.Database(t)
	fails := func(code int, says string, args ...string) {
		t.Helper()
		for _, dry := range []string{"--dry-run", "--dry-run=false"} {
			r := cli(t, nil, "", append([]string{"copy", dry}, args...)...)
			assert.Equal(t, code, r.code, "%s: %s%s", dry, r.out, r.err)
			assert.Contains(t, r.err, says, dry)
			assert.Empty(t, r.out, dry)
		}
	}
	fails(exitNotFound, "there is no file "+db+".away", "--from", db+".away", "--to", url)
	require.NoError(t, os.WriteFile(db+".full", nil, 0o600))
	fails(exitFailed, "it is not overwritten", "--from", db, "--to", db+".full")
	fails(exitNotFound, "no", "--from", postgrestest.Database(t), "--to", db+".new")

	p := start(t, "--database", url, "--config", member(t, "works"))
	fails(exitFailed, `"works" at "`+p.url+`" owns it: stop the daemon first`, "--from", url, "--to", db+".new")
	p.stop()
	fails(exitFailed, "it has content already", "--from", db, "--to", url)
	fails(exitFailed, "partition 0 was opened without a layout", "--from", db, "--to", url, "--partitions", "4")

	divided := postgrestest.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", divided, "--partitions", "3")
	require.Zero(t, r.code, r.err)
	fails(exitUsage, "is divided into 3 already", "--from", db, "--to", divided, "--partitions", "4")
	assert.Equal(t, 3, copiesInto(t, db, divided, "--dry-run").Partitions)
	assert.Empty(t, owned(t, divided))
}

func TestADryRunOfACopyTellsAllThoughRunsHavePods(t *testing.T) {
	t.Parallel()
	db, url := stoppedFile(t), postgrestest.Database(t)
	st, err := bolt.Open(db, bolt.Options{})
	require.NoError(t, err)
	run := core.Orchestrator{RunSpec: core.RunSpec{ID: uuid.UUID{5}, JobID: "j", Namespace: "n", Tenant: "t"}, State: core.OrchestratorRunning, InCluster: true}
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		seq, err := tx.Seq()
		require.NoError(t, err)
		write := store.Write{Kind: core.KindOrchestrator, ID: uuid.UUID{5}, State: run.AppendJSON(nil), Due: run.Deadline(), Terms: run.Terms()}
		require.NoError(t, tx.Put(seq+1, []store.Write{write}))
		return tx.AppendJournal(seq+1, effects.TimeOf(time.Now()), []byte("{}"))
	}))
	require.NoError(t, st.Close())
	r := cli(t, nil, "", "copy", "--from", db, "--to", url, "--partitions", "4", "--no-verify", "--dry-run", "--json")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.out, `"records": [`)
	assert.Contains(t, r.out, `"refused": [`)
	assert.Regexp(t, "the copy would fail: .*runs have pods in the cluster: 1, such as ", r.err)
	assert.Contains(t, r.err, "or copy with --leave-pods")
	assert.False(t, hasSchema(t, url))
}
