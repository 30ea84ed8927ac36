//go:build unix

package clustertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

// aheadEnv says by how much the wall clock of a daemon of these tests is ahead of the machine's: a duration. No other program knows it.
const aheadEnv = "ORRERY_CLUSTERTEST_AHEAD"

// edit is what a daemon of these tests has otherwise than the one that is shipped.
type edit struct {
	file, is, becomes string
	more              string // is added at the file's end
	imports           string // of what is added
}

// clocks are where the wall clock is read for the engine, and where it is compared with the database's.
var clocks = []edit{
	{"../engine/clock.go", "func (SystemClock) Now() time.Time { return time.Now() }", "func (SystemClock) Now() time.Time { return time.Now().Add(ahead) }", aheadSource, osAlone},
	{"../../store/postgres/cluster.go", "return at.Sub(asked.Add(within)), within, nil", "return at.Sub(asked.Add(within).Add(ahead)), within, nil", aheadSource, osAlone},
}

// stops is where a daemon waits to be frozen if it finds a file, which the first one that does takes away: between the commit that says to create a Job, and the call.
// It says that it is there, and the test freezes it. It does not freeze itself: on a busy machine the thread that asks for that goes on until the kernel
// has run another one of the process, which may be time enough for the call. A SIGCONT tells it that all that is over.
var stops = edit{
	"../kube/kube.go", "	if run.Confirm != nil {\n", "	stopsHere(job.Name)\n	if run.Confirm != nil {\n", `
func stopsHere(job string) {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	file := os.Getenv("` + stopEnv + `")
	if file == "" || os.Remove(file) != nil {
		return
	}
	_ = os.WriteFile(file+".new", []byte(fmt.Sprint(job, " ", os.Getpid())), 0o600)
	_ = os.Rename(file+".new", file+".caught")
	<-goesOn
}
`, osAlone + "; import \"os/signal\"; import \"syscall\"",
}

// stopEnv names the file.
const stopEnv = "ORRERY_CLUSTERTEST_STOP"

const osAlone = `import "os"`

const aheadSource = `
var ahead, _ = time.ParseDuration(os.Getenv("` + aheadEnv + `"))
`

// nextCore is the number of the core that decides: one more than there is.
var nextCore = edit{"../../core/core.go", "const Version = " + strconv.Quote(core.Version), "const Version = " + strconv.Quote(nextVersion()), "", ""}

func nextVersion() string {
	n, err := strconv.Atoi(core.Version)
	if err != nil {
		panic(err)
	}
	return strconv.Itoa(n + 1)
}

// overlay has the daemon built with edits, and gives the flag of go build. Programs of Go ask the kernel for the time without the C
// library, so faketime does nothing to them: the clock is one of the edits.
func overlay(t *testing.T, dir string, edits []edit) string {
	t.Helper()
	replace := make(map[string]string)
	for _, e := range edits {
		source, err := filepath.Abs(e.file)
		require.NoError(t, err)
		b, err := os.ReadFile(source)
		require.NoError(t, err)
		require.Contains(t, string(b), e.is, "%s has changed: change this test with it", e.file)
		text := strings.Replace(string(b), e.is, e.becomes, 1) + e.more
		if e.more != "" {
			text = strings.Replace(text, "\nimport ", "\n"+e.imports+"\nimport ", 1)
		}
		edited := filepath.Join(dir, filepath.Base(source))
		require.NoError(t, os.WriteFile(edited, []byte(text), 0o600))
		replace[source] = edited
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	return "-overlay=" + file
}
