package postgres_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	programs "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
	"github.com/orrery-go/orrery/store/storetest"
)

// pooled starts a PgBouncer in front of a new server, both as the guide for operators says, and gives the URL of a database behind it.
func pooled(t *testing.T) string {
	t.Helper()
	if os.Getenv("ORRERY_SLOW") != "1" {
		t.Skip("with a real PgBouncer; set ORRERY_SLOW=1 to run it")
	}
	path, err := programs.LookPath("pgbouncer")
	if err != nil {
		path, err = programs.LookPath("/usr/sbin/pgbouncer") // which few have in their path
	}
	if err != nil {
		if os.Getenv("ORRERY_REQUIRE_PROGRAMS") != "" {
			t.Fatalf("this test needs pgbouncer: %v", err)
		}
		t.Skipf("this test needs pgbouncer: %v", err)
	}
	server := postgrestest.Start(t, postgrestest.Options{NoFsync: true, TCP: true})
	direct := server.Database(t)
	u, err := url.Parse(direct)
	require.NoError(t, err)
	name := strings.TrimPrefix(u.Path, "/")
	exec(t, direct, limitsOfAPooler(t))

	free, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	host, port, err := net.SplitHostPort(server.Address())
	require.NoError(t, err)
	_, listens, err := net.SplitHostPort(address)
	require.NoError(t, err)
	ini := filepath.Join(t.TempDir(), "pgbouncer.ini")
	require.NoError(t, os.WriteFile(ini, fmt.Appendf(nil, `[databases]
%s = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
max_client_conn = 200
default_pool_size = 30
%s`, name, host, port, postgrestest.User, listens, shown(t, "ini")[0]), 0o644))
	args := []string{ini}
	if os.Geteuid() == 0 {
		args = []string{"--user=nobody", ini} // it refuses root
	}
	said := &strings.Builder{}
	bouncer := programs.CommandContext(ctx, path, args...)
	bouncer.Stdout, bouncer.Stderr = said, said
	require.NoError(t, bouncer.Start())
	t.Cleanup(func() {
		_ = bouncer.Process.Kill()
		_ = bouncer.Wait()
		if t.Failed() {
			t.Logf("PgBouncer:\n%s", said)
		}
	})
	behind := postgrestest.TCPURL(address, name)
	require.Eventually(t, func() bool {
		c, err := pgx.Connect(ctx, behind)
		return err == nil && c.Close(ctx) == nil
	}, time.Minute, 10*time.Millisecond)
	return behind
}

// limitsOfAPooler is what the guide has the role's limits set by, since a pooler takes none from those who connect.
func limitsOfAPooler(t *testing.T) string {
	t.Helper()
	for _, block := range shown(t, "sql") {
		if strings.HasPrefix(block, "ALTER ROLE ") {
			return block
		}
	}
	require.Fail(t, "the guide has no such block")
	return ""
}

func TestBehindPgBouncerInTransactionModeAllIsAsWithoutIt(t *testing.T) {
	behind := pooled(t)
	t.Run("the interface", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			s, err := postgres.Open(ctx, behind, postgres.Options{Schema: schema(), Checkpoint: time.Millisecond, LogBytes: 1})
			require.NoError(t, err)
			return s
		})
	})
	t.Run("a takeover from a process that is frozen within a commit", func(t *testing.T) {
		w := &wire{}
		o := postgres.Options{Schema: schema(), Checkpoint: time.Hour, Lease: time.Minute, Patience: time.Minute}
		first := open(t, behind, w.options(o))
		require.NoError(t, create(first, 0, 1))
		frozen, thaw := make(chan struct{}), make(chan struct{})
		goOn := sync.OnceFunc(func() { close(thaw) })
		defer goOn()
		w.arm(func(c *wireConn, p []byte) (int, error, bool) {
			_, err := c.Conn.Write(p[:len(p)-5]) // all but the end of the transaction
			close(frozen)
			<-thaw
			return len(p), err, true
		})
		var late error
		var commit sync.WaitGroup
		commit.Go(func() { late = create(first, 10, 1) })
		<-frozen
		o.TakeOver = true
		within, cancel := context.WithTimeout(ctx, 25*time.Second) // before the limits of the lock, and of a transaction that waits
		defer cancel()
		second, err := postgres.Open(within, behind, o)
		require.NoError(t, err)
		goOn()
		commit.Wait()
		require.ErrorIs(t, late, store.ErrFenced)
		requireCount(t, second, 1)
		require.NoError(t, create(second, 20, 1))
		require.NoError(t, second.Close())
	})
}
