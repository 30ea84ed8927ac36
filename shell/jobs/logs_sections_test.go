package jobs_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/jobs"
)

func TestEachStretchOfAContainersLinesBeginsWithItsName(t *testing.T) {
	var out strings.Builder
	s := jobs.NewSections(&out)
	for _, w := range [][2]string{{"a", "one\n"}, {"a", "two, and "}, {"a", "more"}, {"b", ""}, {"b", "three\n"}, {"silent", ""}, {"a", "four\n"}} {
		n, err := fmt.Fprint(s.Of(w[0]), w[1])
		require.NoError(t, err)
		assert.Len(t, w[1], n, "the names do not count")
	}
	assert.Equal(t, "==> a <==\none\ntwo, and more\n==> b <==\nthree\n==> a <==\nfour\n", out.String())
	_, err := fmt.Fprint(jobs.NewSections(failing{}).Of("a"), "one")
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
