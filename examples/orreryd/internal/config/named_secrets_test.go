package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/secrets"
)

func TestASecretOfToolsThatCannotBeRightIsNamed(t *testing.T) {
	t.Setenv("SHORT_KEY", "abc")
	for text, want := range map[string]string{
		"[secrets.a]": "secrets.a: exactly one of secret_env, secret_file and secret_command is needed: there are 0",
		"[secrets.a]\nsecret_env = 'X'\nsecret_command = ['x']":   "there are 2",
		"[secrets.a]\nsecret_env = 'NOT_SET_ANYWHERE'":            `secrets.a.secret_env: the environment variable "NOT_SET_ANYWHERE" is not set`,
		"[secrets.a]\nsecret_env = 'SHORT_KEY'":                   "secrets.a.secret_env: it has 3 bytes: want 4 to 65536",
		"[secrets.a]\nsecret_file = '/nonexistent/x'":             "secrets.a.secret_file: ",
		"[secrets.a]\nsecret_command = []":                        "secrets.a.secret_command: name a program",
		"[secrets.a]\nsecret_command = ['true']\ntenants = []":    "secrets.a.tenants: must not be empty: leave it out to allow all",
		"[secrets.a]\nsecret_command = ['true']\ntools = ['htp']": `secrets.a.tools[0]: "htp" is unknown: use one of `,
		"[secrets.'a b']\nsecret_command = ['true']":              `secrets: the name "a b" is not`,
		"[secrets.b]\nsecret_command = ['true']\n[webhooks.w]\ntool = 'http'\nsignature = 'none'\ntool_input = {url = '{{secret a}}'}": `webhooks.w.tool_input: secret "a" is not in [secrets.a]`,
	} {
		_, err := load(t, text, nil)
		require.ErrorContains(t, err, want, text)
	}
}

func TestASecretOfToolsIsReadFromWhereItStands(t *testing.T) {
	t.Setenv("API_KEY", " hush-hush\n")
	c, err := load(t, "[secrets.env]\nsecret_env = 'API_KEY'\ntenants = ['a']\n[secrets.program]\nsecret_command = ['echo', 'from-program']\n"+
		"[webhooks.w]\ntool = 'http'\nsignature = 'none'\ntool_input = {url = '{{secret program}}'}", nil)
	require.NoError(t, err)
	source, err := c.NamedSecrets()
	require.NoError(t, err)
	for name, want := range map[string]string{"env": "hush-hush", "program": "from-program"} {
		got, err := source.Value(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	assert.True(t, source.Allows("env", secrets.Use{Tenant: "a"}))
	assert.False(t, source.Allows("env", secrets.Use{Tenant: "b"}))
}

func TestWithoutSecretsTheirTextHasNoMeaning(t *testing.T) {
	for _, text := range []string{`{{secret "a"}}`, "{{secret", "{{secretKeyRef}}"} {
		c, err := load(t, "[webhooks.w]\ntool = 'command'\nsignature = 'none'\ntool_input = {argv = ['echo', '"+text+"']}", nil)
		require.NoError(t, err)
		source, err := c.NamedSecrets()
		require.NoError(t, err)
		assert.Nil(t, source, "so that the engine looks for none")
	}
}
