package cli

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhoChangesADefinitionSecondIsToldByIfMatch(t *testing.T) {
	t.Parallel()
	p := start(t, "--db", database(t))
	for _, row := range []struct {
		name                 string
		first, second, third []string
	}{
		{"queue", words("queue declare q"), words("queue declare q --concurrency 2"), words("queue delete q")},
		{"semaphore", words("semaphore declare q --slots 1"), words("semaphore declare q --slots 2"), words("semaphore declare q --slots 3")},
		{"subscriber", []string{"subscriber", "declare", "q", "--match", `{"category":"a"}`, "--do", `{"push":{"name":"q"}}`},
			[]string{"subscriber", "declare", "q", "--match", `{"category":"b"}`, "--do", `{"push":{"name":"q"}}`}, words("subscriber delete q")},
		{"calendars", words("calendars add q"), words("calendars update q --description two"), words("calendars delete q")},
		{"worker", []string{"worker", "declare", "q", "--queue", "q", "--do", `{"run":{"tool":"command","input":{"command":["true"]}}}`},
			[]string{"worker", "declare", "q", "--queue", "q", "--do", `{"run":{"tool":"command","input":{"command":["false"]}}}`}, words("worker delete q")},
	} {
		p.ok(row.first...)
		read := strings.TrimSpace(p.ok(row.name, "show", "q", "-o", "revision"))
		assert.Regexp(t, "^[0-9a-f]{32}$", read, row.name)
		p.ok(append(row.second, "--if-match", `"`+read+`"`)...) // as the answer's ETag has it
		r := p.do(append(row.third, "--if-match", read)...)
		assert.Equal(t, exitFailed, r.code, "%s: %s", row.name, r.out)
		assert.Contains(t, r.err, "it was changed since revision "+read+" was read", row.name)
		p.ok(append(row.third, "--if-match", strings.TrimSpace(p.ok(row.name, "show", "q", "-o", "revision")))...)
	}
}

func words(s string) []string { return strings.Fields(s) }

func TestWhatASetOwnsIsChangedByWhoTakesItOver(t *testing.T) {
	t.Parallel()
	dir := podsDir(t)
	p := start(t, "--db", filepath.Join(dir, "orrery.db"))
	apply := func() {
		t.Helper()
		body := `{"entries":[
			{"file":"a.toml","recurring":{"name":"q","cron_expr":"0 3 * * *","provider":"command","payload":{"argv":["true"]}}},
			{"file":"a.toml","job":{"id":"q","pod_spec":{"containers":[{"name":"main","image":"none","command":["true"]}]}}},
			{"file":"a.toml","queue":{"name":"q"}}, {"file":"a.toml","semaphore":{"name":"q","slots":1}},
			{"file":"a.toml","worker":{"name":"q","queue":"q","do":{"run":{"tool":"command","input":{"argv":["true"]}}}}},
			{"file":"a.toml","calendar":{"name":"q"}},
			{"file":"a.toml","subscriber":{"name":"q","match":{"category":"a"},"do":{"push":{"name":"q"}}}}
		]}`
		resp, err := http.Post(p.url+"/v1/sets/ours", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
	}
	job := write(t, "q.yaml", "id: q\npodSpec: {containers: [{name: main, image: none, command: ['false']}]}\n")
	for _, row := range [][]string{
		words("recurring update q --description edited"), words("recurring add --replace --name q --cron @daily -- true"), words("recurring delete q"),
		words("job apply -f " + job), words("job delete q"),
		words(`worker declare q --queue q --concurrency 2 --do {"run":{"tool":"command","input":{"argv":["true"]}}}`), words("worker delete q"),
		words("queue declare q --concurrency 2"), words("queue delete q"),
		words("semaphore declare q --slots 2"), words("semaphore declare q --slots 0"),
		words("calendars update q --description edited"), words("calendars delete q"),
		{"subscriber", "declare", "q", "--match", `{"category":"b"}`, "--do", `{"push":{"name":"q"}}`}, words("subscriber delete q"),
	} {
		apply()
		assert.Regexp(t, `declared +by ours in a\.toml`, p.ok(row[0], "show", "q"))
		r := p.do(row...)
		assert.Equal(t, exitFailed, r.code, "%v: %s", row, r.out)
		assert.Contains(t, r.err, `the set "ours" declares it, in a.toml`, row)
		p.ok(append([]string{row[0], row[1], "--take-over"}, row[2:]...)...)
	}
	assert.Contains(t, p.do(words("recurring add --name x --cron @daily --take-over -- true")...).err, "--take-over is about the one that --replace changes, which is missing")
}
