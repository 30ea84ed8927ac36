package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
