//go:build unix

package page_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/session"
)

// withTmux has the engine keep the sessions of tasks in a tmux server of the test.
func withTmux(t *testing.T) func(*shell.Options) {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	dir, err := os.MkdirTemp("", "scr") //nolint:usetesting // t.TempDir is too long for a socket's name
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := session.New(session.Options{
		Backend: session.Tmux, Root: dir, Socket: filepath.Join(dir, "s"), Shell: "/bin/sh", KillGrace: 100 * time.Millisecond, Columns: 80, Rows: 24,
	})
	require.NoError(t, err)
	t.Cleanup(func() { // not with the test's context, which has ended
		_, err := s.Cleanup(context.Background(), func(string) bool { return false })
		assert.NoError(t, err)
		assert.NoError(t, s.Close())
	})
	return func(o *shell.Options) {
		o.Interpreters = map[string]shell.Interpreter{effects.LaneSession: s}
		o.Sessions, o.WatchEvery = s.Observer(nil).ForEngine(), 100*time.Millisecond
	}
}

func TestTheScreenOfATaskIsShownLiveWithItsColoursAndWhatWasTypedIntoIt(t *testing.T) {
	k := newKitOn(t, withTmux(t), func(*httpapi.Options) {})
	id := k.make("/v1/tasks", `{"label":"agent","command":["sh","-c","printf '\\033[32mready\\033[0m <b>bold</b>\\n'; while read -r line; do echo \"got $line\"; done"],"prompt":"begin here"}`)
	k.untilShown("/tasks/"+id, "got begin here")
	html := k.read("/tasks/" + id)
	assert.Contains(t, html, `<span class="ansi-fg-2">ready</span> &lt;b&gt;bold&lt;/b&gt;`)
	assert.Contains(t, html, `data-every="3"`)
	assert.NotContains(t, html, "\x1b")
	assert.Regexp(t, `Captured at \d{4}-\d\d-\d\d [\d:]+ UTC; 80 columns, 24 rows\.`, words(html))

	k.act("/tasks/"+id+"/input", url.Values{"text": {"a <i>second</i> line"}})
	k.untilShown("/tasks/"+id, "got a <i>second</i> line")
	text := k.text("/tasks/" + id)
	_, sent, _ := strings.Cut(text, "Sent to the session")
	assert.Regexp(t, `UTC \S+( s ago)? api:loopback input – a <i>second</i> line`, sent)
	assert.Contains(t, sent, "prompt with the session's start begin here")

	k.act("/tasks/"+id+"/cancel", url.Values{"reason": {"seen enough"}})
	text = k.text("/tasks/" + id)
	assert.Contains(t, text, "Not captured: the task has ended, and its session with it. This is the end of it as the last heartbeat has told it, at ")
	assert.NotContains(t, k.read("/tasks/"+id), "data-every")
	require.Eventually(t, func() bool { // its session is killed before the engine ends
		open, _ := k.write("GET", "/v1/tasks/"+id, "")["asked"].(map[string]any)["open"].([]any)
		return len(open) == 0
	}, 20*time.Second, 20*time.Millisecond)
}

// untilShown reads a page until it has a text.
func (k *kit) untilShown(path, want string) {
	k.t.Helper()
	text := ""
	require.Eventually(k.t, func() bool {
		text = k.text(path)
		return strings.Contains(text, want)
	}, 20*time.Second, 50*time.Millisecond, "%s never has %q", path, want)
}

func TestATaskWithoutACapturerShowsTheEndOfItsScreenAndSaysSo(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/tasks", `{"label":"agent","command":["agent"]}`)
	k.untilSpawned(id)
	text := k.text("/tasks/" + id)
	assert.Contains(t, text, "Not captured: sessions are not shown by this daemon.")
	assert.Contains(t, text, "Nothing was seen of it yet.")
	k.write("POST", "/v1/tasks/"+id+"/heartbeat", `{"output":"\u001b[31mhalf\u001b[0m done"}`)
	assert.Regexp(t, `This is the end of it as the last heartbeat has told it, at \d{4}.* half done`, k.text("/tasks/"+id))
}

func TestASessionIsShownLiveToThoseWhoMayTypeIntoItAlone(t *testing.T) {
	k := newKitOn(t, withTmux(t), func(*httpapi.Options) {}, admin("ops"), token("plain", nil), token("watcher", func(t *httpapi.Token) { t.ReadOnly, t.Sessions = true, true }))
	k.as = "ops-secret"
	id := k.make("/v1/tasks", `{"label":"agent","command":["sh","-c","echo ready; while read -r line; do echo \"got $line\"; done"]}`)
	k.untilShown("/tasks/"+id, "Captured at ")
	for as, live := range map[string]bool{"ops": true, "watcher": true, "plain": false} {
		k.as = as + "-secret"
		got, text := k.write("GET", "/v1/tasks/"+id+"/screen", ""), k.text("/tasks/"+id)
		assert.Equal(t, live, got["live"], as)
		if live {
			assert.Contains(t, text, "Captured at ", as)
			continue
		}
		assert.Equal(t, "the token sees no sessions live: that takes sessions = true for it", got["why"])
		assert.Equal(t, k.write("GET", "/v1/tasks/"+id, "")["screen"], got["screen"], "it is what the task's record has, which whoever sees the task may read")
		assert.Contains(t, text, "Not captured: the token sees no sessions live")
	}
}

func TestThePromptOfATaskThatHasEndedIsNotPending(t *testing.T) {
	k := newKit(t)
	id := k.make("/v1/tasks", `{"label":"agent","command":["true"],"prompt":"begin here"}`)
	k.write("POST", "/v1/tasks/"+id+"/fail", `{"error":"nobody starts it"}`)
	k.until("/v1/tasks/"+id, "state.type", "done")
	_, sent, _ := strings.Cut(k.text("/tasks/"+id), "Sent to the session")
	assert.Contains(t, sent, "prompt with the session's start begin here")
	assert.NotContains(t, sent, "pending")
}
