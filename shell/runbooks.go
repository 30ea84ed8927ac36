package shell

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// CreatePipeline makes a pipeline, which starts at once unless its spec holds it.
// An id of zeros is replaced by a fresh one. The run keeps the definition that it
// is given. The error is a [*Refusal] where the spec is wrong or the id exists.
func (e *Engine) CreatePipeline(ctx context.Context, spec core.PipelineSpec) (core.Pipeline, error) {
	if err := fillID(&spec.ID); err != nil {
		return core.Pipeline{}, err
	}
	return sendTo[core.Pipeline](ctx, e, effects.Ref{Kind: core.KindPipeline, ID: spec.ID}, core.PipelineCreate{Spec: spec})
}

// SendPipeline gives an event to a pipeline, and returns its state afterwards.
func (e *Engine) SendPipeline(ctx context.Context, id uuid.UUID, ev core.PipelineEvent) (core.Pipeline, error) {
	return sendTo[core.Pipeline](ctx, e, effects.Ref{Kind: core.KindPipeline, ID: id}, ev)
}

// Pipeline reads a pipeline; [ErrNotFound] where there is none.
func (e *Engine) Pipeline(ctx context.Context, id uuid.UUID) (core.Pipeline, error) {
	return readAs[core.Pipeline](ctx, e, effects.Ref{Kind: core.KindPipeline, ID: id})
}

// WaitPipeline returns the pipeline once it is done, cancelled, or has failed for
// good: at once where it has already.
func (e *Engine) WaitPipeline(ctx context.Context, id uuid.UUID) (core.Pipeline, error) {
	s, err := e.waitFor(ctx, effects.Ref{Kind: core.KindPipeline, ID: id})
	p, _ := s.(core.Pipeline)
	return p, err
}

// MachineFilter chooses machines of the runbooks; zero fields choose all.
type MachineFilter struct {
	Scope  *Scope
	Status string // as the machine's own list term has it
}

func (f MachineFilter) term() string {
	switch {
	case f.Scope != nil:
		return core.ScopeTerm(f.Scope.Namespace, f.Scope.Tenant)
	case f.Status != "":
		return core.StatusTerm(core.StatusType(f.Status))
	}
	return core.TermAll
}

// hasTerm reports whether the machine stands in the list.
func hasTerm(s core.State, name string) bool {
	return slices.ContainsFunc(s.Terms(), func(t effects.Term) bool { return t.Name == name })
}

func listOf[S core.State](ctx context.Context, e *Engine, kind effects.Kind, f MachineFilter, p Page) ([]S, string, error) {
	return page(ctx, e.store, kind, f.term(), p, func(s S) bool {
		return f.Status == "" || hasTerm(s, core.StatusTerm(core.StatusType(f.Status)))
	})
}

// Pipelines lists pipelines, newest first.
func (e *Engine) Pipelines(ctx context.Context, f MachineFilter, p Page) ([]core.Pipeline, string, error) {
	return listOf[core.Pipeline](ctx, e, core.KindPipeline, f, p)
}

// CreateTask makes a task, which starts at once. An id of zeros is replaced by a
// fresh one.
func (e *Engine) CreateTask(ctx context.Context, spec core.TaskSpec) (core.Task, error) {
	if err := fillID(&spec.ID); err != nil {
		return core.Task{}, err
	}
	return sendTo[core.Task](ctx, e, effects.Ref{Kind: core.KindTask, ID: spec.ID}, core.TaskCreate{Spec: spec})
}

// SendTask gives an event to a task, and returns its state afterwards.
func (e *Engine) SendTask(ctx context.Context, id uuid.UUID, ev core.TaskEvent) (core.Task, error) {
	return sendTo[core.Task](ctx, e, effects.Ref{Kind: core.KindTask, ID: id}, ev)
}

// Task reads a task; [ErrNotFound] where there is none.
func (e *Engine) Task(ctx context.Context, id uuid.UUID) (core.Task, error) {
	return readAs[core.Task](ctx, e, effects.Ref{Kind: core.KindTask, ID: id})
}

// WaitTask returns the task once it is done: at once where it is already.
func (e *Engine) WaitTask(ctx context.Context, id uuid.UUID) (core.Task, error) {
	s, err := e.waitFor(ctx, effects.Ref{Kind: core.KindTask, ID: id})
	t, _ := s.(core.Task)
	return t, err
}

// Tasks lists tasks, newest first.
func (e *Engine) Tasks(ctx context.Context, f MachineFilter, p Page) ([]core.Task, string, error) {
	return listOf[core.Task](ctx, e, core.KindTask, f, p)
}

// CreateStrategy makes a strategy, which starts at once. An id of zeros is
// replaced by a fresh one.
func (e *Engine) CreateStrategy(ctx context.Context, spec core.StrategySpec) (core.Strategy, error) {
	if err := fillID(&spec.ID); err != nil {
		return core.Strategy{}, err
	}
	return sendTo[core.Strategy](ctx, e, effects.Ref{Kind: core.KindStrategy, ID: spec.ID}, core.StrategyCreate{Spec: spec})
}

// SendStrategy gives an event to a strategy, and returns its state afterwards.
func (e *Engine) SendStrategy(ctx context.Context, id uuid.UUID, ev core.StrategyEvent) (core.Strategy, error) {
	return sendTo[core.Strategy](ctx, e, effects.Ref{Kind: core.KindStrategy, ID: id}, ev)
}

// Strategy reads a strategy; [ErrNotFound] where there is none.
func (e *Engine) Strategy(ctx context.Context, id uuid.UUID) (core.Strategy, error) {
	return readAs[core.Strategy](ctx, e, effects.Ref{Kind: core.KindStrategy, ID: id})
}

// WaitStrategy returns the strategy once it has ended: at once where it has
// already.
func (e *Engine) WaitStrategy(ctx context.Context, id uuid.UUID) (core.Strategy, error) {
	s, err := e.waitFor(ctx, effects.Ref{Kind: core.KindStrategy, ID: id})
	st, _ := s.(core.Strategy)
	return st, err
}

// Strategies lists strategies, newest first.
func (e *Engine) Strategies(ctx context.Context, f MachineFilter, p Page) ([]core.Strategy, string, error) {
	return listOf[core.Strategy](ctx, e, core.KindStrategy, f, p)
}

// SendWorker gives an event to the worker of that name, and returns its state
// afterwards; the zero Worker where it is deleted.
func (e *Engine) SendWorker(ctx context.Context, s Scope, name string, ev core.WorkerEvent) (core.Worker, error) {
	return sendTo[core.Worker](ctx, e, core.WorkerRef(s.Namespace, s.Tenant, name), ev)
}

// Worker reads the worker of that name; [ErrNotFound] where there is none.
func (e *Engine) Worker(ctx context.Context, s Scope, name string) (core.Worker, error) {
	return readAs[core.Worker](ctx, e, core.WorkerRef(s.Namespace, s.Tenant, name))
}

// Workers lists workers, newest first.
func (e *Engine) Workers(ctx context.Context, f MachineFilter, p Page) ([]core.Worker, string, error) {
	return listOf[core.Worker](ctx, e, core.KindWorker, f, p)
}

// SendLock gives an event to the lock of that name, and returns its state
// afterwards; the zero Lock where nobody holds it any more.
func (e *Engine) SendLock(ctx context.Context, s Scope, name string, ev core.LockEvent) (core.Lock, error) {
	return sendTo[core.Lock](ctx, e, core.LockRef(s.Namespace, s.Tenant, name), ev)
}

// Lock reads the lock of that name; [ErrNotFound] where nobody holds it.
func (e *Engine) Lock(ctx context.Context, s Scope, name string) (core.Lock, error) {
	return readAs[core.Lock](ctx, e, core.LockRef(s.Namespace, s.Tenant, name))
}

// Locks lists the locks that are held, newest first.
func (e *Engine) Locks(ctx context.Context, f MachineFilter, p Page) ([]core.Lock, string, error) {
	return listOf[core.Lock](ctx, e, core.KindLock, f, p)
}

// SendSemaphore gives an event to the semaphore of that name, and returns its
// state afterwards.
func (e *Engine) SendSemaphore(ctx context.Context, s Scope, name string, ev core.SemaphoreEvent) (core.Semaphore, error) {
	return sendTo[core.Semaphore](ctx, e, core.SemaphoreRef(s.Namespace, s.Tenant, name), ev)
}

// Semaphore reads the semaphore of that name; [ErrNotFound] where there is none.
func (e *Engine) Semaphore(ctx context.Context, s Scope, name string) (core.Semaphore, error) {
	return readAs[core.Semaphore](ctx, e, core.SemaphoreRef(s.Namespace, s.Tenant, name))
}

// Semaphores lists semaphores, newest first.
func (e *Engine) Semaphores(ctx context.Context, f MachineFilter, p Page) ([]core.Semaphore, string, error) {
	return listOf[core.Semaphore](ctx, e, core.KindSemaphore, f, p)
}

// SendBus gives an event to the event bus: a subscription, or an announcement
// from outside. It returns the bus with its subscribers.
func (e *Engine) SendBus(ctx context.Context, ev core.BusEvent) (core.Bus, error) {
	return sendTo[core.Bus](ctx, e, core.BusRef(), ev)
}

// EventBus reads the event bus; the zero Bus where nobody ever subscribed.
func (e *Engine) EventBus(ctx context.Context) (core.Bus, error) {
	return readAs[core.Bus](ctx, e, core.BusRef())
}

// sendTo gives an event to a machine, and returns its state afterwards.
func sendTo[S core.State](ctx context.Context, e *Engine, to effects.Ref, ev core.Event) (S, error) {
	s, err := e.Send(ctx, to, ev)
	out, _ := s.(S)
	return out, notFound(err)
}

func readAs[S core.State](ctx context.Context, e *Engine, ref effects.Ref) (S, error) {
	s, err := e.read(ctx, ref)
	out, _ := s.(S)
	return out, err
}
