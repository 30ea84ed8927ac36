package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oddStep is what is said of the minutes of "*/90 9 * * *".
const oddStep = `minute field "*/90": the step of "*/90" leads beyond its range at once, so that it stands for 0 alone`

func TestWhatOfAScheduleMeansSomethingElseThanItSeemsToIsSaidOnStderr(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	file := write(t, "odd.yaml", "id: odd\nschedule: '*/90 9 * * *'\npodSpec: {containers: [{name: main, image: x, command: ['true']}]}\n")
	added := p.do("recurring", "add", "--cron", "*/90 9 * * *", "--", "echo")
	require.Zero(t, added.code, added.err)
	id := anID.FindString(added.out)
	warning := "orreryd: warning: " + oddStep + "\n"
	assert.Equal(t, warning, added.err)
	for _, args := range [][]string{
		{"recurring", "update", id, "--description", "odd"},
		{"recurring", "preview", id},
		{"recurring", "preview", "--cron", "*/90 9 * * *"},
		{"recurring", "preview", "--cron", "*/90 9 * * *", "--json"},
		{"actions", "add", "--cron", "*/90 9 * * *", "--", "echo"},
	} {
		r := p.do(args...)
		assert.Zero(t, r.code, args)
		assert.Equal(t, warning, r.err, args)
	}
	for _, args := range [][]string{{"job", "check", "-f", file}, {"job", "apply", "-f", file, "--dry-run"}, {"job", "apply", "-f", file}} {
		r := p.do(args...)
		assert.Zero(t, r.code, args)
		assert.Equal(t, file+`: warning: job "odd": schedule: `+oddStep+"\n", r.err, args)
	}
	assert.Empty(t, p.do("recurring", "update", id, "--cron", "0 9 * * *").err)
	assert.Empty(t, p.do("recurring", "preview", "--cron", "@hourly").err)
}
