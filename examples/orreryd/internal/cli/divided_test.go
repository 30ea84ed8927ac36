//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// owners gives who works on each partition; "": nobody does.
func (p *process) owners() (out []string) {
	p.t.Helper()
	var c wire.Cluster
	require.NoError(p.t, json.Unmarshal([]byte(p.ok("cluster", "status", "--json")), &c))
	for _, of := range c.Partitions {
		out = append(out, of.Owner)
	}
	return out
}

// divides waits until each of that many partitions is with who should have it of these, after which none moves.
func (p *process) divides(partitions int, names ...string) {
	p.t.Helper()
	var should, is []string
	for n := range partitions {
		should = append(should, fleet.Place(n, names))
	}
	for _, name := range names {
		require.Contains(p.t, should, name, "by its name it should have none")
	}
	assert.Eventually(p.t, func() bool {
		is = p.owners()
		return slices.Equal(should, is)
	}, 2*patience, 50*time.Millisecond)
	require.Equal(p.t, should, is)
}

// partitionsIn gives the partitions of which a metric has a value.
func partitionsIn(metrics, name, value string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^`+name+`\{partition="(\d+)"\} `+value+`$`).FindAllStringSubmatch(metrics, -1) {
		out = append(out, m[1])
	}
	return out
}

// runsLeft sums what the metrics of a daemon say of the runs that it goes on with in partitions that it has given back.
func (p *process) runsLeft() (sum int) {
	p.t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^orrery_partition_runs_left\{partition="\d+"\} (\d+)$`).FindAllStringSubmatch(p.metrics(), -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(p.t, err)
		sum += n
	}
	return sum
}

// formerRuns sums what the status of the cluster says of the runs that a daemon goes on with as a former owner.
func (p *process) formerRuns(name string) (sum int) {
	p.t.Helper()
	var c wire.Cluster
	require.NoError(p.t, json.Unmarshal([]byte(p.ok("cluster", "status", "--json")), &c))
	for _, of := range c.Partitions {
		for _, f := range of.FormerOwners {
			if f.Instance == name {
				sum += f.Running
			}
		}
	}
	return sum
}

func TestDaemonsOnADividedDatabaseWorkSideBySide(t *testing.T) {
	t.Parallel()
	const partitions, tenants = 6, 24
	database := postgrestest.Database(t)
	divide := []string{"cluster", "init", "--database", database, "--partitions", strconv.Itoa(partitions)}
	r := cli(t, nil, "", divide...)
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "has 6 partitions: start daemons on it")
	r = cli(t, nil, "", divide...)
	assert.Zero(t, r.code, "done twice it changes nothing: %s", r.err)
	r = cli(t, []string{"ORRERY_DATABASE=" + database}, "", "cluster", "init", "--partitions", "7")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "it has 6 partitions")
	assert.Contains(t, r.err, "stop its daemons, and name an empty database: orreryd copy --from URL --to URL --partitions 7")

	r = cli(t, nil, "", "copy", "--to", database, "--partitions", "5", "--from", stoppedFile(t))
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "is divided into 6 already: leave it out, or name another database with --to")

	var daemons []*process
	for _, name := range []string{"left", "middle", "right"} {
		config := member(t, name)
		settings, err := os.ReadFile(config)
		require.NoError(t, err)
		daemons = append(daemons, start(t, "--database", database, "--config", write(t, name+".toml", string(settings)+"stop_timeout_seconds = 0.05\n")))
	}
	first, second, third := daemons[0], daemons[1], daemons[2]
	first.divides(partitions, "left", "middle", "right")

	tenant := func(n int) []string { return []string{"--namespace", "n", "--tenant", fmt.Sprint("t", n)} }
	at := map[int]bool{}
	for n := range tenants {
		at[core.Partition(core.Scope{Namespace: "n", Tenant: fmt.Sprint("t", n)}, partitions)] = true
		daemons[n%3].ok(append([]string{"queue", "push", "q", "--data", `{"n":1}`}, tenant(n)...)...)
		done := daemons[(n+1)%3].add(append([]string{"--wait"}, append(tenant(n), "--", "echo", "x")...)...)
		assert.Equal(t, core.StatusCompleted, daemons[(n+2)%3].action(done).Status.Type, "its id alone finds it")
	}
	require.Len(t, at, partitions, "there are tenants in each partition")
	listed := func(p *process) int {
		return len(strings.Fields(p.ok("actions", "list", "--output", "name", "--all")))
	}
	for _, p := range daemons {
		assert.Equal(t, tenants, listed(p), "a list has those of all partitions, once each")
		assert.Equal(t, 1, strings.Count(p.ok("queue", "list", "--namespace", "n", "--tenant", "t0", "--output", "name"), "\n"))
	}

	for _, p := range daemons {
		logs := p.ok("audit", "--all", "--limit", "20", "--operation", "createAction", "--status", "201")
		assert.Equal(t, tenants, strings.Count(logs, " createAction "), "the logs of all are one: %s", logs)
		sum := 0
		for _, name := range []string{"left", "middle", "right"} {
			own := p.ok("audit", "--all", "--operation", "createAction", "--status", "201", "--instance", name)
			assert.Equal(t, strings.Count(logs, " "+name+" "), strings.Count(own, " "+name+" "))
			assert.Less(t, strings.Count(own, " "+name+" "), tenants, "each has those of its partitions")
			sum += strings.Count(own, " "+name+" ")
		}
		assert.Equal(t, tenants, sum)
	}

	sum := 0
	for _, p := range daemons {
		metrics := p.metrics()
		owned := partitionsIn(metrics, "orrery_partition_owned", "1")
		sum += len(owned)
		for _, name := range []string{"orrery_loop_lag_seconds", "orrery_log_frames", "orrery_store_token"} {
			assert.Equal(t, owned, partitionsIn(metrics, name, `\S+`), "%s is of what the daemon owns", name)
		}
		_, text := p.readiness()
		assert.JSONEq(t, fmt.Sprintf(`{"status":"ready","store":{"kind":"postgres","partitions":6,"owned":%d}}`, len(owned)), text)
		assert.Regexp(t, fmt.Sprintf(`store +postgres, 6 partitions, of which the daemon that was asked works on %d\n`, len(owned)), p.ok("system", "show"))
	}
	assert.Equal(t, partitions, sum, "each partition is owned by one")

	require.NoError(t, third.cmd.Process.Kill())
	<-third.exited
	for n := range tenants {
		daemons[n%2].ok(append([]string{"queue", "push", "q", "--data", `{"n":2}`}, tenant(n)...)...) // waits until somebody works on it
	}
	first.divides(partitions, "left", "middle")
	for n := range tenants {
		assert.Regexp(t, `items +2 ready`, first.ok(append([]string{"queue", "show", "q"}, tenant(n)...)...), "what was acknowledged is there, once")
	}

	goOn := filepath.Join(t.TempDir(), "go on")
	var run []string
	for n := range tenants {
		run = append(run, first.add(append(tenant(n), "--", "sh", "-c", `until [ -e "$0" ]; do sleep 0.1; done`, goOn)...))
	}
	first.ok("cluster", "drain", "left")
	second.divides(partitions, "middle")
	left := first.runsLeft()
	assert.Positive(t, left)
	assert.Equal(t, left, first.formerRuns("left"), "the metrics and the cluster's status tell the same")
	assert.Regexp(t, fmt.Sprintf(`(?m)^left +gives its partitions away, has none, goes on with %s of what it has given back, at `, counted(left, "run")), second.ok("cluster", "status"))
	assert.Zero(t, second.runsLeft(), "it works on what its runs are of")
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	for _, id := range run {
		var is core.Action
		assert.Eventually(t, func() bool {
			is = second.action(id)
			return is.Status.Type != core.StatusRunning
		}, patience, 20*time.Millisecond)
		assert.Equal(t, core.StatusCompleted, is.Status.Type, "%s", is.Status.Reason)
		assert.EqualValues(t, 1, is.Attempt, "a move interrupts no tool, though the stop timeout is over")
	}
	require.Eventually(t, func() bool { return first.runsLeft() == 0 && second.formerRuns("left") == 0 }, patience, 20*time.Millisecond)
	assert.Contains(t, second.ok("cluster", "status"), "gives its partitions away, has none, at ")
	assert.Equal(t, 2*tenants, listed(first), "it goes on to answer")
	second.ok("cluster", "drain", "left", "--undo")
	second.divides(partitions, "left", "middle")
	var told string
	assert.Eventually(t, func() bool { // one that moves is nobody's for a moment
		told = second.ok("cluster", "rebalance")
		return len(regexp.MustCompile(`(?m)^partition \d +(left|middle) works`).FindAllString(told, -1)) == partitions
	}, patience, 50*time.Millisecond)
	assert.Len(t, strings.Split(strings.TrimSpace(told), "\n"), partitions, "%s", told)
	for _, p := range []*process{first, second} {
		p.signal(os.Interrupt)
		assert.Zero(t, p.code())
	}
	for n := range partitions {
		r := cli(t, nil, "", "replay", "--verify", "--database", database, "--partition", strconv.Itoa(n))
		require.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, " 0 divergences")
	}
	r = cli(t, nil, "", "replay", "--verify", "--database", database)
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "is divided into 6 partitions: name one, from 0 to 5")
	r = cli(t, nil, "", "quarantine", "--database", database, "--partition", "6")
	assert.NotZero(t, r.code)
	assertChecked(t, database)
}

// assertChecked looks at a divided database with "check", sound, and with an entry too many in two of its partitions.
func assertChecked(t *testing.T, database string) {
	t.Helper()
	r := cli(t, nil, "", "check", "--database", database)
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, " is sound\n")
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(t.Context())) }()
	for _, part := range []int{2, 5} { // an entry for a record that there is not
		_, err := conn.Exec(t.Context(), `INSERT INTO orrery.tables SELECT $1::int, 9999, 'due' WHERE NOT EXISTS (SELECT FROM orrery.tables WHERE part = $1 AND name = 'due')`, part)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `INSERT INTO orrery.entries SELECT part, id, decode(repeat('00', 24), 'hex'), 'action' FROM orrery.tables WHERE part = $1 AND name = 'due'`, part)
		require.NoError(t, err)
	}
	r = cli(t, nil, "", "check", "--database", database)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.out, "partition 2: due: key ")
	assert.Contains(t, r.out, "partition 5: due: key ")
	assert.NotContains(t, r.out, "partition 3: ")
	assert.Contains(t, r.err, " things are wrong")
	r = cli(t, nil, "", "check", "--database", database, "--partition", "3", "--json")
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, `"findings": []`)
	r = cli(t, nil, "", "check", "--database", database, "--partition", "5")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.out, "due: key ")
	r = cli(t, nil, "", "check", "--database", database, "--partition", "6")
	assert.NotZero(t, r.code)
}

// stoppedFile makes a database file that a daemon has worked on.
func stoppedFile(t *testing.T) string {
	t.Helper()
	db := database(t)
	p := start(t, "--db", db)
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
	return db
}

func TestADaemonOfSeveralPartitionsReadsItsSettingsAndFilesAgain(t *testing.T) {
	t.Parallel()
	const partitions, admin, reader = 3, "0123456789-0123456789", "abcdefghij-abcdefghij"
	database, dir := postgrestest.Database(t), t.TempDir()
	r := cli(t, nil, "", "cluster", "init", "--database", database, "--partitions", strconv.Itoa(partitions))
	require.Zero(t, r.code, r.err)
	var tenants []string // one of each partition
	for p := range partitions {
		tenants = append(tenants, tenantIn(p, partitions))
	}
	declare := func(slots int) {
		for _, tenant := range tenants {
			text := fmt.Sprintf("namespace = 'n'\ntenant = %q\n[semaphores.s]\nslots = %d\n", tenant, slots)
			require.NoError(t, os.WriteFile(filepath.Join(dir, tenant+".toml"), []byte(text), 0o600))
		}
	}
	declare(2)
	file := write(t, "orrery.toml", "")
	say := func(tokens string) {
		text := "[cluster]\nname = 'only'\nlease_seconds = 2\n[[tokens]]\nname = 'adm'\nadmin = true\ntoken = '" + admin + "'\n"
		require.NoError(t, os.WriteFile(file, []byte(text+tokens), 0o600))
	}
	say("")
	p := begin(t, []string{"ORRERY_DATABASE=" + database}, "orchestrate", "--listen", "127.0.0.1:0", "--config", file, "--apply", dir)
	p.awaitReady()
	with := func(token string, args ...string) result {
		return cli(t, []string{"ORRERY_SERVER=" + p.url, "ORRERY_TOKEN=" + token}, "", args...)
	}
	slots := func(want int) {
		t.Helper()
		for _, tenant := range tenants {
			require.Eventually(t, func() bool {
				r := with(admin, "semaphore", "show", "s", "--namespace", "n", "--tenant", tenant, "--json")
				return strings.Contains(r.out, fmt.Sprintf(`"total": %d`, want))
			}, patience, 50*time.Millisecond, "tenant %s", tenant)
		}
	}
	slots(2)
	assert.NotZero(t, with(reader, "actions", "list").code)

	declare(5)
	say("[[tokens]]\nname = 'reader'\nread_only = true\ntoken = '" + reader + "'\n")
	p.signal(syscall.SIGHUP)
	slots(5)
	require.Eventually(t, func() bool { return with(reader, "actions", "list").code == 0 }, patience, 50*time.Millisecond)
	say("[[tokens]]\nname = 'reader'\nread_only = true\ntoken = 'x'\n") // too short
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `level=ERROR msg="could not be reloaded: .*" what=configuration`)
	assert.Zero(t, with(reader, "actions", "list").code, "what was read before stays in force")

	say("")
	declare(7)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "all.toml"), []byte("namespace = 'orrery'\ntenant = 'notify'\n[subscribers.s]\nmatch.category = 'deploys'\ndo.push.name = 'q'\n"), 0o600))
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `level=ERROR msg="could not be reloaded: .*" partition=\d what=set .*hear the events of other tenants, and here only those of one of 3 partitions: make a subscriber for each tenant`)
	slots(5)
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
}
