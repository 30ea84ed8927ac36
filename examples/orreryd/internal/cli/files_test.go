package cli

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAURLIsRefusedWhereACommandWantsAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	url := "postgres://orrery:hush-hush-8@127.0.0.1:1/orrery"
	for _, test := range []struct {
		env, args []string
		says      string
	}{
		{nil, []string{"orchestrate", "--db", url}, "--db: is a URL, and no file: give it as --database"},
		{[]string{"ORRERY_DB=" + url}, []string{"orchestrate"}, "ORRERY_DB: is a URL, and no file: give it as --database (ORRERY_DATABASE, or database in the configuration)"},
		{[]string{"ORRERY_DB=" + url}, []string{"config", "show"}, "ORRERY_DB: is a URL, and no file: give it as --database"},
		{nil, []string{"check", "--db", url}, "--db: is a URL, and no file: give it as --database"},
		{[]string{"ORRERY_DB=" + url}, []string{"check"}, "ORRERY_DB: is a URL, and no file: give it as ORRERY_DATABASE, or --database"},
		{nil, []string{"compact", "--db", url}, "--db: is a URL, and no file: this command works on files"},
		{[]string{"ORRERY_DB=" + url}, []string{"compact"}, "--db: is a URL, and no file: this command works on files"},
		{nil, []string{"backup", "--db", url, "--to", "x.db"}, "--db: is a URL, and no file: this command works on files"},
		{nil, []string{"backup", "--to", url}, "--to: is a URL, and no file: orreryd copy copies a stopped database to PostgreSQL"},
		{nil, []string{"audit", "--db", url}, "--db: is a URL, and no file: this command works on files"},
		{nil, []string{"restore", url, "x.db"}, "FROM: is a URL, and no file: this command works on files"},
		{nil, []string{"restore", "x.db", url}, "TO: is a URL, and no file: this command works on files"},
		{nil, []string{"salvage", url, "x.db"}, "FROM: is a URL, and no file: this command works on files"},
		{nil, []string{"salvage", "x.db", "y.db", "--backup", url}, "--backup: is a URL, and no file: this command works on files"},
	} {
		r := cli(t, test.env, "", test.args...)
		assert.Equal(t, exitUsage, r.code, "%v", test.args)
		assert.Contains(t, r.err, test.says)
		assert.NotContains(t, r.err, "hush-hush-8")
	}
	made, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, made, "no file and no folder")
}

func TestACopyToAFileThatIsThereAlreadyNamesItsFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("old.db", []byte("mine"), 0o600))
	r := cli(t, nil, "", "copy", "--from", "postgres://orrery@127.0.0.1:1/orrery", "--to", "old.db")
	assert.Equal(t, exitFailed, r.code)
	assert.Equal(t, "orreryd: --to: old.db is there already: it is not overwritten: choose another name\n", r.err)
	c := copying{to: "old.db"} // it has come meanwhile
	require.EqualError(t, c.existsHint(fmt.Errorf("make old.db: %w", os.ErrExist)), "--to: old.db is there already: it is not overwritten: choose another name")
}
