package pages

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
)

// upTo is a list of the numbers below the one asked for, with an empty page in its middle.
func upTo(calls *int) List[int, int] {
	return func(_ context.Context, n int, p shell.Page) (list []int, next string, err error) {
		*calls++
		from, _ := strconv.Atoi(p.Token)
		if *calls == 2 {
			return nil, p.Token, nil
		}
		for i := from; i < min(from+p.Limit, n); i++ {
			list = append(list, i)
		}
		if from+p.Limit < n {
			next = strconv.Itoa(from + p.Limit)
		}
		return list, next, nil
	}
}

func TestAllReadsAListToItsEndOverEmptyPages(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 7, 8} {
		var calls int
		var got []int
		for v, err := range All(t.Context(), limit, upTo(&calls), 7) {
			require.NoError(t, err)
			got = append(got, v)
		}
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, got, limit)
	}
}

func TestAllReadsNoFurtherPageThanItIsAskedFor(t *testing.T) {
	var calls int
	for v, err := range All(t.Context(), 3, upTo(&calls), 7) {
		require.NoError(t, err)
		if v == 2 {
			break
		}
	}
	assert.Equal(t, 1, calls)
}

func TestAnErrorEndsAList(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	for _, err := range All(t.Context(), 3, func(context.Context, int, shell.Page) ([]int, string, error) { calls++; return nil, "more", broken }, 0) {
		require.ErrorIs(t, err, broken)
	}
	assert.Equal(t, 1, calls)
}
