package config

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/examples/orreryd/internal/workspace"
	"github.com/orrery-go/orrery/shell"
)

func TestASetOfFilesThatIsNoFolderIsWarnedOf(t *testing.T) {
	there := t.TempDir()
	for dir, want := range map[string][]string{
		"": nil, there: nil, there + "/none": {"apply.dir: " + there + "/none is no folder: nothing will be applied"},
	} {
		c, err := load(t, "[apply]\ndir = '"+dir+"'\n", nil)
		require.NoError(t, err)
		assert.Equal(t, want, c.Warnings())
	}
}

func TestWhatRunsAnyProgramIsWarnedOf(t *testing.T) {
	const (
		local   = "[runners.local]\nenabled = true\n"
		admin   = "[[tokens]]\nname = 'adm'\nadmin = true\ntoken = '0123456789-0123456789'\n"
		tenant  = "[[tokens]]\nname = 'shop'\ntenants = ['acme']\ntoken = '9876543210-0123456789'\n"
		ofTools = "[[tokens]]\nname = 'shop'\ntools = ['http']\ntoken = '9876543210-0123456789'\n"
		reader  = "[[tokens]]\nname = 'shop'\nread_only = true\ntoken = '9876543210-0123456789'\n"
		date    = "[tools.command]\nexecutables = ['date']\n"
	)
	for text, want := range map[string][]string{
		"":      nil,
		local:   nil,
		admin:   nil,
		reader:  nil,
		ofTools: nil,
		date:    nil,
		tenant:  {`tools.command: runs any program as the daemon's user for the tokens shop: set executables, or leave the tool out of their tools`},
		"[tools.command]\nexecutables = ['date', '/usr/bin/env', 'python3.12', 'report', 'bash']\n": {
			`tools.command.executables[1]: "/usr/bin/env" runs any program that its arguments name: the list restricts nothing`,
			`tools.command.executables[2]: "python3.12" runs any program that its arguments name: the list restricts nothing`,
			`tools.command.executables[4]: "bash" runs any program that its arguments name: the list restricts nothing`,
		},
		"[tools.other]\ntype = 'command'\n" + date + tenant: {`tools.other: runs any program as the daemon's user for the tokens shop: set executables, or leave the tool out of their tools`},
		"[tools.command]\nenabled = false\n" + tenant:       nil,
		local + date: {`runners.local: runs any program as the daemon's user for whoever may use it: set executables, or take it away with enabled = false`},
		"[runners.local]\nexecutables = ['date', 'xargs']\n" + date: {`runners.local.executables[1]: "xargs" runs any program that its arguments name: the list restricts nothing`},
		"workspace = 'w'\n" + date + tenant + "sessions = true\n":   {`tokens[0].sessions: a terminal session runs any program as the daemon's user, whatever executables say: "shop" may have one`},
		"workspace = 'w'\n[sessions]\nrun_as = 'root'\n" + date + tenant + "sessions = true\n": {
			`tokens[0].sessions: a terminal session runs any program as the user root, whose files all sessions share, whatever executables say: "shop" may have one`,
		},
		local + "run_as = 'root'\n" + date:            {`runners.local: runs any program as the user root for whoever may use it: set executables, or take it away with enabled = false`},
		"[tools.command]\nrun_as = 'root'\n" + tenant: {`tools.command: runs any program as the user root for the tokens shop: set executables, or leave the tool out of their tools`},
	} {
		c, err := load(t, text, nil)
		require.NoError(t, err, text)
		assert.Equal(t, want, c.Warnings(), text)
	}
}

func TestActionsReachPrivateAddressesOnlyWhereNoTenantMayMakeThem(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	const (
		admin  = "[[tokens]]\nname = 'adm'\nadmin = true\ntoken = '0123456789-0123456789'\n"
		shop   = "[[tokens]]\nname = 'shop'\nnamespaces = ['shop']\ntenants = ['acme']\ntools = ['http']\ntoken = '9876543210-0123456789'\n"
		anyone = "[[tokens]]\nname = 'ci'\ntoken = '9876543210-9876543210'\n"
		reader = anyone + "read_only = true\n"
	)
	for _, row := range []struct {
		text              string
		operator, tenants bool // may reach it
	}{
		{"", true, true},
		{admin, true, true},
		{admin + reader, true, true},
		{admin + shop, true, false},
		{admin + shop + anyone, false, false},
		{"[tools.http]\ndeny_private = false\n" + shop + anyone, true, true},
		{"[tools.http]\ndeny_private = true\n" + admin, false, false},
		{"[tools.http]\nallow = ['127.0.0.0/8']\n" + shop, true, true},
	} {
		c, err := load(t, row.text, nil)
		require.NoError(t, err, row.text)
		tools, _, err := c.MakeTools()
		require.NoError(t, err)
		for scope, may := range map[[2]string]bool{{"default", "default"}: row.operator, {"shop", "acme"}: row.tenants} {
			_, err := tools["http"].Run(t.Context(), shell.Call{Namespace: scope[0], Tenant: scope[1], Input: []byte(`{"url":"` + server.URL + `"}`)})
			assert.Equal(t, may, err == nil, "%s: %v: %v", row.text, scope, err)
		}
		for _, tool := range tools {
			require.NoError(t, CloseTool(tool))
		}
	}
}

func TestTheBoundsOfACommandAreCheckedBeforeTheDaemonStarts(t *testing.T) {
	for text, wrong := range map[string]string{
		"[tools.command]\nrun_as = 'nobody-here'":                      `tools.command.run_as: there is no user "nobody-here" here`,
		"[tools.command]\nrun_as = '4242'":                             `tools.command.run_as: user "4242" is not known here: name its group, too: "4242:GROUP"`,
		"[tools.command]\nmemory_max_bytes = 1000000000":               `tools.command: memory_max_bytes, pids_max and cpu_max need a control group: set cgroup.root`,
		"[cgroup]\nroot = 'runs'":                                      `cgroup.root: "runs" is not an absolute path`,
		"[cgroup]\nroot = '/x'\n[tools.command]\nmemory_max_bytes = 1": `tools.command.memory_max_bytes: 1 is not between 1048576 and`,
		"[cgroup]\nroot = '/x'\n[tools.command]\npids_max = 0":         `tools.command.pids_max: 0 is not between 1 and`,
		"[cgroup]\nroot = '/x'\n[tools.command]\ncpu_max = nan":        `tools.command.cpu_max: NaN is not between 0.01 and 4096 CPUs`,
		"[sessions]\nrun_as = 'nobody-here'":                           `sessions.run_as: there is no user "nobody-here" here`,
		"[tools.http]\nrun_as = 'nobody'":                              `tools.http.run_as: a tool of type "http" has no such key`,
	} {
		_, err := load(t, text, nil)
		require.ErrorContains(t, err, wrong, text)
	}
	c, err := load(t, "[cgroup]\nroot = '"+t.TempDir()+"'\n[tools.command]\npids_max = 8\n", nil)
	require.NoError(t, err, "whether the directory is good can be told only where the daemon runs")
	_, _, err = c.MakeTools()
	var asSettings *Error
	require.ErrorAs(t, err, &asSettings)
	require.ErrorContains(t, err, "cgroup.root: ")
	c, err = load(t, "[tools.command]\nrun_as = '4242:4343'\n", nil)
	require.NoError(t, err)
	_, _, err = c.MakeTools()
	assert.Equal(t, os.Geteuid() == 0, err == nil, "only root can: %v", err)
}

func TestARunbookFileIsReadInTheFolderOfTheTenantAlone(t *testing.T) {
	const book = "name = 'b'\n[[pipeline]]\nname = 'p'\n[[pipeline.phase]]\nname = 'x'\nrun = { tool = 'command' }\n"
	dir := t.TempDir()
	roots, err := workspace.New(dir, false, nil)
	require.NoError(t, err)
	acme, err := roots.Of("shop", "acme")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(acme, "book.toml"), []byte(book), 0o600))
	bolt, err := roots.Of("shop", "bolt")
	require.NoError(t, err)
	require.NoError(t, os.Symlink("../acme/book.toml", filepath.Join(bolt, "link.toml")))
	load := func(tenant, file string) error {
		_, _, err := runbooksIn(roots)(t.Context(), shell.Scope{Namespace: "shop", Tenant: tenant}, file, "")
		return err
	}
	if err := load("acme", "book.toml"); err != nil {
		require.NotContains(t, err.Error(), "tool_input.file", "it was read")
	}
	for _, file := range []string{"book.toml", "../acme/book.toml", "link.toml", filepath.Join(acme, "book.toml")} {
		require.ErrorContains(t, load("bolt", file), "tool_input.file: ", file)
	}
}

func TestVariablesThatHeldASecretAreInheritedByNothingOnceTheyAreRead(t *testing.T) {
	t.Setenv("ORRERY_TEST_TOKEN", "hush-hush-hush-hush")
	t.Setenv("ORRERY_TEST_HOOK", "aHVzaGh1c2g=")
	t.Setenv("ORRERY_TOKEN", "hush-hush-hush-hush")
	t.Setenv("ORRERY_TEST_OTHER", "kept")
	c, err := load(t, "[tools.command]\ninherit_env = ['PATH', 'ORRERY_T*']\n"+
		"[[tokens]]\nname = 'a'\ntoken_env = 'ORRERY_TEST_TOKEN'\n"+
		"[webhooks.a]\ntool = 'command'\nsecret_env = 'ORRERY_TEST_HOOK'\ntool_input = { argv = ['cat'] }\n", nil)
	require.NoError(t, err)
	tools, _, err := c.MakeTools()
	require.NoError(t, err)
	printed := func() string {
		out, err := tools["command"].Run(t.Context(), shell.Call{Input: []byte(`{"argv":["env"]}`)})
		require.NoError(t, err)
		return string(out)
	}
	assert.Contains(t, printed(), "hush-hush", "before: the test would hold nothing otherwise")

	require.NoError(t, ForgetSecretEnv())
	out := printed()
	assert.NotContains(t, out, "hush-hush")
	assert.NotContains(t, out, "aHVzaGh1c2g=")
	assert.Contains(t, out, "ORRERY_TEST_OTHER=kept")
	_, set := os.LookupEnv("ORRERY_TEST_TOKEN")
	assert.False(t, set)
	tokens, err := c.APITokens()
	require.NoError(t, err, "what was read is still known")
	assert.Len(t, tokens, 1)
	auth, err := c.WebhookAuth()
	require.NoError(t, err)
	assert.Equal(t, []string{"aHVzaGh1c2g="}, auth["a"].Secrets)
}
