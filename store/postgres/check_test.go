package postgres_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

func TestACheckBesideTheOwnerFindsWhatIsWrongInTheTables(t *testing.T) {
	url := postgrestest.Database(t)
	owner := open(t, url, postgres.Options{})
	require.NoError(t, owner.Update(ctx, func(tx store.Tx) error {
		var writes []store.Write
		for n := range byte(20) {
			writes = append(writes, store.Write{Kind: core.KindTask, ID: uuid.UUID{15: n + 1}, State: []byte(`{"n":1}`), Due: effects.Time(1000)})
		}
		return errors.Join(tx.Put(1, writes), tx.AppendJournal(1, 1000, []byte(`{}`)))
	}))
	reader := open(t, url, postgres.Options{ReadOnly: true})
	for _, s := range []*postgres.Store{owner, reader} {
		found, err := s.Check(ctx)
		require.NoError(t, err)
		assert.Empty(t, found, "also of what the checkpoint has not brought into the tables yet")
	}
	require.NoError(t, postgres.Checkpoint(ctx, owner))
	require.NoError(t, owner.Close())
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(ctx)) }()
	spoil := func(sql string) {
		t.Helper()
		done, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
		require.EqualValues(t, 1, done.RowsAffected(), sql)
	}
	const one = ` WHERE (part, tab, k) = (SELECT e.part, e.tab, e.k FROM orrery.entries e JOIN orrery.tables t ON t.part = e.part AND t.id = e.tab WHERE t.name LIKE `
	spoil(`UPDATE orrery.entries SET v = set_byte(v, length(v) - 1, 255 - get_byte(v, length(v) - 1))` + one + `'%records%' LIMIT 1)`)
	spoil(`DELETE FROM orrery.entries` + one + `'%records%' ORDER BY e.k DESC LIMIT 1)`)
	found, err := reader.Check(ctx)
	require.NoError(t, err)
	var where []string
	for _, f := range found {
		where = append(where, f.Where)
	}
	assert.Contains(t, where, "records/task", "a value whose checksum is wrong: %v", found)
	assert.Contains(t, where, "due", "an entry whose record is gone: %v", found)
}
