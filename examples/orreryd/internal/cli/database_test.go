package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readiness is the status with which the daemon answers /readyz, and the text.
func (p *process) readiness() (int, string) {
	p.t.Helper()
	resp, err := http.Get(p.url + "/readyz")
	require.NoError(p.t, err)
	defer func() { _ = resp.Body.Close() }()
	var text strings.Builder
	_, err = io.Copy(&text, resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, text.String()
}

func TestADaemonWhoseDatabaseIsReplacedAcknowledgesNothingUntilTheFileIsBack(t *testing.T) {
	db := database(t)
	p := start(t, "--db", db)
	p.ok("actions", "add", "--in", "1h", "--", "echo", "one")
	require.NoError(t, os.Rename(db, db+".away"))

	status, text := p.readiness()
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, text, "the database file was removed, renamed or replaced")
	r := p.do("actions", "add", "--in", "1h", "--", "echo", "one")
	assert.NotZero(t, r.code)
	assert.Contains(t, r.err, "nothing was stored")
	line := await(t, p.errs, "commit failed")
	assert.Contains(t, line, db, "the log names the file")
	assert.Contains(t, line, "put the same file back there")

	// A second daemon makes no new file of that name: the log beside it is the first one's.
	second := begin(t, nil, "orchestrate", "--listen", "127.0.0.1:0", "--db", db)
	assert.NotZero(t, second.code())
	await(t, second.errs, "the log beside the file is another file's")
	require.NoFileExists(t, db)

	// The file comes back: the first goes on.
	require.NoError(t, os.Rename(db+".away", db))
	require.Eventually(t, func() bool {
		status, _ := p.readiness()
		return status == http.StatusOK
	}, patience, 50*time.Millisecond)
	p.ok("actions", "add", "--in", "1h", "--", "echo", "one")
	assert.Equal(t, 2, strings.Count(p.ok("actions", "list"), "pending"), "two actions were acknowledged, and two are there")
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
}

func TestADaemonWhoseDatabaseHasFailedForGoodEndsWithAnError(t *testing.T) {
	db := database(t)
	p := start(t, "--db", db)
	p.ok("actions", "add", "--in", "1h", "--", "echo", "one")
	require.NoError(t, os.Truncate(db, 4096))
	r := p.do("actions", "add", "--in", "1h", "--", "echo", "two")
	assert.NotZero(t, r.code)
	assert.Equal(t, exitFailed, p.code(), "so that a supervisor starts it again")
	line := await(t, p.errs, "stopping, to be started again")
	assert.Contains(t, line, "the database "+db+" takes nothing any more")
	assert.Contains(t, line, "the file was cut from outside")
}

func TestANamedSecretReachesTheServerAndIsInNoAnswerLogOrFile(t *testing.T) {
	t.Parallel()
	const hushed = "hush-hush-7"
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "you said "+got)
	}))
	defer server.Close()
	db := database(t)
	file := write(t, "orrery.toml", "[secrets.api]\nsecret_env = 'API_KEY'\ntools = ['http']\n[secrets.other]\nsecret_file = '"+write(t, "other", "other-value")+"'\ntenants = ['t9']\n")
	p := begin(t, []string{"API_KEY=" + hushed}, "orchestrate", "--listen", "127.0.0.1:0", "--db", db, "--config", file)
	p.awaitReady()
	input := func(name string) string {
		return `{"url":"` + server.URL + `","headers":{"Authorization":"Bearer {{secret \"` + name + `\"}}"}}`
	}
	id := p.add("--tool", "http", "--input", input("api"))
	var shown string
	require.Eventually(t, func() bool {
		shown = p.ok("actions", "show", id, "--json")
		return strings.Contains(shown, `"completed"`)
	}, patience, 20*time.Millisecond)

	assert.Equal(t, "Bearer "+hushed, got)
	assert.Contains(t, shown, "you said Bearer [secret api]")
	assert.Contains(t, shown, `{{secret \"api\"}}`)
	for _, name := range []string{"other", "nonex"} {
		r := p.do("actions", "add", "--tool", "http", "--input", input(name))
		assert.NotZero(t, r.code)
		assert.Contains(t, r.err, `tool_input: secret "`+name+`" is not known here, or tool "http" of namespace "default" and tenant "default" may not have it`)
	}
	p.signal(os.Interrupt)
	assert.Zero(t, p.code())
	raw, err := os.ReadFile(db)
	require.NoError(t, err)
	for where, text := range map[string]string{"the file": string(raw), "the log": p.stderr.String(), "the answer": shown} {
		assert.NotContains(t, text, hushed, where)
	}
}
