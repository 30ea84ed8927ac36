package fleet_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// idles has the work of a party commit once, so that nothing but renewals gives signs of life.
func idles(p *party, _ *fleet.Options) { p.idle = true }

// tokens gives those of all partitions: who claims one makes it greater.
func tokens(t *testing.T, c store.Cluster) (list []uint64) {
	t.Helper()
	all, err := c.Partitions(t.Context())
	require.NoError(t, err)
	for _, row := range all {
		list = append(list, row.Token)
	}
	return list
}

func TestIdleOwnersKeepTheirPartitionsWhateverBecomesOfTheirInstancesRow(t *testing.T) {
	for name, harm := range map[string]func(a *party, row store.Instance) error{
		"nothing": func(*party, store.Instance) error { return nil },
		"it is deleted by hand": func(a *party, row store.Instance) error {
			return a.Leave(context.Background(), row)
		},
		"another session takes the name": func(a *party, row store.Instance) error {
			row.Session = "another one"
			return a.Register(context.Background(), row)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, book := divided(t), &journal{}
				a, b := join(t, c, "a", book, idles), join(t, c, "b", book, idles)
				pass(4 * lease)
				was := tokens(t, c.Process())
				require.Len(t, owners(a, b), many)
				for range 10 {
					list, err := a.Process.Instances(t.Context())
					require.NoError(t, err)
					require.NoError(t, harm(a, list[0]))
					pass(lease / 2)
				}
				pass(4 * lease)
				require.Equal(t, was, tokens(t, c.Process()), "nobody has claimed anything")
				list, err := a.Group.Instances(t.Context())
				require.NoError(t, err)
				require.Len(t, list, 2)
				assert.True(t, list[0].Alive && list[1].Alive, "it has registered anew")
				require.NoError(t, a.end())
				require.NoError(t, b.end())
			})
		})
	}
}

func TestAnIdleOwnerLearnsByItsNextSignOfLifeThatItWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		a := join(t, c, "a", book, idles)
		pass(lease)
		other := c.Process()
		seen, err := other.Look(t.Context(), 3)
		require.NoError(t, err)
		next, err := other.Claim(t.Context(), store.PartitionClaim{Seen: seen, Owner: "another one"})
		require.NoError(t, err)
		pass(lease/5 + time.Second/10)
		require.ErrorIs(t, a.cause(3), store.ErrFenced)
		require.Len(t, a.owns(), many-1, "the others are its own")
		require.NoError(t, next.Renew(t.Context()))
		require.NoError(t, next.Close())
		require.NoError(t, a.end())
	})
}

// apart is a database some of whose partitions are none that its Renew knows.
type apart struct {
	*memory.Process
	is    func(partition int) bool
	fails atomic.Bool  // a Renew does nothing
	hangs atomic.Bool  // renewals of partitions by themselves are not answered
	many  atomic.Int64 // of how many partitions the last Renew was to give a sign of life
}

type apartOwned struct {
	store.Owned
	of *apart
}

func (a *apart) Claim(ctx context.Context, c store.PartitionClaim) (store.Owned, error) {
	o, err := a.Process.Claim(ctx, c)
	if err != nil || !a.is(c.Seen.Number) {
		return o, err
	}
	return apartOwned{o, a}, nil
}

func (a *apart) Renew(ctx context.Context, i store.Instance, owned ...store.Owned) ([]store.Owned, error) {
	a.many.Store(int64(len(owned)))
	if a.fails.Load() {
		return owned, errAway
	}
	return a.Process.Renew(ctx, i, owned...)
}

func (o apartOwned) Renew(ctx context.Context) error {
	if o.of.hangs.Load() {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return o.Owned.Renew(ctx)
}

func TestPartitionsThatAreNotRenewedTogetherAreRenewedEachForItself(t *testing.T) {
	for name, fails := range map[string]bool{"they are of another store": false, "the renewal of all fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, book := divided(t), &journal{}
				db := &apart{is: func(int) bool { return true }}
				a := join(t, c, "a", book, idles, func(p *party, o *fleet.Options) {
					db.Process = p.Process
					o.Cluster = db
				})
				b := join(t, c, "b", book, idles)
				pass(5 * lease)
				was := tokens(t, c.Process())
				require.NotEmpty(t, a.owns())
				db.fails.Store(fails)
				pass(5 * lease)
				require.Equal(t, was, tokens(t, c.Process()))
				require.NotContains(t, a.told.kinds(), fleet.EventUnrenewed)
				db.fails.Store(false)
				require.NoError(t, b.end())
				require.NoError(t, a.end())
			})
		})
	}
}

func TestPartitionsWhoseRenewalsAreNotAnsweredHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		var own []int
		for n := range many {
			if placed("a", "b")[n] == "a" {
				own = append(own, n)
			}
		}
		require.Greater(t, len(own), 3, "at half a lease each, one after the other would be longer than a lease")
		stuck := own[1:]
		db := &apart{is: func(n int) bool { return slices.Contains(stuck, n) }}
		a := join(t, c, "a", book, idles, func(p *party, o *fleet.Options) {
			db.Process = p.Process
			o.Cluster = db
		})
		b := join(t, c, "b", book, idles)
		pass(5 * lease)
		require.Equal(t, placed("a", "b"), owners(a, b))
		was := tokens(t, c.Process())
		db.hangs.Store(true)
		pass(4 * lease)
		for n, is := range tokens(t, c.Process()) {
			if slices.Contains(stuck, n) {
				assert.Greater(t, is, was[n], "the owner of partition %d was silent", n)
			} else {
				assert.Equal(t, was[n], is, "partition %d", n)
			}
		}
		told := map[int]int{}
		a.told.mu.Lock()
		for _, e := range a.told.all {
			if e.Kind == fleet.EventUnrenewed {
				told[e.State.Partition]++
			}
		}
		a.told.mu.Unlock()
		for _, n := range stuck {
			assert.Equal(t, 1, told[n], "partition %d", n)
		}
		require.Len(t, told, len(stuck))
		require.NoError(t, a.end())
		require.NoError(t, b.end())
	})
}

func TestAProcessGivesSignsOfLifeOfWhatItOwnsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, book := divided(t), &journal{}
		db := &apart{is: func(int) bool { return false }}
		a := join(t, c, "a", book, idles, func(p *party, o *fleet.Options) {
			db.Process = p.Process
			o.Cluster = db
		})
		pass(lease)
		require.EqualValues(t, many, db.many.Load())
		b := join(t, c, "b", book, idles)
		pass(5 * lease)
		require.NotEmpty(t, b.owns())
		require.EqualValues(t, len(a.owns()), db.many.Load())
		require.NoError(t, a.end())
		require.NoError(t, b.end())
	})
}
