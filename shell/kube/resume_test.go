package kube

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/jobs"
)

const removedLog = `failed to try resolving symlinks in path "/var/log/pods/orrery-jobs_limited-1/main/0.log": lstat /var/log/pods/orrery-jobs_limited-1: no such file or directory`

// streams gives a log stream by stream, as stream of logs and container do.
func (r *resuming) streams(parts ...string) error {
	r.begin()
	for _, b := range parts {
		if err := r.take([]byte(b)); err != nil {
			return err
		}
	}
	return r.end()
}

func TestWhatWasWrittenIsSkippedHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\nfr")), 0, 3*maxSaid, -1).Draw(t, "text")
		var out strings.Builder
		in := newResuming(&out, nil)
		for range rapid.IntRange(1, 4).Draw(t, "streams") {
			rest := text[:rapid.IntRange(0, len(text)).Draw(t, "length")]
			var parts []string
			for rest != "" {
				n := rapid.IntRange(1, len(rest)).Draw(t, "part")
				parts, rest = append(parts, rest[:n]), rest[n:]
			}
			require.NoError(t, in.streams(parts...))
		}
		require.NoError(t, in.streams(text))
		assert.Equal(t, text, out.String())
		assert.Equal(t, int64(len(text)), in.written)
	})
}

func TestAnErrorOfWhoReadsALogIsKept(t *testing.T) {
	in := newResuming(brokenPipe{}, nil)
	require.ErrorIs(t, in.streams("g"), io.ErrClosedPipe)
	require.ErrorIs(t, in.failed, io.ErrClosedPipe)
}

// The node of a pod that ends removes its log while it is read again, and says so instead.
func TestWhatTheKubeletSaysInsteadOfALogIsNoLog(t *testing.T) {
	long := strings.Repeat("line\n", maxSaid)
	for _, said := range []string{
		"unable to retrieve container logs for containerd://5f82bd1f",
		removedLog,
		`failed to open log file "/var/log/pods/x/main/0.log": open /var/log/pods/x/main/0.log: no such file or directory`,
		"what a kubelet of tomorrow may say",
	} {
		for _, before := range []string{"b", "begun\n", "begun", "failed to\n", long} {
			for _, cut := range []int{0, 3, len(said) - 1} {
				var out strings.Builder
				in := newResuming(&out, nil)
				require.NoError(t, in.streams(before))
				require.ErrorIs(t, in.streams(said[:cut], said[cut:]), errLogGone, "%q after %.20q", said, before)
				assert.Equal(t, before, out.String())
			}
		}
	}
}

func TestWhatTheKubeletSaysBehindALogIsNotOfIt(t *testing.T) {
	for _, said := range []string{
		`rpc error: code = NotFound desc = an error occurred when try to find container "5f82bd1f": not found`,
		"failed to create fsnotify watcher: too many open files",
		removedLog,
	} {
		var out strings.Builder
		in := newResuming(&out, nil)
		require.NoError(t, in.streams("one\n", said[:7], said[7:]))
		assert.Equal(t, "one\n", out.String())
		require.NoError(t, in.streams("one\ntwo\n"), "it runs on")
		assert.Equal(t, "one\ntwo\n", out.String())
	}
}

func TestAProgramMaySayWhatTheKubeletSays(t *testing.T) {
	for _, parts := range [][]string{{removedLog}, {removedLog + "\n"}, {"one\n", removedLog + "\n"}, {"one", removedLog}, {"fail"}, {"failed t", "wice"}} {
		var out strings.Builder
		in := newResuming(&out, nil)
		require.NoError(t, in.streams(parts...))
		require.NoError(t, in.streams(parts...))
		assert.Equal(t, strings.Join(parts, ""), out.String())
	}
}

func TestALogThatWasRotatedIsBegunAnew(t *testing.T) {
	for name, c := range map[string][2]string{
		"from its first byte on": {"one\n", "two\nthree\n"},
		"behind its beginning":   {strings.Repeat("x", maxSaid) + "one\n", strings.Repeat("x", maxSaid) + "two\nthree\n"},
		"in a line":              {"one", "two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			in := newResuming(&out, nil)
			require.NoError(t, in.streams(c[0]))
			require.ErrorIs(t, in.streams(c[1]), errOtherLog)
			require.NoError(t, in.anew())
			require.NoError(t, in.streams(c[1]))
			require.NoError(t, in.streams(c[1]+"end\n"))
			assert.Equal(t, strings.TrimSuffix(c[0], "\n")+"\n"+rotatedLine+c[1]+"end\n", out.String())
		})
	}
}

func TestALogThatIsGoneAfterABreakEndsWithWhatWasRead(t *testing.T) {
	for name, second := range map[string]struct{ gives, want string }{
		"it was removed": {removedLog, "begun\n"},
		"it was rotated": {"two\n", "begun\n" + rotatedLine + "two\n"},
		"it goes on":     {"begun\ntwo\n", "begun\ntwo\n"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLogAPI(t, onePodEnded, func(w http.ResponseWriter, _ string, ask int) {
				if ask > 1 {
					_, _ = io.WriteString(w, second.gives)
					return
				}
				_, _ = io.WriteString(w, "begun\n")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			text, _, err := l.read(t, jobs.LogOptions{Follow: true})
			require.NoError(t, err)
			assert.Equal(t, second.want, text)
		})
	}
}
