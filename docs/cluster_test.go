package docs_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects/loopbacktest"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

const clusterPage = "docs/cluster.md"

// freeAddresses gives addresses that nobody listened on a moment ago, all at the same time: of [loopbacktest.Guide], so that nobody else takes them.
func freeAddresses(t *testing.T, n int) (all []string) {
	t.Helper()
	var open []net.Listener
	for range n {
		l, err := net.Listen("tcp", loopbacktest.Guide()+":0")
		require.NoError(t, err)
		open, all = append(open, l), append(all, l.Addr().String())
	}
	for _, l := range open {
		require.NoError(t, l.Close())
	}
	return all
}

// TestThreeDaemonsOfThePageSurviveTheLossOfOne types the page's commands in an empty folder, on a real database, and looks at what they print: with other addresses.
func TestThreeDaemonsOfThePageSurviveTheLossOfOne(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skipf("the page's commands need sh: %v", err)
	}
	database, divided := postgrestest.Database(t), postgrestest.Database(t)
	addresses := freeAddresses(t, 3)
	here := func(script string) string {
		for n, address := range addresses {
			script = strings.ReplaceAll(script, fmt.Sprintf("127.0.0.1:746%d", n+1), address)
		}
		script = strings.ReplaceAll(script, "postgres://orrery@127.0.0.1/divided", "'"+divided+"'")
		// In the loop the address is the number's.
		choose := fmt.Sprintf("$(case $n in 1) echo %s;; 2) echo %s;; *) echo %s;; esac)", addresses[0], addresses[1], addresses[2])
		return strings.ReplaceAll(script, "127.0.0.1:746$n", choose)
	}
	const between = "=====\n"
	var script strings.Builder
	script.WriteString("trap 'code=$?; for p in daemon-*.pid; do kill -9 \"$(cat \"$p\")\" 2>/dev/null || true; done; exit $code' EXIT\n")
	_, fences := splitMarkdown(readFile(t, clusterPage))
	for _, f := range fences {
		if f.before == markTyped {
			script.WriteString(here(f.text) + "\necho =====\n")
		}
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script.String())
	cmd.Dir = dir
	cmd.Env = plainEnv("PATH="+filepath.Dir(daemonBinary(t))+string(os.PathListSeparator)+os.Getenv("PATH"), "NO_PROXY=*", "ORRERY_DATABASE="+database)
	out, err := cmd.CombinedOutput()
	t.Cleanup(func() {
		for n := range addresses {
			for _, name := range []string{"daemon", "side"} {
				if said, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, n+1))); t.Failed() {
					t.Logf("%s-%d (%v): %s", name, n+1, err, said)
				}
			}
		}
	})
	require.NoError(t, err, "%s", out)
	parts := strings.Split(string(out), between)
	require.Len(t, parts, 8, "%s", out)

	assert.Empty(t, parts[0])
	assert.Regexp(t, `partition 0 +daemon-1 works, at http://127[.0-9]+:\d+, with token 1`, parts[1])
	for _, name := range []string{"daemon-2", "daemon-3"} {
		assert.Regexp(t, name+` +stands by`, parts[1])
		assert.NotRegexp(t, name+" +silent", parts[2])
	}
	assert.Regexp(t, `partition 0 +daemon-[23] works, at http://127[.0-9]+:\d+, with token 2`, parts[2])
	assert.Regexp(t, `daemon-1 +silent for \d+ s`, parts[2])
	assert.Len(t, regexp.MustCompile(anyID).FindAllString(strings.SplitAfterN(parts[2], "\n", 2)[1], -1), 2, "both items are there: %s", parts[2])
	assert.Regexp(t, `items +2 ready`, parts[3], "and a clean stop of the two that were left loses none")

	assert.Contains(t, parts[4], "has 6 partitions")
	const action = `(?m)^` + anyID + `$`
	assert.Len(t, regexp.MustCompile(action).FindAllString(parts[5], -1), 6, "%s", parts[5])
	assert.Len(t, regexp.MustCompile(action).FindAllString(parts[6], -1), 6, "%s", parts[6])
	assert.Regexp(t, `items +1 ready`, parts[6])
	assert.NotRegexp(t, `partition \d +daemon-1 works`, parts[6])
}

func TestThePageOfThreeDaemonsTellsWhoGetsHowManyPartitions(t *testing.T) {
	shares := map[string]int{}
	for n := range 6 {
		shares[fleet.Place(n, []string{"daemon-1", "daemon-2", "daemon-3"})]++
	}
	assert.Equal(t, map[string]int{"daemon-1": 2, "daemon-2": 1, "daemon-3": 3}, shares)
	page, err := os.ReadFile("cluster.md")
	require.NoError(t, err)
	assert.Contains(t, string(page), "daemon-3 gets three partitions, daemon-1 two and daemon-2 one")
}
