//go:build unix

package crashtest

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/store/bolt"
)

// times gives how often a fault is tried.
func times(few, many int) int {
	if slow() {
		return many
	}
	return few
}

// underLoad gives a daemon's home, and the load that it is under; stream tells the
// choices of a test apart from those of the others.
func underLoad(t *testing.T, stream uint64) (daemonHome, *ledger, *load, *rand.Rand) {
	t.Helper()
	s := seedtest.Seed(t)
	h, l := newHome(t, "", usual), newLedger()
	return h, l, startLoad(t, h, l, s, 6), rand.New(rand.NewPCG(s, stream))
}

func randomUpTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}

func TestABackupThatIsCutOffLeavesNoFileOrAWholeOne(t *testing.T) {
	t.Parallel()
	h, l, load, rng := underLoad(t, 1)
	whole := 0
	for n := range times(4, 40) {
		p := h.launch(t)
		url := p.url(t, h)
		load.link.set(url)
		idle(t.Context(), 300*time.Millisecond)
		to := filepath.Join(h.dir, "backup-"+string(rune('a'+n%26))+".db")
		cmd := h.command(t.Context(), "backup", "--server", url, "--to", to)
		require.NoError(t, cmd.Start())
		idle(t.Context(), randomUpTo(rng, 150*time.Millisecond))
		if n%2 == 0 { // the daemon dies, and the client must notice
			p.kill()
			err := cmd.Wait()
			if _, missing := os.Stat(to); missing == nil {
				assert.NoError(t, err, "the backup is there, and its command says that it failed")
			} else {
				assert.Error(t, err, "the backup is not there, and its command says that it is")
			}
		} else {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			p.kill()
		}
		load.link.set("")
		if _, err := os.Stat(to); err == nil {
			whole++
			checkFile(t, to)
			require.NoError(t, os.Remove(to))
		}
	}
	t.Logf("%d backups were done in time", whole)
	load.stop()
	drainDaemon(t, h, l)
}

// checkFile checks a database file that was not drained.
func checkFile(t *testing.T, path string) map[string]core.StatusType {
	t.Helper()
	st, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	sound(t, st)
	s, err := take(t.Context(), st)
	require.NoError(t, err)
	assert.Empty(t, s.quarantine)
	content := make(map[string]core.StatusType)
	for id, a := range s.actions {
		content[id.String()] = a.Status.Type
	}
	return content
}

func TestACompactionThatIsKilledLeavesTheOldFileOrTheNewOne(t *testing.T) {
	t.Parallel()
	s := seedtest.Seed(t)
	h, l := newHome(t, "", usual), newLedger()
	load := startLoad(t, h, l, s, 8)
	p := h.launch(t)
	load.link.set(p.url(t, h))
	await(t, 2*time.Minute, func() error {
		if l.total(acked) < 300 {
			return errLater
		}
		return nil
	})
	p.kill()
	load.stop()
	want := checkFile(t, h.db)
	require.NotEmpty(t, want)
	rng := rand.New(rand.NewPCG(s, 2))
	for range times(6, 60) {
		cmd := h.command(t.Context(), "compact", "--db", h.db)
		require.NoError(t, cmd.Start())
		idle(t.Context(), randomUpTo(rng, 60*time.Millisecond))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		require.Equal(t, want, checkFile(t, h.db))
	}
	h.mustRun(t, "compact", "--db", h.db)
	left, err := filepath.Glob(filepath.Join(h.dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "what the compactions that were cut off left behind")
	require.Equal(t, want, checkFile(t, h.db))
	drainDaemon(t, h, l)
}

func TestADaemonThatIsKilledWhileItStopsLosesNothing(t *testing.T) {
	t.Parallel()
	h, l, load, rng := underLoad(t, 3)
	for range times(4, 40) {
		p := h.launch(t)
		load.link.set(p.url(t, h))
		idle(t.Context(), randomUpTo(rng, 800*time.Millisecond))
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		idle(t.Context(), randomUpTo(rng, 250*time.Millisecond))
		p.kill()
		load.link.set("")
	}
	load.stop()
	drainDaemon(t, h, l)
}

func TestADaemonThatStallsLongerThanItsLeaseGoesOnAsBefore(t *testing.T) {
	t.Parallel()
	s := seedtest.Seed(t)
	h, l := newHome(t, "", timing{recoverAfter: 0.5, lease: 1}), newLedger()
	load := startLoad(t, h, l, s, 6)
	p := h.launch(t)
	load.link.set(p.url(t, h))
	for range times(1, 5) {
		idle(t.Context(), 700*time.Millisecond)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		idle(t.Context(), 2*time.Second)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	}
	before := l.total(acked)
	await(t, 2*time.Minute, func() error {
		if l.total(acked) < before+20 {
			return errLater
		}
		return nil
	})
	load.stop()
	p.stop(t, h)
	drainDaemon(t, h, l)
}

func TestASecondDaemonOnOneFileSaysSo(t *testing.T) {
	t.Parallel()
	h := newHome(t, "", usual)
	p := h.launch(t)
	url := p.url(t, h)
	defer p.kill()
	said := refusesToStart(t, h)
	assert.Contains(t, said, "in use by another process")
	assert.Contains(t, said, h.db)
	h.mustRun(t, "actions", "list", "--server", url) // the first one does not mind
	p.stop(t, h)
}

// refusesToStart starts a daemon that must fail, and gives what it said.
func refusesToStart(t *testing.T, h daemonHome) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	cmd := h.command(ctx, "orchestrate", "--config", h.config())
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "it does not end: %s", out)
	require.Error(t, err, "it ended well: %s", out)
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), "%s", out)
	return string(out)
}
