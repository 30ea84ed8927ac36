package page_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
)

func TestEachPageSaysThatTheDaemonIsPausedAndLeadsWhoMayToHaveItGoOn(t *testing.T) {
	k := newKitOn(t, func(o *shell.Options) { o.StartPaused = true }, func(*httpapi.Options) {}, admin("ops"), token("plain", func(t *httpapi.Token) { t.Tenants = []string{"default"} }))
	const says, leads = "The daemon is paused since ", `href="/ui/system/resume"`
	for _, path := range []string{"/", "/schedules", "/system"} {
		k.as = "plain-secret"
		shown := k.read(path)
		assert.Contains(t, words(shown), says, path)
		assert.NotContains(t, shown, leads, path)
		k.as = "ops-secret"
		shown = k.read(path)
		assert.Contains(t, words(shown), says, path)
		assert.Contains(t, shown, leads, path)
	}
	k.as = "plain-secret"
	assert.Contains(t, k.text("/system/resume"), "Your token ")
	_, paused := k.engine.PausedSince()
	assert.True(t, paused)
	k.as = "ops-secret"
	k.act("/system/resume", nil)
	_, paused = k.engine.PausedSince()
	assert.False(t, paused)
	assert.NotContains(t, words(k.read("/")), says)
}
