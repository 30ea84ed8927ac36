package config

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects/boundtest"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/httpapi"
)

// load reads a configuration as orchestrate does.
func load(t *testing.T, text string, env map[string]string, args ...string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("orchestrate", pflag.ContinueOnError)
	AddFlags(flags)
	if text != "" {
		args = append(args, "--config", write(t, "orrery.toml", text))
	}
	require.NoError(t, flags.Parse(args))
	return Load(flags, func(k string) string { return env[k] })
}

func TestTheDefaultsAreThoseOfTheSources(t *testing.T) {
	c, err := load(t, "", nil)
	require.NoError(t, err)
	assert.InDelta(t, 60, c.TickRateSeconds, 0, "001")
	assert.InDelta(t, 5, c.Background.RecurringCheckIntervalSeconds, 0, "002 section 5")
	assert.InDelta(t, 60, c.Engine.LeaseTTLSeconds, 0, "C8")
	assert.InDelta(t, 7, c.Retention.HistoryDays, 0, "C12")
	assert.True(t, c.Background.EnableRecurringActions)
	assert.Equal(t, "127.0.0.1:7460", c.Listen)
	assert.Equal(t, "orrery.db", c.DB)
	tools, _, err := c.MakeTools()
	require.NoError(t, err)
	assert.Contains(t, tools, "command")
	assert.Contains(t, tools, "http")
	for _, tool := range tools {
		require.NoError(t, CloseTool(tool))
	}
}

func TestFlagsWinOverTheEnvironmentOverTheFileOverTheDefaults(t *testing.T) {
	file := "db = 'file.db'\ntick_rate_seconds = 1\nlisten = '127.0.0.1:1'\nstrict_tick = true\nlog_level = 'error'\nlog_format = 'json'\n[cluster]\naddress = 'http://file:1'\nname = 'file'"
	env := map[string]string{
		"ORRERY_DB": "env.db", "ORRERY_TICK_RATE": "2", "ORRERY_LISTEN": "127.0.0.1:2", "ORRERY_STRICT_TICK": "false",
		"ORRERY_LOG_LEVEL": "debug", "ORRERY_LOG_FORMAT": "text", "ORRERY_CLUSTER_ADDRESS": "http://env:1", "ORRERY_CLUSTER_NAME": "env",
	}
	flags := []string{"--db", "flag.db", "--tick-rate", "500ms", "--listen", "127.0.0.1:3", "--strict-tick", "--log-level", "warn", "--log-format", "json", "--cluster-address", "http://flag:1", "--cluster-name", "flag"}
	seen := func(c Config) []any {
		return []any{c.DB, c.TickRateSeconds, c.Listen, c.StrictTick, c.LogLevel, c.LogFormat, c.Cluster.Address, c.Cluster.Name}
	}
	for _, row := range []struct {
		name string
		file string
		env  map[string]string
		args []string
		want []any
	}{
		{"nothing is given", "", nil, nil, []any{"orrery.db", 60.0, "127.0.0.1:7460", false, "info", "text", "", ""}},
		{"a file", file, nil, nil, []any{"file.db", 1.0, "127.0.0.1:1", true, "error", "json", "http://file:1", "file"}},
		{"the environment", "", env, nil, []any{"env.db", 2.0, "127.0.0.1:2", false, "debug", "text", "http://env:1", "env"}},
		{"file and environment", file, env, nil, []any{"env.db", 2.0, "127.0.0.1:2", false, "debug", "text", "http://env:1", "env"}},
		{"all three", file, env, flags, []any{"flag.db", 0.5, "127.0.0.1:3", true, "warn", "json", "http://flag:1", "flag"}},
		{"one flag", file, env, []string{"--db", "flag.db"}, []any{"flag.db", 2.0, "127.0.0.1:2", false, "debug", "text", "http://env:1", "env"}},
		{"an empty variable says nothing", file, map[string]string{"ORRERY_DB": ""}, nil, []any{"file.db", 1.0, "127.0.0.1:1", true, "error", "json", "http://file:1", "file"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := load(t, row.file, row.env, row.args...)
			require.NoError(t, err)
			assert.Equal(t, row.want, seen(c))
		})
	}
}

func TestTheConfigurationFileMayBeNamedByTheEnvironment(t *testing.T) {
	path := write(t, "orrery.toml", "db = 'named.db'")
	c, err := load(t, "", map[string]string{"ORRERY_CONFIG": path})
	require.NoError(t, err)
	assert.Equal(t, "named.db", c.DB)
}

func TestAWrongConfigurationIsRefusedWithTheKeyTheValueAndWhatIsRight(t *testing.T) {
	const token = "token = '0123456789abcdef'"
	for _, row := range []struct{ name, toml, want string }{
		{"an unknown key", "tick_rate = 5", `:1:1: unknown key "tick_rate"`},
		{"a key without its unit", "tick_rate = 5", `unknown key "tick_rate": did you mean "tick_rate_seconds"?`},
		{"a misspelt key", "[retention]\nactions_day = 5", `:2:1: unknown key "retention.actions_day": did you mean "actions_days"?`},
		{"a key of the top in a table", "[http]\nlisten = '127.0.0.1:0'", `:2:1: unknown key "http.listen": "listen" stands at the top of the file, before the first table`},
		{"an unknown key in a table", "\n[engine]\nlease = 5", `:3:1: unknown key "engine.lease"`},
		{"an unknown table", "[motor]\na = 1", `unknown key "motor`},
		{"two unknown keys", "a = 1\nb = 2", "unknown key \"a\"\n"},
		{"a wrong type", "db = 5", ":1:6: db: got a TOML integer, want a TOML string"},
		{"a wrong type in a table", "[engine]\nmax_batch = 'x'", "engine.max_batch: got a TOML string, want a TOML integer"},
		{"bad syntax", "db = ", ":1:5: expected value"},
		{"a key given twice", "db = 'a'\ndb = 'b'", ":2:1: "},
		{"an empty database", "db = ''", "db: must not be empty"},
		{"a URL in the place of a file", "db = 'postgres://orrery@db.example/orrery'", "db: is a URL, and no file: give it as --database (ORRERY_DATABASE, or database in the configuration)"},
		{"a name of a daemon that is no word", "[cluster]\nname = 'bad name/x'", `cluster.name: "bad name/x" is no name of a daemon: want 1 to 200 letters, digits, "-", "_" and "."`},
		{"an empty address", "listen = ''", "listen: must not be empty"},
		{"a port that is none", "listen = '127.0.0.1:99999'", `listen: "127.0.0.1:99999": the port "99999" is not a number from 0 to 65535`},
		{"an address without a port", "listen = 'localhost'", `listen: "localhost" is not an address such as "127.0.0.1:7460": want host:port`},
		{"a key in another case", "DB = 'x'", `:1:1: unknown key "DB": write "db": upper and lower case differ`},
		{"a key in either case", "db = 'x'\nDB = 'y'", `:2:1: unknown key "DB": write "db"`},
		{"a table in another case", "[Engine]\nmax_batch = 5", `:1:2: unknown key "Engine": write "engine"`},
		{"a key of a list in another case", "[[tokens]]\nName = 'a'", `:2:1: unknown key "tokens.Name": write "name"`},
		{"an unknown key in an inline table", "engine = { max_batch = 5, Lease = 1 }", `:1:27: unknown key "engine.Lease"`},
		{"a number where a tool stands", "[tools]\ncommand = 1", ":2:11: tools.command: got a TOML integer, want a TOML table"},
		{"a number where a webhook stands", "[webhooks]\na = 1", ":2:5: webhooks.a: got a TOML integer, want a TOML table"},
		{"text where a tool's input stands", "[webhooks.a]\ntool_input = 'x'", ":2:14: webhooks.a.tool_input: got a TOML string, want a TOML table"},
		{"a list of one tool", "[[tools.command]]", ":1:9: tools.command: got a TOML array of tables, want a TOML table: write [tools.command] in single brackets"},
		{"a list of webhooks", "[[webhooks]]", ":1:3: webhooks: got a TOML array of tables, want a TOML table: write [webhooks.NAME] in single brackets"},
		{"one table of tokens", "[tokens]\nname = 'a'", ":1:2: tokens: got a TOML table, want a TOML array of tables: write [[tokens]] in double brackets"},
		{"a dotted key into the tokens", "tokens.name = 'a'", ":1:8: tokens: got a TOML table, want a TOML array of tables"},
		{"numbers where tokens stand", "tokens = [1]", ":1:11: tokens[0]: got a TOML integer, want a TOML table"},
		{"numbers where texts stand", "[tools.command]\nexecutables = ['a', 5]", ":2:21: tools.command.executables[1]: got a TOML integer, want a TOML string"},
		{"a table where text stands", "[db]\nx = 1", ":1:2: db: got a TOML table, want a TOML string"},
		{"a dotted key into text", "db.x = 1", ":1:4: db: got a TOML table, want a TOML string"},
		{"a list where a table stands", "engine = []", ":1:1: engine: got a TOML array, want a TOML table"},
		{"a time where text stands", "db = 2020-01-01", "db: got a TOML date or time, want a TOML string"},
		{"a number with a fraction where none may be", "[engine]\nmax_batch = 1.5", "engine.max_batch: got a TOML float, want a TOML integer"},
		{"a number that is too long", "[engine]\nmax_batch = 99999999999999999999", "too large"},
		{"a tick of zero", "tick_rate_seconds = 0", "tick_rate_seconds: 0 is not between 0.001 and"},
		{"a negative tick", "tick_rate_seconds = -1", "tick_rate_seconds: -1 is not between"},
		{"a tick that is no number", "tick_rate_seconds = nan", "tick_rate_seconds: NaN is not between"},
		{"an endless tick", "tick_rate_seconds = inf", "tick_rate_seconds: +Inf is not between"},
		{"an unknown level", "log_level = 'loud'", `log_level: "loud" is unknown: use one of debug, info, warn, error`},
		{"an unknown format", "log_format = 'xml'", `log_format: "xml" is unknown: use "text" or "json"`},
		{"a check interval of zero", "[background]\nrecurring_check_interval_seconds = 0", "background.recurring_check_interval_seconds: 0 is not"},
		{"a lease below a second", "[engine]\nlease_ttl_seconds = 0.5", "engine.lease_ttl_seconds: 0.5 is not between 1 and"},
		{"a negative stop", "[engine]\nstop_timeout_seconds = -5", "engine.stop_timeout_seconds: -5 is not"},
		{"a negative recovery", "[engine]\nrecover_after_seconds = -5", "engine.recover_after_seconds: -5 is not"},
		{"a negative time limit", "[engine]\ndefault_timeout_seconds = -5", "engine.default_timeout_seconds: -5 is not"},
		{"no concurrency", "[engine]\ndefault_concurrency = 0", "engine.default_concurrency: 0 is not at least 1"},
		{"no batch", "[engine]\nmax_batch = 0", "engine.max_batch: 0 is not between 1 and 65536"},
		{"a share that is none", "[limits]\nmax_lane_share = 1.5", "limits.max_lane_share: 1.5 is not between 0 and 1"},
		{"a negative rate", "[limits]\nrequests_per_second = -1", "limits.requests_per_second: -1 is not between 0 (no limit) and"},
		{"limits of nobody", "[[limits.override]]\ntenant = 'a'", "limits.override[0]: namespace and tenant must both be given"},
		{"limits of one tenant twice", "[[limits.override]]\nnamespace = 'n'\ntenant = 'a'\n[[limits.override]]\nnamespace = 'n'\ntenant = 'a'", `limits.override[1]: namespace "n" and tenant "a" stand in limits.override[0], too`},
		{"a weight below one", "[[limits.override]]\nnamespace = 'n'\ntenant = 'a'\nweight = -1", "limits.override[0].weight: -1 is not between 1 and 1000"},
		{"a negative limit of a tenant", "[[limits.override]]\nnamespace = 'n'\ntenant = 'a'\nmax_attempts = -1", "limits.override[0].max_attempts: -1 is not between 0"},
		{"an unknown backend", "[sessions]\nbackend = 'screen'", `sessions.backend: "screen" is unknown: use "tmux" or "pty"`},
		{"no look at sessions", "[sessions]\nwatch_seconds = 0", "sessions.watch_seconds: 0 is not between 0.01 and"},
		{"a terminal without rows", "[sessions]\nrows = 0", "sessions.rows: 0 is not between 1 and 1000"},
		{"no patience with git", "[git]\nlock_wait_seconds = 0", "git.lock_wait_seconds: 0 is not"},
		{"an unknown channel", "[notify.channels.a]\ntype = 'pigeon'", `notify.channels.a: type: "pigeon" is unknown: use one of webhook, slack, mail, command, desktop, log`},
		{"a key of another channel", "[notify.channels.a]\ntype = 'log'\nurl = 'https://example.com'", `notify.channels.a: url: a channel of type "log" has no such key`},
		{"a webhook to nowhere", "[notify.channels.a]\ntype = 'webhook'", "notify.channels.a: url: missing: give url, url_env or url_file"},
		{"two places of Slack", "[notify.channels.a]\ntype = 'slack'\nurl = 'https://x.example'\nurl_env = 'X'", "notify.channels.a: url: there are 2 of url, url_env and url_file: give one"},
		{"a secret that is not there", "[notify.channels.a]\ntype = 'slack'\nurl_env = 'NOT_SET_ANYWHERE'", `notify.channels.a: url_env: the environment variable "NOT_SET_ANYWHERE" is not set`},
		{"no URL", "[notify.channels.a]\ntype = 'slack'\nurl = 'hooks.slack.com/x'", "notify.channels.a: url: it is not the URL of a web server"},
		{"mail of nobody", "[notify.channels.a]\ntype = 'mail'\nhost = 'h'\ntls = 'none'\nto = ['a@example.com']", `notify.channels.a: from: "" is no address such as`},
		{"mail to nobody", "[notify.channels.a]\ntype = 'mail'\nhost = 'h'\ntls = 'none'\nfrom = 'a@example.com'", `notify.channels.a: to: has 0 addresses`},
		{"mail to no address", "[notify.channels.a]\ntype = 'mail'\nhost = 'h'\ntls = 'none'\nfrom = 'a@example.com'\nto = ['b']", `notify.channels.a: to[0]: "b" is no address`},
		{"mail that does not say how", "[notify.channels.a]\ntype = 'mail'\nhost = 'h'\nfrom = 'a@example.com'\nto = ['a@example.com']", `notify.channels.a: tls: "" is unknown: use "starttls", "implicit" or "none"`},
		{"mail without a password", "[notify.channels.a]\ntype = 'mail'\nhost = 'h'\ntls = 'implicit'\nusername = 'me'\nfrom = 'a@example.com'\nto = ['a@example.com']", `notify.channels.a: password_env: is needed beside a username`},
		{"a password in the clear", "[notify.channels.a]\ntype = 'mail'\npassword = 'hush'", `unknown key "notify.channels.a.password"`},
		{"a CA of nobody", "[notify.channels.a]\ntype = 'mail'\nhost = 'h'\ntls = 'none'\nca_file = '/x'\nfrom = 'a@example.com'\nto = ['a@example.com']", `notify.channels.a: ca_file: is for a server that is reached by TLS`},
		{"a CA that is not there", "[notify.channels.a]\ntype = 'mail'\nhost = 'h'\ntls = 'starttls'\nca_file = '/nowhere'\nfrom = 'a@example.com'\nto = ['a@example.com']", `notify.channels.a: ca_file: open /nowhere`},
		{"an event that is none", "[notify.channels.a]\ntype = 'log'\nevents = ['action:faild']", `notify.channels.a: events[0]: "action:faild" is never announced: did you mean "action:failed"?`},
		{"no events", "[notify.channels.a]\ntype = 'log'\nevents = []", `notify.channels.a: events: must not be empty: leave it out`},
		{"a template that names what is not there", "[notify.channels.a]\ntype = 'log'\nevents = ['action:failed']\ntext = '{{if .Why}}{{.Nope}}{{end}}'", `notify.channels.a: text: .Nope is unknown: use .ID, `},
		{"a template that is broken", "[notify.channels.a]\ntype = 'log'\nevents = ['action:failed']\ntitle = '{{.What'", `notify.channels.a: title: title:1: unclosed action`},
		{"a default that is no channel", "[notify]\ndefault = 'b'\n[notify.channels.a]\ntype = 'log'", `notify.default: "b" is not one of the channels: a`},
		{"a retention of zero", "[retention]\nactions_days = 0", "retention.actions_days: 0 is neither -1 (for ever) nor"},
		{"a retention of minus two", "[retention]\njournal_days = -2", "retention.journal_days: -2 is neither"},
		{"a history of minus a half", "[retention]\nhistory_days = -0.5", "retention.history_days: -0.5 is neither"},
		{"few entries", "[retention]\noccurrences_per_tenant = 999", "retention.occurrences_per_tenant: 999 is neither -1 (any number) nor at least 1000"},
		{"a tiny body", "[http]\nmax_body_bytes = 5", "http.max_body_bytes: 5 is not between 1024 and"},
		{"bodies below one", "[http]\nmax_body_bytes = 2097152\nmax_body_bytes_in_flight = 1048576", "http.max_body_bytes_in_flight: 1048576 is neither 0 nor between 2097152, which is max_body_bytes, and 1073741824"},
		{"webhooks below one", "[http]\nmax_webhook_bytes_in_flight = 10485760", "http.max_webhook_bytes_in_flight: 10485760 is neither 0 nor between 10489856"},
		{"no requests", "[http]\nmax_requests_per_token = 0", "http.max_requests_per_token: 0 is not between 1 and 65536"},
		{"no lists", "[http]\nmax_lists_per_token = 0", "http.max_lists_per_token: 0 is not between 1 and 1024"},
		{"many streams", "[http]\nmax_streams_per_token = 65", "http.max_streams_per_token: 65 is not between 1 and 64"},
		{"negative connections", "[http]\nmax_connections = -1", "http.max_connections: -1 is not between 0 and"},
		{"a huge webhook", "[http]\nmax_webhook_bytes = 999999999", "http.max_webhook_bytes: 999999999 is not between 1 and 16777216"},

		{"a tool without a type", "[tools.mine]\nconcurrency = 1", `tools.mine.type: "" is unknown: use "command", "http", "queue", "pipeline" or "kubernetes"`},
		{"a tool of no known type", "[tools.mine]\ntype = 'soap'", `tools.mine.type: "soap" is unknown`},
		{"a command with an http key", "[tools.command]\nretries = 1", `tools.command.retries: a tool of type "command" has no such key`},
		{"an http tool with a command key", "[tools.http]\nexecutables = ['date']", `tools.http.executables: a tool of type "http" has no such key`},
		{"a tool that may not run", "[tools.command]\nconcurrency = 0", "tools.command.concurrency: 0 is not between 1 and"},
		{"a relative base directory", "[tools.command]\nbase_dir = 'here'", `tools.command.base_dir: "here" is not an absolute path`},
		{"an endless output", "[tools.command]\nmax_output_bytes = 100000000000000", "tools.command.max_output_bytes: 100000000000000 is not between 0 and 67108864"},
		{"a built-in tool of another type", "[tools.command]\ntype = 'http'", `tools.command.type: "command" is always of type "command"`},
		{"the tool of jobs by another name", "[tools.pods]\ntype = 'kubernetes'", `tools.pods.type: "kubernetes": the only tool of that type is "kubernetes"`},
		{"a number where a list stands", "[tools.command]\nexecutables = 5", "want a TOML array"},
		{"text where a table stands", "engine = 'x'", "want a TOML table"},
		{"text where a number stands", "tick_rate_seconds = 'x'", ":1:21: tick_rate_seconds: got a TOML string, want a number"},
		{"a number where a truth stands", "strict_tick = 1", "want a TOML boolean"},
		{"a bad network", "[tools.http]\nallow = ['10.1.0.0/16', 'x']", `tools.http.allow[1]: "x" is not a network`},
		{"a tool's negative limit", "[tools.http]\ntime_limit_seconds = -1", "tools.http.time_limit_seconds: -1 is not"},

		{"a webhook without a tool", "[webhooks.a]\nsignature = 'none'", `webhooks.a.tool: missing: name one of "command", "http", "kubernetes", "pipeline", "queue"`},
		{"a webhook with an unknown tool", "[webhooks.a]\ntool = 'x'\nsignature = 'none'", `webhooks.a.tool: "x" is unknown`},
		{"a webhook whose tool is off", "[tools.http]\nenabled = false\n[webhooks.a]\ntool = 'http'\nsignature = 'none'", `webhooks.a.tool: "http" is disabled: set tools.http.enabled = true, or name another tool`},
		{"a webhook whose unknown tool cannot be one that is off", "[tools.http]\nenabled = false\n[webhooks.a]\ntool = 'x'\nsignature = 'none'", `webhooks.a.tool: "x" is unknown: use one of "command"`},
		{"a webhook that runs too often", "[webhooks.a]\ntool = 'command'\nsignature = 'none'\nmax_attempts = 2000000\ntool_input = { argv = ['cat'] }", "webhooks.a.max_attempts: 2000000 is not between 1 and 1000000"},
		{"a webhook that runs less than never", "[webhooks.a]\ntool = 'command'\nsignature = 'none'\nmax_attempts = -1\ntool_input = { argv = ['cat'] }", "webhooks.a.max_attempts: -1 is not between 1 and 1000000"},
		{"a webhook that never runs", "[webhooks.a]\ntool = 'command'\nsignature = 'none'\nmax_attempts = 0\ntool_input = { argv = ['cat'] }", "webhooks.a.max_attempts: 0 is not between"},
		{"a webhook's namespace of two lines", "[webhooks.a]\ntool = 'command'\nsignature = 'none'\nnamespace = \"a\\nb\"\ntool_input = { argv = ['cat'] }", `webhooks.a.namespace: "a\nb" has the control character`},
		{"a webhook's long tenant", "[webhooks.a]\ntool = 'command'\nsignature = 'none'\ntenant = '" + strings.Repeat("t", 265) + "'\ntool_input = { argv = ['cat'] }", "webhooks.a.tenant: 265 bytes is longer than 255"},
		{"a webhook's label that is a book", "[webhooks.a]\ntool = 'command'\nsignature = 'none'\nlabel = '" + strings.Repeat("t", 5000) + "'\ntool_input = { argv = ['cat'] }", "webhooks.a.label: 5000 bytes is longer than 4096"},
		{"a webhook with a bad input", "[webhooks.a]\ntool = 'command'\nsignature = 'none'\ntool_input = { argv = [] }", "webhooks.a.tool_input.argv: must have at least one element"},
		{"a webhook with a bad name", "[webhooks.'a/b']\ntool = 'command'", `webhooks: the route "a/b" is not 1 to 64 letters`},
		{"a webhook without a secret", "[webhooks.a]\ntool = 'command'\ntool_input = { argv = ['cat'] }", `webhooks.a: signature "standard" needs exactly one of secret`},
		{"a webhook with two secrets", "[webhooks.a]\ntool = 'command'\nsecret = 'a'\nsecret_env = 'b'\ntool_input = { argv = ['cat'] }", "there are 2"},
		{"a webhook with a useless secret", "[webhooks.a]\ntool = 'command'\nsecret = 'hush'\nsignature = 'none'\ntool_input = { argv = ['cat'] }", "has a secret that signature \"none\" never asks for"},
		{"a webhook with an unknown scheme", "[webhooks.a]\ntool = 'command'\nsecret = 'hush'\nsignature = 'md5'\ntool_input = { argv = ['cat'] }", `webhooks.a.signature: "md5" is unknown`},
		{"a standard secret that is not base64", "[webhooks.a]\ntool = 'command'\nsecret = '***'\ntool_input = { argv = ['cat'] }", `webhooks.a.secret: secret 1 is not base64`},
		{"a secret in no variable", "[webhooks.a]\ntool = 'command'\nsecret_env = 'ORRERY_TEST_UNSET'\ntool_input = { argv = ['cat'] }", `webhooks.a.secret_env: the environment variable "ORRERY_TEST_UNSET" is not set`},
		{"a webhook with an unknown policy", "[webhooks.a]\ntool = 'command'\nsignature = 'none'\non_interrupt = 'shrug'\ntool_input = { argv = ['cat'] }", `webhooks.a.on_interrupt: "shrug" is unknown: use "fail" or "retry"`},

		{"a token without a name", "[[tokens]]\n" + token, `tokens[0].name: "" is not`},
		{"a token with a reserved name", "[[tokens]]\nname = 'loopback'\n" + token, `tokens[0].name: "loopback" is reserved`},
		{"two tokens of one name", "[[tokens]]\nname = 'a'\n" + token + "\n[[tokens]]\nname = 'a'\ntoken = 'another-0123456789'", `tokens[1].name: "a" is there twice`},
		{"one token of two names", "[[tokens]]\nname = 'a'\n" + token + "\n[[tokens]]\nname = 'b'\n" + token, "tokens[1]: is the same token as tokens[0]"},
		{"a token that is nowhere", "[[tokens]]\nname = 'a'", "tokens[0]: give exactly one of token, token_sha256, token_env and token_file: there are 0"},
		{"a token in two places", "[[tokens]]\nname = 'a'\ntoken_env = 'X'\n" + token, "there are 2"},
		{"a short token", "[[tokens]]\nname = 'a'\ntoken = 'secret'", "tokens[0].token: has 6 bytes: want at least 16"},
		{"a token with a blank", "[[tokens]]\nname = 'a'\ntoken = '0123456789 abcdef'", "tokens[0].token: has white space"},
		{"a bad hash", "[[tokens]]\nname = 'a'\ntoken_sha256 = 'abc'", "tokens[0].token_sha256: want the 64 hex digits"},
		{"a token in no file", "[[tokens]]\nname = 'a'\ntoken_file = '/nowhere/token'", "tokens[0].token_file: open /nowhere/token"},
		{"a token for an unknown tool", "[[tokens]]\nname = 'a'\ntools = ['x']\n" + token, `tokens[0].tools: "x" is not a configured tool`},
		{"a token for a tool that is off", "[tools.http]\nenabled = false\n[[tokens]]\nname = 'a'\ntools = ['http']\n" + token, `tokens[0].tools: "http" is disabled`},
		{"a token for no namespace", "[[tokens]]\nname = 'a'\nnamespaces = []\n" + token, "tokens[0].namespaces: the list is empty: leave it out for all, or name some"},
		{"a token for no tenant", "[[tokens]]\nname = 'a'\ntenants = []\n" + token, "tokens[0].tenants: the list is empty: leave it out for all, or name some"},
		{"a token for no tool", "[[tokens]]\nname = 'a'\ntools = []\n" + token, "tokens[0].tools: the list is empty: leave it out for all, or name some"},
		{"the hash of nothing", "[[tokens]]\nname = 'a'\ntoken_sha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'", "tokens[0].token_sha256: is the hash of nothing"},
		{"a token for an unknown runner", "[[tokens]]\nname = 'a'\nrunners = ['x']\n" + token, `tokens[0].runners: "x" is not one of the runners: `},
		{"a token for a runner that is off", "[runners.local]\nenabled = false\n[[tokens]]\nname = 'a'\nrunners = ['local']\n" + token, `tokens[0].runners: "local" is not one of the runners: there is none: to have "local", write the lines "[runners.local]" and "enabled = true"`},
		{"a token for no runner", "[[tokens]]\nname = 'a'\nrunners = []\n" + token, "tokens[0].runners: the list is empty: leave it out for all, or name some"},
		{"an admin with a right", "[[tokens]]\nname = 'a'\nadmin = true\nsessions = true\n" + token, "tokens[0].sessions: an admin may do everything, and a read_only token changes nothing: leave sessions out"},
		{"a reader with a right", "[[tokens]]\nname = 'a'\nread_only = true\ngit = true\n" + token, "tokens[0].git: an admin may do everything, and a read_only token changes nothing: leave git out"},
		{"a bound admin", "[[tokens]]\nname = 'a'\nadmin = true\ntenants = ['t']\n" + token, "tokens[0]: an admin may do everything"},
		{"an admin that only reads", "[[tokens]]\nname = 'a'\nadmin = true\nread_only = true\n" + token, "tokens[0]: admin and read_only exclude each other"},
		{"metrics beside other rights", "[[tokens]]\nname = 'a'\nmetrics = true\nadmin = true\n" + token, "tokens[0]: metrics excludes admin: such a token reads /metrics and nothing else"},
		{"metrics beside a binding", "[[tokens]]\nname = 'a'\nmetrics = true\nread_only = true\ntenants = ['t']\n" + token, "tokens[0]: metrics excludes read_only, tenants: such"},
		{"a log of requests for no time", "[audit]\ndays = 0", "audit.days: 0 is neither -1 (for ever) nor more than 0"},
		{"a small log of requests", "[audit]\nmax_bytes = 1000", "audit.max_bytes: 1000 is not between 1048576 and 1099511627776"},
		{"an end without a zone", "[[tokens]]\nname = 'a'\nexpires = 2030-01-01T00:00:00\n" + token, "tokens[0].expires: 2030-01-01T00:00:00 has no time zone"},
		{"an end that is no time", "[[tokens]]\nname = 'a'\nexpires = 'soon'\n" + token, `tokens[0].expires: "soon" is not a time`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := load(t, row.toml, nil)
			require.ErrorContains(t, err, row.want)
			assert.NotContains(t, err.Error(), "toml: ", "the library's prefix tells users nothing")
			assert.NotRegexp(t, `main\.|config\.|interface|struct|\bmap\b|uint|int64|float64`, strings.ReplaceAll(err.Error(), t.Name(), ""), "Go's types tell users nothing")
			var wrong *Error
			require.ErrorAs(t, err, &wrong)

		})
	}
}

func TestAnErrorNeverShowsASecret(t *testing.T) {
	for _, toml := range []string{
		"[[tokens]]\nname = 'a'\ntoken = 'hush hush hush hush'",
		"[[tokens]]\nname = 'a'\ntoken = 'hush'",
		"[[tokens]]\nname = 'a'\ntoken_sha256 = 'hush'",
		"[webhooks.a]\ntool = 'command'\nsecret = 'hush!'\ntool_input = { argv = ['cat'] }",
		"[webhooks.a]\ntool = 'command'\nsecret = 'hush'\nsignature = 'none'\ntool_input = { argv = ['cat'] }",
	} {
		_, err := load(t, toml, nil)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "hush", toml)
	}
}

func TestWrongFlagsAndVariablesAreNamed(t *testing.T) {
	_, err := load(t, "", nil, "--tick-rate", "often")
	require.ErrorContains(t, err, `--tick-rate: "often" is not a number of seconds, such as 60 or 0.5`)
	_, err = load(t, "", map[string]string{"ORRERY_TICK_RATE": "often"})
	require.ErrorContains(t, err, `ORRERY_TICK_RATE: "often"`)
	_, err = load(t, "", nil, "--tick-rate", "0")
	require.ErrorContains(t, err, "--tick-rate: 0 is not between 0.001 and")
	_, err = load(t, "", map[string]string{"ORRERY_TICK_RATE": "0"})
	require.ErrorContains(t, err, "ORRERY_TICK_RATE: 0 is not between 0.001 and")
	_, err = load(t, "", map[string]string{"ORRERY_LOG_LEVEL": "loud"})
	require.ErrorContains(t, err, `ORRERY_LOG_LEVEL: "loud" is unknown`)
	_, err = load(t, "", nil, "--listen", "127.0.0.1:99999")
	require.ErrorContains(t, err, `--listen: "127.0.0.1:99999": the port`)
	_, err = load(t, "", map[string]string{"ORRERY_STRICT_TICK": "maybe"})
	require.ErrorContains(t, err, `ORRERY_STRICT_TICK: "maybe" is neither true nor false`)
	_, err = load(t, "", map[string]string{"ORRERY_CONFIG": "/nowhere/orrery.toml"})
	require.ErrorContains(t, err, "read the configuration: open /nowhere/orrery.toml")
}

func TestATokenIsKnownByItsHashWhereverItStands(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	t.Setenv("ORRERY_TEST_SECRET", secret)
	file := write(t, "token", secret+"\n")
	sum := httpapi.HashToken(secret)
	for name, line := range map[string]string{
		"in the file":     "token = '" + secret + "'",
		"as a hash":       "token_sha256 = '" + hexOf(sum[:]) + "'",
		"in the env":      "token_env = 'ORRERY_TEST_SECRET'",
		"in another file": "token_file = '" + file + "'",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, "[[tokens]]\nname = 'a'\nnamespaces = ['n']\nread_only = true\nexpires = 2030-01-01T02:00:00+02:00\n"+line, nil)
			require.NoError(t, err)
			tokens, err := c.APITokens()
			require.NoError(t, err)
			require.Len(t, tokens, 1)
			assert.Equal(t, sum, tokens[0].SHA256)
			assert.Equal(t, []string{"n"}, tokens[0].Namespaces)
			assert.True(t, tokens[0].ReadOnly)
			assert.True(t, tokens[0].Expires.Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
		})
	}
}

func TestATokenHasTheRightsThatItsLinesName(t *testing.T) {
	c, err := load(t, "[runners.local]\nenabled = true\n[runners.k]\ntype = 'kubernetes'\n"+
		"[[tokens]]\nname = 'a'\nsessions = true\ngit = true\nrunners = ['local']\ntoken = '0123456789-0123456789'\n"+
		"[[tokens]]\nname = 'b'\ntoken = '9876543210-0123456789'\n", nil)
	require.NoError(t, err)
	tokens, err := c.APITokens()
	require.NoError(t, err)
	assert.True(t, tokens[0].Sessions && tokens[0].Git)
	assert.Equal(t, []string{"local"}, tokens[0].Runners)
	assert.False(t, tokens[1].Sessions || tokens[1].Git)
	assert.Empty(t, tokens[1].Runners)
	assert.Equal(t, []string{"k"}, c.OpenRunners())
	for _, profile := range []string{"baseline", "privileged"} {
		c, err := load(t, "[runners.k]\ntype = 'kubernetes'\nprofile = '"+profile+"'\n[[tokens]]\nname = 'b'\nrunners = ['k']\ntoken = '9876543210-0123456789'\n", nil)
		require.NoError(t, err)
		assert.Empty(t, c.OpenRunners(), "a pod of the profile %s may have more than a tenant's should", profile)
	}
}

func TestARunnerThatIsSomebodysIsNotOpenToEveryToken(t *testing.T) {
	const cluster = "[runners.k]\ntype = 'kubernetes'\n"
	const token = "[[tokens]]\nname = 'b'\ntenants = ['b']\ntoken = '9876543210-0123456789'\n"
	for text, open := range map[string][]string{
		cluster + token:                                        {"k"},
		cluster + token + "runners = ['k']\n":                  nil,
		cluster + "secrets = ['database']\n" + token:           nil,
		cluster + "service_accounts = ['builder']\n" + token:   nil,
		cluster + "config_maps = ['settings']\n" + token:       nil,
		cluster + "persistent_volume_claims = ['d']\n" + token: nil,
		cluster + "tolerations = ['dedicated']\n" + token:      nil,
	} {
		c, err := load(t, text, nil)
		require.NoError(t, err, text)
		assert.ElementsMatch(t, open, c.OpenRunners(), text)
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

func TestAWebhookTakesEverySecretOfItsFileSoThatTheyCanBeRotated(t *testing.T) {
	file := write(t, "secrets", "first secret\n\nsecond secret\n")
	c, err := load(t, "[webhooks.a]\ntool = 'command'\nsignature = 'github'\nsecret_file = '"+file+"'\ntool_input = { argv = ['cat'] }", nil)
	require.NoError(t, err)
	auth, err := c.WebhookAuth()
	require.NoError(t, err)
	assert.Equal(t, httpapi.WebhookAuth{Scheme: "github", Secrets: []string{"first secret", "second secret"}}, auth["a"])
	routes, err := c.WebhookRoutes()
	require.NoError(t, err)
	assert.JSONEq(t, `{"argv":["cat"]}`, string(routes["a"].ToolInput))
	assert.Equal(t, "default", routes["a"].Namespace)
	assert.Equal(t, "default", routes["a"].Tenant)
}

func TestASecretThatThePublishedDocumentsShowIsRefusedWhereverItStands(t *testing.T) {
	const known = "is an example of the documents, which everybody knows: make one of your own"
	t.Setenv("ORRERY_TEST_PUBLISHED", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	t.Setenv("ORRERY_TEST_TOKEN", "example-token-of-an-admin")
	rotated := write(t, "secrets", "b25lIHNlY3JldCBvZiB0aGUgdGVzdHM=\nMfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	const hook = "[webhooks.a]\ntool = 'http'\ntool_input = { url = 'https://example.com' }\n"
	for text, field := range map[string]string{
		hook + "secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'":                                                  "webhooks.a.secret: secret 1: ",
		hook + "secret = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'":                                                        "webhooks.a.secret: secret 1: ",
		hook + "secret_env = 'ORRERY_TEST_PUBLISHED'":                                                               "webhooks.a.secret_env: secret 1: ",
		hook + "secret_file = '" + rotated + "'":                                                                    "webhooks.a.secret_file: secret 2: ",
		hook + "signature = 'github'\nsecret = \"It's a Secret to Everybody\"":                                      "webhooks.a.secret: secret 1: ",
		"[jobs.secrets.a]\nsecret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'":                                       "jobs.secrets.a.secret: ",
		"[[tokens]]\nname = 'a'\ntoken = 'example-token-of-an-admin'":                                               "tokens[0].token: ",
		"[[tokens]]\nname = 'a'\ntoken = '6a1f0c52e1d94fb0'":                                                        "tokens[0].token: ",
		"[[tokens]]\nname = 'a'\ntoken_env = 'ORRERY_TEST_TOKEN'":                                                   "tokens[0].token_env: ",
		"[[tokens]]\nname = 'a'\ntoken_sha256 = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'": "tokens[0].token_sha256: ",
	} {
		_, err := load(t, text, nil)
		require.ErrorContains(t, err, field+known, text)
	}
}

func TestShownSettingsHoldNoSecret(t *testing.T) {
	t.Setenv("SMTP_PASSWORD", "hush-hush")
	t.Setenv("SLACK_URL", "https://hooks.slack.com/hush")
	c, err := load(t, `
[tools.command]
concurrency = 2
[webhooks.a]
tool = 'http'
secret = 'aHVzaA=='
tool_input = { method = 'POST', url = 'https://example.com', headers = { Authorization = 'Bearer hush', Accept = 'text/plain' }, body = { list = [ { api_key = 'hush' } ] } }
[notify.channels.ops]
type = 'webhook'
url = 'https://example.com/hush'
headers = { Authorization = 'Bearer hush' }
[notify.channels.mail]
type = 'command'
command = ['mail', 'ops@example.com']
env = { MAIL_PASSWORD = 'hush' }
[notify.channels.smtp]
type = 'mail'
host = 'mail.example.com'
tls = 'starttls'
username = 'orrery'
password_env = 'SMTP_PASSWORD'
from = 'orrery@example.com'
to = ['ops@example.com']
events = ['action:failed']
[notify.channels.slack]
type = 'slack'
url_env = 'SLACK_URL'
[[tokens]]
name = 'a'
token = 'hush-hush-hush-hush'
`, nil)
	require.NoError(t, err)
	path := write(t, "shown.toml", "")
	r := runConfigShow(t, c)
	require.NoError(t, os.WriteFile(path, []byte(r), 0o600))
	assert.NotContains(t, r, "hush")
	assert.NotContains(t, r, "aHVzaA")
	assert.Contains(t, r, "text/plain")
	assert.Contains(t, r, "concurrency = 2")
	assert.Contains(t, r, redactedText)
	assert.Contains(t, c.Webhooks["a"].Secret, "aHVzaA", "the settings themselves are as they were")
	assert.Equal(t, "Bearer hush", c.Webhooks["a"].ToolInput["headers"].(map[string]any)["Authorization"])
}

func TestAnEmptyListIsShownAsTheEmptyListThatItIs(t *testing.T) {
	const empty = "executables = []"
	c, err := load(t, "[tools.command]\n"+empty+"\n", nil)
	require.NoError(t, err)
	assert.Contains(t, runConfigShow(t, c), empty, "left out it would mean all")
}

func TestWhatIsNotSetIsLeftOutOfWhatIsShown(t *testing.T) {
	c, err := load(t, "[runners.local]\nenabled = true\n[runners.k]\ntype = 'kubernetes'\n", nil)
	require.NoError(t, err)
	shown := c.Shown()
	assert.NotContains(t, shown, "nil")
	var again map[string]any
	assert.NoError(t, toml.Unmarshal([]byte(shown), &again), "it can be read as a file of settings")
}

func TestWhatIsUnderAToolsInputIsItsOwnAffair(t *testing.T) {
	c, err := load(t, "[webhooks.a]\ntool = 'http'\nsignature = 'none'\n[webhooks.a.tool_input]\nmethod = 'POST'\nurl = 'https://example.com'\nheaders.Accept = 'text/plain'\n[webhooks.a.tool_input.body]\nDB = 1\n[[webhooks.a.tool_input.body.list]]\nMotor = true\n", nil)
	require.NoError(t, err)
	assert.Contains(t, c.Webhooks["a"].ToolInput["body"], "DB")
}

func TestTheExampleFileNamesEverySettingAndItsDefault(t *testing.T) {
	b, err := os.ReadFile("../../orrery.toml")
	require.NoError(t, err)
	c, err := load(t, string(b), nil)
	require.NoError(t, err)
	plain, err := load(t, "", nil)
	require.NoError(t, err)
	assert.Equal(t, plain, c, "what is not commented out is the default")

	// With every comment that is a setting taken away, the file is still right.
	t.Setenv("DEPLOYS_SECRET", "aHVzaA==")
	t.Setenv("ONCALL_KEY", "aHVzaA==")
	t.Setenv("FEEDS_KEY", "aHVzaA==")
	t.Setenv("API_KEY", "hush-hush")
	t.Setenv("SMTP_PASSWORD", "hush-hush")
	t.Setenv("SLACK_URL", "https://hooks.slack.com/services/hush")
	t.Setenv("ORRERY_OPS_TOKEN", "0123456789abcdef")
	t.Setenv("ORRERY_BUILDS_TOKEN", "0123456789fedcba")
	t.Setenv("ORRERY_METRICS_TOKEN", "fedcba9876543210")
	all := regexp.MustCompile(`(?m)^# (\[.*\]|[a-z_0-9]+ = .*)$`).ReplaceAllString(string(b), "$1")
	all = strings.ReplaceAll(all, "…", hexOf(bytes.Repeat([]byte{7}, sha256.Size)))
	_, err = load(t, all, nil)
	require.NoError(t, err)
	var keys func(reflect.Type)
	keys = func(typ reflect.Type) {
		for f := range typ.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
			assert.Regexp(t, `(?m)\b`+key+`\b`, string(b), "%s.%s", typ.Name(), f.Name)
			elem := f.Type
			for elem.Kind() == reflect.Map || elem.Kind() == reflect.Slice || elem.Kind() == reflect.Pointer {
				elem = elem.Elem()
			}
			if elem.Kind() == reflect.Struct {
				keys(elem)
			}
		}
	}
	keys(reflect.TypeFor[Config]())
}

func TestAnyFileIsTakenOrRefusedWithoutAPanic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := defaultConfig()
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`(\[(engine|tools\.x|tokens)\]\n)?[a-z_]{1,12} = ("[a-z]*"|-?[0-9]{1,20}|true|\[\]|1e400|nan)\n?`)).Draw(rt, "toml")
		path := t.TempDir() + "/f.toml"
		require.NoError(rt, os.WriteFile(path, []byte(text), 0o600))
		if c.readFile(path) == nil {
			c.addDefaultTools()
			_ = c.validate()
		}
	})
}

func runConfigShow(t *testing.T, c Config) string {
	t.Helper()
	b, err := toml.Marshal(c.Redacted())
	require.NoError(t, err)
	return string(b)
}

// write writes a file, and gives its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Whatever stands in a file: it is taken, or refused with an error that shows no type
// of Go, at a bounded cost.
func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile("../../orrery.toml")
	require.NoError(f, err)
	f.Add(string(example))
	for part := range strings.SplitSeq(string(example), "\n\n") {
		f.Add(part)
	}
	f.Add("[tools.http]\nallow = ['10.0.0.0/8']\n[[tokens]]\nname = 'a'\ntenants = ['t']\ntoken = '0123456789abcdef'\n")
	f.Add("[webhooks.a]\ntool = 'command'\nsignature = 'none'\ntool_input = { argv = [[[[[1]]]]] }")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "_file") || strings.Contains(text, "_command") || strings.Contains(text, "kubeconfig") {
			return // a path of the operator's choice may be /dev/zero
		}
		defer boundtest.Within(t, len(text))()
		c, err := load(t, text, nil)
		if err != nil {
			require.NotRegexp(t, `\bmain\.|\bconfig\.[A-Z]|interface \{|map\[string\]|float64`, err.Error(), "Go's types tell users nothing")
			return
		}
		_, err = c.APITokens()
		require.NoError(t, err, "what is taken can be used")
	})
}

func TestAToolIsGivenUpOnlyAfterTheTimeInWhichItsProgramsMayEnd(t *testing.T) {
	grace, off := 60.0, false
	c := defaultConfig()
	c.Tools = map[string]toolConfig{"command": {Type: TypeCommand}}
	assert.Equal(t, 15*time.Second, c.AbandonAfter())
	c.Tools["slow"] = toolConfig{Type: TypeCommand, KillGraceSeconds: &grace}
	assert.Equal(t, 70*time.Second, c.AbandonAfter())
	c.Tools["slow"] = toolConfig{Type: TypeCommand, KillGraceSeconds: &grace, Enabled: &off}
	assert.Equal(t, 15*time.Second, c.AbandonAfter())
}
