// Package postgrestest runs real PostgreSQL servers for tests: the programs of
// PostgreSQL 13 or newer, from Debian's packages or from PATH, in a folder of their own.
//
// Most tests need an empty database and nothing else. [Database] makes one on a server
// that the whole test process shares:
//
//	url := postgrestest.Database(t)
//
// A test that ends servers has its own, and may give it a standby:
//
//	primary := postgrestest.Start(t, postgrestest.Options{})
//	standby := primary.Standby(t, postgrestest.Synchronous)
//	primary.Kill(t)
//	standby.Promote(t)
//
// No server outlives the test process, however that ends: a shell that reads from a pipe
// of the process ends the server, and removes its folder, when the pipe is closed.
//
// Servers listen on a Unix socket in their folder, so no two can be in each other's way.
// As root, the programs run as the user postgres, or nobody, since PostgreSQL refuses root.
//
// A test is skipped where no PostgreSQL is installed, and fails if the environment
// variable ORRERY_REQUIRE_PROGRAMS is set.
package postgrestest

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/orrery-go/orrery/effects/loopbacktest"
)

// User is the superuser of the servers. No password is asked for.
const User = "orrery"

// patience is how long a server may take to start, to end or to answer. It only decides
// when a test fails.
const patience = time.Minute

// Options of a server. The zero value is a server as an operator would run it: what it
// has acknowledged is on the disk.
type Options struct {
	// NoFsync leaves out the syncs, which is faster. What was committed survives the end
	// of the server's processes, not that of the machine.
	NoFsync bool
	// TCP makes the server listen on a port of a loopback address, too; see [Server.Address].
	TCP bool
	// Settings of the configuration, such as "max_connections": "20".
	Settings map[string]string
}

// Database makes an empty database on a server that all tests of the process share, and
// returns its URL. The database is dropped when the test ends, with the connections that
// are still open. The server begins with the first call, runs without fsync, and ends
// with the process.
func Database(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		unavailable(t, err)
	}
	name := s.create(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience) // the test's own is done
		defer cancel()
		if err := s.Exec(ctx, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the database of a test: %v", err)
		}
	})
	return s.URL(name)
}

var shared = sync.OnceValues(func() (*Server, error) {
	return start(Options{NoFsync: true})
})

// Start runs a server until the test ends. If the test fails, the end of the server's log
// is logged.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(o)
	if err != nil {
		unavailable(t, err)
	}
	s.endWith(t)
	return s
}

// endWith removes the server when the test ends.
func (s *Server) endWith(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PostgreSQL in %s:\n%s", s.dir, s.Log())
		}
		if err := s.remove(); err != nil {
			t.Errorf("remove a PostgreSQL: %v", err)
		}
	})
}

var databases atomic.Int64

// Database makes an empty database on the server, and returns its URL. It stays until the
// server is removed.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.URL(s.create(t))
}

// create makes an empty database and returns its name.
func (s *Server) create(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if err := s.Exec(t.Context(), "postgres", "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatalf("make a database for a test: %v", err)
	}
	return name
}

// URL is that of a database of the server, which is reached over its Unix socket. The
// database "postgres" is always there.
func (s *Server) URL(database string) string { return URL(database, s) }

// URL is that of a database on the first of several servers that can write, as libpq
// understands it: after a failover connections go to the standby that was promoted.
func URL(database string, servers ...*Server) string {
	var hosts, ports []string
	for _, s := range servers {
		hosts, ports = append(hosts, s.dir), append(ports, s.portText())
	}
	query := url.Values{"host": {strings.Join(hosts, ",")}, "port": {strings.Join(ports, ",")}}
	if len(servers) > 1 {
		query.Set("target_session_attrs", "read-write")
	}
	return (&url.URL{Scheme: "postgres", User: url.User(User), Host: "", Path: "/" + database, RawQuery: query.Encode()}).String()
}

// TCPURL is that of a database of the server, over [Server.Address] or over a proxy at
// another address.
func TCPURL(address, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(User), Host: address, Path: "/" + database, RawQuery: "sslmode=disable"}).String()
}

// Address is host and port where the server listens besides its Unix socket; empty
// without [Options.TCP].
func (s *Server) Address() string {
	if s.port == 0 {
		return ""
	}
	return loopbacktest.Database() + ":" + strconv.Itoa(s.port)
}

// Exec runs SQL on a connection of its own: one statement, or several with semicolons.
func (s *Server) Exec(ctx context.Context, database, sql string) (err error) {
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	if closed := conn.Close(ctx); err == nil {
		err = closed
	}
	return err
}

// Query gives the one value that a query finds, as text.
func (s *Server) Query(ctx context.Context, database, sql string) (value string, err error) {
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return "", err
	}
	defer func() {
		if closed := conn.Close(ctx); err == nil {
			err = closed
		}
	}()
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 1 {
		return "", fmt.Errorf("%q finds other than one value", sql)
	}
	return string(results[0].Rows[0][0]), nil
}

// Restart ends the server as [Server.Stop] does, and starts it again.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	s.Start(t)
}

// Start starts the server again, after [Server.Kill] or [Server.Stop], with its data, its
// socket and its port. It returns when the server answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.launch(); err != nil {
		t.Fatalf("start PostgreSQL again: %v", err)
	}
}

// Stop ends the server in order, but at once: open transactions are rolled back and
// connections are closed.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.stop(fast); err != nil {
		t.Fatalf("stop PostgreSQL: %v", err)
	}
}

// Kill ends all processes of the server by SIGKILL, as the kernel does when a machine has
// no memory left. Clients learn nothing but that the connection is gone.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.kill(); err != nil {
		t.Fatalf("kill PostgreSQL: %v", err)
	}
}

// Freeze stops all processes of the server by SIGSTOP: connections stay open, and nothing
// answers, as on a machine that hangs.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	if err := s.freeze(); err != nil {
		t.Fatalf("freeze PostgreSQL: %v", err)
	}
}

// Thaw lets the processes that [Server.Freeze] has stopped go on.
func (s *Server) Thaw(t testing.TB) {
	t.Helper()
	if err := s.thaw(); err != nil {
		t.Fatalf("thaw PostgreSQL: %v", err)
	}
}
