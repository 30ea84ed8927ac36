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
		_, _, err := compile(env, text)
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
		program, _, err := compile(env, text)
		if assert.NoError(t, err, text) {
			v, _, err := program.Eval(vars)
			require.NoError(t, err, text)
			assert.Equal(t, true, v.Value(), text)
		}
	}
}

// hostile are expressions that once took as long as their author liked.
func hostile() map[string]string {
	list := "[" + strings.Repeat("1,", 99) + "1]"
	loop := func(body string) string {
		return list + ".all(i, " + list + ".all(j, " + list + ".all(k, " + body + ")))"
	}
	with := func(value, body string) string { return "[" + value + "].all(x, " + loop(body) + ")" }
	big := `"` + strings.Repeat("a", 1000) + `"`
	doubled := func(n int) string { return "[" + big + "]" + strings.Repeat(".map(x, x + x)", n) + "[0]" }
	return map[string]string{
		"a text that doubles":                  doubled(40) + " == ''",
		"bytes that double":                    "[b'aaaaaaaa']" + strings.Repeat(".map(x, x + x)", 40) + "[0] == b''",
		"the size of a long text":              with(doubled(5), "size(x) > 0"),
		"comparing long texts":                 with(doubled(5), "x + 'a' == x + 'a'"),
		"ordering long texts":                  with(doubled(5), "x <= x"),
		"a conversion into bytes":              with(doubled(5), "size(bytes(x)) > 0"),
		"a number from a long text":            with("'1' + "+doubled(3), "x != '' || int(x) > 0"),
		"lists of one long text":               with(doubled(5), "[x,x,x,x,x,x,x,x,x,x,x,x] == [x,x,x,x,x,x,x,x,x,x,x,x]"),
		"a text looked for in a list of texts": with(doubled(5), "!((x + 'b') in [x+'a',x+'c',x+'d'])"),
		"maps of long texts":                   with(doubled(5), "{x: x} == {x: x}"),
		"containing":                           with(doubled(5), "!x.contains('"+strings.Repeat("a", 100)+"b')"),
		"time zones":                           loop("now.getHours('Europe/Berlin') >= 0"),
		"a list that is long":                  strings.Repeat("1,", 1)[:1] + " in " + list + " && " + loop("i in "+list[:99]+"]"),
		"long sums of lists":                   loop("size(" + strings.Repeat("[1] + ", 30) + "[1]) > 0"),
		"maps with labels":                     loop("job.labels == job.labels"),
		"jobs":                                 loop("job == job"),
		"a pattern for each":                   with(doubled(2), "x.matches('(a?){150}a{150}')"),
		"a pattern that is refused, for each":  with(doubled(5), "x.matches(x) || true"),
		"a number that is none, for each":      with(doubled(5), "int(x) > 0 || true"),
		"a short pattern for each":             with(doubled(5), "x.matches('(.*a)*b') || true"),
	}
}

func TestAHostileExpressionEndsWithinItsCost(t *testing.T) {
	env, err := newEnv()
	require.NoError(t, err)
	labels := map[string]string{}
	for i := range 60 {
		labels[strings.Repeat("k", i+1)] = strings.Repeat("v", 1000)
	}
	vars := map[string]any{"job": exprJob{ID: "a", Labels: labels}, "now": time.Unix(0, 0)}
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			if len(text) > maxExpressionBytes {
				t.Fatal("the expression itself is too long: the test shows nothing")
			}
			program, refused, err := compile(env, text)
			require.NoError(t, err)
			if strings.Contains(text, "matches(x)") { // of a stored job
				require.ErrorContains(t, refused, "must be written out")
			} else {
				require.NoError(t, refused)
			}
			_, details, err := program.Eval(vars)
			require.ErrorContains(t, err, "cost limit exceeded")
			// The last call began below the limit: what it adds is bounded by the sizes of values.
			if n := *details.ActualCost(); n < tooManySteps {
				assert.LessOrEqual(t, n, uint64(2*maxExpressionCost))
			}
		})
	}
}

func TestAPatternIsWrittenOutAndNotTooLarge(t *testing.T) {
	env, err := newEnv()
	require.NoError(t, err)
	for text, want := range map[string]string{
		`run.error.matches(job.id)`:                  `line 1, column 18: matches: the pattern must be written out, as in run.error.matches("^out of (memory|disk)"): it cannot be computed`,
		`matches(run.error, "a" + "b")`:              "must be written out",
		`["a?"].all(p, run.error.matches(p))`:        "must be written out",
		`run.error.matches("(a?){2000}")`:            "line 1, column 18: matches:",
		`run.error.matches("((a?){200}){200}")`:      `the pattern "((a?){200}){200}" has the size 160601, which is more than 1000`,
		`true || matches("", "((x{50}){50}){50}")`:   "which is more than 1000",
		`run.error.matches("(")`:                     `"(" is no regular expression`,
		`run.error.matches("^out of (memory|disk)")`: "",
		`matches(run.error, "[0-9]{3,10}")`:          "",
	} {
		_, refused, err := compile(env, text)
		require.NoError(t, err, text)
		if want == "" {
			assert.NoError(t, refused, text)
		} else {
			assert.ErrorContains(t, refused, want, text)
		}
	}
}

// What was applied before patterns had to be written out goes on, within the same bounds.
func TestAStoredPatternIsBoundedWhenItIsEvaluated(t *testing.T) {
	env, err := newEnv()
	require.NoError(t, err)
	program := strings.Repeat("a?", 300)
	long := "[" + `"` + strings.Repeat("a", 1500) + `"` + "]"
	for text, want := range map[string]string{
		long + `.all(x, !x.matches("(" + "` + program + `" + "){1000}b"))`:                                              "which is more than 1000",
		long + `.all(x, !x.matches("(` + program + `){1000}b"))`:                                                        "which is more than 1000",
		long + `.all(x, !x.matches("(a?){1000}{1000}b" + ""))`:                                                          "which is more than 1000",
		`["a"]` + strings.Repeat(".map(x, x + x)", 14) + `.all(x, x.matches("` + strings.Repeat("a", 400) + `" + "b"))`: "is too long for the pattern",
		`["a"]` + strings.Repeat(".map(x, x + x)", 14) + `.all(x, x.matches("` + strings.Repeat("a", 400) + `b"))`:      "is too long for the pattern",
		`!job.id.matches(job.name + "x")`:                                                                               "",
	} {
		program, _, err := compile(env, text)
		require.NoError(t, err, text)
		v, _, err := program.Eval(map[string]any{"job": exprJob{ID: "b", Name: "a"}})
		if want != "" {
			assert.ErrorContains(t, err, want, "%.80s", text)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, true, v.Value())
	}
}
