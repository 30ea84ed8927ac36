package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhoTakesALockWithPatienceGetsItOnceItIsGivenBack(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.ok("lock", "acquire", "deploy", "--holder", "ann")
	p.ok("semaphore", "declare", "builders", "--slots", "1")
	p.ok("semaphore", "acquire", "builders", "--holder", "ann")
	for _, of := range [][]string{{"lock", "deploy"}, {"semaphore", "builders"}} {
		assert.Equal(t, exitFailed, p.do(of[0], "acquire", of[1], "--holder", "ben").code)
		ben := make(chan result, 1)
		go func() { ben <- p.do(of[0], "acquire", of[1], "--holder", "ben", "--wait", "10m") }()
		p.ok(of[0], "release", of[1], "--holder", "ann", "--force")
		r := <-ben
		require.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "ben")
	}
}
