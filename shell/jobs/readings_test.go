package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
)

func tenant(name string) shell.Scope { return shell.Scope{Namespace: "n", Tenant: name} }

// Whatever is taken and given back: no more places are held than there are, a place is only
// refused to who holds as many as each other, or all but one as many, and only taken from who
// keeps as many as the taker has.
func TestPlacesOfReadingsAreSharedByTenants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newReadings(rapid.IntRange(1, 6).Draw(t, "most"))
		held := map[shell.Scope][]*reading{}
		count := func() (n, largest int) {
			for _, of := range held {
				n, largest = n+len(of), max(largest, len(of))
			}
			return n, largest
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			of := tenant(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"))
			if own := held[of]; rapid.Bool().Draw(t, "leave") && len(own) > 0 {
				r.leave(own[0])
				held[of] = own[1:]
				continue
			}
			n, largest := count()
			place, freed := r.take(of)
			if place == nil {
				require.NotNil(t, freed)
				require.Equal(t, r.most, n)
				require.LessOrEqual(t, largest, len(held[of])+1)
				continue
			}
			held[of] = append(held[of], place)
			for scope, own := range held {
				if len(own) == 0 {
					continue
				}
				select {
				case <-own[0].lost:
					require.Equal(t, r.most, n)
					require.Len(t, own, largest)
					require.GreaterOrEqual(t, len(own)-1, len(held[of]))
					held[scope] = own[1:]
				default:
				}
			}
			n, _ = count()
			require.Equal(t, r.n, n)
			require.LessOrEqual(t, n, r.most)
		}
	})
}

func TestAPlaceOfReadingsIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadings(1)
		first, ok := r.enter(t.Context(), tenant("a"), nil)
		require.True(t, ok)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, ok = r.enter(ctx, tenant("b"), nil)
		assert.False(t, ok, "its time is up")
		_, ok = r.enter(t.Context(), tenant("b"), time.After(time.Second))
		assert.False(t, ok)
		time.AfterFunc(time.Hour, func() { r.leave(first) })
		start := time.Now()
		_, ok = r.enter(t.Context(), tenant("b"), nil)
		assert.True(t, ok)
		assert.Equal(t, time.Hour, time.Since(start))
		r.leave(first)
		assert.Equal(t, 1, r.n, "no place is given back twice")
	})
}

func TestAReadingEndsWithItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, why := newReadings(2), errors.New("why")
		first, _ := r.enter(t.Context(), tenant("a"), nil)
		second, _ := r.enter(t.Context(), tenant("a"), nil)
		lost, done := first.until(t.Context(), why)
		defer done()
		goesOn, end := second.until(t.Context(), why)
		_, ok := r.enter(t.Context(), tenant("b"), nil)
		assert.True(t, ok)
		<-lost.Done()
		require.Equal(t, why, context.Cause(lost))
		require.NoError(t, goesOn.Err())
		end()
		assert.Equal(t, context.Canceled, context.Cause(goesOn))
	})
}
