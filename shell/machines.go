package shell

import (
	"context"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// Machines are the calls for the machines of a kind that have ids: S is their
// state, Spec what they are made from, Event what they are told.
type Machines[S core.State, Spec any, Event core.Event] struct {
	e      *Engine
	kind   effects.Kind
	create func(spec Spec) (uuid.UUID, core.Event, error) // gives it an id if it has none
}

type (
	// Pipelines are the calls for pipelines.
	Pipelines = Machines[core.Pipeline, core.PipelineSpec, core.PipelineEvent]
	// Tasks are the calls for tasks.
	Tasks = Machines[core.Task, core.TaskSpec, core.TaskEvent]
	// Strategies are the calls for strategies.
	Strategies = Machines[core.Strategy, core.StrategySpec, core.StrategyEvent]
)

// Pipelines gives the calls for pipelines: a pipeline starts at once unless its spec
// holds it. The run keeps the definition that it is given.
func (e *Engine) Pipelines() Pipelines {
	return Pipelines{e: e, kind: core.KindPipeline, create: func(spec core.PipelineSpec) (uuid.UUID, core.Event, error) {
		err := fillID(&spec.ID)
		return spec.ID, core.PipelineCreate{Spec: spec}, err
	}}
}

// Tasks gives the calls for tasks, which start at once.
func (e *Engine) Tasks() Tasks {
	return Tasks{e: e, kind: core.KindTask, create: func(spec core.TaskSpec) (uuid.UUID, core.Event, error) {
		err := fillID(&spec.ID)
		return spec.ID, core.TaskCreate{Spec: spec}, err
	}}
}

// Strategies gives the calls for strategies, which start at once.
func (e *Engine) Strategies() Strategies {
	return Strategies{e: e, kind: core.KindStrategy, create: func(spec core.StrategySpec) (uuid.UUID, core.Event, error) {
		err := fillID(&spec.ID)
		return spec.ID, core.StrategyCreate{Spec: spec}, err
	}}
}

// Create makes a machine. An id of zeros is replaced by a fresh one. The error is a
// [*Refusal] where the spec is wrong or the id exists.
func (m Machines[S, Spec, Event]) Create(ctx context.Context, spec Spec) (S, error) {
	id, create, err := m.create(spec)
	if err != nil {
		var none S
		return none, err
	}
	return sendTo[S](ctx, m.e, m.ref(id), create)
}

func (m Machines[S, Spec, Event]) ref(id uuid.UUID) effects.Ref {
	return effects.Ref{Kind: m.kind, ID: id}
}

// Send gives an event to a machine, and returns its state afterwards.
func (m Machines[S, Spec, Event]) Send(ctx context.Context, id uuid.UUID, ev Event) (S, error) {
	return sendTo[S](ctx, m.e, m.ref(id), ev)
}

// Get reads a machine; [ErrNotFound] if there is none with that id.
func (m Machines[S, Spec, Event]) Get(ctx context.Context, id uuid.UUID) (S, error) {
	return readAs[S](ctx, m.e, m.ref(id))
}

// Wait returns the machine once it has ended: at once if it has already. A pipeline
// ends when it is done, cancelled, or has failed for good.
func (m Machines[S, Spec, Event]) Wait(ctx context.Context, id uuid.UUID) (S, error) {
	return waitForAs[S](ctx, m.e, m.ref(id))
}

// List lists machines, newest first.
func (m Machines[S, Spec, Event]) List(ctx context.Context, f MachineFilter, p Page) ([]S, string, error) {
	return listOf[S](ctx, m.e, m.kind, f, p)
}

// NamedMachines are the calls for the machines of a kind that a namespace and tenant
// know by name: S is their state, Event what they are told.
type NamedMachines[S core.State, Event core.Event] struct {
	e    *Engine
	kind effects.Kind
	ref  func(namespace, tenant, name string) effects.Ref
}

type (
	// Workers are the calls for workers.
	Workers = NamedMachines[core.Worker, core.WorkerEvent]
	// Locks are the calls for locks.
	Locks = NamedMachines[core.Lock, core.LockEvent]
	// Semaphores are the calls for semaphores.
	Semaphores = NamedMachines[core.Semaphore, core.SemaphoreEvent]
)

// Workers gives the calls for workers. A worker is deleted by an event.
func (e *Engine) Workers() Workers { return Workers{e, core.KindWorker, core.WorkerRef} }

// Locks gives the calls for locks. A lock exists while somebody holds it.
func (e *Engine) Locks() Locks { return Locks{e, core.KindLock, core.LockRef} }

// Semaphores gives the calls for semaphores.
func (e *Engine) Semaphores() Semaphores {
	return Semaphores{e, core.KindSemaphore, core.SemaphoreRef}
}

// Send gives an event to the machine of that name, and returns its state afterwards:
// the zero state if it no longer exists, as a lock that nobody holds any more.
func (m NamedMachines[S, Event]) Send(ctx context.Context, s Scope, name string, ev Event) (S, error) {
	return sendTo[S](ctx, m.e, m.ref(s.Namespace, s.Tenant, name), ev)
}

// Get reads the machine of that name; [ErrNotFound] if there is none.
func (m NamedMachines[S, Event]) Get(ctx context.Context, s Scope, name string) (S, error) {
	return readAs[S](ctx, m.e, m.ref(s.Namespace, s.Tenant, name))
}

// List lists machines, newest first.
func (m NamedMachines[S, Event]) List(ctx context.Context, f MachineFilter, p Page) ([]S, string, error) {
	return listOf[S](ctx, m.e, m.kind, f, p)
}

// Subscribers are the calls for the event buses, of which each tenant has one: it keeps the list of the tenant's
// subscribers.
type Subscribers struct{ e *Engine }

// Subscribers gives the calls for the event buses. [Engine.Subscribe] listens to the
// same events inside this process.
func (e *Engine) Subscribers() Subscribers { return Subscribers{e} }

// Send gives an event to the event bus of a tenant: a subscription, or an announcement from outside. It returns the bus
// with its subscribers. An announcement of the zero Scope is of no tenant, and the subscribers of all tenants hear it.
func (s Subscribers) Send(ctx context.Context, of Scope, ev core.BusEvent) (core.Bus, error) {
	to := core.BusRef()
	switch e := ev.(type) {
	case core.BusSubscribe:
		e.Namespace, e.Tenant = of.Namespace, of.Tenant
		to, ev = core.BusOf(of.Namespace, of.Tenant), e
	case core.BusUnsubscribe:
		to = core.BusOf(of.Namespace, of.Tenant)
	case core.BusPublish:
		e.Namespace, e.Tenant = of.Namespace, of.Tenant
		ev = e
	case core.BusRegister, core.BusHeartbeat, core.BusDivide: // of no tenant
	}
	return sendTo[core.Bus](ctx, s.e, to, ev)
}

// Get reads the event bus of a tenant; [ErrNotFound] if it has no subscriber. That of the zero Scope also names the
// subscribers that the program brings along.
func (s Subscribers) Get(ctx context.Context, of Scope) (core.Bus, error) {
	return readAs[core.Bus](ctx, s.e, core.BusOf(of.Namespace, of.Tenant))
}

// List lists the event buses of the tenants that have subscribers, the newest first. Of [Page], Scopes and Among do not
// count: Visible chooses.
func (s Subscribers) List(ctx context.Context, p Page) ([]core.Bus, string, error) {
	p.Scopes, p.Among = nil, nil
	return listOf[core.Bus](ctx, s.e, core.KindBus, MachineFilter{}, p)
}
