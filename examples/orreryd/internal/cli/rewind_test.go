package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestADatabaseIsRestoredToBeforeItsBackupAndGoesOnFromThere(t *testing.T) {
	db := database(t)
	c := write(t, "orrery.toml", "")
	p := start(t, "--db", db, "--config", c)
	done := p.add("--wait", "--", "echo", "done")
	waits := p.add("--in", "1h", "--", "echo", "waits")
	at := p.action(waits).CreatedAt
	later := p.add("--in", "1h", "--", "echo", "later")
	require.Greater(t, p.action(later).CreatedAt, at)
	p.ok("actions", "cancel", waits)
	p.ok("backup", "--to", db+".backup")
	p.ok("backup", "--to", db+".stream", "--stream")
	p.signal(os.Kill)
	p.code()

	for _, from := range []string{db + ".backup", db + ".stream", db} { // the last one was not closed
		to := from + ".new"
		r := cli(t, nil, "", "restore", from, to, "--to", at.String(), "--dry-run")
		require.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "batches undone would lead back to batch ")
		require.NoFileExists(t, to)
		r = cli(t, nil, "", "restore", from, to, "--to", at.String(), "--json")
		require.Zero(t, r.code, r.err)
		var report restoreReport
		require.NoError(t, json.Unmarshal([]byte(r.out), &report))
		assert.Equal(t, at, report.To.At)
		require.NotNil(t, report.Undone)
		assert.Equal(t, report.From.Batch-report.To.Batch, report.Undone.Batches)
		assert.NotZero(t, report.Undone.Records)
		assert.Empty(t, report.Undone.LeftOut)
		verified(t, to)

		byBatch := fmt.Sprint(report.To.Batch)
		r = cli(t, nil, "", "restore", from, to, "--to", byBatch)
		assert.NotZero(t, r.code)
		assert.Contains(t, r.err, "it is not overwritten")
		r = cli(t, nil, "", "restore", from, to+".2", "--to", byBatch)
		require.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "records that are as they were: ")
		verified(t, to+".2")

		again := start(t, "--db", to, "--config", c)
		list := again.ok("actions", "list", "--limit", "100")
		assert.Contains(t, list, done)
		assert.NotContains(t, list, later)
		assert.Equal(t, core.StatusPending, again.action(waits).Status.Type, "it was not cancelled by then")
		again.ok("actions", "trigger", waits)
		require.Eventually(t, func() bool { return again.action(waits).Status.Type == core.StatusCompleted }, patience, 10*time.Millisecond)
		again.signal(os.Interrupt)
		require.Zero(t, again.code())
		verified(t, to)
	}

	r := cli(t, nil, "", "restore", db+".backup", db+".early", "--to", "2001-01-01T00:00:00Z")
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "the journal does not reach that far back: it begins with batch 1 of ")
	require.NoFileExists(t, db+".early")
	require.NoError(t, os.RemoveAll(db+".backup.journal"))
	r = cli(t, nil, "", "restore", db+".backup", db+".early", "--to", "2")
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "the journal does not reach that far back")
	require.NoFileExists(t, db+".early")
}

func TestWhatARestoreLacksIsSaidAndEndsWithStatus1(t *testing.T) {
	db := database(t)
	p := start(t, "--db", db)
	lost := p.add("--in", "1h", "--", "echo", "lost")
	stays := p.add("--in", "1h", "--", "echo", "stays")
	at := p.action(stays).CreatedAt
	later := p.add("--in", "1h", "--", "echo", "later")
	require.Greater(t, p.action(later).CreatedAt, at)
	p.signal(os.Interrupt)
	require.Zero(t, p.code())
	st, err := bolt.Open(db, bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		return tx.SetAside(store.Quarantined{Kind: core.KindAction, ID: uuid.MustParse(lost), At: effects.TimeOf(time.Now()), Reason: "flipped"}, 0)
	}))
	require.NoError(t, st.Close())
	r := cli(t, nil, "", "restore", db, db+".new", "--to", at.String())
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "left out: record action/"+lost+": it was set aside since")
	assert.Contains(t, r.err, "the database was made, but lacks what could not be read (1)")
	verified(t, db+".new")
	r = cli(t, nil, "", "restore", db, db+".2", "--to", at.String(), "--json")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.out, `"left_out":`)
}
