//go:build unix

package cli

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// following runs a command that follows events, and publishes until it has
// ended: nobody tells when it has begun to listen.
func following(t *testing.T, args ...string) result {
	t.Helper()
	p := start(t, "--db", filepath.Join(t.TempDir(), "orrery.db"))
	done := make(chan result, 1)
	go func() { done <- p.do(append([]string{"events", "follow"}, args...)...) }()
	for {
		select {
		case r := <-done:
			return r
		default:
			p.ok("events", "publish", "builds", "done")
			p.ok("events", "publish", "deploys", "done", "--data", `{"host":"a"}`)
		}
	}
}

func TestEventsAreFollowedOneLineEach(t *testing.T) {
	t.Parallel()
	r := following(t, "--category", "deploys", "-n", "2")
	require.Zero(t, r.code, r.err)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, lines, 2)
	for _, line := range lines {
		assert.Contains(t, line, "  deploys:done ")
		assert.Contains(t, line, `{"host":"a"}`)
	}
}

func TestEventsAreFollowedAsJSON(t *testing.T) {
	t.Parallel()
	r := following(t, "--category", "deploys", "--action", "done", "-n", "1", "--json")
	require.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, `"kind":{"category":"deploys","action":"done"}`)
}

func TestAFollowerIsToldWhatItHasMissed(t *testing.T) {
	t.Parallel()
	var out, stderr strings.Builder
	a := &app{out: &out, err: &stderr, json: true}
	require.NoError(t, a.follow(strings.NewReader(": hello\n\nevent: dropped\ndata: {\"dropped\":7}\n\nid: x\ndata: {\"n\":1}\n\n"), 0))
	assert.Equal(t, "{\"n\":1}\n", out.String())
	assert.Equal(t, "missed 7 events so far\n", stderr.String())
}

func TestAStreamThatBreaksOffIsAFailureOfTheDaemon(t *testing.T) {
	t.Parallel()
	err := (&app{out: io.Discard}).follow(iotest.ErrReader(io.ErrUnexpectedEOF), 0)
	var coded *exitError
	require.ErrorAs(t, err, &coded)
	assert.Equal(t, exitNoDaemon, coded.code)
	assert.Equal(t, "the stream broke off: unexpected EOF: is the daemon gone?", err.Error())
}
