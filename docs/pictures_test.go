package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// picture finds a picture that a document shows, and what is said in its place.
var picture = regexp.MustCompile(`!\[([^\]]*)\]\(([^)]+)\)`)

func TestThePicturesOfTheDocumentsAreSmallAndEachIsShownWithWords(t *testing.T) {
	shown := make(map[string]bool)
	for _, f := range projectFiles(t) {
		if !strings.HasSuffix(f, ".md") {
			continue
		}
		for _, m := range picture.FindAllStringSubmatch(readFile(t, f), -1) {
			assert.Greater(t, len(m[1]), 20, "%s: what the picture %s shows", f, m[2])
			shown[path.Join(path.Dir(f), m[2])] = true
		}
	}
	require.NotEmpty(t, shown)
	for _, f := range projectFiles(t) {
		if !strings.HasPrefix(f, "docs/pictures/") {
			continue
		}
		assert.True(t, shown[f], "%s is shown nowhere", f)
		info, err := os.Stat(filepath.Join(root, filepath.FromSlash(f)))
		require.NoError(t, err)
		assert.Less(t, info.Size(), int64(80<<10), f)
	}
}
