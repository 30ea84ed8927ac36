//go:build unix

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// withPassword gives the URL of a database with a password, which the servers of the tests do not ask for.
func withPassword(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.User = url.UserPassword(u.User.Username(), "hush-hush-8")
	return u.String()
}

// member is a configuration of a daemon on a database that others may have, with a lease that a takeover waits for, and that a stall of a busy machine does not end.
func member(t *testing.T, name string) string {
	t.Helper()
	return write(t, name+".toml", fmt.Sprintf("[cluster]\nname = %q\nlease_seconds = 5\n\n[engine]\nrecover_after_seconds = 0.001\n", name))
}

// standsBy starts a daemon on a database on which another one works.
func standsBy(t *testing.T, database, name string) *process {
	t.Helper()
	p := begin(t, []string{"ORRERY_DATABASE=" + database}, "orchestrate", "--listen", "127.0.0.1:0", "--config", member(t, name))
	p.url = urlIn.FindString(await(t, p.out, `stands by at http://`))
	return p
}

// works waits until a daemon that stands by works.
func (p *process) works() { p.t.Helper(); await(p.t, p.out, `is ready at `+regexp.QuoteMeta(p.url)) }

func TestADaemonThatStandsByAnswersAndTakesTheDatabaseOverFromOneThatIsKilled(t *testing.T) {
	t.Parallel()
	database := withPassword(t, postgrestest.Database(t))
	first := start(t, "--database", database, "--config", member(t, "first"))
	done := first.add("--wait", "--", "echo", "done")
	second, third := standsBy(t, database, "second"), standsBy(t, database, "third")
	waiting := second.add("--in", "1h", "--", "echo", "later")
	assert.Equal(t, core.StatusPending, first.action(waiting).Status.Type, "it has passed the request on")
	assert.Equal(t, core.StatusCompleted, third.action(done).Status.Type)
	status, text := second.readiness()
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"status":"standby","works":"first","at":"`+first.url+`","store":{"kind":"postgres","partitions":1,"owned":0}}`, text)
	_, text = first.readiness()
	assert.JSONEq(t, `{"status":"ready","store":{"kind":"postgres","partitions":1,"owned":1}}`, text)
	require.Eventually(t, func() bool { return strings.Count(second.ok("cluster", "status"), " stands by, at ") == 2 }, patience, 20*time.Millisecond)
	assert.Contains(t, second.ok("cluster", "status"), "first works, at "+first.url+", with token 1; commit ")
	running := third.add("--", "sleep", "60")
	require.Eventually(t, func() bool { return first.action(running).Status.Type == core.StatusRunning }, patience, 20*time.Millisecond)
	r := cli(t, []string{"ORRERY_DATABASE=" + database}, "", "replay", "--verify") // beside them
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, " 0 divergences")

	require.NoError(t, first.cmd.Process.Kill())
	<-first.exited
	killed := time.Now()
	meanwhile := second.add("--in", "1h", "--", "echo", "meanwhile") // waits until somebody works again
	took := time.Since(killed)
	t.Logf("a request that came after the kill is answered %s after it", took.Round(time.Millisecond))
	next, other := second, third
	const has = "the database is this daemon's"
	require.Eventually(t, func() bool { return second.said(has) || third.said(has) }, patience, 10*time.Millisecond)
	if !second.said(has) {
		next, other = third, second
	}
	next.works()
	next.says("the daemon that worked before was silent, and has not given it back")
	assert.Regexp(t, `given it back" .*before=first\n`, next.stderr.String())
	assert.NotContains(t, first.stderr.String(), "worked before was silent", "nobody had it before")
	assert.Equal(t, core.StatusCompleted, next.action(done).Status.Type)
	assert.Equal(t, core.StatusPending, next.action(waiting).Status.Type)
	assert.Equal(t, core.StatusPending, next.action(meanwhile).Status.Type)
	require.Eventually(t, func() bool { return other.action(running).Status.Type == core.StatusFailed }, patience, 20*time.Millisecond)
	assert.Equal(t, core.ReasonRecovered, next.action(running).Status.Reason)
	var cluster wire.Cluster
	require.Eventually(t, func() bool { // the one that was killed is seen to be silent
		require.NoError(t, json.Unmarshal([]byte(other.ok("cluster", "status", "--json")), &cluster))
		return len(cluster.Instances) == 3 && !cluster.Instances[0].Alive
	}, patience, 50*time.Millisecond)
	require.Len(t, cluster.Partitions, 1)
	assert.Equal(t, next.url, cluster.Partitions[0].Address)
	assert.EqualValues(t, 2, cluster.Partitions[0].Token)
	assert.Equal(t, cluster.Partitions[0].Owner, cluster.Instance)
	for _, p := range []*process{other, next} {
		p.signal(os.Interrupt)
		assert.Zero(t, p.code())
	}
	for _, p := range []*process{first, second, third} {
		assert.NotContains(t, p.stderr.String(), "hush-hush-8")
	}
	for _, args := range [][]string{{"replay", "--verify"}, {"quarantine"}, {"history", "action/" + done}} {
		r := cli(t, nil, "", append(args, "--database", database)...)
		require.Zero(t, r.code, "%v: %s", args, r.err)
		assert.NotContains(t, r.out+r.err, "hush-hush-8")
	}
}

func TestADaemonThatTakesADatabaseOverWhichRefusesConnectionsWaitsForThem(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true, Settings: map[string]string{"max_connections": "30", "superuser_reserved_connections": "0"}})
	database := server.Database(t)
	first := start(t, "--database", database, "--config", member(t, "first"))
	done := first.add("--wait", "--", "echo", "done")
	second := standsBy(t, database, "second")
	var taken []*pgx.Conn
	for {
		c, err := pgx.Connect(t.Context(), database)
		if err != nil {
			require.ErrorContains(t, err, "too many clients")
			break
		}
		taken = append(taken, c)
	}
	require.NotEmpty(t, taken)
	first.signal(syscall.SIGSTOP) // which keeps its connections
	await(t, second.errs, "the database is not available, and is this daemon's; trying again.*too many clients")
	for _, c := range taken {
		require.NoError(t, c.Close(t.Context()))
	}
	second.works()
	assert.Equal(t, core.StatusCompleted, second.action(done).Status.Type)
	second.ok("actions", "add", "--wait", "--", "echo", "on")
	first.signal(syscall.SIGCONT)
	await(t, first.errs, "standing by, since another daemon has the database")
	for _, p := range []*process{first, second} {
		p.signal(os.Interrupt)
		assert.Zero(t, p.code())
	}
}

func TestADaemonThatWasFrozenFindsItselfReplacedAndStandsBy(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	frozen := start(t, "--database", database, "--config", member(t, "frozen"))
	next := standsBy(t, database, "next")
	running := frozen.add("--", "sleep", "60")
	require.Eventually(t, func() bool { return frozen.action(running).Status.Type == core.StatusRunning }, patience, 20*time.Millisecond)
	assert.Contains(t, frozen.metrics(), "\norrery_store_token 1\n")
	frozen.signal(syscall.SIGSTOP)
	next.works()
	frozen.signal(syscall.SIGCONT)
	await(t, frozen.errs, "standing by, since another daemon has the database")
	await(t, frozen.errs, `standing by: another daemon works on the database.*works=next`)
	require.Eventually(t, func() bool { return frozen.action(running).Status.Type == core.StatusFailed }, patience, 20*time.Millisecond)
	frozen.ok("actions", "add", "--wait", "--", "echo", "on") // passed on
	assert.Contains(t, frozen.metrics(), "\norrery_standby 1\n")
	assert.Contains(t, next.metrics(), "\norrery_standby 0\n")
	assert.Contains(t, next.metrics(), "\norrery_store_token 2\n")

	// And back.
	next.signal(os.Interrupt)
	assert.Zero(t, next.code())
	frozen.works()
	frozen.ok("actions", "add", "--wait", "--", "echo", "back")
	frozen.signal(os.Interrupt)
	assert.Zero(t, frozen.code())
	r := cli(t, nil, "", "replay", "--verify", "--database", database)
	require.Zero(t, r.code, r.err)
}

func TestAfterACleanStopTheNextDaemonWorksAtOnceAndNoRequestFails(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	first := start(t, "--database", database, "--config", member(t, "first"))
	second := standsBy(t, database, "second")
	ended := make(chan struct{})
	var ids []string
	go func() {
		defer close(ended)
		for until := time.Now().Add(time.Second); time.Now().Before(until); {
			resp, err := http.Post(second.url+"/v1/actions", "application/json", strings.NewReader(`{"tool_name":"command","tool_input":{"argv":["echo","x"]},"trigger":{"type":"scheduled","next_tick_at":"2090-01-01T00:00:00Z"}}`))
			if !assert.NoError(t, err) {
				return
			}
			text, err := io.ReadAll(resp.Body)
			assert.NoError(t, errors.Join(err, resp.Body.Close()))
			if wait, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && resp.StatusCode == http.StatusServiceUnavailable {
				<-time.After(time.Duration(wait) * time.Second)
				until = until.Add(time.Duration(wait) * time.Second)
				continue
			}
			if assert.Equal(t, http.StatusCreated, resp.StatusCode, "%s", text) {
				ids = append(ids, anID.FindString(string(text)))
			}
			<-time.After(5 * time.Millisecond) // so that they fit on a page
		}
	}()
	<-time.After(500 * time.Millisecond)
	first.signal(os.Interrupt)
	assert.Zero(t, first.code())
	stopped := time.Now()
	second.works()
	t.Logf("the next daemon works %s after the end of the one before", time.Since(stopped).Round(time.Millisecond))
	<-ended
	require.NotEmpty(t, ids)
	var there []string
	for line := range strings.SplitSeq(second.ok("actions", "list", "--limit", "1000", "--output", "name"), "\n") {
		if id := anID.FindString(line); id != "" {
			there = append(there, id)
		}
	}
	assert.ElementsMatch(t, ids, there, "each that was acknowledged, once")
	second.signal(os.Interrupt)
	assert.Zero(t, second.code())
}

func TestADatabaseOfACommandIsAFileOrAURL(t *testing.T) {
	url := postgrestest.Database(t)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--db", "x.db", "--database", url}, exitUsage, "--database: stands beside --db: give one of them"},
		{[]string{"--db", url}, exitUsage, "--db: is a URL, and no file: give it as --database"},
		{[]string{"--database", "host=x password=hush-hush-8"}, exitUsage, "--database: is no URL of PostgreSQL: want one such as postgres://orrery@db.example/orrery; a file is named by --db"},
		{[]string{"--database", url}, exitNotFound, "there are no tables of Orrery in schema orrery"},
		{nil, exitUsage, "--db: missing: name the database file"},
	} {
		for _, command := range [][]string{{"quarantine"}, {"replay", "--verify"}, {"history", "action/0198a1b2-7c1f-7c3e-9d57-6f2a4b8c9d10"}} {
			r := cli(t, nil, "", append(command, test.args...)...)
			assert.Equal(t, test.code, r.code, "%v %v: %s", command, test.args, r.err)
			assert.Contains(t, r.err, test.says)
			assert.NotContains(t, r.err, "hush-hush-8")
		}
	}
	p := begin(t, nil, "orchestrate", "--database", "host=x password=hush-hush-8")
	assert.Equal(t, exitUsage, p.code())
	assert.Contains(t, p.stderr.String(), "--database: is no URL of PostgreSQL")
	assert.NotContains(t, p.stderr.String(), "hush-hush-8")
	shown := cli(t, []string{"ORRERY_DATABASE=" + withPassword(t, "postgres://orrery@db.example/orrery?sslpassword=hush-hush-8")}, "", "config", "show")
	assert.NotContains(t, shown.out, "hush-hush-8")
	assert.Contains(t, shown.out, "database = 'postgres://orrery@db.example/orrery'")
}

func TestADatabaseIsCopiedToPostgreSQLAndBack(t *testing.T) {
	t.Parallel()
	db, url := database(t), withPassword(t, postgrestest.Database(t))
	p := start(t, "--db", db)
	done := p.add("--wait", "--", "echo", "done")
	waiting := p.add("--in", "1h", "--", "echo", "later")
	r := cli(t, nil, "", "copy", "--from", db, "--to", url)
	assert.Equal(t, exitFailed, r.code, "a daemon has it open")
	assert.Contains(t, r.err, "stop the daemon first")
	p.signal(os.Interrupt)
	require.Zero(t, p.code())

	r = cli(t, nil, "", "copy", "--from", db, "--to", url)
	require.Zero(t, r.code, r.err)
	assert.Regexp(t, `^postgres://orrery@\S* has all of `+db+`, up to batch \d+; no daemon is to be started on `+db+` any more\n$`, r.out)
	assert.NotContains(t, r.out+r.err, "hush-hush-8")
	r = cli(t, nil, "", "copy", "--from", db, "--to", url)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "it has content already: only an empty one is filled")

	p = start(t, "--database", url, "--config", member(t, "copy"))
	assert.Equal(t, core.StatusCompleted, p.action(done).Status.Type)
	assert.Equal(t, core.StatusPending, p.action(waiting).Status.Type)
	later := p.add("--wait", "--", "echo", "on PostgreSQL")
	r = cli(t, nil, "", "copy", "--from", url, "--to", db+".back")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "stop the daemon first")
	p.signal(os.Interrupt)
	require.Zero(t, p.code())

	r = cli(t, nil, "", "copy", "--from", url, "--to", db+".back", "--json")
	require.Zero(t, r.code, r.err)
	verified(t, db+".back")
	p = start(t, "--db", db+".back")
	for _, id := range []string{done, later} {
		assert.Equal(t, core.StatusCompleted, p.action(id).Status.Type)
	}
	assert.Equal(t, core.StatusPending, p.action(waiting).Status.Type)
	p.signal(os.Interrupt)
	require.Zero(t, p.code())
	assert.True(t, strings.HasPrefix(journalOf(t, db+".back"), journalOf(t, db)), "the journal went along")
}

func TestACopyNamesWhatIsWrong(t *testing.T) {
	url, db := postgrestest.Database(t), database(t)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "--from: missing: name a database file"},
		{[]string{"--from", "x.db"}, exitUsage, "--to: missing: name a file to make"},
		{[]string{"--from", "x.db", "--to", "x.db"}, exitUsage, "--to: is the source itself"},
		{[]string{"--from", url, "--to", db, "--lease", "0.5"}, exitUsage, "--lease: 0.5 is not between 1 and 86400 seconds"},
		{[]string{"--from", db, "--to", url, "--lease", "10"}, exitUsage, "--lease: is of a source on PostgreSQL"},
		{[]string{"--from", db, "--to", url, "--tmp", db + ".nowhere"}, exitUsage, "--tmp: there is no folder "},
		{[]string{"--from", db, "--to", url, "--partitions", "257"}, exitUsage, "--partitions: 257 is not between 1 and 256: the page token of a list over all tenants "},
		{[]string{"--from", url, "--to", db, "--partitions", "4"}, exitUsage, "--partitions: a file has one partition"},
		{[]string{"--from", db, "--to", url}, exitNotFound, "--from: there is no file " + db},
		{[]string{"--from", url, "--to", db}, exitNotFound, "there are no tables of Orrery in schema orrery"},
	} {
		r := cli(t, nil, "", append([]string{"copy"}, test.args...)...)
		assert.Equal(t, test.code, r.code, "%v: %s", test.args, r.err)
		assert.Contains(t, r.err, test.says)
	}
}
