package core_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// A cluster has stored where its tenants live: what this table says is for ever that of rule 1.
func TestThePartitionOfATenantIsThatOfRule1(t *testing.T) {
	require.Equal(t, 1, core.PartitionRule, "another rule has a table of its own")
	long := string(slices.Repeat([]byte("n"), 100))
	for _, row := range []struct {
		of                       core.Scope
		of16, of256, of3, of4096 int
	}{
		{core.Scope{}, 10, 122, 2, 2938},
		{core.Scope{Namespace: "default", Tenant: "default"}, 0, 16, 0, 2064},
		{core.Scope{Namespace: "default", Tenant: "acme"}, 11, 187, 2, 3259},
		{core.Scope{Namespace: "shop", Tenant: "acme"}, 2, 162, 1, 418},
		{core.Scope{Namespace: "acme", Tenant: "shop"}, 9, 89, 2, 89},
		{core.Scope{Namespace: "orrery", Tenant: "notify"}, 8, 104, 0, 104},
		{core.Scope{Namespace: "日本", Tenant: "東京"}, 7, 87, 1, 3159},
		{core.Scope{Namespace: long}, 6, 230, 2, 3302},
		{core.Scope{Tenant: long}, 8, 24, 0, 1816},
	} {
		got := []int{core.Partition(row.of, 16), core.Partition(row.of, 256), core.Partition(row.of, 3), core.Partition(row.of, core.MaxPartitions)}
		assert.Equal(t, []int{row.of16, row.of256, row.of3, row.of4096}, got, "%q", row.of)
	}
}

func TestATenantIsInOnePartitionWhateverTheOthersAreCalled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := core.Scope{Namespace: rapid.String().Draw(t, "namespace"), Tenant: rapid.String().Draw(t, "tenant")}
		partitions := rapid.IntRange(-1, core.MaxPartitions).Draw(t, "partitions")
		n := core.Partition(of, partitions)
		assert.GreaterOrEqual(t, n, 0)
		assert.Less(t, n, max(partitions, 1))
		assert.Equal(t, n, core.Partition(of, partitions))
	})
}

func TestTenantsAreSpreadEvenlyOverPartitions(t *testing.T) {
	const tenants = 160_000
	for _, partitions := range []int{2, 3, 16, 100} {
		for _, name := range []string{"tenant-%d", "%d", "t%08d"} { // as people number them
			counts := make([]int, partitions)
			for i := range tenants {
				counts[core.Partition(core.Scope{Namespace: "default", Tenant: fmt.Sprintf(name, i)}, partitions)]++
			}
			even := float64(tenants) / float64(partitions)
			for n, count := range counts {
				assert.InEpsilon(t, even, count, 0.12, "partition %d of %d, tenants %q", n, partitions, name)
			}
		}
	}
}

func TestTheLengthOfANamespaceCountsSoThatNoTwoTenantsAreOneByTheirLetters(t *testing.T) {
	together := 0
	for i := range 1000 {
		a, b := core.Scope{Namespace: "a", Tenant: fmt.Sprint("bc", i)}, core.Scope{Namespace: "ab", Tenant: fmt.Sprint("c", i)}
		if core.Partition(a, 16) == core.Partition(b, 16) {
			together++
		}
	}
	assert.Less(t, together, 120)
}

// publishedIn makes a batch of announcements in a partition, and gives their ids.
func publishedIn(t require.TestingT, partition uint16, seq uint64, n int) (ids []uuid.UUID) {
	batch := core.NewBatch(nothing{}, core.Clock{Now: start}, seq)
	batch.Partition(partition)
	for range n {
		_, err := batch.Apply(core.Input{To: core.BusRef(), Event: core.BusPublish{
			Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci", ID: id(1)},
		}})
		require.NoError(t, err)
	}
	for _, e := range batch.Events() {
		ids = append(ids, e.ID)
	}
	require.Len(t, ids, n)
	return ids
}

func TestAnIDThatFollowsFromTheNumberOfABatchHasThePartition(t *testing.T) {
	assert.Equal(t, uuid.MustParse("00000000-0007-8000-8000-000000000000"), publishedIn(t, 0, 7, 1)[0], "of a system that is not divided")
	assert.Equal(t, uuid.MustParse("00000000-0007-8abc-8000-000000000000"), publishedIn(t, 0xabc, 7, 1)[0])
	assert.Equal(t, uuid.MustParse("ffffffff-ffff-8fff-8000-000000000001"), publishedIn(t, core.MaxPartitions-1, 1<<48-1, 2)[1])
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Uint64Range(1, 1<<44).Draw(t, "seq")
		a := rapid.Uint16Range(0, core.MaxPartitions-1).Draw(t, "a")
		b := rapid.Uint16Range(0, core.MaxPartitions-1).Draw(t, "b")
		assert.Equal(t, a == b, publishedIn(t, a, seq, 1)[0] == publishedIn(t, b, seq, 1)[0])
		for _, made := range publishedIn(t, a, seq, 2) {
			assert.Equal(t, uuid.Version(8), made.Version())
			assert.Equal(t, uuid.RFC4122, made.Variant())
		}
	})
}

func TestABatchThatIsResetStaysInItsPartition(t *testing.T) {
	batch := core.NewBatch(nothing{}, core.Clock{Now: start}, 1)
	batch.Partition(5)
	batch.Reset(nothing{}, core.Clock{Now: start}, 2)
	_, err := batch.Apply(core.Input{To: core.BusRef(), Event: core.BusPublish{
		Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci", ID: id(1)},
	}})
	require.NoError(t, err)
	require.Len(t, batch.Events(), 1)
	assert.Equal(t, publishedIn(t, 5, 2, 1)[0], batch.Events()[0].ID)
}

func TestAnEntryOfTheJournalSaysOfWhichPartitionItIs(t *testing.T) {
	for _, n := range []uint16{0, 1, core.MaxPartitions - 1} {
		e := core.NewEntry(3, start, "test")
		e.Partition, e.Inputs = n, []core.Input{}
		raw := e.AppendJSON(nil)
		if n == 0 {
			assert.NotContains(t, string(raw), "partition", "entries of a system that is not divided are as before")
		}
		again, err := core.DecodeEntry(raw)
		require.NoError(t, err)
		assert.Equal(t, e, again)
		assert.True(t, checkScannedEntry(t, raw))
	}
	_, err := core.DecodeEntry([]byte(`{"seq":1,"partition":70000,"inputs":[]}`))
	assert.Error(t, err)
}

func TestAPartitionHasANumberOfTwelveBits(t *testing.T) {
	for n, right := range map[int]bool{-1: false, 0: true, 4095: true, 4096: false} { // order-free: each by itself
		assert.Equal(t, right, core.CheckPartition(n) == nil, n)
	}
	assert.EqualError(t, core.CheckPartition(4096), "4096 is not between 0 and 4095")
}
