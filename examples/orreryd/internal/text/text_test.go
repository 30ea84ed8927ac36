package text

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
)

func TestTextIsCleanedForATerminal(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{"", ""},
		{"plain, grüße, 日本", "plain, grüße, 日本"},
		{"two\nlines\tand\rmore", `two\nlines\tand\rmore`},
		{"\x1b[31mred", `\x1b[31mred`},
		{"\u009b31m", `\x9b31m`},
		{"\x00\x7f", `\x00\x7f`},
		{"bad \xff\xfe utf-8", `bad \xff\xfe utf-8`},
		{"\u202eevil\u2066", `\u{202e}evil\u{2066}`},
		{"zero\u200bwidth", `zero\u{200b}width`},
	} {
		assert.Equal(t, row.want, Clean(row.in))
	}
	assert.Equal(t, "two\nlines\tand\\x1b", CleanLines("two\nlines\tand\x1b"))
	assert.Equal(t, "abc…", Clip("abcdef", 4))
	assert.Equal(t, "abcd", Clip("abcd", 4))
}

func TestCleanTextIsPrintableWhateverWasStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		out := Clean(in)
		if !utf8.ValidString(out) {
			t.Fatalf("%q is not valid UTF-8", out)
		}
		for _, r := range out {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q has %q", out, r)
			}
		}
		if again := Clean(out); again != out {
			t.Fatalf("cleaning twice gives %q of %q", again, out)
		}
		if n := utf8.RuneCountInString(Clip(in, 10)); n > 10 {
			t.Fatalf("short has %d runes", n)
		}
	})
}
