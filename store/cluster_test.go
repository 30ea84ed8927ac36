package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

func TestOnlyALossOfCommitsIsAcceptedAsOneAndOnlyTheOneThatWasRead(t *testing.T) {
	const gone = "commit 3 is gone"
	for _, row := range []struct {
		is   store.Partition
		says string
	}{
		{store.Partition{Halted: gone, Lost: true}, ""},
		{store.Partition{}, "it is not stopped"},
		{store.Partition{Halted: "commit 9 is gone", Lost: true}, "it is stopped for another reason: commit 9 is gone"},
		{store.Partition{Halted: gone}, "it is stopped for another reason: " + gone},
	} {
		err := row.is.CanAcceptLoss(gone)
		if row.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, store.ErrNotLost)
		assert.ErrorContains(t, err, row.says)
	}
}
