package headtail_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/headtail"
)

func TestABufferKeepsTheHeadAndTheTailOfAnyTextFromAnyOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		b := headtail.New(limit)
		all := ""
		for _, piece := range rapid.SliceOf(rapid.StringMatching(`[a-z]{0,30}`)).Draw(t, "pieces") {
			n, err := b.Write([]byte(piece))
			require.NoError(t, err)
			require.Equal(t, len(piece), n)
			all += piece
		}
		offset := rapid.IntRange(-1, len(all)).Draw(t, "offset") // -1: from the beginning

		head, tail := b.From(int64(offset))
		offset = max(offset, 0)

		require.EqualValues(t, len(all), b.Total())
		require.Equal(t, min(limit, len(all)), b.Kept())
		headEnd := min(limit-limit/2, len(all))
		tailBegin := max(headEnd, len(all)-limit/2)
		require.Equal(t, all[min(offset, headEnd):headEnd], string(head))
		require.Equal(t, all[max(offset, tailBegin):], string(tail))
	})
}
