//go:build unix

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

func TestWhatDoesNotAnswerAsADaemonIsSaid(t *testing.T) {
	t.Parallel()
	answer := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for _, row := range []struct {
		name string
		h    http.HandlerFunc
		want string
		code int
	}{
		{"a web page", answer(200, "text/html", "<h1>hi</h1>"), `does not answer as orreryd does (content type "text/html"): is --server right?`, exitFailed},
		{"a web page that is missing", answer(404, "text/html", "<h1>no</h1>"), `answered "404 Not Found", not as orreryd does: is --server right?`, exitFailed},
		{"JSON of another kind", answer(200, "application/json", `[1]`), "read the answer of http://", exitFailed},
		{"JSON without the list", answer(200, "application/json", `{}`), "actions: unexpected end of JSON input", exitFailed},
		{"JSON that is cut off", answer(200, "application/json", `{"actions":[`), "read the answer of http://", exitFailed},
		{"an error of the daemon", answer(503, "application/json", `{"error":"the engine is stopped"}`), "orreryd: the engine is stopped\n", exitFailed},
		{"an error that steers the terminal", answer(400, "application/json", `{"error":"\u001b[2Jgone"}`), `orreryd: \x1b[2Jgone`, exitFailed},
		{"an action that is missing", answer(404, "application/json", `{"error":"action not found"}`), "orreryd: action not found\n", exitNotFound},
		{"a missing token", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="orrery"`)
			answer(401, "application/json", `{"error":"token: missing"}`)(w, r)
		}, "token: missing: give the right one with --token or ORRERY_TOKEN", exitFailed},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		}, `answered "302 Found", not as orreryd does`, exitFailed},
		{"a connection that breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			": EOF\n", exitNoDaemon},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := against(t, row.h, "actions", "list")
			assert.Contains(t, r.err, row.want)
			assert.Equal(t, row.code, r.code)
			assert.Empty(t, r.out)
		})
	}
}

func TestANetworkThatFailsIsNotADaemonThatIsToBeStarted(t *testing.T) {
	t.Parallel()
	p := begin(t, nil, "actions", "list", "--server", "http://nowhere.invalid:7460") // in a process without a proxy
	assert.Equal(t, exitNoDaemon, p.code())
	await(t, p.errs, "no answer from http://nowhere.invalid:7460: dial tcp: lookup nowhere.invalid")
	assert.NotContains(t, p.stderr.String(), "start one")
}

func TestTheTokenIsSentAndNeverShown(t *testing.T) {
	t.Parallel()
	var sent []string
	h := func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"actions":[]}`))
	}
	s := httptest.NewServer(http.HandlerFunc(h))
	t.Cleanup(s.Close)
	env := []string{"ORRERY_SERVER=" + s.URL, "ORRERY_TOKEN=from-the-environment"}
	for _, args := range [][]string{{"actions", "list"}, {"actions", "list", "--token", "from-the-flag"}} {
		r := cli(t, env, "", args...)
		assert.Zero(t, r.code, r.err)
		assert.NotContains(t, r.out+r.err, "from-the")
	}
	assert.Equal(t, []string{"Bearer from-the-environment", "Bearer from-the-flag"}, sent)
	r := cli(t, env, "", "actions", "list", "--token", "two words")
	assert.Equal(t, exitUsage, r.code)
	assert.NotContains(t, r.err, "two words")
}

func TestATableShowsStoredTextWithoutLettingItActOnTheTerminal(t *testing.T) {
	t.Parallel()
	a := core.Action{ActionSpec: core.ActionSpec{
		ID: uuid.MustParse("0193f2a4-5b6c-7d8e-9f01-23456789abcd"), ToolName: "command", Label: "\x1b]0;owned\a\u202egnp.exe\nsecond line",
		Namespace: "n\tx", Tenant: "t", ToolInput: json.RawMessage("null"), Trigger: core.Scheduled(effects.Time(1_700_000_000_000)),
	}, Status: core.Status{Type: core.StatusFailed, Reason: "\x9b31m"}}
	b, err := json.Marshal(a)
	require.NoError(t, err)
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/actions") {
			b = append(append([]byte(`{"actions":[`), b...), `],"next_page_token":"\u001b[1m"}`...)
		}
		_, _ = w.Write(b)
	}
	show := against(t, h, "actions", "show", a.ID.String())
	list := against(t, h, "actions", "list")
	for _, r := range []result{show, list} {
		assert.Zero(t, r.code, r.err)
		assert.NotRegexp(t, `[^\n\P{Cc}]|\p{Cf}`, r.out+r.err)
		assert.Contains(t, r.out, `\x1b]0;owned\x07\u{202e}gnp`)
	}
	assert.Equal(t, 2, strings.Count(list.out, "\n"), "one line for the header, one for the action")
}

func TestABackupThatIsCutOffLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	whole := database(t)
	st, err := bolt.Open(whole, bolt.Options{})
	require.NoError(t, err)
	var sent bytes.Buffer
	_, err = st.Backup(t.Context(), &sent)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	b := sent.Bytes()
	file, err := os.ReadFile(whole) // which an earlier daemon sends
	require.NoError(t, err)
	for name, h := range map[string]http.HandlerFunc{
		"the connection breaks": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(b[:len(b)/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"the end is missing":           func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b[:len(b)-1]) },
		"the end of a file is missing": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file[:3*os.Getpagesize()-1]) },
		"it is no backup":              func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) },
		"it is empty":                  func(http.ResponseWriter, *http.Request) {},
	} {
		for _, more := range [][]string{nil, {"--stream"}} {
			t.Run(name, func(t *testing.T) {
				to := filepath.Join(t.TempDir(), "b.db")
				r := against(t, h, append([]string{"backup", "--to", to}, more...)...)
				assert.Equal(t, exitFailed, r.code, r.out)
				entries, err := os.ReadDir(filepath.Dir(to))
				require.NoError(t, err)
				assert.Empty(t, entries)
			})
		}
	}
	sends := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) }
	to := filepath.Join(t.TempDir(), "b.db")
	r := against(t, sends, "backup", "--to", to, "--json")
	require.Zero(t, r.code, r.err)
	info, err := os.Stat(to)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.Contains(t, r.out, fmt.Sprintf(`"bytes": %d`, info.Size()))

	kept := filepath.Join(t.TempDir(), "b.stream")
	r = against(t, sends, "backup", "--stream", "--to", kept)
	require.Zero(t, r.code, r.err)
	got, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.Equal(t, b, got)
	r = against(t, sends, "backup", "--stream", "--to", "-")
	require.Zero(t, r.code, r.err)
	assert.Equal(t, string(b), r.out)
	r = against(t, sends, "backup", "--to", "-")
	assert.Equal(t, exitUsage, r.code)
	r = against(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }, "backup", "--to", filepath.Join(t.TempDir(), "b.db"))
	require.Zero(t, r.code, r.err)
	r = against(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }, "backup", "--stream", "--to", kept+"2")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.err, "the daemon is of an earlier version and sends a database file: leave --stream out")
}

func TestAStateThatTheJournalDoesNotExplainIsADivergence(t *testing.T) {
	t.Parallel()
	db := database(t)
	p := start(t, "--db", db)
	id := p.add("--wait", "--", "echo", "hello")
	p.signal(os.Interrupt)
	require.Zero(t, p.code())
	verified(t, db)

	st, err := bolt.Open(db, bolt.Options{})
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
		rec, err := tx.Get(core.KindAction, uuid.MustParse(id))
		require.NoError(t, err)
		s, err := core.DecodeState(core.KindAction, rec.State)
		require.NoError(t, err)
		a := s.(core.Action)
		prev := store.Prev{Version: rec.Version, Seq: rec.Seq, Due: a.Deadline(), Terms: a.Terms()}
		a.Label = "forged"
		seq, err := tx.Seq()
		require.NoError(t, err)
		batch := core.NewEntry(seq+1, a.UpdatedAt, "forger")
		require.NoError(t, tx.AppendJournal(seq+1, a.UpdatedAt, batch.AppendJSON(nil)))
		return tx.Put(seq+1, []store.Write{{Kind: core.KindAction, ID: a.ID, State: a.AppendJSON(nil), Terms: a.Terms(), Prev: prev}})
	}))
	require.NoError(t, st.Close())

	r := cli(t, nil, "", "replay", "--verify", "--db", db)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.out, id)
	assert.Contains(t, r.out, `"label":"forged"`)
	assert.Regexp(t, `[1-9] divergences`, r.out)
	r = cli(t, nil, "", "replay", "--verify", "--json", "--db", db)
	assert.Equal(t, exitFailed, r.code)
	var report replayReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	assert.NotEmpty(t, report.Divergences)
}

func TestTokensOpenTheirOwnTenantsAlone(t *testing.T) {
	t.Parallel()
	c := write(t, "orrery.toml", `
[[tokens]]
name = "ops"
token = "ops-ops-ops-ops-ops"
admin = true
[[tokens]]
name = "web"
token = "web-web-web-web-web"
namespaces = ["web"]
[[tokens]]
name = "dash"
token = "dash-dash-dash-dash"
read_only = true
[[tokens]]
name = "old"
token = "old-old-old-old-old"
expires = 2020-01-01T00:00:00Z
`)
	p := start(t, "--db", database(t), "--config", c)
	as := func(token string, args ...string) result {
		return cli(t, []string{"ORRERY_SERVER=" + p.url, "ORRERY_TOKEN=" + token}, "", args...)
	}
	r := as("ops-ops-ops-ops-ops", "actions", "add", "--wait", "--", "echo", "hi")
	require.Zero(t, r.code, r.err)
	id := anID.FindString(r.out)
	for _, row := range []struct {
		name, token string
		args        []string
		code        int
		want        string
	}{
		{"no token", "", []string{"actions", "list"}, exitFailed, "token: missing"},
		{"a wrong token", "guess-guess-guess-guess", []string{"actions", "list"}, exitFailed, "token: is unknown"},
		{"one that has ended", "old-old-old-old-old", []string{"actions", "list"}, exitFailed, `"old" expired`},
		{"another tenant's action", "web-web-web-web-web", []string{"actions", "show", id}, exitNotFound, "action not found"},
		{"another tenant's list", "web-web-web-web-web", []string{"actions", "list"}, 0, "no actions"},
		{"its own", "web-web-web-web-web", []string{"actions", "add", "--namespace", "web", "--", "echo"}, 0, "pending|running"},
		{"not its own", "web-web-web-web-web", []string{"actions", "add", "--", "echo"}, exitFailed, `namespace: "default" is not one of the token's`},
		{"to read", "dash-dash-dash-dash", []string{"actions", "show", id}, 0, id},
		{"to write", "dash-dash-dash-dash", []string{"actions", "add", "--", "echo"}, exitFailed, `"dash" is read-only`},
		{"a backup", "web-web-web-web-web", []string{"backup", "--to", filepath.Join(t.TempDir(), "b.db")}, exitFailed, `"web" is not an admin's`},
		{"an admin's backup", "ops-ops-ops-ops-ops", []string{"backup", "--to", filepath.Join(t.TempDir(), "b.db")}, 0, "wrote"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := as(row.token, row.args...)
			assert.Equal(t, row.code, r.code, r.err)
			assert.Regexp(t, row.want, r.out+r.err)
		})
	}
	p.signal(os.Interrupt)
	require.Zero(t, p.code())
	assert.NotRegexp(t, "ops-ops|web-web|dash-dash|guess", p.stderr.String(), "no token is logged")
}

func TestIdsAreCompletedByTheShell(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	action := p.add("--in", "1h", "--label", "later\ton", "--", "echo")
	recurring := anID.FindString(p.ok("recurring", "add", "--cron", "@hourly", "--", "echo"))
	for _, verb := range []string{"show", "cancel", "trigger"} {
		assert.Contains(t, p.ok("__complete", "actions", verb, ""), action+"\tpending later\\ton\n", verb)
	}
	for _, verb := range []string{"show", "update", "pause", "resume", "delete", "trigger", "history", "preview"} {
		assert.Contains(t, p.ok("__complete", "recurring", verb, ""), recurring+"\t@hourly", verb)
	}
	assert.NotContains(t, p.ok("__complete", "actions", "show", action, ""), action, "one id is enough")
	r := cli(t, []string{"ORRERY_SERVER=http://127.0.0.1:1"}, "", "__complete", "actions", "show", "")
	assert.Equal(t, ":4\n", r.out, "without a daemon there is nothing to offer, and no complaint")
	assert.Contains(t, cli(t, nil, "", "completion", "bash").out, "orreryd")
}

func TestTheWordsThatAFlagTakesAreCompletedByTheShell(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"orchestrate", "--log-level"}, "debug\ninfo\nwarn\nerror\n:4\n"},
		{[]string{"config", "show", "--log-format"}, "text\njson\n:4\n"},
		{[]string{"webhook", "send", "--signature"}, "standard\ngithub\nnone\n:4\n"},
		{[]string{"actions", "add", "--on-interrupt"}, "fail\nretry\n:4\n"},
		{[]string{"actions", "add", "--tz"}, "\nEurope/Berlin\n"},
		{[]string{"recurring", "update", "--tz"}, "\nEurope/Berlin\n"},
		{[]string{"recurring", "preview", "--tz"}, "\nEurope/Berlin\n"},
	} {
		r := cli(t, nil, "", append(append([]string{"__complete"}, row.args...), "")...)
		assert.Contains(t, r.out, row.want, row.args)
	}
}

// TestWhatIsWrongOnTheCommandLineIsSaidWithoutAskingTheDaemon holds for every
// row that there is no daemon to ask.
func TestWhatIsWrongOnTheCommandLineIsSaidWithoutAskingTheDaemon(t *testing.T) {
	t.Parallel()
	const id = "0193f2a4-5b6c-7d8e-9f01-23456789abcd"
	for _, row := range []struct{ line, want string }{
		{"actions add --max-attempts x -- echo", `--max-attempts: "x" is not a whole number in range`},
		{"actions add --max-attempts 99999999999999999999 -- echo", `--max-attempts: "99999999999999999999" is not a whole number in range`},
		{"actions add --max-attempts 0 --on-interrupt retry -- echo", "--max-attempts: 0 is not between 1 and 1000000"},
		{"actions add --max-attempts 5 -- echo", "--max-attempts has an effect with --on-interrupt retry or --on-failure retry only"},
		{"actions add --max-attempts 5 --on-interrupt fail -- echo", "--max-attempts has an effect with --on-interrupt retry or --on-failure retry only"},
		{"actions add --on-failure never -- echo", "--on-failure"},
		{"actions add --backoff 5s -- echo", "--backoff has an effect with --on-failure retry only"},
		{"actions add --no-retry x --on-failure fail -- echo", "--no-retry has an effect with --on-failure retry only"},
		{"actions add --on-failure retry --backoff 5us -- echo", "--backoff: 5µs is not a whole number of milliseconds"},
		{"recurring add --cron @hourly --max-attempts 5 -- echo", "--max-attempts has an effect with --on-interrupt retry or --on-failure retry only"},
		{"recurring update " + id + " --on-interrupt fail --on-failure fail --max-attempts 5", "--max-attempts has an effect with --on-interrupt retry or --on-failure retry only"},
		{"actions add --in 5 -- echo", `--in: "5" is not a duration such as 30s, 5m or 24h`},
		{"actions add --in 1d -- echo", `--in: "1d" is not a duration such as 30s, 5m or 24h`},
		{"actions add --in", "--in: needs a value"},
		{"actions add --on-interrupt x -- echo", `--on-interrupt: "x" is unknown: use fail or retry`},
		{"recurring add --cron @hourly --on-interrupt x -- echo", `--on-interrupt: "x" is unknown: use fail or retry`},
		{"actions add --id x -- echo", `--id: "x" is not an id`},
		{"actions add --cron bad -- echo", "--cron: "},
		{"actions add --cron @hourly --tz PST -- echo", "--tz: "},
		{"recurring add --cron bad -- echo", "--cron: "},
		{"recurring add --cron @hourly --tz PST -- echo", "--tz: "},
		{"recurring update " + id + " --cron bad", "--cron: "},
		{"recurring update " + id + " --tz PST", "--tz: "},
		{"recurring preview --cron @hourly --tz PST", "--tz: "},
		{"recurring preview " + id + " --tz UTC", "--tz belongs to --cron: a recurring action has its own time zone"},
		{"recurring preview --cron @hourly -n x", `--number: "x" is not a whole number in range`},
		{"recurring preview " + id + " extra", "want one ID|NAME, got 2 arguments"},
		{"recurring list extra", `orreryd recurring list takes no arguments: "extra" is one too many`},
		{"recurring show", "ID|NAME is missing, as in: orreryd recurring show ID|NAME"},
		{"recurring show a/b", "\"a/b\" is not an id: want a UUID such as 0193f2a4-5b6c-7d8e-9f01-23456789abcd, or its first 8 characters or more, or its name"},
		{"recurring add --cron @daily --replace -- date", "--replace is about the one with the name of --name, which is missing"},
		{"actions list --limit x", `--limit: "x" is not a whole number in range`},
		{"actions list --status x", `--status: "x" is unknown: use pending, running, completed, failed or cancelled`},
		{"orchestrate --strict-tick=maybe", `--strict-tick: "maybe" is neither true nor false`},
		{"orchestrate extra", `orreryd orchestrate takes no arguments: "extra" is one too many`},
		{"orchestrate --tick-rate 0", "--tick-rate: 0 is not between"},
		{"webhook send", "ROUTE is missing, as in: orreryd webhook send ROUTE"},
		{"webhook send plain --signature md5", `--signature: "md5" is unknown: use standard, github or none`},
		{"config check", "FILE is missing, as in: orreryd config check FILE"},
		{"config check a b", "want one FILE, got 2 arguments"},
		{"completion", "orreryd completion needs a subcommand: bash, fish, powershell, zsh"},
		{"completion ksh", `orreryd completion: unknown subcommand "ksh": use one of bash, fish, powershell, zsh`},
		{"completion bash extra", `orreryd completion bash takes no arguments`},
	} {
		t.Run(row.line, func(t *testing.T) {
			r := cli(t, []string{"ORRERY_SERVER=http://127.0.0.1:1"}, "", strings.Fields(row.line)...)
			assert.Equal(t, exitUsage, r.code, r.out)
			assert.Contains(t, r.err, "orreryd: "+row.want)
			assert.NotRegexp(t, `strconv|uint|arg\(s\)|cron_expr|timezone: `, r.err)
		})
	}
}

func TestTheHelpNamesWhatAFlagTakesAndNotItsType(t *testing.T) {
	t.Parallel()
	for _, c := range commands(newRoot()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name, _ := pflag.UnquoteUsage(f)
			assert.NotContains(t, []string{"int", "uint32", "fail", "standard", "string", "float"}, name, "%s --%s", c.CommandPath(), f.Name)
		})
	}
	help := func(args ...string) string { return cli(t, nil, "", append(args, "--help")...).out }
	assert.Contains(t, help("actions", "add"), "and end with 1 if it failed")
	assert.Contains(t, help("actions", "add"), "A run that fails is never repeated")
	assert.Contains(t, help("orchestrate"), "300 ms")
	assert.NotContains(t, help("compact"), "or a backup")
	assert.NotContains(t, cli(t, []string{"ORRERY_DB=x.db"}, "", "check", "--help").out, "x.db", "the default is the variable")
}

// commands lists every command.
func commands(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		list = append(list, commands(sub)...)
	}
	return list
}

func newRoot() *cobra.Command {
	a := &app{env: func(string) string { return "" }}
	return a.rootCommand()
}

func TestEveryExampleOfTheHelpIsACommandThatExists(t *testing.T) {
	t.Parallel()
	for _, c := range commands(newRoot()) {
		assert.NotEmpty(t, c.Short, c.CommandPath())
		for line := range strings.Lines(c.Example + "\n" + c.Long) {
			_, line, ok := strings.Cut(strings.TrimSpace(line), "orreryd ")
			if !ok {
				continue
			}
			line, _, _ = strings.Cut(line, " && ")
			args, err := splitLine(line)
			if err != nil || !regexp.MustCompile(`^(actions|recurring|webhook|config|orchestrate|replay|check|compact|backup|version)$`).MatchString(args[0]) {
				continue // prose
			}
			cmd, rest, err := newRoot().Find(args)
			require.NoError(t, err, line)
			require.NoError(t, cmd.ParseFlags(rest), "%s: %s", c.CommandPath(), line)
			assert.False(t, cmd.HasSubCommands(), "%s: %s", c.CommandPath(), line)
		}
	}
}

func TestTheProgramEndsWithTheCodeThatItPromises(t *testing.T) {
	t.Parallel()
	p := begin(t, nil, "version")
	assert.Zero(t, p.code())
	await(t, p.out, `^tzdb +20\d\d[a-z]$`)
	p = begin(t, nil, "actions", "list", "--server", "http://127.0.0.1:1")
	assert.Equal(t, exitNoDaemon, p.code())
	await(t, p.errs, "orreryd: no daemon answers at http://127.0.0.1:1: start one with `orreryd orchestrate`")
	p = begin(t, nil, "fly")
	assert.Equal(t, exitUsage, p.code())
	await(t, p.errs, `unknown command "fly" for "orreryd"`)
	p = begin(t, nil, "help", "actions", "fly")
	assert.Equal(t, exitUsage, p.code())
	await(t, p.errs, `there is no command "actions fly"`)
	p = begin(t, nil, "help", "actions", "add")
	assert.Zero(t, p.code())
}
