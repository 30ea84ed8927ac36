package command

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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
		require.LessOrEqual(t, dropped, c.total)
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

func TestTheTailOfAnErrorBeginsWithAWholeCharacter(t *testing.T) {
	assert.Equal(t, "b", tailOf("€b", 2))
	assert.Equal(t, "€b", tailOf(" €b\n\n", 4))
}
