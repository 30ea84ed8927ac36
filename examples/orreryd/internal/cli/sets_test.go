//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A daemon that is killed while a set is applied has all of it afterwards, or nothing.
func TestADaemonThatIsKilledWhileASetIsAppliedHasAllOfItOrNothing(t *testing.T) {
	t.Parallel()
	db, random := database(t), rand.New(rand.NewPCG(1, 2))
	sets := []string{t.TempDir(), t.TempDir()}
	for v, dir := range sets {
		var text strings.Builder
		for i := range 200 {
			fmt.Fprintf(&text, "[recurring.r%d]\ncron = \"%d %d * * *\"\ncommand = [\"true\"]\n", i+v*50, i%60, v)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "all.toml"), []byte(text.String()), 0o600))
	}
	p := start(t, "--db", db)
	p.ok("apply", "-f", sets[0], "--set", "ops")
	for round := range 6 {
		done := make(chan result)
		go func() {
			done <- cli(t, []string{"ORRERY_SERVER=" + p.url}, "", "apply", "-f", sets[(round+1)%2], "--set", "ops", "--prune", "--most")
		}()
		<-time.After(time.Duration(random.IntN(120)) * time.Millisecond) // of a process: there is no virtual time
		require.NoError(t, p.cmd.Process.Kill())
		p.code()
		said := <-done
		p = start(t, "--db", db)
		var equal []int
		for v, dir := range sets {
			if p.do("diff", "-f", dir, "--set", "ops").code == 0 {
				equal = append(equal, v)
			}
		}
		require.Len(t, equal, 1, "round %d: it is one of the two, whole; apply said %d: %s%s", round, said.code, said.out, said.err)
		if said.code == 0 {
			assert.Equal(t, (round+1)%2, equal[0], "round %d: what was acknowledged is there", round)
		}
		p.ok("apply", "-f", sets[(round+1)%2], "--set", "ops", "--prune", "--most")
	}
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
	verified(t, db)
}

// The value of a secret is where it was configured, and in what is sent to whom it is for: in nothing that is stored,
// printed, written or answered.
func TestTheValueOfASecretIsInNothingThatASetLeaves(t *testing.T) {
	t.Parallel()
	const value = "correct-horse-battery-staple"
	var heard atomic.Pointer[string]
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization")
		heard.Store(&got)
	}))
	t.Cleanup(web.Close)
	dir := t.TempDir()
	db := filepath.Join(dir, "orrery.db")
	config := write(t, "orrery.toml", "[secrets.api]\nsecret_file = '"+write(t, "api", value)+"'\n")
	p := start(t, "--db", db, "--config", config, "--log-level", "debug")
	set := t.TempDir()
	file := filepath.Join(set, "ops.toml")
	say := func(path string) {
		require.NoError(t, os.WriteFile(file, []byte(`[recurring.call]
cron = "@daily"
tool = "http"
input = { method = "GET", url = "`+web.URL+path+`", headers = { Authorization = "Bearer {{secret \"api\"}}" } }
`), 0o600))
	}
	var printed bytes.Buffer
	run := func(args ...string) {
		r := p.do(args...)
		printed.WriteString(r.out + r.err)
	}
	say("/one")
	run("apply", "-f", set, "--set", "ops")
	run("recurring", "trigger", "call")
	require.Eventually(t, func() bool { return heard.Load() != nil }, patience, 10*time.Millisecond)
	assert.Equal(t, "Bearer "+value, *heard.Load(), "it is sent to whom it is for")
	say("/two")
	run("diff", "-f", set, "--set", "ops")
	run("apply", "-f", set, "--set", "ops", "--json")
	run("export")
	run("export", "--set", "ops", "--dir", filepath.Join(dir, "exported"))
	run("recurring", "show", "call", "--json")
	run("recurring", "history", "call", "--json")
	run("actions", "list", "--json")
	run("sets", "list", "--json")
	run("backup", "--to", filepath.Join(dir, "backup.db"))
	assert.Contains(t, printed.String(), `{{secret \"api\"}}`, "the reference is there")
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
	printed.WriteString(p.stderr.String())
	journal := journalOf(t, db)
	assert.Contains(t, journal, `{{secret`, "the reference is there")
	printed.WriteString(journal)
	assert.NotContains(t, printed.String(), value)
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		assert.NotContains(t, string(data), value, path)
		return err
	}))
	assert.GreaterOrEqual(t, files, 3, "the database, its journal, the export")
}

func TestAPipelineStartsWhoseRunbookASetOwns(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	set := t.TempDir()
	book := filepath.Join(set, "book.toml")
	say := func(concurrency int) {
		require.NoError(t, os.WriteFile(book, fmt.Appendf(nil, `name = "release"

[queues.merge]
concurrency = %d

[semaphores.builds]
slots = 2

[workers.merger]
queue = "merge"
run   = { tool = "command", input = { argv = ["true"] } }

[[pipelines.go.phases]]
name = "say"
run  = { tool = "command", input = { argv = ["echo", "gone"] } }
`, concurrency), 0o600))
	}
	say(1)
	require.NoError(t, os.WriteFile(filepath.Join(set, "all.toml"), []byte("runbooks = [\"book.toml\"]\n"), 0o600))
	p.ok("apply", "-f", set, "--set", "ops")
	p.ok("pipeline", "start", book, "go", "--wait")
	p.ok("runbook", "apply", book)
	assert.Contains(t, p.ok("apply", "-f", set, "--set", "ops"), "unchanged", "it is the set's as before")

	say(3)
	r := p.do("pipeline", "start", book, "go")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, `the set "ops" declares it, in book.toml: change it there and apply the set`)
	p.ok("apply", "-f", set, "--set", "ops")
	p.ok("pipeline", "start", book, "go", "--wait")
}
