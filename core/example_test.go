package core_test

import (
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// A machine is a value, and its Apply a pure function: state, event and clock in, state
// and effects out. Here two holders ask for one lock, stepped by hand.
func ExampleLock_Apply() {
	clock := core.Clock{Now: effects.Time(1_000), Step: 7}
	lock, effs := core.Lock{}.Apply(core.LockAcquire{Name: "main", Holder: "ann", TTLMS: 500}, clock)
	fmt.Println(lock.Holder, lock.Token, "until", lock.Until, len(effs))

	_, effs = lock.Apply(core.LockAcquire{Name: "main", Holder: "bob"}, clock)
	fmt.Println(effs[0].(effects.Refused).Reason)

	clock.Now = lock.Deadline()
	lock, _ = lock.Apply(core.LockDue{}, clock)
	fmt.Printf("%q\n", lock.Holder)
	// Output:
	// ann 7 until 1970-01-01T00:00:01.500Z 2
	// lock "main" is held by "ann" until 1970-01-01T00:00:01.500Z
	// ""
}

// An action is due at its deadline: then it asks for a run of its tool. The answer ends
// it, and a second answer changes nothing.
func ExampleAction_Apply() {
	clock := core.Clock{Now: effects.Time(1_000)}
	action, _ := core.Action{}.Apply(core.ActionCreate{Spec: core.ActionSpec{
		ID: id(1), ToolName: "http", Trigger: core.Scheduled(effects.Time(5_000)),
	}}, clock)
	fmt.Println(action.Status.Type, "due at", action.Deadline())

	clock.Now = action.Deadline()
	action, effs := action.Apply(core.ActionDue{}, clock)
	fmt.Printf("%s %+v\n", action.Status.Type, effs[0])

	action, _ = action.Apply(core.ActionComplete{Run: action.Run}, clock)
	_, effs = action.Apply(core.ActionComplete{Run: action.Run}, clock)
	_, refused := effs[0].(effects.Refused)
	fmt.Println(action.Status.Type, refused)
	// Output:
	// pending due at 1970-01-01T00:00:05.000Z
	// running {Run:1 Tool:http}
	// completed true
}

// nothing is the loader of an empty store.
type nothing struct{}

func (nothing) Load(effects.Ref) (core.State, error) { return nil, nil }

func (nothing) Scan(effects.Kind, string, core.Cursor, int) ([]core.Cursor, error) { return nil, nil }

// A batch takes inputs through their machines and through all that follows inside the
// system: here a push makes the queue, and is announced.
func ExampleBatch_Apply() {
	b := core.NewBatch(nothing{}, core.Clock{Now: effects.Time(1_000)}, 1)
	res, err := b.Apply(core.Input{To: core.QueueRef("", "", "mail"), Actor: "example", Event: core.QueuePush{Name: "mail"}})
	fmt.Println(res.Changed, err)
	for _, c := range b.Changes() {
		fmt.Println("record:", c.Ref.Kind)
	}
	for _, e := range b.Events() {
		fmt.Println("event:", e.Kind.Category, e.Kind.Action)
	}
	// Output:
	// true <nil>
	// record: queue_item
	// record: queue
	// event: queue push
}
