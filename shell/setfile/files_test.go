package setfile_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/setfile"
)

func TestWhatIsRefusedIsExplainedWithTheLinesAndWordsOfItsFiles(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.toml": "[recurring.nightly]\ncron    = \"0 3 * * *\"\ntz      = \"UTC\"\ncommand = [\"echo\"]\n\n[recurring.nightly.alerts]\nlate = \"10m\"\n\n[queues.mail]\n",
		"jobs/j.yaml": "id: first\npodSpec: {containers: [{name: a, image: busybox}]}\n---\nid: report\npodSpec: {containers: [{name: a, image: busybox}]}\n" +
			"retry:\n  maxRetries: 3\n",
	})
	files, err := setfile.Read([]string{dir}, setfile.Options{Paths: true})
	require.NoError(t, err)
	require.Len(t, files.Entries(), 4)
	refused := func(file, kind, name, reason string) *shell.SetError {
		return &shell.SetError{File: file, Kind: kind, Name: name, Err: &effects.Refused{Reason: reason}}
	}
	explained := files.Explain(shell.SetErrors{
		refused("jobs/j.yaml", "job", "report", "retry_config.max_retries: 3 is too many"),
		refused("a.toml", "recurring", "nightly", "recurrence.cron: no\npayload.argv[0]: unknown\nalerts.late_seconds: too short\nstart_deadline_seconds: too long"),
		refused("a.toml", "queue", "mail", `the set "ops" declares it, in b.toml: take it out there`),
	})
	a, j := filepath.Join(dir, "a.toml"), filepath.Join(dir, "jobs/j.yaml")
	assert.Equal(t, setfile.Errors{
		{File: a, Line: 1, Column: 12, Field: "recurring.nightly.start_deadline", Problem: "too long"},
		{File: a, Line: 2, Column: 1, Field: "recurring.nightly.cron", Problem: "no"},
		{File: a, Line: 4, Column: 1, Field: "recurring.nightly.command[0]", Problem: "unknown"},
		{File: a, Line: 7, Column: 1, Field: "recurring.nightly.alerts.late", Problem: "too short"},
		{File: a, Line: 9, Column: 9, Field: "queues.mail", Problem: `the set "ops" declares it, in b.toml: take it out there`},
		{File: j, Line: 7, Column: 15, Field: "retry.maxRetries", Problem: "3 is too many"},
	}, explained)

	gone := refused("old.toml", "queue", "old", "it has items")
	assert.EqualError(t, files.Explain(shell.SetErrors{gone, refused("a.toml", "queue", "mail", "factor_percent: 5")}),
		a+":9:9: queues.mail.factor_percent: 5\nold.toml: queue old: it has items", "what stands in no file is said as it was")
	assert.Equal(t, gone, files.Explain(gone))
	other := errors.New("the disk is full")
	assert.Equal(t, other, files.Explain(other))
}
