//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sessionConfig is what the daemon of the sessions runs with.
const sessionConfig = `
[webhooks.plain]
tool = "command"
tool_input = { argv = ["cat"] }
label = "from outside"
signature = "none"

[webhooks.deploys]
tool = "command"
tool_input = { argv = ["cat"] }
secret = "aHVzaCwgaHVzaCE="

[webhooks.pushes]
tool = "command"
tool_input = { argv = ["cat"] }
signature = "github"
secret = "hush, hush!"
`

// TestSessions types what stands in testdata/sessions at a running daemon, and
// compares what comes out. "run save=NAME" keeps the first id of the output for
// $NAME in later lines, and $FENCING is the last fencing token; "run until=TEXT" repeats the line until the output has
// that text. "write file=NAME" writes a file into $DIR. go test -rewrite writes what came out into the files.
func TestSessions(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/sessions", func(t *testing.T, path string) {
		dir := t.TempDir()
		p := start(t, "--db", filepath.Join(dir, "orrery.db"), "--config", write(t, "orrery.toml", sessionConfig))
		saved := map[string]string{"DIR": dir, "URL": p.url}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "stop" {
				p.signal(syscall.SIGTERM)
				return fmt.Sprintf("exit %d\n", p.code())
			}
			if d.Cmd == "write" {
				var file string
				d.ScanArgs(t, "file", &file)
				file = filepath.Join(dir, filepath.FromSlash(file))
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
				require.NoError(t, os.WriteFile(file, []byte(d.Input+"\n"), 0o600))
				return ""
			}
			require.Equal(t, "run", d.Cmd)
			line, stdin, _ := strings.Cut(d.Input, "\n")
			args, err := splitLine(os.Expand(line, func(k string) string { return saved[k] }))
			require.NoError(t, err, d.Pos)
			var name, until string
			d.MaybeScanArgs(t, "save", &name)
			d.MaybeScanArgs(t, "until", &until)
			env := []string{"ORRERY_SERVER=" + p.url, "HUSH=hush, hush!", "STANDARD=aHVzaCwgaHVzaCE=", "WRONG=YmFk"}
			r := cli(t, env, stdin, args...)
			for deadline := time.Now().Add(patience); !strings.Contains(r.out, until) && time.Now().Before(deadline); {
				r = cli(t, env, stdin, args...)
			}
			if name != "" {
				saved[name] = anID.FindString(r.out)
				require.NotEmpty(t, saved[name], "%s: %s%s", d.Pos, r.out, r.err)
			}
			if fence := aFence.FindString(r.out); fence != "" {
				saved["FENCING"] = fence
			}
			return shown(r, dir, p.url)
		})
	})
}

var (
	aDuration = regexp.MustCompile(`(\b\d+(\.\d+)?(ms|s)|TOOK) {2,}`)
	aSpan     = regexp.MustCompile(`\b(done|failed) after [0-9a-zµ.]+`)
	aFence    = regexp.MustCompile(`\b\d{7}\b`) // it counts batches, of which there may be more
	aGain     = regexp.MustCompile(`has \d+ now`)
	aNumber   = regexp.MustCompile(`\b\d+ (bytes|events in \d+ batches|entities \(\d+ more untouched\))`)
	anAge     = regexp.MustCompile(`(?m)((?:^oldest ready|\b(?:paused|active)\s[\d ]*) +)\d+s$|("oldest_ready_seconds"): ?[0-9.e-]+`)
	aPod      = regexp.MustCompile(`\borrery-[0-9a-f]{32}-(\d+)\b`)
	aNode     = regexp.MustCompile(`(?m)^(node +)\S+$`)
	aVersion  = regexp.MustCompile(`go1\S+ \S+`)
	aSize     = regexp.MustCompile(`("duration_ms"|"bytes\w*"): ?\d+`)
)

// shown gives a result as it stands in a session, without what differs from
// run to run.
func shown(r result, dir, url string) string {
	var b strings.Builder
	b.WriteString(r.out)
	for line := range strings.Lines(r.err) {
		b.WriteString("! " + line)
	}
	if r.code != 0 {
		fmt.Fprintf(&b, "exit %d\n", r.code)
	}
	s := strings.NewReplacer(dir, "DIR", url, "URL").Replace(b.String())
	s = aDuration.ReplaceAllString(masked(s), "TOOK  ")
	s = regexp.MustCompile(`(TIME\.+  -) {2,}`).ReplaceAllString(s, "$1  ")
	s = aPod.ReplaceAllString(s, "POD-$1")
	s = aNode.ReplaceAllString(s, "${1}NODE")
	s = regexp.MustCompile(`\bPOD +NODE +`).ReplaceAllString(s, "POD  NODE  ")
	s = regexp.MustCompile(`(\bPOD-\d+) +\S+ +`).ReplaceAllString(s, "$1  NODE  ")
	s = aSpan.ReplaceAllString(s, "$1 after TOOK")
	s = aNumber.ReplaceAllString(s, "N $1")
	s = regexp.MustCompile(`events in \d+ batches`).ReplaceAllString(s, "events in N batches")
	s = regexp.MustCompile(`\(\d+ more`).ReplaceAllString(s, "(N more")
	s = aFence.ReplaceAllString(s, "FENCING")
	s = aGain.ReplaceAllString(s, "has N now")
	s = regexp.MustCompile(`--page-token \S+,`).ReplaceAllString(s, "--page-token TOKEN,")
	s = regexp.MustCompile(`"Date":"[^"]*"`).ReplaceAllString(s, `"Date":"DATE"`)
	s = anAge.ReplaceAllString(s, "$1${2}TOOK")
	s = aVersion.ReplaceAllString(s, "GO")
	return aSize.ReplaceAllString(s, "$1:N")
}

// splitLine splits a line into arguments, which may stand in '…' or "…".
func splitLine(s string) (args []string, err error) {
	var arg strings.Builder
	inArg, quote := false, rune(0)
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			arg.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inArg = r, true
		case r == ' ' && inArg:
			args, inArg = append(args, arg.String()), false
			arg.Reset()
		case r != ' ':
			arg.WriteRune(r)
			inArg = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("no closing %c in %s", quote, s)
	}
	if inArg {
		args = append(args, arg.String())
	}
	return args, nil
}

func TestLinesAreSplitAsAShellDoes(t *testing.T) {
	t.Parallel()
	args, err := splitLine(`a  'b c' "d 'e'" f"g h" ''`)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b c", "d 'e'", "fg h", ""}, args)
	_, err = splitLine(`a 'b`)
	assert.Error(t, err)
}
