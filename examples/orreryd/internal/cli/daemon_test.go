//go:build unix

package cli

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

func TestTheDemonstrationShowsAFiringAndWhatToTypeNext(t *testing.T) {
	t.Parallel()
	db := database(t)
	p := start(t, "--demo", "--db", db)
	await(t, p.out, `A new schedule, "\*/5 \* \* \* \* \*", runs .date -u. every 5 seconds`)
	next := await(t, p.out, `recurring list`)
	await(t, p.out, `actions add --wait`)
	await(t, p.out, `^\d\d:\d\d:\d\d  demo: the time, every 5 seconds  completed: .*UTC.*\(\d+m?s late, took `)

	// What it tells to type works.
	_, typed, ok := strings.Cut(strings.TrimSpace(next), "orreryd ")
	require.True(t, ok, next)
	assert.Contains(t, p.ok(strings.Fields(typed)...), "*/5 * * * * *")

	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
	assert.Empty(t, p.stderr.String(), "the lines of the demonstration are all that a newcomer sees")

	// The second time the schedule is there, and goes on.
	p = start(t, "--demo", "--db", db)
	await(t, p.out, `The database has a schedule already: .* runs date -u, next at 20`)
	await(t, p.out, `completed: .*UTC`)
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	verified(t, db)
}

func TestTwoActionsAHundredMillisecondsApartBothFire(t *testing.T) { // B8
	t.Parallel()
	for _, mode := range [][]string{nil, {"--strict-tick"}} {
		t.Run(strings.Join(append([]string{"tick"}, mode...), " "), func(t *testing.T) {
			p := start(t, append([]string{"--db", database(t), "--tick-rate", "0.5", "--demo"}, mode...)...)
			p.add("--in", "300ms", "--label", "first", "--", "echo", "one")
			p.add("--in", "400ms", "--label", "second", "--", "echo", "two")
			// Due at one tick, they run side by side and end in any order; the
			// demonstration's own action may end between them.
			both := await(t, p.out, `(first|second)  completed: `) + await(t, p.out, `(first|second)  completed: `)
			assert.Contains(t, both, "first  completed: one")
			assert.Contains(t, both, "second  completed: two")
		})
	}
}

// fifo makes a pipe that a command of the daemon reads from, so that the test
// decides when the command ends.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	return path
}

// open lets a command go on that reads from the gate; it returns once there is
// one.
func open(t *testing.T, gate, text string) {
	t.Helper()
	f, err := os.OpenFile(gate, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestAStopWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	db, gate := database(t), fifo(t)
	p := start(t, "--db", db)
	id := p.add("--", "cat", gate)
	require.Eventually(t, func() bool { return p.action(id).Status.Type == core.StatusRunning }, patience, 20*time.Millisecond)
	p.signal(syscall.SIGTERM)
	await(t, p.errs, `msg=stopping running=1`)
	assert.Contains(t, p.ok("actions", "list"), "running", "it answers while it waits")
	r := p.do("actions", "add", "--", "true")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "the engine is stopped")
	open(t, gate, "well done")
	assert.Zero(t, p.code())

	p = start(t, "--db", db)
	a := p.action(id)
	assert.Equal(t, core.StatusCompleted, a.Status.Type, a.Status.Reason)
	assert.Contains(t, string(a.Status.Result), "well done")
}

func TestTheDaemonReadsAgainOnAHangup(t *testing.T) {
	t.Parallel()
	db := database(t)
	c := write(t, "orrery.toml", "log_level = 'info'\n")
	p := start(t, "--db", db, "--config", c)
	reload := func(config, want string) {
		require.NoError(t, os.WriteFile(c, []byte(config), 0o600))
		p.signal(syscall.SIGHUP)
		await(t, p.errs, want)
	}
	reload("log_level = 'debug'\n[engine]\nmax_batch = 7\n", `level=WARN msg="settings have changed .* restart the daemon for them" keys=\[engine.max_batch\]`)
	await(t, p.errs, `msg=reloaded what=configuration log_level=debug need_restart=1`)
	p.add("--", "true")
	await(t, p.errs, `level=DEBUG msg=action\.start`)
	reload("log_level = 'loud'\n", `level=ERROR msg="could not be reloaded: .*" what=configuration error="log_level: .*loud`)
	metrics := p.metrics()
	assert.Contains(t, metrics, `orrery_reload_total{outcome="done",what="configuration"} 1`)
	assert.Contains(t, metrics, `orrery_reload_total{outcome="failed",what="configuration"} 1`)
	assert.Contains(t, metrics, `orrery_reload_successful{what="configuration"} 0`)
	p.add("--", "true")
	await(t, p.errs, `level=DEBUG msg=action\.start`)
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	verified(t, db)
}

func TestTheDaemonAppliesItsFilesWithTheVariablesOfItsConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ops.toml"), []byte("[variables]\nregion = \"eu\"\n[recurring.a]\ncron = \"@daily\"\ndescription = \"of ${region}\"\ncommand = [\"true\"]\n"), 0o600))
	config := func(variables string) string {
		return write(t, "orrery.toml", "[apply]\ndir = '"+dir+"'\n"+variables)
	}
	p := start(t, "--db", database(t), "--config", config("variables = { region = 'us' }\n"))
	assert.Regexp(t, `(?m)^description +of us$`, p.ok("recurring", "show", "a"))
	assert.Zero(t, cli(t, nil, "", "config", "check", config("variables = { region = 'us' }\n")).code)
	r := cli(t, nil, "", "config", "check", config("variables = { regoin = 'us' }\n"))
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, `apply.variables: no file declares a variable "regoin": did you mean "region"?`)
}

func TestTheDaemonAppliesItsFilesAtTheStartAndOnAHangup(t *testing.T) {
	t.Parallel()
	db, dir := database(t), t.TempDir()
	file := filepath.Join(dir, "ops.toml")
	say := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	const two = "[recurring.a]\ncron = \"@daily\"\ncommand = [\"true\"]\n[semaphores.s]\nslots = 2\n[semaphores.u]\nslots = 2\n"
	say(two)
	p := start(t, "--db", db, "--apply", dir)
	await(t, p.errs, `msg="declared in files" set=daemon does=create kind=recurring namespace=default tenant=default name=a file=ops\.toml`)
	await(t, p.errs, `msg=read what=set set=daemon dir=\S+ created=3 changed=0 removed=0 unchanged=0`)
	names := func() string {
		lines := strings.Fields(p.ok("sets", "list", "-o", "name"))
		slices.Sort(lines)
		return strings.Join(lines, " ")
	}
	assert.Equal(t, "a s u", names())

	say(strings.Replace(two, "slots = 2", "slots = 3", 1))
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `msg="declared in files" set=daemon does=update kind=semaphore namespace=default tenant=default name=s file=ops\.toml`)
	await(t, p.errs, `msg=reloaded what=set set=daemon dir=\S+ created=0 changed=1 removed=0 unchanged=2`)
	job := filepath.Join(dir, "report.yaml")
	require.NoError(t, os.WriteFile(job, []byte("id: report\npodSpec: {containers: [{name: c, image: i}]}\n"), 0o600))
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `level=ERROR msg="could not be reloaded: .*" what=set error="\S+report\.yaml:2:24: podSpec\.containers\[0\]\.command: missing: what the image would run is not known here"`)
	assert.Equal(t, "a s u", names(), "what cannot run here is not declared")
	require.NoError(t, os.Remove(job))
	say(two)
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `msg=reloaded what=set set=daemon dir=\S+ created=0 changed=1 removed=0 unchanged=2`)

	say(two + "[semaphores.v]\nslots = \"many\"\n")
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `level=ERROR msg="could not be reloaded: .*" what=set error="\S+/ops\.toml:9:9: semaphores\.v\.slots: \\"many\\" is a TOML string, want a whole number"`)
	assert.Equal(t, "a s u", names(), "what was there goes on")
	assert.Contains(t, p.metrics(), `orrery_reload_successful{what="set"} 0`)

	say(two + "[recurring.b]\ncron = \"61 * * * *\"\ncommand = [\"true\"]\n")
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `what=set error="\S+/ops\.toml:9:1: recurring\.b\.cron: .*61 is out of range`)
	assert.Equal(t, "a s u", names())

	say("[semaphores.s]\nslots = 2\n")
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `what=set error="prune: 2 of the 3 .* more than a third: .*" dry_run="[^"]+ apply -f \S+ --set=daemon --prune --dry-run( --server=\S+)?" apply="[^"]+ apply -f \S+ --set=daemon --prune --most( --server=\S+)?"`)
	assert.Equal(t, "a s u", names())

	say("")
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `what=set error="prune: the set .*daemon.* declares nothing, and owns 3: an empty folder removes nothing`)
	assert.Equal(t, "a s u", names())

	say(strings.Replace(two, "[semaphores.u]", "[semaphores.v]", 1))
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `msg=reloaded what=set set=daemon dir=\S+ created=1 changed=0 removed=1 unchanged=2`)
	assert.Equal(t, "a s v", names())
	assert.Contains(t, p.metrics(), `orrery_reload_successful{what="set"} 1`)
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	verified(t, db)

	say("no = toml = at all")
	p = start(t, "--db", db, "--apply", dir)
	await(t, p.errs, `level=ERROR msg="could not be read: what the database has goes on" what=set error="\S+/ops\.toml:1:6: `)
	assert.Equal(t, "a s v", names())
	assert.Contains(t, p.metrics(), `orrery_reload_successful{what="set"} 0`)
}

// Who closes the window in which a daemon runs means to end it.
func TestADaemonWhoseTerminalIsClosedStopsCleanly(t *testing.T) {
	if ignoresHangups {
		t.Skip("under nohup the daemon survives its terminal, as it should")
	}
	t.Parallel()
	db := database(t)
	cmd := program(t, "orchestrate", "--listen", "127.0.0.1:0", "--db", db)
	cmd.Dir = t.TempDir()
	f, err := pty.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for s := bufio.NewScanner(f); s.Scan() && !strings.Contains(s.Text(), "orreryd is ready"); {
	}
	require.NoError(t, f.Close())
	require.NoError(t, cmd.Wait(), "it ends with 0")
	verified(t, db)
}

func TestAHangupStopsOtherCommands(t *testing.T) {
	if ignoresHangups {
		t.Skip("under nohup a command ignores a hangup, as it should")
	}
	t.Parallel()
	p := start(t, "--db", database(t))
	def := write(t, "p.json", `{"name": "p", "phases": [{"name": "a", "manual": {}}]}`)
	waits := begin(t, []string{"ORRERY_SERVER=" + p.url}, "pipeline", "start", "--definition", def, "--wait")
	await(t, waits.errs, "is started")
	waits.signal(syscall.SIGHUP)
	assert.Equal(t, exitFailed, waits.code())
}

func TestAStopSettlesWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	db := database(t)
	c := write(t, "orrery.toml", "[engine]\nstop_timeout_seconds = 0.2\n")
	p := start(t, "--db", db, "--config", c, "--log-level", "debug")
	lost := p.add("--", "sleep", "1000")
	again := p.add("--on-interrupt", "retry", "--", "sleep", "1000")
	for range 2 {
		await(t, p.errs, `action\.start`)
	}
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
	verified(t, db)

	p = start(t, "--db", db)
	a := p.action(lost)
	assert.Equal(t, core.StatusFailed, a.Status.Type)
	assert.Contains(t, a.Status.Reason, "interrupted by a shutdown")
	b := p.action(again)
	assert.NotEqual(t, core.StatusFailed, b.Status.Type, "it is safe to repeat")
	p.ok("actions", "cancel", again)
}

func TestASecondSignalEndsTheDaemonAtOnce(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			db := database(t)
			p := start(t, "--db", db, "--log-level", "debug")
			id := p.add("--", "sleep", "1000")
			await(t, p.errs, `action\.start`)
			p.signal(sig)
			await(t, p.errs, `msg=stopping running=1`)
			select {
			case <-p.exited:
				require.Fail(t, "one signal ended it at once")
			case <-time.After(sameSignal):
			}
			p.signal(sig)
			assert.Equal(t, code, p.code())
			assert.Contains(t, p.stderr.String(), "again: ending at once")

			p = start(t, "--db", db, "--tick-rate", "0.1")
			await(t, p.errs, `action\.fail.*recovered from restart`)
			assert.Equal(t, core.StatusFailed, p.action(id).Status.Type, "nobody knows how far it came")
			p.signal(syscall.SIGTERM)
			assert.Zero(t, p.code())
			verified(t, db)
		})
	}
}

func TestASignalThatComesTwiceAtOnceCountsOnce(t *testing.T) { // as timeout(1) sends it
	t.Parallel()
	for after, counts := range map[time.Duration]bool{0: false, sameSignal - 1: false, sameSignal: true, time.Hour: true} {
		signals := make(chan os.Signal, 2)
		signals <- syscall.SIGTERM
		signals <- syscall.SIGINT
		close(signals)
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		readings := []time.Time{begin, begin.Add(after)}
		second := secondSignal(ctx, signals, cancel, func() time.Time {
			at := readings[0]
			readings = readings[1:]
			return at
		})
		require.Error(t, ctx.Err(), "the first one stops it")
		if counts {
			assert.Equal(t, syscall.SIGINT, second, after)
		} else {
			assert.Nil(t, second, after)
		}
	}
}

func TestAKilledDaemonGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	db := database(t)
	p := start(t, "--db", db)
	later := p.add("--in", "1h", "--label", "later", "--", "echo", "hi")
	done := p.add("--wait", "--", "echo", "done")
	p.signal(syscall.SIGKILL)
	assert.Equal(t, -1, p.code())
	verified(t, db)

	p = start(t, "--db", db)
	assert.Equal(t, core.StatusPending, p.action(later).Status.Type)
	a := p.action(done)
	assert.Equal(t, core.StatusCompleted, a.Status.Type)
	assert.EqualValues(t, 1, a.Run)
}

func TestADatabaseBelongsToOneDaemon(t *testing.T) {
	t.Parallel()
	db := database(t)
	p := start(t, "--db", db)
	second := begin(t, nil, "orchestrate", "--db", db, "--listen", "127.0.0.1:0")
	assert.Equal(t, exitFailed, second.code())
	await(t, second.errs, `orreryd: open .*orrery\.db: the file is in use by another process: is another orreryd running on it\?`)
	for _, args := range [][]string{{"check", "--db", db}, {"replay", "--verify", "--db", db}, {"compact", "--db", db}, {"backup", "--db", db, "--to", db + ".copy"}} {
		r := cli(t, nil, "", args...)
		assert.Equal(t, exitFailed, r.code, args)
		assert.Contains(t, r.err, "stop the daemon first", args)
	}
	p.ok("actions", "list") // the first one noticed nothing
}

func TestAnAddressBelongsToOneDaemon(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	r := cli(t, nil, "", "orchestrate", "--db", database(t), "--listen", strings.TrimPrefix(p.url, "http://"))
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "the address is in use: is another orreryd running? Choose another one with --listen")
}

func TestADaemonThatCannotStartLeavesNoDatabaseBehind(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	taken := strings.TrimPrefix(p.url, "http://")
	free := "127.0.0.1:0"
	hook := "[webhooks.a]\ntool = 'command'\nsignature = 'none'\ntool_input = { argv = ['cat'] }\n"
	for name, row := range map[string]struct {
		listen, toml, want string
		code               int
	}{
		"the address is taken":  {taken, "", "the address is in use", exitFailed},
		"the port is none":      {"127.0.0.1:99999", "", `the port "99999"`, exitUsage},
		"too many attempts":     {free, hook + "max_attempts = 2000000", "webhooks.a.max_attempts: 2000000", exitUsage},
		"a namespace of lines":  {free, hook + "namespace = \"a\\nb\"", "webhooks.a.namespace: ", exitUsage},
		"a tenant that is long": {free, hook + "tenant = '" + strings.Repeat("t", 265) + "'", "webhooks.a.tenant: 265 bytes", exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t)
			c := write(t, "orrery.toml", row.toml)
			r := cli(t, nil, "", "orchestrate", "--db", db, "--listen", row.listen, "--config", c)
			assert.Equal(t, row.code, r.code)
			assert.Contains(t, r.err, row.want)
			assert.NoFileExists(t, db)
			if row.toml != "" {
				check := cli(t, nil, "", "config", "check", c)
				assert.Equal(t, exitUsage, check.code, "config check says what orchestrate says")
				assert.Contains(t, check.err, row.want)
			}
		})
	}
}

func TestTwoDaemonsOfOneConfigurationAreToldOfTheFile(t *testing.T) {
	t.Parallel()
	db := database(t)
	p := start(t, "--db", db)
	r := cli(t, nil, "", "orchestrate", "--db", db, "--listen", strings.TrimPrefix(p.url, "http://"))
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "orrery.db: the file is in use by another process: is another orreryd running on it?")
}

func TestAnEmptyFileIsNotCompacted(t *testing.T) {
	t.Parallel()
	db := write(t, "orrery.db", "")
	for _, args := range [][]string{{"check", "--db", db}, {"compact", "--db", db}, {"backup", "--db", db, "--to", db + ".copy"}} {
		r := cli(t, nil, "", args...)
		assert.Equal(t, exitFailed, r.code, args)
		assert.Contains(t, r.err, "not an Orrery database: it is empty", args)
		info, err := os.Stat(db)
		require.NoError(t, err)
		assert.Zero(t, info.Size(), "%q changed it", args)
	}
}

func TestTheDemonstrationSaysWhereATokenIsNeeded(t *testing.T) {
	t.Parallel()
	c := write(t, "orrery.toml", "[[tokens]]\nname = 'ops'\ntoken = 'a-token-of-the-tests'\n")
	p := start(t, "--demo", "--db", database(t), "--config", c)
	await(t, p.out, `actions add --wait`)
	await(t, p.out, `ORRERY_TOKEN=.*--token`)
}

func TestWithoutATokenOnlyLoopbackIsServed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ listen, want string }{
		{":0", "means all interfaces"},
		{"0.0.0.0:0", "not loopback"},
		{"[::]:0", "not loopback"},
		{"192.0.2.1:0", "not loopback"},
		{"nonsense", "want host:port"},
	} {
		db := database(t)
		r := cli(t, nil, "", "orchestrate", "--db", db, "--listen", row.listen)
		assert.Equal(t, exitUsage, r.code, row.listen)
		assert.Contains(t, r.err, row.want, row.listen)
		assert.NoFileExists(t, db, "nothing is begun")
	}
	c := write(t, "orrery.toml", "[[tokens]]\nname = 'ops'\ntoken = 'a-token-of-the-tests'\nadmin = true\n")
	p := begin(t, nil, "orchestrate", "--db", database(t), "--listen", "0.0.0.0:0", "--config", c)
	p.awaitReady()
	assert.Equal(t, exitFailed, p.do("actions", "list").code)
	p.ok("actions", "list", "--token", "a-token-of-the-tests")
}

func TestAWrongDatabaseFileIsNamed(t *testing.T) {
	t.Parallel()
	foreign := write(t, "notes.db", strings.Repeat("dear diary ", 1000))
	r := cli(t, nil, "", "orchestrate", "--db", foreign, "--listen", "127.0.0.1:0")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "notes.db: not an Orrery database")
}

func TestSystemdIsToldWhenTheDaemonIsReadyAndWhenItStops(t *testing.T) {
	t.Chdir(t.TempDir()) // a socket's path must be short
	socket := "s"
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	told := func() string {
		b := make([]byte, 256)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		n, err := conn.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	abs := filepath.Join(here, socket)
	p := begin(t, []string{"NOTIFY_SOCKET=" + abs}, "orchestrate", "--db", database(t), "--listen", "127.0.0.1:0")
	assert.Equal(t, "READY=1", told())
	p.signal(syscall.SIGTERM)
	assert.Equal(t, "STOPPING=1", told())
	assert.Zero(t, p.code())
}

func TestADaemonRunsAlthoughSystemdCannotBeTold(t *testing.T) {
	t.Parallel()
	p := begin(t, []string{"NOTIFY_SOCKET=/nowhere/socket"}, "orchestrate", "--db", database(t), "--listen", "127.0.0.1:0")
	p.awaitReady()
	await(t, p.errs, "could not notify systemd")
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
}

func TestRecurringActionsRestWhereTheyAreSwitchedOff(t *testing.T) { // C9
	t.Parallel()
	db := database(t)
	c := write(t, "orrery.toml", "[background]\nenable_recurring_actions = false\n")
	p := start(t, "--db", db, "--config", c, "--tick-rate", "0.05")
	id := anID.FindString(p.ok("recurring", "add", "--cron", "* * * * * *", "--", "echo", "hi"))
	p.ok("actions", "add", "--in", "1200ms", "--wait", "--", "echo", "later") // a second has passed
	assert.Contains(t, p.ok("recurring", "history", id), "nothing has been due yet")

	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	p = start(t, "--db", db, "--demo")
	await(t, p.out, "completed: hi")
}

func TestWhatAFailedCommandPrintedIsShown(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	const id = "0193f2a4-5b6c-7d8e-9f01-23456789abcd"
	r := p.do("actions", "add", "--wait", "--id", id, "--", "sh", "-c", `echo "a > b & c"; echo FATAL >&2; exit 3`)
	assert.Equal(t, exitFailed, r.code)
	shown := p.ok("actions", "show", id)
	assert.Contains(t, shown, `echo \"a > b & c\"`, "the input as it was typed")
	assert.Contains(t, shown, `"exit_code":3,"stdout":"a > b & c\n","stderr":"FATAL\n"`)
}

func TestTokensAndSecretsAreReadAgainOnAHangup(t *testing.T) {
	t.Parallel()
	const (
		root  = "[engine]\nheartbeat_seconds = 1\n[[tokens]]\nname = 'root'\nadmin = true\ntoken = 'root-0123456789-0123456789'\n"
		reads = "[[tokens]]\nname = 'reads'\nread_only = true\ntoken = 'reads-0123456789-0123456789'\n"
		fresh = "[[tokens]]\nname = 'fresh'\nread_only = true\ntoken = 'fresh-0123456789-0123456789'\n"
		first = "[[tokens]]\nname = 'first'\ntoken = 'first-0123456789-0123456789'\n"
	)
	one, two := write(t, "one", "value-of-one"), write(t, "two", "value-of-two")
	secret := func(file string) string { return fmt.Sprintf("[secrets.key]\nsecret_file = %q\n", file) }
	db, c := database(t), write(t, "orrery.toml", root+reads+secret(one))
	p := start(t, "--db", db, "--config", c)
	as := func(name string, args ...string) result {
		return cli(t, []string{"ORRERY_SERVER=" + p.url, "ORRERY_TOKEN=" + name + "-0123456789-0123456789"}, "", args...)
	}
	reload := func(config, want string) {
		require.NoError(t, os.WriteFile(c, []byte(config), 0o600))
		p.signal(syscall.SIGHUP)
		await(t, p.errs, want)
	}
	length := func() string {
		r := as("root", "actions", "add", "--wait", "--", "sh", "-c", `printf %s "$0" | tail -c 3`, `{{secret "key"}}`)
		return strings.TrimSpace(strings.Join(strings.Split(r.out, "\n")[1:], "\n"))
	}
	require.Zero(t, as("reads", "actions", "list").code)
	follows := begin(t, []string{"ORRERY_SERVER=" + p.url, "ORRERY_TOKEN=reads-0123456789-0123456789"}, "events", "follow")
	await(t, follows.out, "system:heartbeat") // it is connected
	require.Equal(t, "one", length())

	reload(root+fresh+secret(two)+"no_such_key = 1\n", `level=ERROR msg="could not be reloaded: .*" what=configuration error=.*no_such_key`)
	assert.Zero(t, as("reads", "actions", "list").code, "a bad file changes nothing")
	assert.NotZero(t, as("fresh", "actions", "list").code)
	assert.Equal(t, "one", length())

	reload(root+fresh+first+secret(two), `level=WARN msg="tokens are new that may change something .*" tokens=\[first\]`)
	await(t, p.errs, `level=WARN msg="settings have changed .*" keys=\[tokens\]`)
	await(t, p.errs, `msg=reloaded what=configuration log_level=info tokens_added=\[fresh\] tokens_removed=\[reads\] need_restart=1`)
	r := as("reads", "actions", "list")
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "token: is unknown")
	assert.NotZero(t, follows.code(), "its stream has ended, and it is not let in again")
	assert.Zero(t, as("fresh", "actions", "list").code)
	assert.NotZero(t, as("first", "actions", "list").code)
	assert.Equal(t, "two", length())
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	verified(t, db)
}
