package version

import (
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAStampedVersionIsThatOfTheProgram(t *testing.T) {
	assert.NotEmpty(t, String())
	stamped = "v9.8.7"
	t.Cleanup(func() { stamped = "" })
	assert.Equal(t, "v9.8.7", String())
	assert.Equal(t, "v9.8.7", Read().Version)

	readme, err := os.ReadFile("../../../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "-X="+reflect.TypeFor[Versions]().PkgPath()+".stamped=", "the linker passes over a name that is wrong")
}
