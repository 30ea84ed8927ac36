//go:build unix

package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

const lostCommit = "commit 7 was acknowledged, the database's last one is 5, as after a failover to a standby that lagged behind"

// loses stops a partition as its owner does that finds its last commit gone.
func loses(t *testing.T, database string, partition int) {
	t.Helper()
	lost(t, database, partition, lostCommit)
}

// lost does so for a reason.
func lost(t *testing.T, database string, partition int, reason string) {
	t.Helper()
	execSQL(t, database, fmt.Sprintf(`UPDATE orrery.partitions SET halted = '%s', token = token + 1, beat = beat + 1, session = '', owner = '', address = '' WHERE part = %d`,
		strings.ReplaceAll(reason, "'", "''"), partition))
}

// tenantIn gives the name of a tenant in the namespace n that lives in that partition of so many.
func tenantIn(partition, partitions int) string {
	for n := 0; ; n++ {
		if of := (core.Scope{Namespace: "n", Tenant: fmt.Sprint("t", n)}); core.Partition(of, partitions) == partition {
			return of.Tenant
		}
	}
}

func TestAPartitionThatHasLostCommitsGoesOnOnceThatIsAccepted(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", database, "--partitions", "2")
	require.Zero(t, r.code, r.err)
	p := start(t, "--database", database, "--config", member(t, "one"))
	p.divides(2, "one")
	add := func(partition int) []string {
		return []string{"action", "add", "--in", "1h", "--namespace", "n", "--tenant", tenantIn(partition, 2), "--", "echo", "x"}
	}
	p.ok(add(1)...)

	loses(t, database, 1)
	await(t, p.errs, `nobody can open the partition.* partition=1 .*Look for what callers know of what is gone, then: orreryd cluster accept-loss 1`)
	assert.Contains(t, p.ok("cluster", "status"), "stopped: "+lostCommit)
	assert.Regexp(t, `"partition_count": ?2\b`, p.ok("cluster", "status", "--json"))
	assert.Equal(t, []string{"1"}, partitionsIn(p.metrics(), "orrery_partition_stopped", "1"))
	assert.Equal(t, []string{"0"}, partitionsIn(p.metrics(), "orrery_partition_stopped", "0"))
	status, _ := p.readiness()
	assert.Equal(t, http.StatusOK, status, "it works on the other one")
	r = p.do(add(1)...)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "partition 1 is stopped since its database has lost commits, until somebody accepts that: nothing was done")
	assert.NotContains(t, r.err, "commit 7")
	p.ok(add(0)...)

	for arg, says := range map[string]string{ // order-free: each is a case by itself
		"0": "partition 0 is not stopped: there is no loss to accept",
		"9": "PARTITION: there is none of the number 9: the cluster has partitions 0 to 1",
		"x": `PARTITION: "x" is no number of a partition: orreryd cluster status shows them`,
	} {
		for _, at := range [][]string{nil, {"--database", database}} {
			r := p.do(append([]string{"cluster", "accept-loss", "--yes", arg}, at...)...)
			assert.NotZero(t, r.code, r.out)
			assert.Contains(t, r.err, says)
		}
	}
	assert.Equal(t, "the loss is accepted, and partition 1 goes on: "+lostCommit+"\n", p.ok("cluster", "accept-loss", "1", "--yes"))
	await(t, p.errs, `a loss of commits was accepted here.* partition=1 stopped="commit 7 was acknowledged`)
	p.divides(2, "one")
	p.ok(add(1)...)
	assert.Empty(t, partitionsIn(p.metrics(), "orrery_partition_stopped", "1"))
	r = p.do("cluster", "accept-loss", "1")
	assert.Contains(t, r.err, "partition 1 is not stopped: there is no loss to accept")
	p.stop()
	assert.Contains(t, p.stderr.String(), "this daemon has ended, as it was told to")
}

func TestTheLossOfADatabaseOfOnePartitionIsAcceptedWithoutADaemon(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	p := start(t, "--database", database, "--config", member(t, "one"))
	p.add("--in", "1h", "--", "echo", "x")
	assert.Regexp(t, `"partition_count": ?1\b`, p.ok("cluster", "status", "--json"))
	for _, at := range [][]string{nil, {"--database", database}} {
		r := p.do(append([]string{"cluster", "accept-loss", "1"}, at...)...)
		assert.Equal(t, exitNotFound, r.code)
		assert.Contains(t, r.err, "PARTITION: there is none of the number 1: the database is not divided, and has partition 0 alone")
	}
	r := p.do("cluster", "accept-loss", "0")
	assert.Contains(t, r.err, "partition 0 is not stopped: there is no loss to accept")
	loses(t, database, 0)
	const then = `Look for what callers know of what is gone, then: orreryd cluster accept-loss 0 --database URL`
	await(t, p.errs, `standing by, since the database takes nothing of this daemon any more.*has lost commits`)
	await(t, p.errs, then)
	assert.Equal(t, exitFailed, p.code())
	again := begin(t, nil, "orchestrate", "--listen", "127.0.0.1:0", "--database", database, "--config", member(t, "two"))
	await(t, again.errs, then)
	assert.Equal(t, exitFailed, again.code())

	r = cli(t, nil, "", "cluster", "accept-loss", "0", "--database", "orrery.db")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "--database: is no URL of PostgreSQL")
	r = cli(t, nil, "", "cluster", "accept-loss", "0", "--json", "--yes", "--database", database)
	require.Zero(t, r.code, r.err)
	assert.Empty(t, r.err, "nothing is asked")
	assert.JSONEq(t, `{"partition":0,"stopped":"`+lostCommit+`"}`, r.out)
	p = start(t, "--database", database, "--config", member(t, "one"))
	assert.Contains(t, p.ok("action", "list"), "pending")
	p.stop()
}

func TestALossIsAcceptedOnlyByWhoHasReadOfIt(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", database, "--partitions", "2")
	require.Zero(t, r.code, r.err)
	p := start(t, "--database", database, "--config", member(t, "one"))
	p.divides(2, "one")
	loses(t, database, 1)
	await(t, p.errs, `nobody can open the partition.* partition=1 `)
	const (
		says    = "partition 1 is stopped: " + lostCommit + "\nWhat is gone stays gone, and callers may hold answers about it.\n"
		asks    = says + "Accept the loss of partition 1. Go on? [y/N] "
		another = "commit 9 was acknowledged, the database's last one is 5"
	)
	for name, at := range map[string][]string{"of a daemon": nil, "of the database": {"--database", database}} { // order-free: each is a case by itself
		accept := func(args ...string) []string {
			return append(append([]string{"cluster", "accept-loss", "1"}, args...), at...)
		}
		r := cli(t, []string{"ORRERY_SERVER=" + p.url}, "y\n", accept()...)
		assert.Equal(t, exitUsage, r.code, name)
		assert.Equal(t, says+"orreryd: nothing was done: there is no terminal to ask at: give --yes, or --stopped with the reason that was read\nSee orreryd cluster accept-loss --help\n", r.err, name)
		r = p.do(accept("--stopped", another, "--yes")...)
		assert.Equal(t, exitFailed, r.code, name)
		assert.Contains(t, r.err, "--stopped: partition 1 is stopped for another reason, and nothing was done: "+lostCommit, name)
		r = p.do(accept("--stopped", "", "--yes")...)
		assert.Equal(t, exitUsage, r.code, name)
		assert.Contains(t, r.err, "--stopped: is empty", name)

		m := p.inTerminal(200, nil, accept()...)
		m.await(strings.ReplaceAll(asks, "\n", "\r\n"))
		m.types("n\n")
		assert.Contains(t, m.ends(exitFailed), "nothing was done: answer y, or give --yes", name)

		m = p.inTerminal(200, nil, accept()...)
		m.await("Go on? [y/N] ")
		lost(t, database, 1, another) // since this was read
		m.types("y\n")
		assert.Contains(t, m.ends(exitFailed), "the partition is not stopped for that loss: it is stopped for another reason: "+another, name)
		assert.Contains(t, p.ok("cluster", "status"), "stopped: "+another, name)
		lost(t, database, 1, lostCommit)
	}
	m := p.inTerminal(200, nil, "cluster", "accept-loss", "1")
	m.await("Go on? [y/N] ")
	m.types("y\n")
	assert.Contains(t, m.text(), "the loss is accepted, and partition 1 goes on: "+lostCommit)
	p.divides(2, "one")

	loses(t, database, 1)
	await(t, p.errs, `nobody can open the partition.* partition=1 `)
	assert.Contains(t, p.ok("cluster", "accept-loss", "1", "--stopped", lostCommit), "the loss is accepted")
	p.divides(2, "one")
	p.stop()

	loses(t, database, 1)
	r = cli(t, nil, "", "cluster", "accept-loss", "1", "--database", database, "--stopped", lostCommit)
	require.Zero(t, r.code, r.err)
	assert.Equal(t, "the loss is accepted, and partition 1 goes on: "+lostCommit+"\n", r.out)
}

func TestAPartitionOnWhichNobodyHasWorkedHasNoLossToAccept(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", database, "--partitions", "2")
	require.Zero(t, r.code, r.err)
	for arg, says := range map[string]string{ // order-free: each is a case by itself
		"1": "PARTITION: nobody has worked on partition 1: there is no loss to accept",
		"2": "PARTITION: there is none of the number 2: the cluster has partitions 0 to 1",
	} {
		r := cli(t, nil, "", "cluster", "accept-loss", arg, "--database", database)
		assert.Equal(t, exitNotFound, r.code)
		assert.Contains(t, r.err, says)
	}
}

func TestADaemonIsNotAskedToAcceptTheLossOfAPartitionThatItDoesNotList(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ cluster, says string }{
		{`{"partition_count":4,"partitions":[{"number":0}]}`, "PARTITION: nobody has worked on partition 3: there is no loss to accept"},
		{`{"partition_count":3,"partitions":[{"number":0}]}`, "PARTITION: there is none of the number 3: the cluster has partitions 0 to 2"},
		{`{"partition_count":1,"partitions":[{"number":0}]}`, "PARTITION: there is none of the number 3: the database is not divided, and has partition 0 alone"},
		{`{"partitions":[{"number":0}]}`, "PARTITION: nobody has worked on partition 3: there is no loss to accept"}, // of an earlier version
	} {
		var asked []string
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method+" "+r.URL.Path)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, row.cluster)
		}))
		r := cli(t, []string{"ORRERY_SERVER=" + daemon.URL}, "", "cluster", "accept-loss", "3", "--yes")
		daemon.Close()
		assert.Equal(t, exitNotFound, r.code)
		assert.Equal(t, "orreryd: "+row.says+"\n", r.err)
		assert.Equal(t, []string{"GET /v1/cluster"}, asked)
	}
}

func TestAPartitionThatIsStoppedOtherwiseHasNoLossToAccept(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	p := start(t, "--database", database, "--config", member(t, "one"))
	p.stop()
	execSQL(t, database, `UPDATE orrery.partitions SET halted = 'it is being filled with another database''s content' WHERE part = 0`)
	r := cli(t, nil, "", "cluster", "accept-loss", "0", "--database", database)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "partition 0 is stopped, and not for a loss of commits: orreryd cluster status says why")
}
