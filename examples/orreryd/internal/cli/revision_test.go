package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
