//go:build unix

package postgrestest

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("ORRERY_PG_VICTIM") != "" {
		victim()
		return
	}
	goleak.VerifyTestMain(m)
}

func query(t *testing.T, s *Server, database, sql string) string {
	t.Helper()
	value, err := s.Query(t.Context(), database, sql)
	require.NoError(t, err)
	return value
}

// nameIn is the name of the database in a URL.
func nameIn(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	return config.Database
}

func TestEachTestHasAnEmptyDatabaseOnOneSharedServer(t *testing.T) {
	var first, second string
	t.Run("databases", func(t *testing.T) {
		first, second = Database(t), Database(t)
		s, err := shared()
		require.NoError(t, err)
		require.NoError(t, s.Exec(t.Context(), nameIn(t, first), "CREATE TABLE a (x int); INSERT INTO a VALUES (7)"))
		assert.Equal(t, "7", query(t, s, nameIn(t, first), "SELECT x FROM a"))
		assert.Equal(t, "0", query(t, s, nameIn(t, second), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"))
		assert.Equal(t, "off", query(t, s, "postgres", "SHOW fsync"))
		conn, err := pgx.Connect(t.Context(), first)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close(context.Background()) }) // runs before the database is dropped
		open, err := pgx.Connect(t.Context(), second)
		require.NoError(t, err)
		_ = open // and this one is not closed by the test
	})
	if first == "" {
		t.Skip("there is no PostgreSQL")
	}
	s, err := shared()
	require.NoError(t, err)
	assert.Equal(t, "0", query(t, s, "postgres", "SELECT count(*) FROM pg_database WHERE datname IN ('"+nameIn(t, first)+"', '"+nameIn(t, second)+"')"), "they are dropped with the test")
}

func TestAServerKeepsWhatItHasAcknowledgedWhenItIsKilledStoppedOrFrozen(t *testing.T) {
	s := Start(t, Options{TCP: true, Settings: map[string]string{"max_connections": "17"}})
	assert.Equal(t, "17", query(t, s, "postgres", "SHOW max_connections"))
	assert.Equal(t, "on", query(t, s, "postgres", "SHOW fsync"))
	url := s.Database(t)
	name := nameIn(t, url)
	require.NoError(t, s.Exec(t.Context(), name, "CREATE TABLE a (x int); INSERT INTO a VALUES (1)"))

	conn, err := pgx.Connect(t.Context(), TCPURL(s.Address(), name))
	require.NoError(t, err)
	defer conn.Close(context.Background())
	children, err := childrenOf(s.process.pid)
	require.NoError(t, err)
	assert.Greater(t, len(children), 2, "the checkpointer, the writers, and the connection")
	address := s.Address()
	s.Kill(t)
	for _, pid := range children {
		assert.False(t, alive(t, pid), "all of its processes are gone")
	}
	_, err = conn.Exec(t.Context(), "SELECT 1")
	require.Error(t, err)
	var told *pgconn.PgError
	assert.NotErrorAs(t, err, &told, "a killed server says nothing to its clients")
	require.Error(t, s.Exec(t.Context(), name, "SELECT 1"))
	require.EqualError(t, s.kill(), "it does not run")
	require.EqualError(t, s.stop(fast), "it does not run")
	require.EqualError(t, s.freeze(), "it does not run")

	s.Start(t)
	assert.Equal(t, address, s.Address())
	assert.Equal(t, "1", query(t, s, name, "SELECT x FROM a"))
	assert.Contains(t, s.Log(), "database system was not properly shut down; automatic recovery in progress")
	require.EqualError(t, s.launch(), "it runs already")

	s.Restart(t)
	assert.Equal(t, "1", query(t, s, name, "SELECT x FROM a"))
	assert.Contains(t, s.Log(), "received fast shutdown request")

	frozen, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer frozen.Close(context.Background())
	s.Freeze(t)
	require.EqualError(t, s.stop(fast), "it is frozen: Thaw it first, or Kill it")
	answers := make(chan error, 1)
	go func() {
		_, err := frozen.Exec(context.Background(), "INSERT INTO a VALUES (2)")
		answers <- err
	}()
	require.Greater(t, len(s.frozen), 2)
	assert.Equal(t, byte('T'), stateOf(t, s.process.pid))
	for _, pid := range s.frozen {
		// One that was about to end may have ended instead.
		assert.Contains(t, []byte{'T', 'Z'}, stateOf(t, pid), "it is stopped")
	}
	assert.Empty(t, answers)
	s.Thaw(t)
	require.NoError(t, <-answers, "what was asked meanwhile is answered")
	assert.Equal(t, "2", query(t, s, name, "SELECT count(*) FROM a"))

	s.Freeze(t)
	s.Kill(t)
	s.Start(t)
	assert.Equal(t, "2", query(t, s, name, "SELECT count(*) FROM a"))
}

// stateOf is the state of a process; 0 if there is none.
func stateOf(t *testing.T, pid int) byte {
	t.Helper()
	all, err := processes()
	require.NoError(t, err)
	for _, p := range all {
		if p.id == pid {
			return p.state
		}
	}
	return 0
}

func alive(t *testing.T, pid int) bool {
	t.Helper()
	return !slices.Contains([]byte{0, 'Z', 'X'}, stateOf(t, pid))
}

func TestAServerThatIsRemovedLeavesNothingBehind(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Server){
		"it runs":       func(*testing.T, *Server) {},
		"it is frozen":  func(t *testing.T, s *Server) { s.Freeze(t) },
		"it is stopped": func(t *testing.T, s *Server) { s.Stop(t) },
		"it is killed":  func(t *testing.T, s *Server) { s.Kill(t) },
	} {
		t.Run(name, func(t *testing.T) {
			var s *Server
			var children []int
			t.Run("server", func(t *testing.T) {
				s = Start(t, Options{NoFsync: true})
				var err error
				children, err = childrenOf(s.process.pid)
				require.NoError(t, err)
				children = append(children, s.process.pid)
				end(t, s)
			})
			if s == nil {
				t.Skip("there is no PostgreSQL")
			}
			for _, pid := range children {
				assert.False(t, alive(t, pid))
			}
			assert.NoDirExists(t, s.dir)
			assert.NotNil(t, s.guard.cmd.ProcessState, "its guard has ended, too")
		})
	}
}

// victim is a test process that starts servers, says where they are, and is killed.
func victim() {
	s, err := start(Options{NoFsync: true})
	if err == nil && os.Getenv("ORRERY_PG_VICTIM") == "frozen" {
		err = s.freeze()
	}
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(s.dir + " " + strconv.Itoa(s.process.pid) + " " + strconv.Itoa(s.guard.cmd.Process.Pid) + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(s) // collected, it would close the pipe of its guard
}

func TestNoServerOutlivesATestProcessThatIsKilledOrSimplyEnds(t *testing.T) {
	if _, err := find(debian, os.Getenv("PATH")); err != nil {
		unavailable(t, err)
	}
	for _, row := range []struct{ name, victim string }{{"it is killed", "running"}, {"it is killed while the server is frozen", "frozen"}, {"it ends", "running"}} {
		t.Run(row.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "ORRERY_PG_VICTIM="+row.victim)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			line := make([]byte, 1000)
			n, err := out.Read(line)
			require.NoError(t, err)
			said := strings.Fields(string(line[:n]))
			require.Len(t, said, 3)
			pid, err := strconv.Atoi(said[1])
			require.NoError(t, err)
			guard, err := strconv.Atoi(said[2])
			require.NoError(t, err)
			children, err := childrenOf(pid)
			require.NoError(t, err)
			require.NotEmpty(t, children)
			if row.name == "it ends" {
				require.NoError(t, in.Close())
				require.NoError(t, cmd.Wait(), stderr.String())
			} else {
				require.NoError(t, cmd.Process.Kill())
				require.Error(t, cmd.Wait())
			}
			require.Eventually(t, func() bool {
				for _, p := range append(children, pid, guard) {
					if alive(t, p) {
						return false
					}
				}
				_, err := os.Stat(said[0])
				return os.IsNotExist(err)
			}, patience, 10*time.Millisecond, "all processes and the folder %s are gone", said[0])
		})
	}
}

func TestASynchronousStandbyHasAllThatWasAcknowledged(t *testing.T) {
	primary := Start(t, Options{NoFsync: true})
	standby := primary.Standby(t, Synchronous)
	name := nameIn(t, primary.Database(t))
	require.NoError(t, primary.Exec(t.Context(), name, "CREATE TABLE a (x int); INSERT INTO a VALUES (1)"))
	require.ErrorContains(t, standby.Exec(t.Context(), "postgres", "CREATE TABLE a (x int)"), "read-only transaction", "a standby takes no writes")
	require.Eventually(t, func() bool { // it has the commit on its disk, and reads find it once it was replayed
		_, err := standby.Query(t.Context(), name, "SELECT count(*) FROM a")
		return err == nil
	}, patience, 10*time.Millisecond)
	either := URL(name, standby, primary)
	conn, err := pgx.Connect(t.Context(), either)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "INSERT INTO a VALUES (2)")
	require.NoError(t, err, "the URL of both leads to the primary")
	require.NoError(t, conn.Close(t.Context()))

	primary.Kill(t)
	standby.Promote(t)
	assert.Equal(t, "2", query(t, standby, name, "SELECT count(*) FROM a"))
	conn, err = pgx.Connect(t.Context(), URL(name, primary, standby))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "INSERT INTO a VALUES (3)")
	require.NoError(t, err, "the URL of both leads to the promoted one")
	require.NoError(t, conn.Close(t.Context()))
}

func TestAnAsynchronousStandbyMayLackWhatWasAcknowledged(t *testing.T) {
	primary := Start(t, Options{NoFsync: true, TCP: true})
	name := nameIn(t, primary.Database(t))
	require.NoError(t, primary.Exec(t.Context(), name, "CREATE TABLE a (x int)"))
	standby := primary.Standby(t, Asynchronous)
	assert.NotEqual(t, primary.Address(), standby.Address())
	assert.NotEmpty(t, standby.Address())
	standby.Freeze(t)
	require.NoError(t, primary.Exec(t.Context(), name, "INSERT INTO a VALUES (1)"))
	primary.Kill(t)
	standby.Thaw(t)
	standby.Promote(t)
	// What stands in the buffers of the connection may arrive after all, or not.
	assert.Contains(t, []string{"0", "1"}, query(t, standby, name, "SELECT count(*) FROM a"))
}

func TestTheNewestProgramsAreFoundWhereDebianHasThemThenInPATH(t *testing.T) {
	dir := t.TempDir()
	install := func(folder, says string) string {
		path := filepath.Join(dir, folder)
		require.NoError(t, os.MkdirAll(path, 0o755))
		for _, program := range []string{"postgres", "initdb"} {
			require.NoError(t, os.WriteFile(filepath.Join(path, program), []byte("#!/bin/sh\necho '"+says+"'\n"), 0o755))
		}
		return path
	}
	pattern := filepath.Join(dir, "lib", "*", "bin")
	_, err := find(pattern, "")
	require.ErrorIs(t, err, errMissing)
	old := install("old", "postgres (PostgreSQL) 12.22 (Debian 12.22-1)")
	_, err = find(pattern, old)
	require.ErrorIs(t, err, errMissing, "too old")
	path := install("path", "postgres (PostgreSQL) 17beta1")
	got, err := find(pattern, old+string(os.PathListSeparator)+path)
	require.NoError(t, err)
	assert.Equal(t, path, got)
	install("lib/12/bin", "")
	install("lib/9.6/bin", "")
	got, err = find(pattern, path)
	require.NoError(t, err)
	assert.Equal(t, path, got, "12 is too old")
	install("lib/13/bin", "")
	newest := install("lib/100/bin", "")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lib", "101"), 0o755)) // removed, but for what it had written
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lib", "101", "bin"), 0o755))
	got, err = find(pattern, path)
	require.NoError(t, err)
	assert.Equal(t, newest, got)
}
