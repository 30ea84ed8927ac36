package texts_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"

	"github.com/orrery-go/orrery/effects/texts"
)

func TestATextIsCutBetweenCharacters(t *testing.T) {
	for _, tt := range []struct {
		name, in                string
		most                    int
		clip, head, tail, bound string
	}{
		{"short", "abc", 3, "abc", "abc", "abc", "abc"},
		{"nothing", "", 0, "", "", "", ""},
		{"long", "abcdef", 4, "abcd…", "abcd", "cdef", "a…"},
		{"a character at the cut", "aää", 2, "a\uFFFD…", "a", "ä", "…"},
		{"invalid", "a\xff", 4, "a\xff", "a\uFFFD", "a\uFFFD", "a\uFFFD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.clip, texts.Clip(tt.in, tt.most), "Clip")
			assert.Equal(t, tt.head, texts.Head(tt.in, tt.most), "Head")
			assert.Equal(t, tt.tail, texts.Tail(tt.in, tt.most), "Tail")
			assert.Equal(t, tt.bound, texts.Bound(tt.in, tt.most), "Bound")
		})
	}
}

func TestACutTextIsValidAndNoLongerThanAllowed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(rt, "s"))
		most := rapid.IntRange(3, 40).Draw(rt, "most")
		valid := texts.Valid(s)
		for _, cut := range []string{texts.Head(s, most), texts.Tail(s, most), texts.Bound(s, most)} {
			assert.True(rt, utf8.ValidString(cut))
			assert.LessOrEqual(rt, len(cut), most)
		}
		assert.True(rt, strings.HasPrefix(valid, texts.Head(s, most)))
		assert.True(rt, strings.HasSuffix(valid, texts.Tail(s, most)))
	})
}

func TestDistanceCountsSingleEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"queue", "queue", 0}, {"quue", "queue", 1}, {"queeue", "queue", 1}, {"qveue", "queue", 1}, {"kitten", "sitting", 3}} {
		assert.Equal(t, c.want, texts.Distance(c.a, c.b), "%q %q", c.a, c.b)
		assert.Equal(t, c.want, texts.Distance(c.b, c.a), "%q %q", c.b, c.a)
	}
}

func TestALongNumberHasACommaForEachThousand(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 10_000: "10,000", 1_234_567: "1,234,567"} {
		assert.Equal(t, want, texts.Thousands(n))
	}
}

func TestTheNearestNameIsTheOneThatWasMeant(t *testing.T) {
	names := []string{"branch", "version", "Target", "a"}
	for name, want := range map[string]string{
		"brnch": "branch", "VERSIO": "version", "target": "Target", "b": "a", "other": "",
		"brancheee": "", strings.Repeat("x", 100): "",
	} {
		assert.Equal(t, want, texts.Nearest(name, names), name)
	}
	assert.Empty(t, texts.Nearest("x", make([]string, 1001)))
}
