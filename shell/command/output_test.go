package command

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

func TestACaptureKeepsTheHeadAndTheTailOfAnyStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		chunks := rapid.SliceOf(rapid.StringMatching(`[a-z]{0,30}`)).Draw(t, "chunks")
		c := newCapture(limit)
		for _, chunk := range chunks {
			n, err := c.Write([]byte(chunk))
			require.NoError(t, err)
			require.Equal(t, len(chunk), n)
		}
		all := strings.Join(chunks, "")
		got, dropped := c.text()
		if len(all) <= limit {
			require.Equal(t, all, got)
			require.Zero(t, dropped)
			return
		}
		require.EqualValues(t, len(all)-limit, dropped)
		if limit == 0 {
			require.Empty(t, got)
			return
		}
		want := fmt.Sprintf("%s\n[… %d bytes dropped …]\n%s", all[:limit-limit/2], dropped, all[len(all)-limit/2:])
		require.Equal(t, want, got)
	})
}

func TestCapturedTextIsAlwaysValidAndCountsWhatIsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCapture(rapid.IntRange(0, 40).Draw(t, "limit"))
		for _, chunk := range rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "chunks") {
			_, _ = c.Write(chunk)
		}
		got, dropped := c.text()
		require.True(t, utf8.ValidString(got))
		require.NotContains(t, got, "\x00")
		require.LessOrEqual(t, dropped, c.Total())
	})
}

func TestACharacterThatTheGapCutsIsDroppedWhole(t *testing.T) {
	c := newCapture(8) // four bytes of head, four of tail
	_, _ = c.Write([]byte("a€€€€€€b"))
	got, dropped := c.text()
	assert.Equal(t, "a€\n[… 12 bytes dropped …]\n€b", got)
	assert.EqualValues(t, 12, dropped)

	c = newCapture(8)
	_, _ = c.Write([]byte("ab€€€😀"))
	got, dropped = c.text()
	assert.Equal(t, "ab\n[… 9 bytes dropped …]\n😀", got)
	assert.EqualValues(t, 9, dropped)
}

func TestWhatIsNotTextIsReplaced(t *testing.T) {
	c := newCapture(100)
	_, _ = c.Write([]byte("a\xff\xfeb\x00c"))
	got, dropped := c.text()
	assert.Equal(t, "a\ufffdb\ufffdc", got)
	assert.Zero(t, dropped)
}

func TestTheTailOfAnErrorHasWholeLinesThatFit(t *testing.T) {
	for name, row := range map[string]struct {
		text     string
		lines, n int
		want     string
	}{
		"nothing":                            {"", 3, 10, ""},
		"nothing but space":                  {" \n\t\n", 3, 10, ""},
		"all of it":                          {"a\nb\n", 3, 10, "a\nb"},
		"as many lines as are allowed":       {"a\nb\nc\nd\n", 3, 10, "b\nc\nd"},
		"as many lines as fit":               {"abcd\nefgh\nij\n", 3, 8, "efgh\nij"},
		"one more would not fit":             {"abcd\nefgh\nij\n", 3, 7, "ij"},
		"what quoting adds counts":           {"ab\n\x01\x02\n", 3, 11, "\x01\x02"},
		"an empty line is a line":            {"a\n\nb\n", 2, 10, "\nb"},
		"the end of a last line too long":    {"ab\nabcdefgh\n", 3, 7, "…efgh"},
		"a character that the cut would cut": {"ab\na€€b\n", 3, 6, "…b"},
		"quoted, a last line too long":       {"\x01\x02\x03", 3, 8, "…\x03"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, tailOf(row.text, row.lines, row.n))
		})
	}
}

func TestTheTailOfAnErrorIsBoundedAndValidWhateverWasPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := plainjson.Text(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")))
		n := rapid.IntRange(3, 60).Draw(t, "n")
		tail := tailOf(text, 4, n)
		require.True(t, utf8.ValidString(tail))
		require.LessOrEqual(t, len(strconv.Quote(tail))-2, n)
		require.Less(t, strings.Count(tail, "\n"), 4)
		require.True(t, strings.HasSuffix(strings.TrimSpace(text), strings.TrimPrefix(tail, "…")))
		require.Equal(t, strings.TrimSpace(text) == "", tail == "")
	})
}
