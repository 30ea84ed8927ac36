// Package docs_test holds the repository to what it says of itself: the
// conformance table, the links and commands in the documents, the agreed top
// level, the licences of what is linked.
package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the repository's top level, seen from this package.
const root = ".."

// projectFiles lists the repository's files by slash path: what git tracks, or
// the whole tree where this is no clone, such as an unpacked archive.
func projectFiles(t *testing.T) []string {
	t.Helper()
	var walked []string
	// Walking even where git answers lets go test's cache notice new files.
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if !d.IsDir() {
			rel, err := filepath.Rel(root, path)
			require.NoError(t, err)
			walked = append(walked, filepath.ToSlash(rel))
		}
		return nil
	}))
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if tracked := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err == nil && len(out) > 0 {
		return slices.DeleteFunc(tracked, func(f string) bool { // deleted, not yet committed
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(f)))
			return err != nil
		})
	}
	return walked
}

// readFile reads a file of the repository by its slash path.
func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	require.NoError(t, err)
	return string(b)
}

// topLevel is what may stand at the top (F1), beside files that begin with a
// dot.
var topLevel = []string{
	"core", "effects", "shell", "store", "examples", "docs",
	"go.mod", "go.sum", "README.md", "LICENSE",
}

func strayEntries(files []string) []string {
	var stray []string
	for _, f := range files {
		top, _, _ := strings.Cut(f, "/")
		if !strings.HasPrefix(top, ".") && !slices.Contains(topLevel, top) {
			stray = append(stray, top)
		}
	}
	slices.Sort(stray)
	return slices.Compact(stray)
}

func TestTheTopLevelHoldsOnlyWhatWasAgreed(t *testing.T) {
	assert.Empty(t, strayEntries(projectFiles(t)), "F1 allows only %v and dot files", topLevel)
	assert.Equal(t, []string{"Makefile", "cmd"}, strayEntries([]string{"cmd/x.go", "Makefile", "cmd/y.go", "docs/a", ".ci/run"}))
}

// machinePath finds an absolute path into somebody's working folder or home.
var machinePath = regexp.MustCompile(`(^|[^\w./~-])/(work|root|Users/[a-z]\w+|home/[a-z]\w+)/`)

func TestNoFileNamesAFolderOfTheMachineItWasWrittenOn(t *testing.T) {
	for _, f := range projectFiles(t) {
		text := readFile(t, f)
		if strings.Contains(text, "\x00") || f == "docs/repository_test.go" { // binary, or the bad examples below
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if at := machinePath.FindString(line); at != "" {
				t.Errorf("%s:%d names a folder of somebody's machine: %s", f, i+1, at)
			}
		}
	}
	for _, bad := range []string{"open /work/main/x.go", "cd /root/src", "/home/ann/x", `"/Users/ann/x"`} {
		assert.Regexp(t, machinePath, bad)
	}
	for _, good := range []string{"https://example.com/work/x", "./work/x", "/workers/x", "/var/lib/orrery/x", "~/work/x"} {
		assert.NotRegexp(t, machinePath, good)
	}
}
