package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
)

func TestAKubeconfigThatCannotBeUsedIsAnErrorOfTheConfigurationThatSaysWhatThereIs(t *testing.T) {
	const clusters = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: x}}]\n" +
		"contexts: [{name: staging, context: {cluster: c, user: u}}, {name: dev, context: {cluster: c, user: u}}, {name: broken, context: {cluster: gone, user: u}}]\n"
	good, old, text, yaml := write(t, "good", clusters+"current-context: staging\n"), write(t, "old", clusters+"current-context: old\n"), write(t, "text", "hello\n"), write(t, "yaml", ": : [\n")
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", none)
	for _, row := range []struct{ keys, want string }{
		{"kubeconfig = '" + good + "'\ncontext = 'prod'", `context: "prod" is not in ` + good + ": it has broken, dev, staging"},
		{"kubeconfig = '" + good + "'\ncontext = 'broken'", `context: "broken" is of the cluster "gone", which is not in ` + good},
		{"kubeconfig = '" + old + "'", `context: "old", the current one, is not in ` + old + ": it has broken, dev, staging"},
		{"kubeconfig = '" + none + "'", "kubeconfig: stat " + none + ": no such file or directory"},
		{"kubeconfig = '" + text + "'", "kubeconfig: " + text + " is no kubeconfig: it has no apiVersion and kind"},
		{"kubeconfig = '" + yaml + "'", `kubeconfig: error loading config file "` + yaml + `"`},
		{"context = 'prod'", "kubeconfig: no file at " + none + ", and this process has no service account of a cluster: name a file"},
		{"kubeconfig = '" + good + "'\nnamespace = 'A_b'", `namespace: "A_b" is no name of a namespace`},
		{"kubeconfig = '" + good + "'\ninstance = 'A b'", `instance: "A b" is no value of a label`},
	} {
		db := filepath.Join(t.TempDir(), "orrery.db")
		file := write(t, "orrery.toml", "listen = '127.0.0.1:0'\ndb = '"+db+"'\n[runners.k]\ntype = 'kubernetes'\n"+row.keys+"\n")
		c, err := config.Load(pflag.NewFlagSet("orchestrate", pflag.ContinueOnError), func(name string) string { return map[string]string{"ORRERY_CONFIG": file}[name] })
		if err == nil {
			_, err = openDaemon(t.Context(), c, "orreryd", slog.New(slog.DiscardHandler), nil)
		}
		var wrong *config.Error
		if assert.ErrorAs(t, err, &wrong, row.keys) {
			assert.Contains(t, err.Error(), "runners.k."+row.want)
			assert.NoFileExists(t, db, "nothing is left behind")
		}
	}
}

// write writes a file, and gives its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
