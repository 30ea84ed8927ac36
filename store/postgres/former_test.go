package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// waitForLocks returns once so many sessions of the database wait for a lock.
func waitForLocks(t *testing.T, url string, many int) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url) // its own: within a transaction the server tells the same each time
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	require.Eventually(t, func() bool {
		var n int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return assert.NoError(t, err) && n == many
	}, 30*time.Second, 5*time.Millisecond)
}

// Each statement has begun as its owner still had the partition, and takes place after another one has claimed it.
func TestAStatementAboutFormerOwnersThatAClaimOvertakesChangesNothing(t *testing.T) {
	url := postgrestest.Database(t)
	c, err := postgres.Connect(ctx, url, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	first := open(t, url, postgres.Options{})
	is := store.Former{Session: first.Session(), Owner: "first", Running: []store.EffectKey{{ID: uuid.UUID{1}, N: 1}}}
	require.NoError(t, c.Remain(ctx, is))
	result := store.FormerResult{Session: is.Session, Key: store.EffectKey{ID: uuid.UUID{2}, N: 1}, Data: []byte("x")}
	_, err = c.Report(ctx, is, []store.FormerResult{result})
	require.NoError(t, err)
	require.NoError(t, first.Close())
	said := []store.FormerStop{{Key: is.Running[0]}}

	for name, late := range map[string]func(by string) error{ // order-free: each with an owner of its own
		"stop": func(by string) error {
			return c.Stop(ctx, 0, by, is.Session, []store.FormerStop{{Key: result.Key, Kill: true}})
		},
		"taken":  func(by string) error { return c.Taken(ctx, 0, by, []store.FormerResult{result}) },
		"depart": func(by string) error { return c.Depart(ctx, 0, by, is.Session) },
		"remain": func(by string) error { return c.Remain(ctx, store.Former{Session: by, Owner: "late"}) },
	} {
		t.Run(name, func(t *testing.T) {
			owner := open(t, url, postgres.Options{TakeOver: true})
			require.NoError(t, c.Stop(ctx, 0, owner.Session(), is.Session, said))
			all, results, err := c.Formers(ctx, 0, 10)
			require.NoError(t, err)

			conn, err := pgx.Connect(ctx, url)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(ctx)) }()
			claim, err := conn.Begin(ctx)
			require.NoError(t, err)
			_, err = claim.Exec(ctx, `UPDATE orrery.partitions SET token = token + 1, session = 'next' WHERE part = 0`)
			require.NoError(t, err)
			told := make(chan error, 1)
			go func() { told <- late(owner.Session()) }()
			waitForLocks(t, url, 1)
			require.NoError(t, claim.Commit(ctx))
			require.ErrorIs(t, <-told, store.ErrFenced)

			now, still, err := c.Formers(ctx, 0, 10)
			require.NoError(t, err)
			assert.Equal(t, all, now)
			assert.Equal(t, results, still)
			stops, err := c.Report(ctx, is, nil)
			require.NoError(t, err)
			assert.Equal(t, said, stops)
		})
	}
}

func TestAClaimWaitsForAStatementAboutFormerOwnersThatIsUnderWay(t *testing.T) {
	url := postgrestest.Database(t)
	c, err := postgres.Connect(ctx, url, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	first := open(t, url, postgres.Options{})
	is := store.Former{Session: first.Session(), Owner: "first"}
	require.NoError(t, c.Remain(ctx, is))
	require.NoError(t, first.Close())
	owner := open(t, url, postgres.Options{})

	// The former owner's row is locked, as by a report: the statement has the partition by then, and waits.
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	report, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = report.Exec(ctx, `UPDATE orrery.formers SET beat = beat + 1`)
	require.NoError(t, err)
	stopped, claimed := make(chan error, 1), make(chan error, 1)
	early := []store.FormerStop{{Key: store.EffectKey{ID: uuid.UUID{1}, N: 1}}}
	go func() { stopped <- c.Stop(ctx, 0, owner.Session(), is.Session, early) }()
	waitForLocks(t, url, 1)
	var next *postgres.Store
	go func() {
		var err error
		next, err = postgres.Open(ctx, url, postgres.Options{TakeOver: true})
		claimed <- err
	}()
	waitForLocks(t, url, 2)
	require.NoError(t, report.Commit(ctx))
	require.NoError(t, <-stopped)
	require.NoError(t, <-claimed)
	defer func() { require.NoError(t, next.Close()) }()
	stops, err := c.Report(ctx, is, nil)
	require.NoError(t, err)
	assert.Equal(t, early, stops, "it came before the claim")
}
