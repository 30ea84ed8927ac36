package httpapi

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLargeBodiesOfATokenAreWorkedOnByHalfOfTheProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		f, other := s.newInFlight(&Token{Name: "a"}), s.newInFlight(&Token{Name: "b"})
		most := max(1, runtime.GOMAXPROCS(0)/2)
		leaves := make(chan func(), most+1)
		for range most + 1 {
			go func() {
				leave, err := f.workOn(t.Context(), largeBody)
				assert.NoError(t, err)
				leaves <- leave
			}()
		}
		synctest.Wait()
		require.Len(t, leaves, most, "one waits")
		small, err := f.workOn(t.Context(), largeBody-1)
		require.NoError(t, err)
		small()
		theirs, err := other.workOn(t.Context(), largeBody)
		require.NoError(t, err)
		theirs()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = f.workOn(gone, largeBody)
		require.ErrorIs(t, err, context.Canceled)
		for range most + 1 {
			(<-leaves)()
		}
	})
}
