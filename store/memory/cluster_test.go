package memory_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
	"github.com/orrery-go/orrery/store/storetest"
)

func nothing(store.Tx) error { return nil }

// claim takes a partition as it is now.
func claim(t *testing.T, p *memory.Process, owner string) store.Owned {
	t.Helper()
	seen, err := p.Look(ctx, 0)
	if !errors.Is(err, store.ErrNotFound) {
		require.NoError(t, err)
	}
	o, err := p.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: owner, Address: "http://" + owner})
	require.NoError(t, err)
	return o
}

func TestAPartitionKeepsWhatTheInterfacePromises(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return claim(t, memory.NewCluster().Process(), "a") })
}

func TestAClusterInMemoryKeepsWhatTheInterfacePromises(t *testing.T) {
	storetest.RunCluster(t, func(*testing.T) store.Cluster { return memory.NewCluster().Process() })
}

func TestAPartitionIsClaimedOnlyAsItWasSeen(t *testing.T) {
	c := memory.NewCluster()
	a, b := c.Process(), c.Process()
	first := claim(t, a, "a")
	seen, err := b.Look(ctx, 0)
	require.NoError(t, err)
	assert.Equal(t, []any{first.Session(), "a", "http://a", uint64(1)}, []any{seen.Session, seen.Owner, seen.Address, seen.Token})
	for sign, give := range map[string]func() error{
		"a commit": func() error { return first.Update(ctx, nothing) },
		"a renew":  func() error { return first.Renew(ctx) },
	} {
		require.NoError(t, give())
		_, err = b.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "b"})
		require.ErrorIs(t, err, store.ErrClaimed, sign)
		seen, err = b.Look(ctx, 0)
		require.NoError(t, err)
	}
	second, err := b.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "b"})
	require.NoError(t, err)
	_, err = a.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "a"})
	require.ErrorIs(t, err, store.ErrClaimed)
	_, err = a.Claim(ctx, store.PartitionClaim{Owner: "a"})
	require.ErrorIs(t, err, store.ErrClaimed, "there was none when it was seen")

	require.NoError(t, first.Failure())
	require.ErrorIs(t, first.Update(ctx, nothing), store.ErrFenced)
	<-first.Failed()
	require.ErrorIs(t, first.Failure(), store.ErrFenced)
	require.ErrorIs(t, first.View(ctx, func(store.ReadTx) error { return nil }), store.ErrFenced)
	require.NoError(t, first.Close())
	require.NoError(t, second.Update(ctx, nothing), "whoever was replaced gives nothing back")
	require.NoError(t, second.Close())
	seen, err = a.Look(ctx, 0)
	require.NoError(t, err)
	require.False(t, seen.Owned())
	require.Equal(t, uint64(2), seen.Last)
}

func TestWhatWasCommittedIsThereForTheNextOwner(t *testing.T) {
	c := memory.NewCluster()
	first := claim(t, c.Process(), "a")
	require.NoError(t, first.Update(ctx, write()))
	second := claim(t, c.Process(), "b")
	require.NoError(t, second.View(ctx, func(tx store.ReadTx) error {
		seq, err := tx.Seq()
		assert.Equal(t, uint64(1), seq)
		return err
	}))
	require.NoError(t, errors.Join(first.Close(), second.Close()))
}

func TestADatabaseThatIsAwayRefusesAndKeepsEverything(t *testing.T) {
	away := errors.New("away")
	c := memory.NewCluster()
	p := c.Process()
	o := claim(t, p, "a")
	for name, set := range map[string]func(error){"for all": c.SetAway, "for one": p.SetAway} {
		set(away)
		require.ErrorIs(t, o.Update(ctx, nothing), away, name)
		require.ErrorIs(t, o.Renew(ctx), away, name)
		_, err := p.Look(ctx, 0)
		require.ErrorIs(t, err, away, name)
		set(nil)
		require.NoError(t, o.Update(ctx, nothing), name)
	}
	c.SetAway(away)
	require.NoError(t, o.Close())
	c.SetAway(nil)
	seen, err := p.Look(ctx, 0)
	require.NoError(t, err)
	require.True(t, seen.Owned(), "it could not be given back")
}

func TestAPartitionThatWasStoppedIsOpenedOnlyWithTheLossAccepted(t *testing.T) {
	c := memory.NewCluster()
	p := c.Process()
	o := claim(t, p, "a")
	c.Halt(0, "two commits are gone")
	require.ErrorIs(t, o.Renew(ctx), store.ErrFenced)
	seen, err := p.Look(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, "two commits are gone", seen.Halted)
	require.Greater(t, seen.Token, o.Token(), "whoever owned it is fenced")
	_, err = p.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "a"})
	require.ErrorIs(t, err, store.ErrUnusable)
	o, err = p.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "a", AcceptLoss: true})
	require.NoError(t, err)
	require.NoError(t, o.Update(ctx, nothing))
	require.ErrorContains(t, p.AcceptLoss(ctx, 0, "two commits are gone"), "it is not stopped")
	seen, err = p.Look(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, []any{"", false}, []any{seen.Halted, seen.Lost})

	c.Halt(0, "three commits are gone")
	require.ErrorContains(t, p.AcceptLoss(ctx, 0, "two commits are gone"), "another reason: three commits are gone")
	require.ErrorIs(t, p.AcceptLoss(ctx, 0, "two commits are gone"), store.ErrNotLost)
	require.ErrorIs(t, p.AcceptLoss(ctx, 1, "three commits are gone"), store.ErrNotFound)
	seen, err = p.Look(ctx, 0)
	require.NoError(t, err)
	require.True(t, seen.Lost)
	require.NoError(t, p.AcceptLoss(ctx, 0, "three commits are gone"))
	seen, err = p.Look(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, []any{"", false}, []any{seen.Halted, seen.Lost})
	o, err = p.Claim(ctx, store.PartitionClaim{Seen: seen, Owner: "a"})
	require.NoError(t, err)
	require.NoError(t, o.Update(ctx, nothing))
}

func TestInstancesOfAClusterInMemory(t *testing.T) {
	c := memory.NewCluster()
	p := c.Process()
	one, two := store.Instance{Name: "a", Session: "1", Address: "http://a", Version: "1"}, store.Instance{Name: "a", Session: "2"}
	require.ErrorContains(t, p.Register(ctx, store.Instance{Name: "a"}), `session ""`)
	require.NoError(t, p.Register(ctx, one))
	_, err := p.Renew(ctx, one)
	require.NoError(t, err)
	list, err := p.Instances(ctx)
	require.NoError(t, err)
	require.Equal(t, []store.Instance{{Name: "a", Session: "1", Address: "http://a", Version: "1", Beat: 2}}, list)
	require.NoError(t, p.Register(ctx, two))
	_, err = p.Renew(ctx, one)
	require.ErrorIs(t, err, store.ErrFenced)
	require.NoError(t, p.Leave(ctx, one))
	_, err = p.Renew(ctx, two)
	require.NoError(t, err)
	require.NoError(t, p.Leave(ctx, two))
	_, err = p.Renew(ctx, two)
	require.ErrorIs(t, err, store.ErrFenced)
}

func TestAClusterKeepsWhatAHandoverIsPromised(t *testing.T) {
	storetest.RunHandover(t, func(*testing.T) (former, owner storetest.Process) {
		c := memory.NewCluster()
		return c.Process(), c.Process()
	})
}
