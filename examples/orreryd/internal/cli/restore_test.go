package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestADatabaseIsRestoredToATimeAndRunsWhatWasDueThen(t *testing.T) {
	db := database(t)
	c := write(t, "orrery.toml", "[retention]\nredo_days = 1\n")
	p := start(t, "--db", db, "--config", c)
	p.add("--in", "1h", "--", "echo", "before")
	p.ok("backup", "--to", db+".backup")
	first := p.add("--wait", "--", "echo", "first")
	p.signal(os.Interrupt)
	require.Zero(t, p.code())
	p = start(t, "--db", db, "--config", c)
	second := p.add("--in", "1s", "--", "echo", "second")
	at := p.action(second).CreatedAt
	third := p.add("--in", "1h", "--", "echo", "third")
	require.Greater(t, p.action(third).CreatedAt, at)
	p.signal(os.Kill)
	p.code()

	redo := []string{"--redo", db + ".redo", "--redo", db + ".log"}
	r := cli(t, nil, "", append([]string{"restore", db + ".backup", db + ".new", "--to", at.String(), "--dry-run"}, redo...)...)
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "commits would lead to batch ")
	require.NoFileExists(t, db+".new")
	r = cli(t, nil, "", append([]string{"restore", db + ".backup", db + ".new", "--to", at.String(), "--json"}, redo...)...)
	require.Zero(t, r.code, r.err)
	var report restoreReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	assert.Equal(t, at, report.To.At)
	assert.Greater(t, report.To.Batch, report.From.Batch)
	verified(t, db+".new")

	again := start(t, "--db", db+".new")
	list := again.ok("actions", "list", "--limit", "100")
	assert.Contains(t, list, first)
	assert.Contains(t, list, second)
	assert.NotContains(t, list, third)
	require.Eventually(t, func() bool { return again.action(second).Status.Type == core.StatusCompleted }, patience, 10*time.Millisecond)
	again.signal(os.Interrupt)
	require.Zero(t, again.code())
	verified(t, db+".new")

	r = cli(t, nil, "", append([]string{"restore", db + ".backup", db + ".new", "--to", at.String()}, redo...)...)
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "it is not overwritten")
	later := at.Std().Add(time.Hour).Format(time.RFC3339)
	r = cli(t, nil, "", append([]string{"restore", db + ".backup", db + ".other", "--to", later}, redo...)...)
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "it goes as far as batch ")
	for _, args := range [][]string{{"one"}, {"a", "b", "--to", "yesterday"}, {"a", "b", "--to", "0"}, {"a", "b", "--redo", "c"}} {
		r = cli(t, nil, "", append([]string{"restore"}, args...)...)
		assert.Equal(t, exitUsage, r.code, args)
	}
}

func TestARestoreThatIsKilledLeavesNoHalfFile(t *testing.T) {
	db := database(t)
	st, err := bolt.Open(db, bolt.Options{NoSync: true, Redo: bolt.Redo{Bytes: 1 << 30}})
	require.NoError(t, err)
	note := func(n uint64) {
		require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
			if err := tx.SetMeta("note", fmt.Appendf(nil, "%q", strings.Repeat("x", 1<<20))); err != nil {
				return err
			}
			return tx.AppendJournal(n, effects.Time(n), []byte("{}"))
		}))
	}
	note(1)
	_, err = st.BackupFile(t.Context(), db+".backup")
	require.NoError(t, err)
	for n := range uint64(40) {
		note(n + 2)
	}
	require.NoError(t, st.Close())
	folder := filepath.Dir(db)
	half := func() []string {
		found, err := filepath.Glob(filepath.Join(folder, ".orrery.db.new.new-*"))
		require.NoError(t, err)
		return found
	}
	there := func() bool {
		_, err := os.Stat(db + ".new")
		return err == nil
	}
	args := []string{"restore", db + ".backup", db + ".new", "--to", "41", "--redo", db + ".redo"}
	killed := 0
	for round := range 3 {
		cmd := program(t, args...)
		require.NoError(t, cmd.Start())
		for len(half()) == 0 && !there() {
			runtime.Gosched()
		}
		for range round * 1000 {
			runtime.Gosched()
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		for _, f := range half() {
			if round < 2 { // what the last one leaves the next restore removes
				require.NoError(t, os.RemoveAll(f))
			}
		}
		if there() { // it was done
			r := cli(t, nil, "", "check", "--db", db+".new")
			require.Zero(t, r.code, r.err+r.out)
			require.NoError(t, os.Remove(db+".new"))
		} else {
			killed++
		}
	}
	require.Positive(t, killed)
	r := cli(t, nil, "", args...)
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.out, "and 40 commits behind it: it has batch 41")
	require.Empty(t, half())
}
