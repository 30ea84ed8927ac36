package cli

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unpack gives a copy of a database that an earlier commit wrote.
func unpack(t *testing.T, name string) string {
	t.Helper()
	in, err := os.Open(filepath.Join("../../../../shell/replay/testdata/written-by-fdef5e5", name+".db.gz"))
	require.NoError(t, err)
	defer in.Close()
	r, err := gzip.NewReader(in)
	require.NoError(t, err)
	path := database(t)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = io.Copy(out, r)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return path
}

// What commit cf17c1d took, a daemon of today takes too: the configuration, and the
// database, whose format and core are those of fdef5e5.
func TestAConfigurationAndADatabaseOfAnEarlierVersionStart(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"example", "tenants"} {
		for _, db := range []string{"actions", "queues", "runbooks", "jobs"} {
			t.Run(config+" with "+db, func(t *testing.T) {
				t.Parallel()
				file, err := filepath.Abs(filepath.Join("testdata/of-cf17c1d", config+".toml"))
				require.NoError(t, err)
				check := cli(t, nil, "", "config", "check", file)
				require.Zero(t, check.code, check.err)
				path := unpack(t, db)
				p := begin(t, nil, "orchestrate", "--config", file, "--db", path, "--listen", "127.0.0.1:0")
				p.awaitReady()
				token := []string(nil)
				if config == "tenants" {
					token = []string{"--token", "6a1f0c52e1d94fb0aa55"}
				}
				for _, list := range []string{"actions list", "queue list", "pipeline list", "job list", "recurring list --namespace crash --tenant crash"} {
					p.ok(append(strings.Fields(list), token...)...)
				}
				p.signal(os.Interrupt)
				require.Zero(t, p.code(), p.stderr.String())
				verify := cli(t, nil, "", "replay", "--verify", "--db", path)
				require.Zero(t, verify.code, verify.out+verify.err)
				assert.Contains(t, verify.out, "0 divergences")
				require.Zero(t, cli(t, nil, "", "check", "--db", path).code)
			})
		}
	}
}
