package browsertest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatAFileOwnsShowsItAndIsOperatedButEditedThere goes the way of somebody who finds a schedule of a set of files: its
// page says which file it is from, its form gives the text to put there, and to pause,
// resume and run it is no edit.
func TestWhatAFileOwnsShowsItAndIsOperatedButEditedThere(t *testing.T) {
	d := startDaemon(t)
	status, said := d.ask("POST", "/v1/sets/ours", `{"entries":[{"file":"backup.toml","recurring":{"name":"nightly","cron_expr":"30 2 * * *","provider":"echo",`+
		`"payload":{"argv":["sh","-c","a && b > c"]},"description":"Backup of <i>all</i>"}}]}`)
	require.Equal(t, 200, status, string(said))
	b := newTab(t, d)
	b.open("/ui/schedules")
	b.follow("nightly")
	assert.Contains(t, b.text("main"), "Backup of <i>all</i>")
	assert.Contains(t, b.text("main"), "Set of files\nours in backup.toml")
	id := strings.TrimPrefix(b.path(), "/ui/recurring/")

	b.follow("Edit")
	assert.Contains(t, b.text("main"), "The set ours declares it, in backup.toml. Change it there, and apply the set: orreryd apply -f FOLDER --set ours")
	text := b.text("pre")
	assert.Contains(t, text, "[recurring.nightly]\ncron = '30 2 * * *'\n", "the text to put into the file")
	assert.Contains(t, text, "a && b > c", "as a shell reads it")
	assert.False(t, js[bool](b, `document.querySelector("[name=cron_expr]").checkVisibility()`), "the fields are behind, for who takes it over")

	b.open("/ui/recurring/" + id)
	for _, act := range []struct{ name, path, holds string }{
		{"Pause", "/v1/recurring/" + id, `"enabled":false`}, {"Resume", "/v1/recurring/" + id, `"enabled":true`}, {"Run now", "/v1/actions?status=completed", `"tool_name":"echo"`},
	} {
		b.follow(act.name)
		assert.NotContains(t, b.text("main"), "The set ours", "%s is no edit", act.name)
		b.follow(act.name)
		assert.Empty(t, js[string](b, `document.querySelector("[role=alert]")?.textContent ?? ""`), act.name)
		d.until(act.path, act.holds)
	}
	_, owned := d.ask("GET", "/v1/recurring/"+id, "")
	assert.Contains(t, string(owned), `"declared":{"set":"ours","file":"backup.toml"`, "it is the set's as before")
	assert.Empty(t, b.complained())
}
