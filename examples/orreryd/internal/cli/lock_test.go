package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
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

func TestAFencingTokenThatIsNotToldIsNotShownAsANumber(t *testing.T) {
	t.Parallel()
	assert.Contains(t, lockView(core.Lock{Name: "l", Token: 7, By: "api:ann"}).fields, [2]string{"fencing", "7"})
	hidden := lockView(core.Lock{Name: "l", By: "api:ann"}).fields
	assert.Contains(t, hidden, [2]string{"fencing", ""})
	assert.Contains(t, hidden, [2]string{"by", "api:ann"})
	rows := semaphoreView(core.Semaphore{Holders: []core.SemaphoreHolder{{Holder: "a", Slots: 1}}}).tables[0].rows
	assert.Equal(t, "-", rows[0][3])
}
