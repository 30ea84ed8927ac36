//go:build unix

package cli

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

func TestADaemonThatCannotUseItsDatabaseNamesTheSettingAndNeverThePassword(t *testing.T) {
	t.Parallel()
	const password = "hush-hush-8"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	refuses := c.LocalAddr().String() // nobody listens there, nor can: a connection has the port
	url := "postgres://orrery:" + password + "@" + refuses + "/work"
	shown := "postgres://orrery@" + refuses + "/work"
	tables := postgrestest.Database(t)
	r := cli(t, nil, "", "cluster", "init", "--database", tables, "--partitions", "1")
	require.Zero(t, r.code, r.err)
	execSQL(t, tables, `UPDATE orrery.meta SET format = 99, least = 99`)
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"a flag", []string{"ORRERY_DATABASE=" + tables}, []string{"--database", url}, []string{"orreryd: --database: " + shown + ": connect to the database: ", "connection refused"}},
		{"the environment", []string{"ORRERY_DATABASE=" + url}, nil, []string{"orreryd: ORRERY_DATABASE: " + shown + ": connect to the database: ", "connection refused"}},
		{"a file", nil, []string{"--config", write(t, "orrery.toml", "database = '"+url+"'\n")}, []string{"orreryd: database: " + shown + ": connect to the database: ", "connection refused"}},
		{"what no connection can be made of", nil, []string{"--database", url + "?sslmode=never&passwd=" + password}, []string{"orreryd: --database: " + shown + ": connect to the database: the database's URL: failed to configure TLS (sslmode is invalid)"}},
		{"tables of a newer version", nil, []string{"--database", withPassword(t, tables)}, []string{"orreryd: --database: postgres://orrery@", "the tables were made by a newer Orrery"}},
	} {
		p := begin(t, c.env, append([]string{"orchestrate", "--listen", "127.0.0.1:0"}, c.args...)...)
		assert.Equal(t, exitFailed, p.code(), c.name)
		for _, want := range c.want {
			assert.Contains(t, p.stderr.String(), want, c.name)
		}
		assert.NotContains(t, p.stderr.String(), password, c.name)
	}
}
