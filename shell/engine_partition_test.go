package shell_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// pagedBy makes an action for each event of that category, under an id that it derives from the event's.
type pagedBy string

func (s pagedBy) Matches(e effects.Event) bool { return e.Kind.Category == string(s) }

func (s pagedBy) Handle(e effects.Event) []effects.Effect {
	made := core.ChildID(e.ID, "paged", 0, 0)
	return []effects.Effect{effects.Send{To: effects.Ref{Kind: core.KindAction, ID: made}, Event: core.ActionCreate{Spec: core.ActionSpec{
		ID: made, ToolName: "count", Trigger: core.Scheduled(e.Timestamp),
	}}}}
}

// madeIn publishes one event in an empty database of that partition, and gives what a subscriber has made of
// it: the only action.
func madeIn(t *testing.T, partition int) (made uuid.UUID) {
	t.Helper()
	st := memory.New()
	program := map[string]core.Subscriber{"pager": pagedBy("deploy")}
	e, stop := start(t, shell.Options{Store: st, Tools: tools(&counting{}), Partition: partition, Subscribers: program})
	synctest.Wait() // the batches of the beginning are done: which number the event's has is not left to chance
	_, err := e.Subscribers().Send(bg(), shell.Scope{}, core.BusPublish{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci", ID: uuid.Max}})
	require.NoError(t, err)
	synctest.Wait()
	require.NoError(t, stop())
	verifyWith(t, st, program)
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
		return tx.Records(func(r store.Record) error {
			if r.Kind == core.KindAction {
				require.Zero(t, made, "one action")
				made = r.ID
			}
			return nil
		})
	}))
	require.NotZero(t, made)
	return made
}

func TestWhatASubscriberStartsHasAnotherIDInEachPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		undivided := madeIn(t, 0)
		assert.Equal(t, undivided, madeIn(t, 0), "the same inputs in the same batches")
		assert.NotEqual(t, undivided, madeIn(t, 1))
		assert.NotEqual(t, madeIn(t, 1), madeIn(t, 2))
	})
}

func TestADatabaseIsOfThePartitionWithWhichItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := func(st store.Store, partition int) error {
			e, err := shell.New(shell.Options{Store: st, Tools: tools(&counting{}), Partition: partition, Logger: quiet})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(bg())
			done := make(chan error, 1)
			go func() { done <- e.Run(ctx) }()
			synctest.Wait()
			cancel()
			return <-done
		}
		third, undivided := memory.New(), memory.New()
		require.NoError(t, begun(third, 3))
		require.NoError(t, begun(third, 3), "again")
		assert.EqualError(t, begun(third, 4), "start the engine: shell: Options.Partition is 4, and the database is partition 3: give that number, or the database of the other one")
		assert.ErrorContains(t, begun(third, 0), "the database is partition 3")
		e, stop := start(t, shell.Options{Store: undivided, Tools: tools(&counting{})})
		_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count"})
		require.NoError(t, err)
		require.NoError(t, stop())
		assert.ErrorContains(t, begun(undivided, 1), "the database is partition 0")
	})
}

func TestAPartitionWithoutANumberIsRefused(t *testing.T) {
	for _, n := range []int{-1, core.MaxPartitions} {
		_, err := shell.New(shell.Options{Store: memory.New(), Partition: n})
		assert.ErrorContains(t, err, "shell: Options.Partition: ")
		assert.ErrorContains(t, err, "is not between 0 and 4095")
	}
}

// verifyWith replays a journal with the subscribers of its program.
func verifyWith(t *testing.T, st store.Store, program map[string]core.Subscriber) {
	t.Helper()
	rep, err := replay.Verify(bg(), st, replay.Options{Subscribers: program})
	require.NoError(t, err)
	assert.Empty(t, rep.Divergences)
}

func TestAnEngineThatKnowsHowManyPartitionsThereAreMakesNothingForATenantOfAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions = 8
		scope := shell.Scope{Namespace: "shop", Tenant: "ann"}
		home := core.Partition(scope, partitions)
		spec := core.ActionSpec{Namespace: scope.Namespace, Tenant: scope.Tenant, ToolName: "count", DedupKey: "k"}
		counted := &counting{}
		e, stop := start(t, shell.Options{Store: memory.New(), Tools: tools(counted), Partition: (home + 1) % partitions, Partitions: partitions})
		_, err := e.Actions().Create(bg(), spec)
		refused, ok := errors.AsType[*shell.Refusal](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, effects.CodeElsewhere, refused.Code)
		assert.EqualError(t, err, fmt.Sprintf(`the tenant "ann" of namespace "shop" lives in partition %d of 8, not in %d: nothing was done`, home, (home+1)%partitions))
		_, _, err = e.Queues().Push(bg(), scope.Namespace, scope.Tenant, "mail", shell.PushOptions{})
		assert.ErrorContains(t, err, "lives in partition")
		require.NoError(t, stop())

		e, stop = start(t, shell.Options{Store: memory.New(), Tools: tools(counted), Partition: home, Partitions: partitions})
		_, err = e.Actions().Create(bg(), spec)
		require.NoError(t, err)
		require.NoError(t, stop())
	})
}

func TestPartitionsOfWhichThisOneIsNoneAreRefused(t *testing.T) {
	for _, row := range []struct{ partition, of int }{{0, -1}, {4, 4}, {1, 1}, {0, core.MaxPartitions + 1}} {
		_, err := shell.New(shell.Options{Store: memory.New(), Partition: row.partition, Partitions: row.of})
		assert.EqualError(t, err, fmt.Sprintf("shell: Options.Partitions: %d, of which this one is %d: want 0 if it is not known how many there are, else more than %d and 4096 at most", row.of, row.partition, row.partition))
	}
	_, err := shell.New(shell.Options{Store: memory.New(), Partition: core.MaxPartitions - 1, Partitions: core.MaxPartitions})
	assert.NoError(t, err)
}
