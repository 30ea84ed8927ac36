package docs_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const crontabPage = "docs/from-crontab.md"

// The blocks of the page below these marks are typed, those of the second once a daemon runs.
const (
	markTyped   = "<!-- typed -->"
	markApplied = "<!-- applied -->"
	markOwn     = "<!-- the daemon -->"
)

// sameButWhen takes out of what a daemon prints what differs from run to run: ids, times, and the width of columns.
func sameButWhen(out string) string {
	out = regexp.MustCompile(anyID).ReplaceAllString(out, "ID")
	out = regexp.MustCompile(`20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?`).ReplaceAllString(out, "TIME")
	return regexp.MustCompile(` {2,}`).ReplaceAllString(out, "  ")
}

var rewritePage = flag.Bool("rewrite-page", false, "write what the commands of "+crontabPage+" print into the page")

// TestThePageMovesACrontabAsItSays types the commands of the page in an empty folder, and compares what they print.
func TestThePageMovesACrontabAsItSays(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skipf("the page's commands need sh: %v", err)
	}
	doc := readFile(t, crontabPage)
	dir := t.TempDir()
	env := plainEnv("PATH="+filepath.Dir(daemonBinary(t))+string(os.PathListSeparator)+os.Getenv("PATH"), "NO_PROXY=*")
	typed := 0
	_, fences := splitMarkdown(doc)
	for _, f := range fences {
		switch f.before {
		case markOwn:
			if f.lang == "toml" {
				env = append(env, "ORRERY_SERVER="+startDaemon(t, f.text))
			}
			continue
		case markApplied, markTyped:
		default:
			continue
		}
		require.Equal(t, "console", f.lang, "%s:%d", crontabPage, f.line)
		command := typedCommand(f.text)
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", command)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s:%d: %s: %s", crontabPage, f.line, command, out)
		now := "$ " + command + "\n" + string(out)
		if *rewritePage {
			doc = strings.Replace(doc, f.text, now, 1)
		} else if f.before == markApplied {
			assert.Equal(t, sameButWhen(f.text), sameButWhen(now), "%s:%d", crontabPage, f.line)
		} else {
			assert.Equal(t, f.text, now, "%s:%d", crontabPage, f.line)
		}
		typed++
	}
	assert.GreaterOrEqual(t, typed, 4)
	if *rewritePage {
		require.NoError(t, os.WriteFile(filepath.Join(root, crontabPage), []byte(doc), 0o600))
	}
}

// typedCommand is the command of a block, with the text that it is fed between <<'END' and END.
func typedCommand(block string) string {
	command, rest, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
	if strings.HasSuffix(command, "<<'END'") {
		fed, _, _ := strings.Cut(rest, "\nEND\n")
		return command + "\n" + fed + "\nEND"
	}
	return command
}
