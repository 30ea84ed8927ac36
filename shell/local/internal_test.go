//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/files"
	"github.com/orrery-go/orrery/shell/jobs"
)

func TestVariablesAreExpandedAsKubernetesDoesIt(t *testing.T) {
	vars := map[string]string{"A": "1", "B": "$(A)", "EMPTY": ""}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y$(A)z": "x1y1z",
		"$(B)": "$(A)", "$(NONE)": "$(NONE)", "$$(A)": "$(A)", "$$$(A)": "$1", "$$$$": "$$",
		"$": "$", "a$": "a$", "$A": "$A", "$(A": "$(A", "$(": "$(", "$()": "$()", "$(EMPTY)": "",
		"$((A))": "$((A))", "$(NONE$(A))": "$(NONE$(A))",
	} {
		assert.Equal(t, want, expand(in, vars), "%q", in)
	}
}

func TestAttemptsAreKnownByTheirNames(t *testing.T) {
	for _, a := range []jobs.Attempt{{Run: uuid.New()}, {Run: uuid.New(), N: 7}, {Run: uuid.New(), N: 1<<32 - 1}} {
		got, ok := attemptOf(a.Name())
		assert.True(t, ok)
		assert.Equal(t, a, got)
	}
	id := strings.ReplaceAll(uuid.NewString(), "-", "")
	for _, bad := range []string{"", "orrery-", "orrery-x-0", "orrery-" + id, "orrery-" + id + "-", "orrery-" + id + "-01", "orrery-" + id + "-4294967296", ".gone-orrery-" + id + "-0"} {
		_, ok := attemptOf(bad)
		assert.False(t, ok, bad)
	}
}

func TestTheBackstopOfALongRunComesAfterOrrery(t *testing.T) {
	run := jobs.Run{Spec: core.JobSpec{PodSpec: []byte(`{"containers":[{"name":"m","command":["true"]}]}`)}, MaxAllowedRunTimeMS: 5000}
	p, err := planOf(run, "/dir", "node", "uid", defaultMaxLog)
	require.NoError(t, err)
	assert.EqualValues(t, 5000+overrunSlackMS, p.MaxRunMS)
	assert.EqualValues(t, 30, p.GraceSeconds)
}

func TestWhateverIsWrittenALogHasItsBeginningAndItsEndAndSaysWhatIsMissing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		const size = 64
		w := newLogWriter(dir, "m", size*(headSegments+tailSegments))
		var all bytes.Buffer
		var read bytes.Buffer
		r := &logReader{dir: dir, container: "m", w: &read}
		for range rapid.IntRange(0, 60).Draw(rt, "writes") {
			p := rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n")), 0, 3*size).Draw(rt, "bytes")
			n, err := w.Write(p)
			require.NoError(rt, err)
			require.Equal(rt, len(p), n)
			all.Write(p)
			if rapid.Bool().Draw(rt, "reads") {
				require.NoError(rt, r.copy(t.Context()))
			}
		}
		w.close()
		require.NoError(rt, r.copy(t.Context()))
		// A reader that keeps up may miss something too; one that comes late may not
		// miss either end.
		var late bytes.Buffer
		require.NoError(rt, (&logReader{dir: dir, container: "m", w: &late}).copy(t.Context()))
		for _, got := range []string{read.String(), late.String()} {
			requireWithGaps(rt, all.String(), got)
		}
		if !strings.Contains(late.String(), "[orrery") {
			require.Equal(rt, all.String(), late.String())
		}
		require.GreaterOrEqual(rt, len(late.String()), min(all.Len(), size*headSegments))
	})
}

// requireWithGaps holds that got is all of want but for what it says is missing.
func requireWithGaps(t require.TestingT, want, got string) {
	for {
		before, rest, gap := strings.Cut(got, "[orrery: ")
		if !gap {
			require.Equal(t, want, got)
			return
		}
		// The note begins a line, if need be with an end of line of its own.
		if !strings.HasPrefix(want, before) {
			before = strings.TrimSuffix(before, "\n")
		}
		require.True(t, strings.HasPrefix(want, before))
		var n int
		_, err := fmt.Sscanf(rest, "%d bytes", &n)
		require.NoError(t, err)
		want = want[len(before)+n:]
		_, got, _ = strings.Cut(rest, "]\n")
	}
}

func TestALogOfLinesIsCutBetweenLines(t *testing.T) {
	dir := t.TempDir()
	w := newLogWriter(dir, "m", 1024)
	for i := range 1000 {
		_, _ = fmt.Fprintf(w, "line %d\n", i)
	}
	w.close()
	var got bytes.Buffer
	require.NoError(t, (&logReader{dir: dir, container: "m", w: &got}).copy(t.Context()))
	for line := range strings.Lines(got.String()) {
		assert.Regexp(t, `^(line \d+|\[orrery: \d+ bytes of the log are missing here\])\n$`, line)
	}
	assert.True(t, strings.HasSuffix(got.String(), "line 999\n"))
}

func TestALogThatCannotBeWrittenHoldsNobodyUp(t *testing.T) {
	dir := t.TempDir()
	w := newLogWriter(dir, "m", 1024)
	_, _ = w.Write([]byte("one\n"))
	w.close()
	require.NoError(t, os.Rename(dir, dir+".away")) // as good as a full disk
	_, err := w.Write([]byte("lost\n"))
	require.NoError(t, err)
	require.NoError(t, os.Rename(dir+".away", dir))
	_, _ = w.Write([]byte("two\n"))
	w.close()
	var got bytes.Buffer
	require.NoError(t, (&logReader{dir: dir, container: "m", w: &got}).copy(t.Context()))
	assert.Equal(t, "one\n[orrery: 5 bytes of the log are missing here]\ntwo\n", got.String())
}

func TestASecondSupervisorStartsNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeAtomically(filepath.Join(dir, planFile), plan{Version: planVersion}, false))
	_, lock, err := claim(dir)
	require.NoError(t, err)
	_, _, err = claim(dir)
	require.ErrorIs(t, err, errBefore, "while the first one lives")
	require.NoError(t, lock.Close())
	_, _, err = claim(dir)
	require.ErrorIs(t, err, errBefore, "when it has ended")
}

func TestDirectoriesThatAProgramClosedAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "mod", "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mod", "sub", "file"), nil, 0o400))
	require.NoError(t, os.Chmod(filepath.Join(dir, "mod", "sub"), 0o500))
	require.NoError(t, os.Chmod(filepath.Join(dir, "mod"), 0o500))
	require.NoError(t, files.RemoveAll(dir))
	assert.NoDirExists(t, dir)
}

func TestWhatADaemonWithTheSameProcessIDLeftIsRemoved(t *testing.T) { // in a container each is the first
	r, err := New(Options{Dir: t.TempDir()})
	require.NoError(t, err)
	left := filepath.Join(r.dir, fmt.Sprintf("%s%d-1", newPrefix, os.Getpid()))
	mine := filepath.Join(r.dir, ownNewPrefix+"1")
	require.NoError(t, os.Mkdir(left, 0o700))
	require.NoError(t, os.Mkdir(mine, 0o700))
	r.cleanUp()
	assert.NoDirExists(t, left)
	assert.DirExists(t, mine)
}

func TestWhatIsExpandedIsCutOffBeforeItFillsTheMemory(t *testing.T) {
	vars := map[string]string{"A": strings.Repeat("x", 64<<10)}
	assert.Less(t, len(expand(strings.Repeat("$(A)", 1000), vars)), maxExpanded+128<<10)
}

// The daemon before had not ended yet when this one began, say: its Watch fails, and is called again.
func TestWhoWaitsForAWatchThatFailsBeforeItsFirstLookWaitsForTheNextOne(t *testing.T) {
	w := newWatch()
	waited := w.ready()
	require.NoError(t, w.begin())
	w.end()
	require.NoError(t, w.begin())
	assert.False(t, closed(waited), "nobody has looked yet")
	w.setKnown()
	assert.True(t, closed(waited))
	w.end()
	assert.False(t, closed(w.ready()), "who comes later waits for the next look")
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
