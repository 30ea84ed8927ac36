//go:build unix

package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// What happens to a child of [childConfig.Outages]: each is said by a file of its folder.
const (
	clockFile = "clock.txt" // by how many milliseconds its wall clock is set, as text
	stuckFile = "stuck"     // while it is there, the disk takes no commit
)

// setClock is the machine's clock as somebody has set it: tests must not set the machine's own.
type setClock struct {
	shell.SystemClock
	dir string
}

func (c setClock) Now() time.Time {
	raw, err := os.ReadFile(filepath.Join(c.dir, clockFile))
	if err != nil {
		return c.SystemClock.Now() // nobody has set it
	}
	ms, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		panic(err)
	}
	return c.SystemClock.Now().Add(time.Duration(ms) * time.Millisecond)
}

// slowDisk is a store whose commits may take long.
type slowDisk struct {
	store.Store
	dir string
}

func (d slowDisk) Update(ctx context.Context, fn func(store.Tx) error) error {
	return d.Store.Update(ctx, func(tx store.Tx) error {
		err := fn(tx)
		for exists(filepath.Join(d.dir, stuckFile)) {
			idle(ctx, 10*time.Millisecond)
		}
		return err
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// outagesChild is an engine with a recurring action of every second.
func outagesChild(ctx context.Context, o shell.Options) error {
	e, err := shell.New(o)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	if _, err := (engineTarget{e}).createRecurring(ctx, recurringOrder{}); err != nil {
		return err
	}
	return fmt.Errorf("nobody killed it: %w", <-ended)
}

// victim is a child of [childConfig.Outages], seen from outside.
type victim struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

func (v victim) signal(s syscall.Signal) { require.NoError(v.t, v.cmd.Process.Signal(s)) }

// set sets its clock, in one step.
func (v victim) set(by time.Duration) {
	name := filepath.Join(v.dir, clockFile)
	require.NoError(v.t, os.WriteFile(name+".new", []byte(strconv.FormatInt(by.Milliseconds(), 10)), 0o600))
	require.NoError(v.t, os.Rename(name+".new", name))
}

func (v victim) stick() {
	require.NoError(v.t, os.WriteFile(filepath.Join(v.dir, stuckFile), nil, 0o600))
}

func (v victim) unstick() { require.NoError(v.t, os.Remove(filepath.Join(v.dir, stuckFile))) }

// runs waits until its tool has run so many times more.
func (v victim) runs(more int) {
	v.t.Helper()
	lines := func() int {
		b, err := os.ReadFile(filepath.Join(v.dir, effectsFile))
		if errors.Is(err, os.ErrNotExist) {
			return 0
		}
		require.NoError(v.t, err)
		return bytes.Count(b, []byte("\n"))
	}
	for until := lines() + more; lines() < until; {
		require.NoError(v.t, v.t.Context().Err())
		idle(v.t.Context(), 50*time.Millisecond)
	}
}

// What a daemon tells of its clock and of its disk, it tells as a process: its clock is set, its
// disk takes nothing for a while, it is stopped meanwhile. Nothing fires twice.
func TestARealProcessTellsAClockThatIsSetALoopThatIsBehindAndAStopApart(t *testing.T) {
	t.Parallel()
	const outage = 5 * time.Second
	set := "the clock was set forward from "
	if runtime.GOOS != "linux" {
		set = "the clock went from " // it cannot tell a machine that was suspended
	}
	for name, row := range map[string]struct {
		happens func(v victim)
		want    string // what the reason of some missed times begins with; empty: none are missed
		least   uint64 // so many times at least
		never   []string
	}{
		"a clock that is set forward": {
			func(v victim) { v.set(time.Hour) },
			set, 3500, []string{"did not run"},
		},
		"a clock that is set back": {
			func(v victim) { v.set(-outage) },
			"", 0, nil,
		},
		"a disk that takes nothing": {
			func(v victim) {
				v.stick()
				idle(v.t.Context(), outage)
				v.unstick()
			},
			"the daemon was behind by ", 2, []string{"clock", "did not run"},
		},
		"a stop while the disk takes nothing": {
			func(v victim) {
				v.stick()
				idle(v.t.Context(), 1500*time.Millisecond) // by now a batch waits for the disk
				v.signal(syscall.SIGSTOP)
				idle(v.t.Context(), outage)
				v.signal(syscall.SIGCONT)
				v.unstick()
			},
			"the daemon did not run from ", 3, []string{"clock"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := beginVictim(t)
			v.runs(2)
			row.happens(v)
			v.runs(2)
			v.signal(syscall.SIGKILL)
			_ = v.cmd.Wait() // it was killed, which is an error
			told := uint64(0)
			for _, o := range historyLeft(t, v.dir) {
				if o.Verdict != core.VerdictMissed {
					continue
				}
				if strings.HasPrefix(o.Reason, "the daemon was behind by ") && !strings.HasPrefix(row.want, "the daemon was behind by ") {
					assert.Less(t, o.Count, uint64(60), "%+v", o)
					continue // the machine is busy, or its disk, which is what was told
				}
				require.NotEmpty(t, row.want, "missed: %+v", o)
				if strings.HasPrefix(o.Reason, row.want) {
					told += o.Count
				}
				for _, other := range row.never {
					assert.NotContains(t, o.Reason, other)
				}
			}
			assert.GreaterOrEqual(t, told, row.least, "times that were missed as %q", row.want)
		})
	}
}

// beginVictim starts one in a folder of its own. It is killed when the test ends.
func beginVictim(t *testing.T) victim {
	t.Helper()
	dir := workDir(t)
	raw, err := json.Marshal(childConfig{Dir: dir, Outages: true, variant: variant{MaxBatch: 64}})
	require.NoError(t, err)
	v := victim{t, dir, exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")}
	v.cmd.Env = append(os.Environ(), childEnv+"="+string(raw))
	require.NoError(t, v.cmd.Start())
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill() // it may be gone
		_ = v.cmd.Wait()
	})
	return v
}

// historyLeft reads the history that a killed victim has left, and holds that a replay comes to
// it, that its counts are right, and that each time has one entry.
func historyLeft(t *testing.T, dir string) []core.Occurrence {
	t.Helper()
	st, f, done := reopened(t, dir, bolt.Options{})
	defer done()
	e, err := shell.New(engineOptions(st, f, variant{MaxBatch: 64}))
	require.NoError(t, err)
	list, err := recurringOf(t.Context(), e)
	require.NoError(t, err)
	require.Len(t, list, 1)
	history, next, err := e.Recurring().History(t.Context(), list[0].ID, shell.Page{Limit: shell.MaxPage})
	require.NoError(t, err)
	require.Empty(t, next)
	slices.SortFunc(history, func(a, b core.Occurrence) int { return int(a.DueAt - b.DueAt) })
	n, last := map[core.Verdict]uint64{}, history[0].DueAt.Add(-time.Second)
	for _, o := range history {
		n[o.Verdict] += o.Count
		assert.Equal(t, last.Add(time.Second), o.DueAt, "a time has no entry, or two")
		assert.Equal(t, uint64(o.LastDueAt-o.DueAt)/1000+1, o.Count)
		last = o.LastDueAt
	}
	assert.Equal(t, list[0].ExecutionCount, n[core.VerdictDispatched])
	assert.Equal(t, list[0].MissedCount, n[core.VerdictMissed])
	rep, err := replay.Verify(t.Context(), st, replay.Options{})
	require.NoError(t, err)
	assert.Empty(t, rep.Divergences)
	return history
}
