package constraints

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnExpressionThatDoublesItsWorkAtEachStepIsRefused(t *testing.T) {
	env, err := newEnv()
	require.NoError(t, err)
	lists := "[[1]]" + strings.Repeat(".map(a, a + a)", 40)
	pairs := "[[1]]" + strings.Repeat(".map(a, [a, a])", 40)
	maps := "[{'a': 1}]" + strings.Repeat(".map(a, {'b': a, 'c': a})", 30)
	for text, want := range map[string]string{
		lists + ".all(x, 2 in x)":                          "line 1, column 16: lists cannot be joined",
		lists + ".all(x, x == x)":                          "lists cannot be joined",
		"[[1]].map(a, true ? a + a : a).all(x, 1 in x)":    "lists cannot be joined",
		pairs + ".all(x, x == x)":                          "cannot be compared",
		pairs + ".all(x, x != x)":                          "cannot be compared",
		pairs + ".all(x, {1: x} == {1: x})":                "cannot be compared",
		pairs + ".map(x, [x]).all(x, x[0] in x)":           "cannot be looked for",
		maps + ".all(x, x == x)":                           "cannot be compared",
		"[[], " + pairs + "].all(x, x == x)":               "cannot be compared",
		"[1, " + pairs + "].all(x, x == x)":                "expected type 'int'",
		pairs + ".all(x, dyn(x) == dyn(x))":                "not known before it is evaluated",
		"{1: 1}[dyn(1)] == 1":                              "not known before it is evaluated",
		"[true ? dyn([1]) : dyn(2)].all(x, x == x)":        "not known before it is evaluated",
		"[{'a': job}].all(x, x == x)":                      "cannot be compared",
		"[[job]].map(a, {'b': [a]}).all(x, x == {'b':[]})": "cannot be compared",
	} {
		_, err := compile(env, text)
		assert.ErrorContains(t, err, want, "%.80s", text)
	}
	vars := map[string]any{
		"job": exprJob{ID: "a", Labels: map[string]string{"team": "blue"}}, "now": time.Unix(0, 0), "scheduled_at": time.Unix(0, 0),
		"previous_run": exprPrevious{ExitCode: 3}, "attempt": int64(1),
	}
	for _, text := range []string{
		"job.labels == {'team': 'blue'}", "job.labels != {}", "job.id in ['a', 'b']", "!('x' in job.labels)",
		"[1, 2, 3].filter(x, x > 1) == [2, 3]", "[1, 2].map(x, x + 1) + [4] == [2, 3, 4]", "['a'].map(x, x + 'b') == ['ab']",
		"previous_run.exit_code in [1, 2, 3]", "now == scheduled_at", "now + duration('1h') > scheduled_at", "type(attempt) == int",
		"job.labels.exists(k, k.startsWith('t') && job.labels[k] == 'blue')", "[[1], [2]].exists(x, x == [2])", "job == job",
	} {
		program, err := compile(env, text)
		if assert.NoError(t, err, text) {
			v, _, err := program.Eval(vars)
			require.NoError(t, err, text)
			assert.Equal(t, true, v.Value(), text)
		}
	}
}
