package fleet_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// holder is a process that owns the only partition, and notes the claim of each of its terms.
type holder struct {
	terms []*engine.Handover
	end   context.CancelFunc
	done  chan error
}

func holds(t *testing.T, c store.Cluster, change ...func(*fleet.Options)) *holder {
	t.Helper()
	o := fleet.Options{Cluster: c, Name: "a", Lease: lease}
	for _, change := range change {
		change(&o)
	}
	ctx, end := context.WithCancel(context.Background())
	h := &holder{end: end, done: make(chan error, 1)}
	go func() {
		h.done <- fleet.Run(ctx, o, func(ctx context.Context, term fleet.Term) error {
			h.terms = append(h.terms, term.Handover)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	pass(lease)
	require.Len(t, h.terms, 1)
	return h
}

func TestAnOwnerKnowsHowLongNobodyCanHaveTakenItsPartitionOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster().Process()
		h := holds(t, c)
		surely := h.terms[0].Holds
		for range 50 {
			pass(lease / 10)
			require.True(t, surely(), "it gives signs of life")
		}
		c.SetAway(errAway) // from here on the database takes none
		began := time.Now()
		for surely() && time.Since(began) < 2*lease {
			pass(lease / 100)
		}
		since := time.Since(began)
		assert.Less(t, since, lease-lease/10, "the last one was sent before")
		assert.Greater(t, since, lease/3, "it does not give up at once")
		c.SetAway(nil)
		pass(lease)
		assert.True(t, surely(), "it was its own all the time")
		h.end()
		require.NoError(t, <-h.done)
	})
}

func TestWhoeverGaveAPartitionBackInOrderIsSureOfWhatItCarriesOutOnAndWhoeverLostItNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		h := holds(t, c.Process())
		given, surely := h.terms[0].GiveBack, h.terms[0].Holds
		require.NoError(t, given())
		pass(4 * lease)
		assert.True(t, surely(), "what it carries out on is its own")
		h.end()
		require.NoError(t, <-h.done)

		h = holds(t, c.Process())
		seen, err := c.Process().Look(t.Context(), 0)
		require.NoError(t, err)
		other, err := c.Process().Claim(t.Context(), store.PartitionClaim{Seen: seen, Owner: "another one"})
		require.NoError(t, err)
		pass(lease)
		assert.False(t, h.terms[0].Holds())
		require.NoError(t, other.Close())
		pass(lease)
		require.Len(t, h.terms, 2, "it has the partition again")
		assert.True(t, h.terms[1].Holds())
		assert.False(t, h.terms[0].Holds(), "the claim before is lost for good")
		h.end()
		require.NoError(t, <-h.done)
	})
}

// A statement that renews several partitions waits for nobody who has one locked: such a one counts as renewed if it was committed to since the statement before.
func TestASignOfLifeTogetherWithOthersCountsFromWhenTheOneBeforeItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster().Process()
		h := holds(t, c)
		pass(lease/5 - time.Millisecond) // the next one is about to be sent
		last := time.Now()
		pass(2 * time.Millisecond)
		c.SetAway(errAway)
		for h.terms[0].Holds() && time.Since(last) < 2*lease {
			pass(time.Millisecond)
		}
		assert.LessOrEqual(t, time.Since(last), lease-lease/10-lease/5+10*time.Millisecond)
		c.SetAway(nil)
		h.end()
		require.NoError(t, <-h.done)
	})
}

// suspends is a clock of a machine that can be suspended.
type suspends struct {
	engine.SystemClock
	suspended atomic.Int64
}

func (s *suspends) Suspended() time.Duration { return time.Duration(s.suspended.Load()) }

func TestAMachineThatWasSuspendedIsNotSureOfItsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, clock := memory.NewCluster(), &suspends{}
		h := holds(t, c.Process(), func(o *fleet.Options) { o.Clock = clock })
		require.True(t, h.terms[0].Holds())
		clock.suspended.Add(int64(lease))
		assert.False(t, h.terms[0].Holds(), "its steady clock stood still")
		pass(lease)
		assert.True(t, h.terms[0].Holds())
		h.end()
		require.NoError(t, <-h.done)
	})
}
