package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheKeysThatHaveChangedAreNamed(t *testing.T) {
	read := func(text string) Config {
		c, err := load(t, text, nil)
		require.NoError(t, err)
		return c
	}
	const was = "log_level = 'warn'\n[engine]\nmax_batch = 7\n[tools.mail]\ntype = 'http'\nretries = 1\n[tools.old]\ntype = 'http'\n[[tokens]]\nname = 'a'\nadmin = true\ntoken = '0123456789-0123456789'\n"
	before := read(was)
	assert.Empty(t, Changed(before, read(was)), "what is read twice is the same")
	after := read("[engine]\nmax_batch = 8\n[http]\nmax_connections = 9\n[tools.mail]\ntype = 'http'\nretries = 2\n[tools.new]\ntype = 'http'\n[[tokens]]\nname = 'a'\nadmin = true\ntoken = '9876543210-0123456789'\n")
	assert.Equal(t, []string{"engine.max_batch", "http.max_connections", "log_level", "tokens", "tools.mail.retries", "tools.new", "tools.old"}, Changed(before, after))
}
