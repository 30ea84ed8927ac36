package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/jobfile"
)

const jobsPage = "docs/jobs.md"

func TestTheJobsThatThePageShowsAreRight(t *testing.T) {
	checker, err := constraints.New(constraints.Options{})
	require.NoError(t, err)
	_, fences := splitMarkdown(readFile(t, jobsPage))
	read := 0
	for _, f := range fences {
		if f.lang == "yaml" {
			_, err := jobfile.Parse(jobsPage, []byte(f.text), jobfile.Options{Validate: checker.ValidateAnywhere})
			require.NoError(t, err, "%s:%d", jobsPage, f.line)
			read++
		}
	}
	assert.Equal(t, 3, read)
}

// everyKey is a job that says something of everything.
const everyKey = `
id: a
name: b
namespace: c
tenant: d
schedule: "@daily"
timezone: Europe/Berlin
runner: local
labels: {a: b}
podSpec: {containers: [{name: main, image: x}]}
retry: {maxRetries: 1, initialDelay: 1s, backoffMultiplier: 3, maxDelay: 2s}
constraints: [{maxAllowedRunTime: {config: {limit: 1m}, onViolation: [tell]}}]
actions: {tell: {log: {message: m}}}
overlap: forbid
bufferLimit: 7
maxWait: 5m
calendars: [holidays]
missed: all
catchUp: 1h
catchUpLimit: 5
catchUpSpacing: 10s
dst: skip
dayMatch: both
startsAt: 2027-01-01T00:00:00Z
endsAt: 2028-01-01T00:00:00Z
maxExecutions: 3
jitter: 5m
startDeadline: 1m
maxConcurrentRuns: 1
orphanPolicy: adopt
podStartTimeout: 1m
createAhead: 1m
ttlSecondsAfterFinished: 60
constraintErrors: open
logs: {discard: true, head: 1Ki, tail: 1Ki}
alerts: {late: 10m}
`

func TestThePageHasEveryKeyOfAJobFile(t *testing.T) {
	specs, err := jobfile.Parse("all.yaml", []byte(everyKey), jobfile.Options{})
	require.NoError(t, err)
	text, err := jobfile.Marshal(specs[0])
	require.NoError(t, err)
	keys := []string{"podSpecFile"} // another way to say podSpec
	for line := range strings.Lines(string(text)) {
		if key, _, ok := strings.Cut(line, ":"); ok && line[0] != ' ' {
			keys = append(keys, key)
		}
	}
	assert.Len(t, keys, 36)
	var rows []string
	for _, tb := range tablesOf(readFile(t, jobsPage), "key") {
		for _, row := range tb.rows {
			rows = append(rows, spans(row[0])...)
		}
	}
	assert.ElementsMatch(t, keys, rows)

	// And none of the defaults that it names is another one.
	j, _ := core.Job{}.Apply(core.JobApply{Spec: core.JobSpec{ID: "a", Namespace: "b", Tenant: "c", PodSpec: specs[0].PodSpec}}, core.Clock{})
	assert.Equal(t, "allow delete closed UTC 2", strings.Join([]string{string(j.Overlap), string(j.OrphanPolicy), string(j.ConstraintErrors), j.Timezone, j.RetryConfig.BackoffMultiplier.String()}, " "))
	assert.EqualValues(t, 300_000, j.PodStartTimeoutMS)
	assert.EqualValues(t, 30_000, j.CreateAheadMS)
	assert.EqualValues(t, 3_600_000, j.RetryConfig.MaxDelayMS)
	assert.Equal(t, "2m0s", core.DefaultStartDeadline.String())
}
