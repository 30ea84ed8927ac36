package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOfSettingsThatAreReadAgainTokensSecretsAndTheLevelOfTheLogHold(t *testing.T) {
	read := func(text string) Config {
		c, err := load(t, text, nil)
		require.NoError(t, err)
		return c
	}
	const (
		root   = "[[tokens]]\nname = 'root'\nadmin = true\ntoken = 'root-0123456789-0123456789'\n"
		app    = "[[tokens]]\nname = 'app'\nnamespaces = ['shop']\ntenants = ['a', 'b']\ntoken = 'app-0123456789-0123456789'\n"
		within = "[[tokens]]\nname = 'within'\nnamespaces = ['shop']\ntenants = ['b']\ntoken = 'within-0123456789-0123456789'\n"
		beside = "[[tokens]]\nname = 'beside'\nnamespaces = ['shop']\ntenants = ['b', 'c']\ntoken = 'beside-0123456789-0123456789'\n"
		all    = "[[tokens]]\nname = 'all'\ntoken = 'all-0123456789-0123456789'\n"
		reads  = "[[tokens]]\nname = 'reads'\nread_only = true\ntoken = 'reads-0123456789-0123456789'\n"
	)
	names := func(r Reloaded) (out []string) {
		for _, t := range r.InForce.Tokens {
			out = append(out, t.Name)
		}
		return out
	}
	began := read("log_level = 'info'\n" + root + app)
	now := read("log_level = 'debug'\n[engine]\nmax_batch = 7\n" + root + within + beside + all + reads)
	r := Reload(began, began, now)
	assert.True(t, r.Tokens)
	assert.Equal(t, []string{"root", "within", "reads"}, names(r), "one that was removed is gone, whoever else needs a restart")
	assert.Equal(t, []string{"beside", "all"}, r.Withheld, "what tenants may do here was decided at the start")
	assert.Equal(t, "debug", r.InForce.LogLevel)
	assert.Equal(t, []string{"engine.max_batch", "tokens"}, Changed(r.InForce, now))

	again := Reload(began, r.InForce, read(root+app))
	assert.Equal(t, []string{"root", "app"}, names(again), "who was there at the start may come back")
	assert.Empty(t, Changed(again.InForce, read(root+app)))

	for name, row := range map[string]struct{ began, now Config }{
		"the first token":   {read(""), read(root)},
		"the last token":    {read(root), read("")},
		"none that may act": {read(root), read(all)},
	} {
		r := Reload(row.began, row.began, row.now)
		assert.False(t, r.Tokens, name)
		assert.Equal(t, row.began.Tokens, r.InForce.Tokens, name)
		assert.Contains(t, Changed(r.InForce, row.now), "tokens", name)
	}
}
