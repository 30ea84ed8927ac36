//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// A backup is opened as the operations guide has it: looked at, changed, and only then let go on.
func TestABackupIsOpenedPausedAndGoesOnWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	db, gate := database(t), fifo(t)
	p := start(t, "--db", db)
	inHand := p.add("--on-interrupt", "retry", "--", "cat", gate)
	require.Eventually(t, func() bool { return p.action(inHand).Status.Type == core.StatusRunning }, patience, 20*time.Millisecond)
	const soon = 10 * time.Second // after the backup, however busy the machine is
	due, unwanted := p.add("--in", soon.String(), "--", "echo", "due"), p.add("--in", soon.String(), "--", "echo", "unwanted")
	comes := time.After(soon)
	recurring := anID.FindString(p.ok("recurring", "add", "--cron", "* * * * * *", "--", "echo", "again"))
	p.ok("backup", "--to", db+".backup")
	p.signal(syscall.SIGKILL)
	p.code()

	dir := t.TempDir()
	require.Zero(t, cli(t, nil, "", "restore", db+".backup", db+".new").code)
	c := write(t, "orrery.toml", "[engine]\nrecover_after_seconds = 0.001\n")
	say := func(set string) { require.NoError(t, os.WriteFile(filepath.Join(dir, "set.toml"), []byte(set), 0o600)) }
	say("[semaphores.s]\nslots = 2\n")
	p = start(t, "--db", db+".new", "--start-paused", "--tick-rate", "0.05", "--config", c, "--apply", dir)
	assert.Contains(t, await(t, p.out, "^It is paused: "), "system resume")
	await(t, p.errs, `level=WARN msg="the engine is paused`)
	assert.Contains(t, p.ok("system", "show"), "paused since ")
	assert.Regexp(t, `store +file\n`, p.ok("system", "show"))
	assert.Contains(t, p.metrics(), "orrery_paused 1")
	p.ok("actions", "cancel", unwanted)
	fresh := p.add("--", "echo", "fresh")
	say("[semaphores.s]\nslots = 3\n[queues.q]\n")
	p.signal(syscall.SIGHUP)
	await(t, p.errs, `msg=reloaded what=set .*created=1 changed=1`)
	p.ok("queue", "push", "q", "--data", "1")
	<-comes // both are due by now
	assert.Empty(t, p.ok("queue", "take", "q", "--holder", "me", "--wait", "2s"))
	for id, want := range map[string]core.StatusType{inHand: core.StatusRunning, due: core.StatusPending, unwanted: core.StatusCancelled, fresh: core.StatusPending} {
		assert.Equal(t, want, p.action(id).Status.Type)
	}
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code(), "it stops like any other")

	p = begin(t, []string{"ORRERY_START_PAUSED=true"}, "orchestrate", "--listen", "127.0.0.1:0", "--db", db+".new", "--tick-rate", "0.05", "--config", c)
	p.awaitReady()
	assert.Equal(t, core.StatusPending, p.action(due).Status.Type)
	waits := make(chan result, 1)
	go func() {
		waits <- cli(t, []string{"ORRERY_SERVER=" + p.url}, "", "actions", "add", "--wait", "--", "echo", "waited")
	}()
	assert.Equal(t, "the daemon goes on\n", p.ok("system", "resume"))
	await(t, p.errs, `msg="engine resumed`)
	assert.Equal(t, "the daemon is not paused\n", p.ok("system", "resume"))
	open(t, gate, "in hand")
	r := <-waits
	assert.True(t, strings.HasSuffix(r.out, "waited\n"), r.out)
	for _, id := range []string{inHand, due, fresh} {
		require.Eventually(t, func() bool { return p.action(id).Status.Type == core.StatusCompleted }, patience, 10*time.Millisecond)
	}
	assert.Contains(t, p.ok("recurring", "history", recurring), "the daemon was paused from ")
	assert.Contains(t, p.ok("system", "show"), "at work")
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	verified(t, db+".new")
}

func TestADemonstrationIsNotPaused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--start-paused"}, {"--config", write(t, "orrery.toml", "[engine]\nstart_paused = true\n")}} {
		r := cli(t, nil, "", append([]string{"orchestrate", "--demo", "--db", database(t)}, args...)...)
		assert.Equal(t, exitUsage, r.code)
		assert.Contains(t, r.err, "--demo shows what fires")
	}
}
