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

// listed is a cluster that tells of what a test has put into it.
type listed struct {
	store.Cluster
	instances  []store.Instance
	partitions []store.Partition
	wrong      error
}

func (l *listed) Instances(context.Context) ([]store.Instance, error) { return l.instances, l.wrong }

func (l *listed) Partitions(context.Context) ([]store.Partition, error) { return l.partitions, l.wrong }

// tokened is a store of that token.
type tokened struct {
	store.Owned
	token uint64
}

func (s tokened) Token() uint64 { return s.token }

func TestWhoMayTakeAPartitionThatIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, db := placingGroup(t), &listed{}
		g.o.Cluster = db
		m := g.seats[0].Member
		other := store.Instance{Name: "b", Session: "s", Beat: 1}
		assert.False(t, m.hasHeirs(), "nobody is there")
		db.instances = []store.Instance{g.self}
		assert.False(t, m.hasHeirs(), "it is no heir of its own")
		db.instances = []store.Instance{g.self, other}
		assert.True(t, m.hasHeirs())
		db.wrong = errors.New("the database does not answer")
		assert.True(t, m.hasHeirs(), "it was there when the database answered last")
		db.wrong = nil
		db.instances[1].Draining = true
		assert.False(t, m.hasHeirs(), "it drains")
		db.instances[1].Draining = false
		for range 4 { // in looks that are near to one another
			<-time.After(aLease / 4)
			m.hasHeirs()
		}
		assert.False(t, m.hasHeirs(), "it has given no sign of life for a lease")
	})
}

func TestPlacingsTellWhereEachPartitionShouldBeOfThoseWhoCanHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := placingGroup(t)
		db := &listed{partitions: []store.Partition{{Number: 0, Token: 1, Session: "1", Owner: "z"}, {Number: 1, Token: 3, Halted: "commits are not there"}}}
		g.o.Cluster = db
		should := func() (list []string) {
			all, err := g.Placings(t.Context())
			require.NoError(t, err)
			for _, p := range all {
				list = append(list, p.Should+": "+p.Keeps)
			}
			return list
		}
		z, y := store.Instance{Name: "z", Session: "1", Core: "9"}, store.Instance{Name: "y", Session: "2", Core: "9"}
		y.Draining = true
		db.instances = []store.Instance{y, z}
		assert.Equal(t, []string{"z: ", "z: it is stopped: commits are not there"}, should())
		for range 4 {
			<-time.After(aLease / 4)
			z.Beat++
			db.instances = []store.Instance{{Name: "y", Session: "2", Core: "9"}, z}
			should()
		}
		assert.Equal(t, []string{"z: ", "z: it is stopped: commits are not there"}, should(), "y is gone")
		z.Draining = true
		db.instances = []store.Instance{z}
		assert.Equal(t, []string{": no instance that is alive can have it: all drain", ": it is stopped: commits are not there"}, should())
		db.instances, db.partitions = []store.Instance{{Name: "x", Session: "3", Core: "9"}}, nil
		assert.Equal(t, []string{"x: x is about to claim it", "x: x is about to claim it"}, should())
	})
}

func TestAProcessStandsByForOthersAndNotForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := placingGroup(t)
		var told []EventKind
		g.o.Events = func(e Event) { told = append(told, e.Kind) }
		m := g.seats[0].Member
		m.saw(store.Partition{Token: 1, Session: "mine", Owner: "a"}, "mine", time.Now())
		m.saw(store.Partition{Token: 2}, "mine", time.Now())
		assert.Empty(t, told, "its own last term, and nobody's")
		m.saw(store.Partition{Token: 3, Session: "another", Owner: "b"}, "mine", time.Now())
		assert.Equal(t, []EventKind{EventStandsBy}, told)
		<-time.After(aLease)
		assert.Equal(t, aLease, m.State().Silent)
		m.took(tokened{token: 4}, store.Partition{Owner: "b"})
		s := m.State()
		assert.Equal(t, State{Works: true, Token: 4, Owner: "a", Since: s.Since, Takeovers: 1}, s, "a new owner is not silent")
	})
}
