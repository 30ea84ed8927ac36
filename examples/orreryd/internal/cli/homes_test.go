//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// computer is what a daemon has for itself: the folder of its workspace, its runs and its sessions.
type computer struct {
	t        *testing.T
	name     string
	dir      string
	database string
}

func (c computer) begin() *process {
	c.t.Helper()
	file := write(c.t, c.name+".toml", fmt.Sprintf("[cluster]\nname = %q\nlease_seconds = 5\n\n[engine]\nrecover_after_seconds = 0.001\n\n[jobs]\nreconcile_seconds = 1\n\n[sessions]\nbackend = 'tmux'\nwatch_seconds = 0.1\nkill_grace_seconds = 0.1\n", c.name))
	return begin(c.t, []string{"ORRERY_DATABASE=" + c.database}, "orchestrate", "--listen", "127.0.0.1:0", "--config", file,
		"--db", filepath.Join(c.dir, "orrery.db"), "--workspace", filepath.Join(c.dir, "workspace"))
}

// program is a script that says where it runs, and then works.
func (c computer) program(mark string) string {
	return fmt.Sprintf(`echo $$ >> "$ORRERY_MARKS/%s"; exec sleep 600`, mark)
}

// pids are those of the processes that have made a mark, and lives says which of them are there.
func pids(t *testing.T, marks, mark string) (all []int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(marks, mark))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		require.NoError(t, err)
		all = append(all, pid)
	}
	return all
}

func lives(pid int) bool { return syscall.Kill(pid, 0) == nil }

func (p *process) task(id string) (t core.Task) {
	p.t.Helper()
	if r := p.do("task", "show", id, "--json"); r.code == 0 {
		require.NoError(p.t, json.Unmarshal([]byte(r.out), &t))
	}
	return t
}

func TestWhatStandsOnADaemonThatIsLostGoesOnElsewhereAndIsEndedWhenThatComesBack(t *testing.T) {
	requirePrograms(t, "tmux")
	for partitions, what := range map[int]string{1: "one partition", 2: "two partitions"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			database := postgrestest.Database(t)
			if partitions > 1 {
				r := cli(t, nil, "", "cluster", "init", "--database", database, "--partitions", strconv.Itoa(partitions))
				require.Zero(t, r.code, r.err)
			}
			marks := podsDir(t)
			first, second := computer{t, "first", podsDir(t), database}, computer{t, "second", podsDir(t), database}
			one := first.begin()
			one.awaitReady()
			env := "ORRERY_MARKS=" + marks
			again := anID.FindString(one.ok("task", "create", "--env", env, "--", "sh", "-c", first.program("again")))
			never := anID.FindString(one.ok("task", "create", "--max-recoveries", "0", "--env", env, "--", "sh", "-c", first.program("never")))
			one.applyJob("long", strings.NewReplacer("$ORRERY_MARKS", marks, "$$", "$$$$").Replace(first.program("run")), "retry: {maxRetries: 1, initialDelay: 10ms}\n")
			run := one.trigger("long")
			begun := func(mark string, n int) {
				t.Helper()
				require.Eventually(t, func() bool { return len(pids(t, marks, mark)) == n }, patience, 20*time.Millisecond, mark)
			}
			begun("again", 1)
			begun("never", 1)
			begun("run", 1)
			require.Eventually(t, func() bool { return one.task(again).Home == "first" && one.task(never).Home == "first" }, patience, 20*time.Millisecond)
			one.eventually("first", "run", "show", run)
			assert.Regexp(t, `home\s+first`, one.ok("task", "show", again))

			two := second.begin()
			two.url = urlIn.FindString(await(t, two.out, `http://`))
			one.signal(syscall.SIGKILL) // its sessions and runs go on
			one.code()
			begun("again", 2)
			begun("run", 2)
			require.Eventually(t, func() bool { return two.task(again).Home == "second" }, patience, 20*time.Millisecond)
			assert.EqualValues(t, 1, two.task(again).Restarts)
			require.Eventually(t, func() bool { return two.task(never).State.Type == core.TaskDone }, patience, 20*time.Millisecond)
			assert.Equal(t, `the session is out of reach: its home is the instance "first", and another one works on the task now; 0 of 0 recovery attempts used`, two.task(never).State.Result.Error)
			two.eventually("second", "run", "show", run)
			shown := two.ok("run", "show", run, "--json")
			assert.Contains(t, shown, `the pod is out of reach: its home is the instance \"first\", and another one works on the run now`)
			for _, mark := range []string{"again", "never", "run"} {
				assert.True(t, lives(pids(t, marks, mark)[0]), "%s goes on, since nobody who could end it is there", mark)
			}

			back := first.begin()
			for _, mark := range []string{"again", "never", "run"} {
				require.Eventually(t, func() bool { return !lives(pids(t, marks, mark)[0]) }, patience, 20*time.Millisecond, mark)
			}
			assert.True(t, lives(pids(t, marks, "again")[1]), "what is at home elsewhere stays")
			assert.True(t, lives(pids(t, marks, "run")[1]))
			for _, told := range []string{"sessions were ended that are left", "pods were ended that are left"} { // a moment after they have
				back.says(told)
			}

			two.ok("task", "cancel", again)
			two.ok("run", "cancel", run)
			for _, mark := range []string{"again", "run"} {
				require.Eventually(t, func() bool { return !lives(pids(t, marks, mark)[1]) }, patience, 20*time.Millisecond, mark)
			}
		})
	}
}
