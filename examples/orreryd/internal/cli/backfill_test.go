package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
)

func TestABackfillIsPlannedMadeShownAndListed(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	var added struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.ok("recurring", "add", "--json", "--cron", "0 9 * * *", "--description", "report", "--", "true")), &added))
	day := func(back int) string {
		return time.Now().UTC().AddDate(0, 0, -back).Format("2006-01-02") + "T00:00:00Z"
	}

	plan := p.ok("backfill", added.ID, "--from", day(4), "--to", day(1), "--dry-run")
	for back := 4; back > 1; back-- {
		assert.Contains(t, plan, day(back)[:10]+"T09:00:00.000Z")
	}
	assert.Contains(t, plan, "3, of which none is dispatched in a dry run")
	assert.Contains(t, p.ok("backfill", "list"), "no backfills")

	r := p.do("backfill", added.ID, "--json", "--from", day(4), "--to", day(1), "--max-active", "2", "--spacing", "1s", "--reason", "lost", "--wait")
	var made core.Backfill
	require.NoError(t, json.Unmarshal([]byte(r.out), &made), r.err)
	assert.Equal(t, core.BackfillCompleted, made.Status)
	assert.Len(t, made.Times, 3)
	assert.EqualValues(t, 2, made.MaxActive)
	assert.EqualValues(t, 1, made.SpacingSeconds)
	n := made.Counts
	assert.Equal(t, n.Succeeded < 3, r.code == exitFailed, "it ends with 1 if a time did not succeed")

	shown := p.ok("backfill", "show", made.ID.String())
	for _, want := range []string{"report", "completed", "lost", "to come    0"} {
		assert.Contains(t, shown, want)
	}
	assert.Contains(t, p.ok("backfill", "list", "--status", "completed"), made.ID.String())
	assert.Equal(t, exitFailed, p.do("backfill", "cancel", made.ID.String()).code, "it has ended")
}

func TestABackfillNamesARecurringActionAsAllElseDoes(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	p.ok("recurring", "add", "--name", "report", "--cron", "0 9 * * *", "--", "true")
	assert.Contains(t, p.ok("recurring", "preview", "report", "-n", "2"), " 09:00:00 UTC")
	day := time.Now().UTC().AddDate(0, 0, -2).Format("2006-01-02")
	plan := p.ok("backfill", "report", "--from", day+"T00:00:00Z", "--dry-run")
	assert.Contains(t, plan, day+"T09:00:00.000Z")
	assert.Equal(t, exitNotFound, p.do("backfill", "nosuch", "--from", day+"T00:00:00Z", "--dry-run").code)

	job := write(t, "job.yaml", "id: report\nschedule: '0 10 * * *'\npodSpec: {containers: [{name: c, image: none, command: [\"true\"]}]}\n")
	p.ok("job", "apply", "-f", job)
	r := p.do("backfill", "report", "--from", day+"T00:00:00Z", "--dry-run")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, `"report" is a recurring action and a job: give --job report, or the id of the recurring action`)
	assert.Contains(t, p.ok("backfill", "--job", "report", "--from", day+"T00:00:00Z", "--dry-run"), day+"T10:00:00.000Z")
}

func TestABackfillThatIsNotMeantSoIsRefused(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"x"}, exitUsage, "--from is missing"},
		{nil, exitUsage, "SCHEDULE is missing"},
		{[]string{"x", "--job", "y", "--from", "2026-02-01T00:00:00Z"}, exitUsage, "SCHEDULE and --job: give one of them"},
		{[]string{"--job", "y", "--from", "yesterday"}, exitUsage, "--from:"},
		{[]string{"--job", "y", "--from", "2026-02-01T00:00:00Z", "--spacing", "10ms"}, exitUsage, "--spacing: 10ms is not a whole number of seconds"},
		{[]string{"--job", "y", "--from", "2026-02-01T00:00:00Z"}, exitNotFound, `job "y" not found`},
		{[]string{"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "--from", "2026-02-01T00:00:00Z"}, exitNotFound, "not found"},
	} {
		r := p.do(append([]string{"backfill"}, tc.args...)...)
		assert.Equal(t, tc.code, r.code, "%v", tc.args)
		assert.Contains(t, r.err, tc.want)
	}
}
