package pgkv

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// TestBesideAReaderThatStaysOpenACommitDoesNotWalkThroughTheVersionsOfTheRow counts the pages of the table of partitions that commits have touched.
// By the index alone each would touch those of half of all versions: 17 for each of 2000 commits.
func TestBesideAReaderThatStaysOpenACommitDoesNotWalkThroughTheVersionsOfTheRow(t *testing.T) {
	const commits, most = 2000, 6
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{})
	require.NoError(t, write(db, "k=1"))
	reader, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, reader.Close(ctx)) }()
	_, err = reader.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM orrery.log`)
	require.NoError(t, err)
	for range commits {
		require.NoError(t, write(db, "k=2"))
	}
	require.NoError(t, db.Close()) // the sessions tell what they have touched as they end
	require.Eventually(t, func() bool {
		return sql(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'orrery'`) == 0
	}, time.Minute, time.Millisecond)
	touched := sql(t, url, `SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE relname = 'partitions'`)
	versions := sql(t, url, `SELECT pg_relation_size('orrery.partitions') / 8192`)
	t.Logf("%d commits have touched %d pages; the versions of the row stand on %d", commits, touched, versions)
	require.Greater(t, versions, int64(20), "the reader keeps them")
	require.Less(t, touched, int64(most*commits))
}

func TestARowThatSomethingElseHasMovedIsFoundByTheIndex(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{})
	for range 2 * byIndexEach {
		require.NoError(t, write(db, "k=1"))
		sql(t, url, `UPDATE orrery.partitions SET beat = beat + 1`)
		require.NoError(t, write(db, "k=2"))
		require.NoError(t, db.Renew(ctx))
	}
	require.Equal(t, []string{"k=2"}, read(t, db))
	require.EqualValues(t, 4*byIndexEach, sql(t, url, `SELECT last FROM orrery.partitions`), "each commit was made once")
	require.NoError(t, db.Checkpoint(ctx))
	sql(t, url, `UPDATE orrery.partitions SET token = token + 1, session = 'another'`)
	require.ErrorIs(t, write(db, "k=3"), store.ErrFenced, "found is not let pass")
}

func TestADatabaseWhoseRowsHaveNoPlacesTakesCommits(t *testing.T) {
	url := postgrestest.Database(t)
	db := openDB(t, url, Options{})
	db.s.commit = strings.ReplaceAll(db.s.commit, "ctid", "unheard_of")
	for range 3 {
		require.NoError(t, write(db, "k=1"))
	}
	require.True(t, db.place.none)
	require.EqualValues(t, 3, sql(t, url, `SELECT count(*) FROM orrery.log`))
	require.NoError(t, db.Close())
	require.Equal(t, []string{"k=1"}, read(t, openDB(t, url, Options{})))
}
