package core_test

import (
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
)

func TestThePatternSizeCountsCharactersAndWhatIsRepeated(t *testing.T) {
	for pattern, want := range map[string]int{
		"":                                  0,
		"abc":                               3,
		"connection refused":                18,
		"a|b|c":                             5,
		"a*b+c?":                            6,
		"a{3}":                              4,
		"a{3,}":                             5,
		"a{2,5}":                            6,
		"a{,5}":                             5, // no repetition: the brace stands for itself
		"a{x}":                              4,
		"[a-z0-9]{10}":                      11,
		"[]a]":                              1,
		"[^]a]":                             1,
		"[[:alpha:]_]":                      1,
		`[\pL\d]`:                           16,
		`\pL`:                               16,
		`\p{Greek}{2}`:                      33,
		`\x{10FFFF}\x41\d\.`:                4,
		`\Qa*b\E`:                           3,
		"(ab)":                              4,
		"(?:ab){10}":                        41,
		"(?i)ab":                            2,
		"(?P<name>a)":                       3,
		"((a{10}){10}){10}":                 1331,
		"((((a{1000}){1000}){1000}){1000})": 1<<31 - 1,
		"(" + strings.Repeat("a?", 300):     602,
		"(" + strings.Repeat("a?", 300) + "){1000}b": 602_002,
		`\`: 1,
		"[": 1,
	} {
		assert.Equal(t, want, core.PatternSize(pattern), "%.60q", pattern)
	}
}

// Go's program is the time of a match for each character. That it is never larger than what
// the rule says makes the rule a bound.
func TestNoPatternHasALargerProgramThanItsSizeSays(t *testing.T) {
	atom := rapid.SampledFrom([]string{
		"a", "K", "é", ".", `\d`, `\pL`, `\p{Greek}`, `\b`, "^", "$", "[a-z]", `[^\pN_]`, "[[:alpha:]]", `\Qx*y\E`, `\x41`, `\x{2603}`, `\.`, "[]x]",
	})
	repeat := rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "*?", "{2}", "{3,}", "{0,5}", "{0}", "{7}"})
	var pattern *rapid.Generator[string]
	nested := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"(", "(?:", "(?i:", "(?P<n>"}).Draw(t, "open") + pattern.Draw(t, "group") + ")"
	})
	pattern = rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			if rapid.IntRange(0, 3).Draw(t, "which") == 0 {
				b.WriteString(nested.Draw(t, "nested"))
			} else {
				b.WriteString(atom.Draw(t, "atom"))
			}
			b.WriteString(repeat.Draw(t, "repeat"))
			if rapid.IntRange(0, 5).Draw(t, "or") == 0 {
				b.WriteByte('|')
			}
		}
		return b.String()
	})
	rapid.Check(t, func(t *rapid.T) {
		text := pattern.Draw(t, "pattern")
		re, err := syntax.Parse("(?i)"+text, syntax.Perl)
		if err != nil {
			t.Skip("no pattern")
		}
		prog, err := syntax.Compile(re.Simplify())
		require.NoError(t, err)
		assert.LessOrEqual(t, len(prog.Inst), 2*core.PatternSize(text)+8, "%q", text)
	})
}
