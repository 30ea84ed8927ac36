package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestADamagedDatabaseIsSalvagedAndRunsOn(t *testing.T) {
	db := database(t)
	p := start(t, "--db", db)
	for range 40 {
		p.ok("actions", "add", "--in", "1h", "--", "echo", "one")
	}
	p.ok("backup", "--to", db+".backup")
	p.signal(os.Interrupt)
	require.Zero(t, p.code())
	verified := cli(t, nil, "", "replay", "--verify", "--db", db)
	require.Zero(t, verified.code, verified.err)
	r := cli(t, nil, "", "salvage", db, db+".same")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "nothing is lost: ")
	assert.NotContains(t, r.out, "the journal begins")
	r = cli(t, nil, "", "replay", "--verify", "--db", db+".same")
	require.Zero(t, r.code, r.err)
	assert.Equal(t, verified.out, r.out)

	raw, err := os.ReadFile(db)
	require.NoError(t, err)
	at := bytes.Index(raw, []byte(`"one"`)) // in a record
	require.Positive(t, at)
	raw[at] ^= 1
	require.NoError(t, os.WriteFile(db, raw, 0o600))

	r = cli(t, nil, "", "salvage", db, db+".new", "--json")
	require.Zero(t, r.code, r.err)
	var report salvageReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	assert.EqualValues(t, 1, report.Losses)
	assert.NotZero(t, report.Anew)
	assert.Contains(t, report.Why, "records/action")
	assert.Empty(t, report.Left)
	r = cli(t, nil, "", "replay", "--verify", "--db", db+".new")
	require.Zero(t, r.code, r.err+r.out)

	r = cli(t, nil, "", "salvage", db, db+".whole", "--backup", db+".backup")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "records/action: ")
	assert.Contains(t, r.out, "1 from the backup")
	assert.Contains(t, r.out, "lost: records/action: key ")
	assert.Contains(t, r.out, "the journal begins anew with batch ")
	assert.Contains(t, r.out, ": records/action: ")
	r = cli(t, nil, "", "check", "--db", db+".whole")
	require.Zero(t, r.code, r.err+r.out)
	again := start(t, "--db", db+".whole")
	assert.Contains(t, again.ok("actions", "list", "--limit", "100"), "pending")

	r = cli(t, nil, "", "salvage", db, db+".new")
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "is there already")
	r = cli(t, nil, "", "salvage", db)
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "want a damaged file and a new one, as in: orreryd salvage FROM TO")
}

// harmed makes a copy of a database in which a record has a wrong checksum; no id: the first one.
func harmed(t *testing.T, db, to, kind string, id uuid.UUID) {
	t.Helper()
	file, err := os.ReadFile(db)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, file, 0o600))
	b, err := bbolt.Open(to, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, b.Update(func(tx *bbolt.Tx) error {
		records := tx.Bucket([]byte("records/" + kind))
		k, v := records.Cursor().First()
		if id != uuid.Nil {
			k, v = id[:], records.Get(id[:])
		}
		v = bytes.Clone(v)
		v[len(v)-1] ^= 1
		return records.Put(bytes.Clone(k), v)
	}))
	require.NoError(t, b.Close())
}

// TestASalvageCountsThePipelinesOfADefinitionAnew loses one of two pipelines; or their count,
// of which the backup has an older one; or one that was set aside while the daemon ran.
func TestASalvageCountsThePipelinesOfADefinitionAnew(t *testing.T) {
	db := database(t)
	p := start(t, "--db", db)
	startOf(t, p, asking)
	p.ok("backup", "--to", db+".backup")
	second := uuid.MustParse(startOf(t, p, asking))
	p.signal(os.Interrupt)
	require.Zero(t, p.code())

	harmed(t, db, db+".one", "pipeline", second)
	r := cli(t, nil, "", "salvage", db+".one", db+".new")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "mended: pipeline_runs/")
	assert.Contains(t, r.out, ": it counts 2 pipelines, 1 use the definition")
	r = cli(t, nil, "", "check", "--db", db+".new")
	require.Zero(t, r.code, r.err+r.out)
	assert.NotContains(t, r.out, "left over")

	harmed(t, db, db+".two", "pipeline_runs", uuid.Nil)
	r = cli(t, nil, "", "salvage", db+".two", db+".counted", "--backup", db+".backup", "--json")
	require.Zero(t, r.code, r.err)
	var report salvageReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.Len(t, report.Mended, 1)
	assert.Contains(t, report.Mended[0], "it counts 1 pipelines, 2 use the definition")
	require.Zero(t, cli(t, nil, "", "check", "--db", db+".counted").code)

	harmed(t, db, db+".three", "pipeline", second)
	r = cli(t, nil, "", "check", "--db", db+".three")
	require.NotZero(t, r.code)
	assert.NotContains(t, r.out, "left over", "the pipeline is there, and nobody knows what it refers to")
	st, err := bolt.Open(db+".three", bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		return tx.SetAside(store.Quarantined{Kind: core.KindPipeline, ID: second, At: 1, Reason: "bad"}, 0)
	}))
	require.NoError(t, st.Close())
	r = cli(t, nil, "", "check", "--db", db+".three")
	require.Zero(t, r.code, "what is left over does no harm")
	assert.Contains(t, r.out, "is sound")
	assert.Contains(t, r.out, "left over: pipeline_runs/")
}

// TestAPipelineThatCannotBeDecodedKeepsNobodyFromSalvagingAndChecking: its checksum is right, and it may be a newer
// version's. What stands beside it stays.
func TestAPipelineThatCannotBeDecodedKeepsNobodyFromSalvagingAndChecking(t *testing.T) {
	db := database(t)
	id, page := uuid.UUID{15: 1}, core.HistoryPage{ID: uuid.UUID{15: 2}, Pipeline: uuid.UUID{15: 1}}
	st, err := bolt.Open(db, bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		return errors.Join(tx.AppendJournal(1, 1, core.NewEntry(1, 1, "test").AppendJSON(nil)), tx.Put(1, []store.Write{
			{Kind: core.KindPipeline, ID: id, State: []byte(`{"id":5}`)},
			{Kind: core.KindPipelineHistory, ID: page.ID, State: page.AppendJSON(nil)},
			{Kind: core.KindAction, ID: id, State: []byte(`{}`)},
		}))
	}))
	require.NoError(t, st.Close())
	harmed(t, db, db+".bad", "action", id)
	for _, path := range []string{db, db + ".bad"} { // the second one's journal begins anew
		r := cli(t, nil, "", "salvage", path, path+".new")
		require.Zero(t, r.code, r.err)
		assert.NotContains(t, r.out, "mended: ")
		r = cli(t, nil, "", "check", "--db", path+".new")
		require.Zero(t, r.code, r.err)
		assert.NotContains(t, r.out, "left over: ")
	}
}
