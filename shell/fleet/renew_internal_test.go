package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// deaf takes no sign of life.
type deaf struct {
	store.Owned
	asked atomic.Int64
}

var errDeaf = errors.New("it takes none")

func (d *deaf) Renew(context.Context) error {
	d.asked.Add(1)
	return errDeaf
}

func TestAPartitionThatIsGivenBackWhileARenewalEndsIsNotRenewedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster().Process()
		holds := make(chan struct{}) // whoever is told of a renewal that was not taken
		m, err := New(Options{Cluster: c, Name: "a", Lease: time.Second, Events: func(Event) { <-holds }})
		require.NoError(t, err)
		st, err := c.Claim(t.Context(), store.PartitionClaim{Owner: "a"})
		require.NoError(t, err)
		owned := &deaf{Owned: st}
		stop := m.keepAlive(m, owned)
		seen := m.lives.list() // as whoever renews all of them has seen it
		require.Len(t, seen, 1)

		seen[0].renewAlone()
		synctest.Wait() // its end is being told
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			stop()
		}()
		synctest.Wait()
		close(holds)
		<-ended
		seen[0].renewAlone()
		synctest.Wait()
		assert.EqualValues(t, 1, owned.asked.Load(), "the store may be closed by now")
		require.NoError(t, st.Close())
	})
}

// Each registers anew at each renewal, as the other one has done, and takes a few signs of life alone in between.
func TestTwoProcessesOfANameAreToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.NewCluster()
		type one struct {
			*Member
			registered bool
			told       int
		}
		begin := func() *one {
			o := &one{}
			m, err := New(Options{Cluster: c.Process(), Name: "a", Lease: aLease, Events: func(e Event) {
				if e.Kind == EventNameTaken {
					o.told++
				}
			}})
			require.NoError(t, err)
			o.Member = m
			return o
		}
		renew := func(all ...*one) {
			t.Helper()
			<-time.After(aLease / 5)
			for _, o := range all {
				require.NoError(t, o.renew(t.Context(), &o.registered))
			}
		}
		a, b := begin(), begin()
		renew(a)
		renew(a, b)
		assert.Zero(t, a.told+b.told, "nobody has found another one yet")
		for n := range 20 {
			renew(a, b)
			if n%4 == 3 {
				renew(a) // the other one is late
			}
		}
		assert.Equal(t, []int{1, 1}, []int{a.told, b.told})
		for range 6 { // a lease, and the renewal that finds what the other one has left
			renew(a)
		}
		renew(b)
		renew(a, b)
		assert.Equal(t, []int{2, 1}, []int{a.told, b.told}, "it was away for a lease, and is back; it has asked nobody meanwhile")
	})
}
