//go:build unix

package cli

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
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

// member is a configuration of a daemon on a database that others may have, with a short lease.
func member(t *testing.T, name string) string {
	t.Helper()
	return write(t, name+".toml", fmt.Sprintf("[cluster]\nname = %q\nlease_seconds = 2\n\n[engine]\nrecover_after_seconds = 0.001\n", name))
}

func TestADaemonOnPostgreSQLThatIsKilledIsFollowedByOneThatHasAllThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	database := withPassword(t, postgrestest.Database(t))
	first := begin(t, []string{"ORRERY_DATABASE=" + database}, "orchestrate", "--listen", "127.0.0.1:0", "--config", member(t, "first"))
	first.awaitReady()
	await(t, first.errs, "the database is this daemon's")
	done := first.add("--wait", "--", "echo", "done")
	waiting := first.add("--in", "1h", "--", "echo", "later")
	running := first.add("--", "sleep", "60")
	require.Eventually(t, func() bool { return first.action(running).Status.Type == core.StatusRunning }, patience, 20*time.Millisecond)

	// One that is started meanwhile says whose it is, and changes nothing.
	second := begin(t, nil, "orchestrate", "--listen", "127.0.0.1:0", "--database", database, "--config", member(t, "second"))
	assert.Equal(t, exitFailed, second.code())
	assert.Contains(t, second.stderr.String(), `"first" at "`+first.url+`" owns it and gives signs of life`)
	assert.Contains(t, second.stderr.String(), "one daemon at a time works on it")

	// Another program reads beside the daemon.
	r := cli(t, []string{"ORRERY_DATABASE=" + database}, "", "replay", "--verify")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, " 0 divergences")

	require.NoError(t, first.cmd.Process.Kill())
	<-first.exited
	killed := time.Now()
	third := begin(t, nil, "orchestrate", "--listen", "127.0.0.1:0", "--database", database, "--config", member(t, "third"))
	third.awaitReady()
	t.Logf("the next daemon answers %s after the kill", time.Since(killed).Round(time.Millisecond))
	assert.Equal(t, core.StatusCompleted, third.action(done).Status.Type)
	assert.Equal(t, core.StatusPending, third.action(waiting).Status.Type)
	require.Eventually(t, func() bool { return third.action(running).Status.Type == core.StatusFailed }, patience, 20*time.Millisecond)
	assert.Equal(t, core.ReasonRecovered, third.action(running).Status.Reason)
	third.ok("actions", "cancel", waiting)

	// A clean stop gives the database back at once.
	third.signal(os.Interrupt)
	assert.Zero(t, third.code())
	fourth := begin(t, nil, "orchestrate", "--listen", "127.0.0.1:0", "--database", database, "--config", member(t, "fourth"))
	fourth.awaitReady()
	fourth.signal(os.Interrupt)
	assert.Zero(t, fourth.code())
	for _, p := range []*process{first, second, third, fourth} {
		assert.NotContains(t, p.stderr.String(), "hush-hush-8")
	}
	for _, args := range [][]string{{"replay", "--verify"}, {"quarantine"}, {"history", "action/" + done}} {
		r := cli(t, nil, "", append(args, "--database", database)...)
		require.Zero(t, r.code, "%v: %s", args, r.err)
		assert.NotContains(t, r.out+r.err, "hush-hush-8")
	}
}

func TestADaemonOnPostgreSQLThatWasFrozenFindsItselfReplaced(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	frozen := start(t, "--database", database, "--config", member(t, "frozen"))
	running := frozen.add("--", "sleep", "60")
	require.Eventually(t, func() bool { return frozen.action(running).Status.Type == core.StatusRunning }, patience, 20*time.Millisecond)
	assert.Contains(t, frozen.metrics(), "\norrery_store_token 1\n")
	frozen.signal(syscall.SIGSTOP)
	next := start(t, "--database", database, "--config", member(t, "next"))
	frozen.signal(syscall.SIGCONT)
	assert.Equal(t, exitFailed, frozen.code(), "so that a supervisor starts it again")
	assert.Contains(t, frozen.stderr.String(), "another daemon has taken the database over")
	assert.Contains(t, frozen.stderr.String(), `\"next\" at \"`+next.url+`\" owns it`)
	require.Eventually(t, func() bool { return next.action(running).Status.Type == core.StatusFailed }, patience, 20*time.Millisecond)
	assert.Contains(t, next.metrics(), "\norrery_store_token 2\n")
	next.ok("actions", "add", "--wait", "--", "echo", "on")
	next.signal(os.Interrupt)
	assert.Zero(t, next.code())
	r := cli(t, nil, "", "replay", "--verify", "--database", database)
	require.Zero(t, r.code, r.err)
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
		{[]string{"--from", db, "--to", url}, exitNotFound, "--from: there is no file " + db},
		{[]string{"--from", url, "--to", db}, exitNotFound, "there are no tables of Orrery in schema orrery"},
	} {
		r := cli(t, nil, "", append([]string{"copy"}, test.args...)...)
		assert.Equal(t, test.code, r.code, "%v: %s", test.args, r.err)
		assert.Contains(t, r.err, test.says)
	}
}
