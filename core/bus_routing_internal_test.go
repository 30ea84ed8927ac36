package core

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
)

type busLoader struct{ bus Bus }

func (l busLoader) Load(ref effects.Ref) (State, error) {
	if ref == BusRef() {
		return l.bus, nil
	}
	return nil, nil
}

func (l busLoader) Scan(effects.Kind, string, Cursor, int) ([]Cursor, error) {
	return []Cursor{{At: l.bus.CreatedAt, ID: BusRef().ID}}, nil
}

// Each routing is one hop further, and what arises from too many in a row is
// announced, but reaches no subscriber; the bus says so.
func TestTheBusRoutesNoFurtherThanItsLimit(t *testing.T) {
	bus, _ := Bus{}.Apply(BusSubscribe{Subscriber: WorkerWakeSubscriber{Worker: MachineName{Name: "merge"}}.Subscription("wake")}, Clock{Now: 1})
	for hops := range MaxRoutings + 1 {
		batch := NewBatch(busLoader{bus}, Clock{Now: 1}, 1)
		batch.hops = hops
		require.NoError(t, batch.emit(effects.Event{Kind: effects.KindTaskStuck}, &Result{}))
		assert.Equal(t, hops, batch.hops, "as before")
		if hops < MaxRoutings {
			require.Len(t, batch.queue, 1)
			assert.Equal(t, hops+1, batch.queue[0].hops)
			assert.Equal(t, BusRef(), batch.queue[0].from)
			assert.Len(t, batch.Events(), 1)
			continue
		}
		assert.Empty(t, batch.queue)
		require.Len(t, batch.Events(), 2)
		assert.Equal(t, effects.KindEscalate, batch.Events()[1].Kind)
		assert.Contains(t, string(batch.Events()[1].Data), "subscribers feed one another")
	}
}

// A refusal must reach who waits for a lock or for slots.
func TestAMachineWhoseRequestIsRefusedIsToldSo(t *testing.T) {
	owner := Owner{Ref: effects.Ref{Kind: KindPipeline, ID: BusRef().ID}, N: 7}
	for _, in := range []Input{
		{To: SemaphoreRef("", "", "build"), Event: SemaphoreAcquire{Name: "build", Owner: owner}},
		{To: LockRef("", "", "merge"), Event: LockAcquire{Name: "merge", Owner: owner, TTLMS: -1}},
	} {
		batch := NewBatch(busLoader{}, Clock{Now: 1}, 1)
		res, err := batch.Apply(in)
		require.NoError(t, err)
		require.NotNil(t, res.Refused)
		require.Len(t, batch.queue, 2)
		assert.Equal(t, delivery{from: in.To, to: owner.Ref, event: ChildEnded{Child: in.To, N: 7, Outcome: ChildRefused, Reason: res.Refused.Reason}, asked: true, of: ofTenant(Scope{})}, batch.queue[1])
	}
}
