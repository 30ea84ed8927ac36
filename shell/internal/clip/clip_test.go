package clip

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestATextIsCutAtTheEndOfACharacter(t *testing.T) {
	for _, c := range []struct {
		s    string
		most int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"añb", 2, "a…"},
		{"añb", 3, "añ…"},
		{"añb", 4, "añb"},
		{"\xff", 1, "\xff"}, // what is short enough is not touched
		{"a\xffbc", 3, "ab…"},
		{"ñ", 1, "…"},
		{"abc\x80\x80", 4, "abc…"}, // the stray bytes take no character with them
		{strings.Repeat("\x80", 9), 4, "…"},
	} {
		assert.Equal(t, c.want, Text(c.s, c.most), "%q", c.s)
	}
}
