package fleet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
)

// renewals is a cluster that takes each renewal, and nothing else.
type renewals struct{ store.Cluster }

func (renewals) Renew(context.Context, store.Instance, ...store.Owned) ([]store.Owned, error) {
	return nil, nil
}

// renewed is a store whose signs of life take a while, however soon they are to end.
type renewed struct {
	store.Owned
	failure error
	takes   time.Duration
	began   int
	ended   int
}

func (r *renewed) Failure() error { return r.failure }

func (r *renewed) Renew(context.Context) error {
	r.began++
	<-time.After(r.takes)
	r.ended++
	return nil
}

// A registration whose answer was lost is there: the first renewal that finds it says so, and the process takes itself out in the end.
func TestAProcessWhoseRenewalIsTakenIsRegistered(t *testing.T) {
	g := placingGroup(t)
	defer g.keepAlive(g.seats[0].Member, &renewed{})()
	registered := false
	require.NoError(t, g.renew(t.Context(), &registered))
	assert.True(t, registered)
}

func TestAStoreThatHasFailedGivesNoSignOfLife(t *testing.T) {
	g := placingGroup(t)
	st := &renewed{}
	defer g.keepAlive(g.seats[0].Member, st)()
	require.Len(t, g.lives.list(), 1)
	st.failure = store.ErrFenced
	require.Empty(t, g.lives.list())
}

func TestAPartitionIsRenewedAloneOnceAtATimeAndNotOnceItsTermEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := placingGroup(t)
		st := &renewed{takes: time.Second}
		stop := g.keepAlive(g.seats[0].Member, st)
		l := g.lives.list()[0]
		l.renewAlone()
		l.renewAlone()
		synctest.Wait()
		assert.Equal(t, 1, st.began)
		<-time.After(2 * time.Second)
		l.renewAlone()
		synctest.Wait()
		assert.Equal(t, 2, st.began, "the one before has ended")
		stop()
		assert.Equal(t, 2, st.ended, "what is asked of the store ends before that is given back")
		l.renewAlone()
		synctest.Wait()
		assert.Equal(t, 2, st.began)
	})
}

func TestThatASignOfLifeWasNotTakenIsToldEachTimeThatItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := placingGroup(t)
		told := 0
		g.o.Events = func(e Event) {
			assert.Equal(t, EventUnrenewed, e.Kind)
			told++
		}
		m := g.seats[0].Member
		m.own(1, "a", "", true)
		defer g.keepAlive(m, &renewed{})()
		l := g.lives.list()[0]
		wrong := errors.New("the database does not answer")
		for _, err := range []error{wrong, wrong, nil, wrong} {
			<-time.After(time.Second)
			l.heard(moment{}, err)
		}
		assert.Equal(t, 2, told)
		assert.Equal(t, time.Second, m.State().Silent, "the last one that was taken counts")
	})
}

func TestAProcessLooksTwentyTimesALeaseAndAtLeastTwiceASecond(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{time.Second: 50 * time.Millisecond, time.Minute: 500 * time.Millisecond} {
		p := &process{o: Options{Lease: lease}}
		assert.Equal(t, want, p.every())
	}
}
