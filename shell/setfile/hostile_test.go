package setfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/setfile"
)

// Whoever proposes a change of a repository chooses the files that its checks read.

func TestWhatIsNoFileIsRefusedInsteadOfRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links take rights there")
	}
	for name, text := range map[string]string{
		"a link":    "",
		"a runbook": "runbooks = [\"device\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"a.toml": text})
			link := filepath.Join(dir, "device")
			if text == "" {
				link += ".toml"
			}
			require.NoError(t, os.Symlink(os.DevNull, link)) // of /dev/zero there would be no end
			_, err := setfile.Load([]string{dir}, setfile.Options{})
			require.ErrorContains(t, err, link+" is no regular file: it is a pipe, a device or the like")
		})
	}
}

func TestALinkToTheFolderIsFollowedAndOneWithinItIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links take rights there")
	}
	dir := folder(t, map[string]string{"sub/a.toml": "[semaphores.a]\nslots = 1\n", "sub/bad/b.toml": "[semaphores.b]\nslot = 1\n"})
	current := filepath.Join(t.TempDir(), "current")
	require.NoError(t, os.Symlink(filepath.Join(dir, "sub"), current))
	_, err := setfile.Load([]string{current}, setfile.Options{Paths: true})
	require.ErrorContains(t, err, filepath.Join(current, "bad", "b.toml")+":2:1: ", "it is named by the path that was given")

	require.NoError(t, os.Remove(filepath.Join(dir, "sub", "bad", "b.toml")))
	entries, err := setfile.Load([]string{current}, setfile.Options{})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "a.toml", entries[0].File)

	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "sub", "team")))
	_, err = setfile.Load([]string{current}, setfile.Options{})
	require.ErrorContains(t, err, filepath.Join(current, "team")+" is a link to a folder, which is not followed: name that folder too, or put it here")
}

func TestAFileWithWhichReadingWouldTakeForEverIsRefusedBefore(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	dir := folder(t, map[string]string{
		"a.toml": "namespace = \"n\"\n  a" + strings.Repeat(".a", 100_000) + " = 1\n",
		"b.toml": "[b" + strings.Repeat(".b", 64) + "]\n",
		"c.toml": many(10_001, "c%d = 1\n"),
		"d.toml": many(20_001, "[queues.q%d]\n"),
		"e.toml": "e = [1, {e = {" + many(10_001, "e%d = 1,") + "}}]\n",
		"f.toml": "f = {f" + strings.Repeat(".f", 64) + " = 1}\n",
	})
	_, err := setfile.Load([]string{dir}, setfile.Options{})
	require.EqualError(t, err, `a.toml:2:3: a key of 100001 parts: at most 64 are read
b.toml:1:2: a key of 65 parts: at most 64 are read
c.toml:10001:1: more than 10000 keys in a table
d.toml:20001:2: more than 20000 tables in a file: split it
e.toml:1:1: more than 10000 keys in a table
f.toml:1:1: a key of 65 parts: at most 64 are read`)
}

func TestVariablesMakeNoFileOfAnySize(t *testing.T) {
	dir := folder(t, map[string]string{"a.toml": "[variables]\nv = \"" + strings.Repeat("x", 100_000) + "\"\n[recurring.a]\ncron = \"@daily\"\ncommand = [\"" + strings.Repeat("${v}", 1000) + "\"]\n"})
	_, err := setfile.Load([]string{dir}, setfile.Options{})
	require.ErrorContains(t, err, "a.toml:1:2: variables: with the values of its variables the texts of the file have more than 16777216 bytes: split it")
}

func TestTheValueOfAVariableIsNotLookedIntoForOthers(t *testing.T) {
	dir := folder(t, map[string]string{"a.toml": "[variables]\na = \"${b}\"\nb = \"${a}${\"\n[recurring.a]\ncron = \"@daily\"\ndescription = \"${a} ${${b}} ${a ${} $a} ${b\"\ncommand = [\"x\"]\n"})
	entries, err := setfile.Load([]string{dir}, setfile.Options{})
	require.NoError(t, err)
	assert.Equal(t, "${b} ${${a}${} ${a ${} $a} ${b", entries[0].Recurring.Description)
}

func TestFilesOfTenantsWithNamesThatAreNoneOfFilesStayInTheirFolder(t *testing.T) {
	queue := func(namespace, tenant string) shell.SetEntry {
		return shell.SetEntry{Queue: &shell.QueueSpec{Namespace: namespace, Tenant: tenant, Name: "q", Config: core.QueueConfig{Concurrency: 2}}}
	}
	scopes := [][2]string{
		{"../../../etc", "cron.d"}, {"..", ".."}, {"/etc", "x"}, {`C:\`, "x"}, {".hidden", "x"}, {"-f", "x"}, {"a-b", "c"}, {"a", "b-c"}, {"A", "b-c"}, {"ünï", "x"},
		{"a\u202eb", "x"}, {strings.Repeat("n", 250), "t"}, {strings.Repeat("n", 250), "u"},
	}
	var entries []shell.SetEntry
	for _, s := range scopes {
		entries = append(entries, queue(s[0], s[1]))
	}
	files, err := setfile.Marshal(entries)
	require.NoError(t, err)
	written, seen := map[string]string{}, map[string]bool{}
	for _, f := range files {
		assert.Regexp(t, `^[A-Za-z0-9_][A-Za-z0-9._-]{0,200}\.toml$`, f.Name)
		assert.False(t, seen[strings.ToLower(f.Name)], "%s is there twice", f.Name)
		seen[strings.ToLower(f.Name)], written[f.Name] = true, string(f.Data)
	}
	assert.Contains(t, written, "A-b-c.toml", "what can be the name of a file is")
	again, err := setfile.Load([]string{folder(t, written)}, setfile.Options{})
	require.NoError(t, err)
	require.Len(t, again, len(scopes))
	for _, s := range scopes {
		found := false
		for _, e := range again {
			found = found || e.Queue.Namespace == s[0] && e.Queue.Tenant == s[1]
		}
		assert.True(t, found, "%q", s)
	}
}
