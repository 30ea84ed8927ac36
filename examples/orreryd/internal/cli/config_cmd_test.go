package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatWouldNotServeIsSaidByCheckAndShow(t *testing.T) {
	t.Parallel()
	r := cli(t, nil, "", "config", "show", "--listen", ":7460")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, `listen address ":7460" means all interfaces: without a token only loopback is served`)
	path := write(t, "orrery.toml", "[[tokens]]\nname = 'old'\ntoken = '0123456789abcdef'\nexpires = 2020-01-31T00:00:00Z")
	r = cli(t, nil, "", "config", "check", path)
	assert.Zero(t, r.code)
	assert.Contains(t, r.err, `warning: tokens[0] "old" expired at 2020-01-31T00:00:00Z`)
}
