package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/audit"
)

const auditTokens = `
[[tokens]]
name = "ops"
token = "ops-ops-ops-ops-ops"
admin = true
[[tokens]]
name = "web"
token = "web-web-web-web-web"
namespaces = ["web"]
tenants = ["t"]
`

// entriesOf reads JSON lines.
func entriesOf(t *testing.T, out string) (entries []audit.Entry) {
	t.Helper()
	for line := range strings.Lines(out) {
		var e audit.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		entries = append(entries, e)
	}
	return entries
}

func TestTheLogOfRequestsIsReadFromTheDaemonFromItsFilesAndAfterAKill(t *testing.T) {
	t.Parallel()
	db, c := database(t), write(t, "orrery.toml", auditTokens)
	p := start(t, "--db", db, "--config", c)
	as := func(token string, args ...string) result {
		return cli(t, []string{"ORRERY_SERVER=" + p.url, "ORRERY_TOKEN=" + token}, "", args...)
	}
	added := as("web-web-web-web-web", "actions", "add", "--namespace", "web", "--tenant", "t", "--in", "1h", "--", "echo", "hush")
	require.Zero(t, added.code, added.err)
	id := anID.FindString(added.out)
	require.Equal(t, exitFailed, as("web-web-web-web-web", "backup", "--to", filepath.Join(t.TempDir(), "b.db")).code)
	for range 5 {
		require.Equal(t, exitFailed, as("guess-guess-guess-guess", "actions", "list").code)
	}
	require.Zero(t, as("ops-ops-ops-ops-ops", "actions", "cancel", id).code)

	r := as("ops-ops-ops-ops-ops", "audit")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "TIME")
	assert.Regexp(t, `201 +1 +web +127\.0\.0\.1 +createAction +web/t +/v1/actions/`+id, r.out)
	assert.Regexp(t, `403 +1 +web +127\.0\.0\.1 +backup +web/t +/v1/backup +token: "web" is not an admin's`, r.out)
	assert.Regexp(t, `200 +1 +ops +127\.0\.0\.1 +cancelAction +web/t`, r.out)
	assert.Equal(t, 1, strings.Count(as("ops-ops-ops-ops-ops", "audit", "--limit", "1").out, "\n")-1)
	assert.Contains(t, as("ops-ops-ops-ops-ops", "audit", "--limit", "1").err, "There is more: --page-token ")

	count := func(entries []audit.Entry) (n uint64) {
		for _, e := range entries {
			n += e.Count
		}
		return n
	}
	online := entriesOf(t, as("ops-ops-ops-ops-ops", "audit", "--status", "401", "--by", "", "--since", "1h", "--all", "--json").out)
	assert.Equal(t, uint64(5), count(online))
	for _, e := range entriesOf(t, as("web-web-web-web-web", "audit", "--json").out) {
		assert.Equal(t, "web/t", e.Namespace+"/"+e.Tenant)
	}
	assert.Contains(t, as("ops-ops-ops-ops-ops", "audit", "--by", "zoe").out, "The log has no such requests")

	offline := func(args ...string) result {
		return cli(t, nil, "", append([]string{"audit", "--db", db}, args...)...)
	}
	same := offline("--status", "4xx", "--operation", "listActions", "--json")
	require.Zero(t, same.code, same.err)
	assert.Equal(t, online, entriesOf(t, same.out), "the files say what the daemon says, while it runs")

	require.NoError(t, p.cmd.Process.Kill())
	<-p.exited
	files, err := filepath.Glob(filepath.Join(db+".audit", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 3, "of web, of ops and of nobody")
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"seq":1790`) // what a kill may leave
	require.NoError(t, err)
	require.NoError(t, f.Close())
	r = offline("--all", "--json")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.err, "1 line of the log left out, being damaged")
	before := entriesOf(t, r.out)
	assert.GreaterOrEqual(t, count(before), uint64(8))
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.NotRegexp(t, "hush|guess|ops-ops|web-web", string(b))
	}

	p = start(t, "--db", db, "--config", c)
	require.Zero(t, as("ops-ops-ops-ops-ops", "actions", "add", "--", "echo").code)
	after := entriesOf(t, as("ops-ops-ops-ops-ops", "audit", "--all", "--json").out)
	require.Greater(t, len(after), len(before))
	assert.Equal(t, before, after[len(after)-len(before):], "nothing is lost, and it goes on")
	assert.Equal(t, "createAction", after[0].Operation)
}

func TestTheLogOfRequestsCanBeOff(t *testing.T) {
	t.Parallel()
	db := database(t)
	p := start(t, "--db", db, "--config", write(t, "orrery.toml", "[audit]\nenabled = false\n"))
	p.ok("actions", "add", "--", "echo")
	r := p.do("audit")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "keeps no log of requests: set enabled = true in [audit]")
	assert.NoDirExists(t, db+".audit")
	r = cli(t, nil, "", "audit", "--db", db)
	assert.Equal(t, exitNotFound, r.code)
	assert.Contains(t, r.err, "there is no log of requests in "+db+".audit")
}

func TestWhatTheAuditCommandCannotReadIsRefusedByItsFlag(t *testing.T) {
	t.Parallel()
	db := database(t)
	require.NoError(t, os.Mkdir(db+".audit", 0o700))
	for _, row := range []struct{ args, says string }{
		{"--since soon", `--since: "soon" is neither a time such as`}, {"--until -5m", `--until: "-5m" is neither`},
		{"--status 40", `--status: "40" is unknown`}, {"--limit 0", "--limit: 0 is not between 1 and 1000"}, {"--page-token x --db " + db, "--page-token:"},
		{"extra", "takes no arguments"},
	} {
		r := cli(t, nil, "", append([]string{"audit"}, strings.Fields(row.args)...)...)
		assert.Equal(t, exitUsage, r.code, row.args)
		assert.Contains(t, r.err, row.says)
	}
}
