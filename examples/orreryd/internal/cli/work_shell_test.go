package cli

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACommandWithWhatOnlyAShellUnderstandsIsWarnedAbout(t *testing.T) {
	for _, row := range []struct {
		argv []string
		want string
	}{
		{[]string{"backup", "--all", ">", "/tmp/log"}, `">" is passed to backup as it is. For a shell write: -- /bin/sh -c 'backup --all > /tmp/log'`},
		{[]string{"backup", ">>/tmp/log", "2>&1"}, `">>/tmp/log" is passed to backup as it is. For a shell write: -- /bin/sh -c 'backup >>/tmp/log 2>&1'`},
		{[]string{"backup", "it's", "|", "mail", "-s", "a b", "me"}, `"|" is passed to backup as it is. For a shell write: -- /bin/sh -c 'backup '\''it'\''\'\'''\''s'\'' | mail -s '\''a b'\'' me'`},
		{[]string{"cd", "/x", "&&", "make"}, `"&&" is passed to cd as it is. For a shell write: -- /bin/sh -c 'cd /x && make'`},
		{[]string{"rm", "*"}, `"*" is passed to rm as it is. For a shell write: -- /bin/sh -c 'rm *'`},
		{[]string{"echo", "a", ";", "echo", "b"}, `";" is passed to echo as it is. For a shell write: -- /bin/sh -c 'echo a ; echo b'`},
		{[]string{"echo hi > /tmp/x"}, `"echo hi > /tmp/x" is taken for the name of a program. For a shell write: -- /bin/sh -c 'echo hi > /tmp/x'`},
		{[]string{"/bin/sh", "-c", "echo hi > /tmp/x; rm *"}, ""},
		{[]string{"find", ".", "-name", "*.log", "-exec", "rm", "{}", ";"}, ""},
		{[]string{"ssh", "host", "make", "&&", "make install"}, ""},
		{[]string{"echo", "a|b", "<b", "x>y", "-", "**", "a && b"}, `"<b" is passed to echo as it is. For a shell write: -- /bin/sh -c 'echo '\''a|b'\'' <b '\''x>y'\'' - '\''**'\'' '\''a && b'\'''`},
		{[]string{"echo", "a|b", "x>y", "-", "**", "a && b", "&x", "3"}, ""},
	} {
		var out bytes.Buffer
		(&app{err: &out}).warnOfShell(row.argv)
		want := row.want
		if want != "" {
			want = "orreryd: warning: no shell runs a command after --: " + want + "\n"
		}
		assert.Equal(t, want, out.String(), "%q", row.argv)
	}
}

// What is offered does what was meant.
func TestTheCommandThatIsOfferedForAShellRuns(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh on this machine")
	}
	file := filepath.Join(t.TempDir(), "it's here")
	offered := throughShell([]string{"printf", "%s\n", "it's", "|", "cat", ">", file, "&&", "cat", file})
	out, err := exec.CommandContext(t.Context(), sh, "-c", strings.TrimPrefix(offered, "-- ")).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "it's\n", string(out))
}
