//go:build unix

package cli

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPeopleAreToldByTheChannelsOfTheConfiguration has a daemon with a channel that works and
// three that do not: what fails is told by the one, each says what became of a test, and no
// secret stands anywhere.
func TestPeopleAreToldByTheChannelsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	const hush, password = "T000-hush-B000", "hush-hush-s3cret"
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/services/"+hush, r.URL.Path)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(slack.Close)
	db := database(t)
	told := filepath.Join(t.TempDir(), "told")
	conf := write(t, "orrery.toml", fmt.Sprintf(`
[notify]
default = "said"
[notify.channels.said]
type = "command"
command = ["sh", "-c", 'echo "[$ORRERY_EVENT] $ORRERY_TITLE" >>"$0"; echo "$ORRERY_MESSAGE" >>"$0"', %q]
events = ["action:failed"]
title = "{{.What}}!"
[notify.channels.chat]
type = "slack"
url_env = "SLACK_URL"
events = ["action:failed"]
[notify.channels.mail]
type = "mail"
host = "127.0.0.1"
port = 1
tls = "starttls"
username = "orrery"
password_env = "SMTP_PASSWORD"
from = "orrery@example.com"
to = ["ops@example.com"]
`, told))
	env := []string{"SLACK_URL=" + slack.URL + "/services/" + hush, "SMTP_PASSWORD=" + password}
	p := begin(t, env, "orchestrate", "--db", db, "--listen", "127.0.0.1:0", "--config", conf)
	p.awaitReady()

	r := p.do("notify", "test")
	assert.Equal(t, exitFailed, r.code)
	assert.Equal(t, "chat: not told: "+slack.URL+" answered 503 Service Unavailable\nmail: not told: mail by 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused\nsaid: told\n", r.out)
	assert.Contains(t, r.err, "2 of 3 channels did not take the message")
	assert.Equal(t, "said: told\n", p.ok("notify", "test", "said"))
	assert.JSONEq(t, `{"results":[{"channel":"said","told":true,"error":""}]}`, p.ok("notify", "test", "said", "--json"))
	r = p.do("notify", "test", "pager")
	assert.Equal(t, exitNotFound, r.code)
	assert.Contains(t, r.err, `"pager" is none of the channels: chat, mail, said`)
	assert.Equal(t, exitUsage, p.do("notify", "test", "a", "b").code)
	read := func() string {
		b, err := os.ReadFile(told)
		require.NoError(t, err)
		return string(b)
	}
	assert.Equal(t, 3, strings.Count(read(), `[] Test: Action "nightly" failed!`))
	assert.Contains(t, read(), "orreryd actions show ")

	require.Eventually(t, func() bool { // it answers before it has made the subscribers of its channels
		return strings.Count(p.ok("subscriber", "list", "--json", "--namespace", "orrery", "--tenant", "notify"), `"@notify/`) == 2
	}, patience, 20*time.Millisecond)
	id := p.add("--label", "copy", "--", "sh", "-c", "echo no space left; exit 3")
	require.Eventually(t, func() bool { return strings.Contains(read(), "actions retry "+id) }, patience, 20*time.Millisecond, "the whole message, which the program writes bit by bit")
	assert.Contains(t, read(), `[action:failed] Action "copy" failed!`)
	assert.Contains(t, read(), "no space left")
	require.Eventually(t, func() bool { // the failure waits for Slack
		return strings.Contains(p.ok("queue", "items", "chat", "--namespace", "orrery", "--tenant", "notify", "--state", "processing"), "notify")
	}, patience, 20*time.Millisecond)
	list := p.ok("notify", "list")
	assert.Contains(t, list, "said *")
	assert.Empty(t, p.ok("export"), "the daemon makes the subscribers of its channels by itself")
	shown := list + p.ok("notify", "list", "--json") + p.ok("queue", "items", "chat", "--namespace", "orrery", "--tenant", "notify", "--state", "processing", "--json") +
		p.ok("subscriber", "list", "--json")
	show := program(t, "config", "show", "--config", conf)
	show.Env = append(show.Env, env...)
	settings, err := show.Output()
	require.NoError(t, err)
	assert.Contains(t, string(settings), `password_env = 'SMTP_PASSWORD'`)
	shown += string(settings)

	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.code())
	verified(t, db)
	shown += p.stderr.String() + read() + journalOf(t, db)
	require.NoError(t, filepath.WalkDir(filepath.Dir(db), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		shown += string(b)
		return err
	}))
	for _, secret := range []string{hush, password} {
		if strings.Contains(shown, secret) { // assert.NotContains would print the database
			t.Errorf("%s stands where it must not", secret)
		}
	}
}
