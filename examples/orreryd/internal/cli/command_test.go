package cli

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheProgramIsCalledAsTheReaderCanTypeIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	exe, other, link := filepath.Join(dir, "orreryd"), filepath.Join(dir, "bin", "orreryd"), filepath.Join(dir, "link")
	for _, f := range []string{exe, other} {
		require.NoError(t, os.WriteFile(f, nil, 0o700))
	}
	require.NoError(t, os.Symlink(exe, link))
	finds := func(path string, err error) func(string) (string, error) {
		return func(name string) (string, error) {
			assert.Equal(t, "orreryd", name)
			return path, err
		}
	}
	quoted := `'` + filepath.Dir(dir) + `/it'\''s here/orreryd'`
	assert.Equal(t, "orreryd", commandOf(exe, nil, finds(exe, nil)))
	assert.Equal(t, "orreryd", commandOf(exe, nil, finds(link, nil)), "by a link")
	assert.Equal(t, quoted, commandOf(exe, nil, finds(other, nil)), "another one has the name")
	assert.Equal(t, quoted, commandOf(exe, nil, finds("", errors.New("none"))))

	run := func(version string, settings ...debug.BuildSetting) string {
		info := &debug.BuildInfo{Main: debug.Module{Path: "example.org/o", Version: version}, Settings: settings}
		return commandOf("/tmp/go-build1/b001/exe/orreryd", info, nil)
	}
	t.Chdir(dir)
	assert.Equal(t, "go run example.org/o/examples/orreryd@v1.2.3", run("v1.2.3"))
	assert.Equal(t, "go run example.org/o/examples/orreryd", run("(devel)"), "in a checkout, elsewhere than at its top")
	assert.Equal(t, "go run example.org/o/examples/orreryd", run("v0.0.0-2026", debug.BuildSetting{Key: "vcs.revision", Value: "1"}))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "examples", "orreryd"), 0o700))
	assert.Equal(t, "go run ./examples/orreryd", run("(devel)"))
}
