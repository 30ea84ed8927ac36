package text_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func TestATerminalGetsLinesAndColoursAndNothingThatSteersIt(t *testing.T) {
	for in, want := range map[string]string{
		"plain\tline\nnext\n":                    "plain\tline\nnext\n",
		"\x1b[1;31mred\x1b[0m \x1b[m":            "\x1b[1;31mred\x1b[0m \x1b[m",
		"\x1b[38:2:1:2:3mtrue colour":            "\x1b[38:2:1:2:3mtrue colour",
		"of Windows\r\n":                         "of Windows\n",
		"progress 1\rprogress 2":                 `progress 1\rprogress 2`,
		"\x1b]0;title\a":                         `\x1b]0;title\x07`,
		"\x1b[2J\x1b[H":                          `\x1b[2J\x1b[H`,
		"\x1b]52;c;ZXZpbA==\x1b\\":               `\x1b]52;c;ZXZpbA==\x1b\`,
		"\x1b]8;;http://a\x1b\\link":             `\x1b]8;;http://a\x1b\link`,
		"\x1b[>4;1m":                             `\x1b[>4;1m`,
		"\u009b2J and \x9b2J":                    `\x9b2J and \x9b2J`,
		"\u202eright to left":                    `\u{202e}right to left`,
		"Größe ✓":                                "Größe ✓",
		"cut off \x1b[3":                         `cut off \x1b[3`,
		"cut off \xe2\x9c":                       `cut off \xe2\x9c`,
		"\x1b[" + strings.Repeat("1;", 50) + "m": "\x1b[" + strings.Repeat("1;", 50) + "m",
	} {
		var out bytes.Buffer
		w := text.NewTerminal(&out)
		n, err := w.Write([]byte(in))
		require.NoError(t, err)
		assert.Equal(t, len(in), n)
		require.NoError(t, w.Flush())
		assert.Equal(t, want, out.String())
	}
}

func TestATerminalGetsTheSameHoweverTheTextIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "✓", "\x1b[31m", "\x1b[2J", "\x1b", "\r\n", "\r", "\n", "\x9b", "[0m", "\xe2"}), 0, 12).Draw(t, "parts")
		in := []byte(strings.Join(parts, ""))
		var whole, cut bytes.Buffer
		w := text.NewTerminal(&whole)
		_, _ = w.Write(in)
		_ = w.Flush()
		w = text.NewTerminal(&cut)
		for len(in) > 0 {
			n := rapid.IntRange(1, len(in)).Draw(t, "n")
			_, _ = w.Write(in[:n])
			in = in[n:]
		}
		_ = w.Flush()
		require.Equal(t, whole.String(), cut.String())
	})
}
