package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/memory"
)

// launch gives an engine that runs on a store in memory, and what ends it.
func launch(o shell.Options) (engine *shell.Engine, stop func()) {
	o.Store, o.Logger = memory.New(), slog.New(slog.DiscardHandler)
	engine, err := shell.New(o)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- engine.Run(ctx) }()
	return engine, func() {
		cancel()
		if err := errors.Join(<-stopped, o.Store.Close()); err != nil {
			panic(err)
		}
	}
}

// greet is a tool: it does the work of actions that name it.
var greet = shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
	return json.Marshal("hello, " + c.Label)
})

// An engine takes actions, and its tools do their work. Create returns once the action
// is durable; Wait once it has ended.
func Example() {
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"greet": greet}})
	defer stop()

	ctx := context.Background()
	a, err := engine.Actions().Create(ctx, core.ActionSpec{ToolName: "greet", Label: "world"})
	if err != nil {
		panic(err)
	}
	a, err = engine.Actions().Wait(ctx, a.ID)
	fmt.Println(a.Status.Type, string(a.Status.Result), err)
	// Output: completed "hello, world" <nil>
}

// Many actions are made in one call and one transaction: with CreateAll all of them or
// none, with CreateEach each that is not refused.
func ExampleActions_CreateAll() {
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"greet": greet}})
	defer stop()

	ctx := context.Background()
	specs := []core.ActionSpec{{ToolName: "greet", Label: "Ada"}, {ToolName: "greet", Label: "Bob"}, {ToolName: "great"}}
	_, err := engine.Actions().CreateAll(ctx, specs)
	if of, ok := errors.AsType[*shell.EntryError](err); ok {
		fmt.Println(of)
	}

	made, err := engine.Actions().CreateAll(ctx, specs[:2])
	if err != nil {
		panic(err)
	}
	for _, a := range made {
		ended, err := engine.Actions().Wait(ctx, a.ID)
		fmt.Println(string(ended.Status.Result), err)
	}
	// Output:
	// entry 2: tool_name: "great" is unknown: use one of greet
	// "hello, Ada" <nil>
	// "hello, Bob" <nil>
}

// A tool is one method. What it gives back ends the action: a result completes it, an
// error fails it with its text as the reason.
func ExampleTool() {
	divide := shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		var in struct{ A, B int }
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return nil, err
		}
		if in.B == 0 {
			return nil, errors.New("division by zero")
		}
		return json.Marshal(in.A / in.B)
	})
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"divide": divide}})
	defer stop()

	for _, input := range []string{`{"a": 6, "b": 2}`, `{"a": 1, "b": 0}`} {
		a, err := engine.Actions().Execute(context.Background(), core.ActionSpec{ToolName: "divide", ToolInput: json.RawMessage(input)})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %s%s\n", a.Status.Type, a.Status.Result, a.Status.Reason)
	}
	// Output:
	// completed 3
	// failed division by zero
}

// What a tool writes while it runs is kept beside the action, and can be followed.
func ExampleCall_Output() {
	backup := shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		out := c.Output()
		for _, table := range []string{"orders", "customers"} {
			if _, err := fmt.Fprintf(out, "dumped %s\n", table); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"backup": backup}})
	defer stop()

	ctx := context.Background()
	a, err := engine.Actions().Create(ctx, core.ActionSpec{ToolName: "backup"})
	if err != nil {
		panic(err)
	}
	if err := engine.Actions().CopyOutput(ctx, a.ID, shell.OutputOptions{Follow: true}, os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// dumped orders
	// dumped customers
}

// Of two actions with one dedup key, the second is refused while the first is live. The
// refusal is an error that says what holds the key.
func ExampleActions_Create_dedupKey() {
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"greet": greet}})
	defer stop()

	ctx := context.Background()
	spec := core.ActionSpec{
		ID: uuid.MustParse("0194b5d2-0000-7000-8000-000000000001"), ToolName: "greet", DedupKey: "order-7",
		Trigger: core.Scheduled(effects.TimeOf(time.Now().Add(time.Hour))),
	}
	_, err := engine.Actions().Create(ctx, spec)
	fmt.Println("first:", err)
	spec.ID = uuid.Nil
	_, err = engine.Actions().Create(ctx, spec)
	var refusal *shell.Refusal
	fmt.Println("second:", errors.As(err, &refusal), refusal.Code)
	// Output:
	// first: <nil>
	// second: true conflict
}

// Cancel ends an action that waits for its time, or stops its tool.
func ExampleActions_Cancel() {
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"greet": greet}})
	defer stop()

	ctx := context.Background()
	a, err := engine.Actions().Create(ctx, core.ActionSpec{
		ToolName: "greet", Trigger: core.Scheduled(effects.TimeOf(time.Now().Add(time.Hour))),
	})
	if err != nil {
		panic(err)
	}
	a, err = engine.Actions().Cancel(ctx, a.ID, "not needed any more")
	fmt.Println(a.Status.Type, a.Status.Reason, err)
	// Output: cancelled not needed any more <nil>
}

// A recurring action makes an action at each time of its cron expression, in its time
// zone; Trigger makes one now.
func ExampleRecurring_Create() {
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"greet": greet}})
	defer stop()

	ctx := context.Background()
	r, err := engine.Recurring().Create(ctx, core.RecurringSpec{
		Namespace: "default", Tenant: "default", CronExpr: "0 9 * * MON-FRI", Timezone: "Europe/Berlin", Enabled: true,
		ActionTemplate: core.RecurringActionTemplate{Provider: "greet", ActionType: "morning"},
	})
	if err != nil {
		panic(err)
	}
	next := r.NextExecutionAt.Std().In(time.UTC)
	fmt.Println("due on a weekday:", next.Weekday() != time.Saturday && next.Weekday() != time.Sunday)
	r, err = engine.Recurring().Trigger(ctx, r.ID)
	fmt.Println("dispatched:", r.ExecutionCount, err)
	// Output:
	// due on a weekday: true
	// dispatched: 1 <nil>
}

// Items of a queue are taken by priority and in the order of their push. Who takes an
// item holds it until it says what became of it, or until the visibility timeout.
func ExampleQueues_Take() {
	engine, stop := launch(shell.Options{})
	defer stop()

	ctx := context.Background()
	queue := core.QueueRef("default", "default", "mail")
	for i, text := range []string{"first", "second", "urgent"} {
		priority := int32(0)
		if text == "urgent" {
			priority = 10
		}
		_, _, err := engine.Queues().Push(ctx, "default", "default", "mail", shell.PushOptions{
			Data: json.RawMessage(fmt.Sprintf("%q", text)), Priority: priority, DedupKey: fmt.Sprint("letter-", i),
		})
		if err != nil {
			panic(err)
		}
	}
	items, err := engine.Queues().Take(ctx, queue, shell.TakeOptions{Holder: "me", Max: 2})
	if err != nil {
		panic(err)
	}
	for _, item := range items {
		fmt.Println(string(item.Data), engine.Queues().Complete(ctx, shell.HoldOf(item), nil))
	}
	// Output:
	// "urgent" <nil>
	// "first" <nil>
}

// Work takes items and calls a function for each, several at a time, until its context
// ends. An error gives the item back for another attempt.
func ExampleQueues_Work() {
	engine, stop := launch(shell.Options{})
	defer stop()

	ctx, cancel := context.WithCancel(context.Background())
	queue := core.QueueRef("default", "default", "words")
	if _, _, err := engine.Queues().Push(ctx, "default", "default", "words", shell.PushOptions{Data: json.RawMessage(`"hi"`)}); err != nil {
		panic(err)
	}
	err := engine.Queues().Work(ctx, queue, func(_ context.Context, item core.QueueItem) (json.RawMessage, error) {
		if item.Attempts == 1 {
			return nil, errors.New("not in the mood")
		}
		defer cancel() // the only item is done
		fmt.Println(string(item.Data), "in attempt", item.Attempts)
		return nil, nil
	}, shell.WorkOptions{})
	fmt.Println(err)
	// Output:
	// "hi" in attempt 2
	// <nil>
}

// A pipeline runs its phases in order, and hands a context from one to the next. Here a
// person approves before the tool runs.
func ExampleEngine_Pipelines() {
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"greet": greet}})
	defer stop()

	ctx := context.Background()
	p, err := engine.Pipelines().Create(ctx, core.PipelineSpec{
		Namespace: "default", Tenant: "default",
		Definition: core.PipelineDef{Name: "release", Phases: []core.PhaseDef{
			{Name: "agree", Approval: &core.ApprovalPhase{Message: "release it?"}},
			{Name: "ship", Run: &core.ToolRun{Tool: "greet"}},
		}},
	})
	if err != nil {
		panic(err)
	}
	for p.Waiting.For != core.WaitApproval && err == nil {
		p, err = engine.Pipelines().Get(ctx, p.ID)
	}
	_, err = engine.Pipelines().Send(ctx, p.ID, core.PipelineApprove{Phase: "agree", By: "ann", Approved: true})
	if err != nil {
		panic(err)
	}
	p, err = engine.Pipelines().Wait(ctx, p.ID)
	fmt.Println(p.Phase.Type, p.History[0].Name, p.History[1].Name, err)
	// Output: done agree ship <nil>
}

// A lock has one holder at a time. Each grant has a greater fencing token than all
// before it: who comes later with an older one is refused.
func ExampleEngine_Locks() {
	engine, stop := launch(shell.Options{})
	defer stop()

	ctx := context.Background()
	scope := shell.Scope{Namespace: "default", Tenant: "default"}
	acquire := func(holder string) core.LockAcquire {
		return core.LockAcquire{Namespace: scope.Namespace, Tenant: scope.Tenant, Name: "main", Holder: holder, TTLMS: 60_000}
	}
	first, err := engine.Locks().Send(ctx, scope, "main", acquire("ann"))
	fmt.Println(first.Holder, err)
	_, err = engine.Locks().Send(ctx, scope, "main", acquire("bob"))
	fmt.Println(err != nil)
	_, err = engine.Locks().Send(ctx, scope, "main", core.LockRelease{Holder: "ann", Token: first.Token})
	fmt.Println(err)
	second, err := engine.Locks().Send(ctx, scope, "main", acquire("bob"))
	fmt.Println(second.Holder, second.Token > first.Token, err)
	// Output:
	// ann <nil>
	// true
	// <nil>
	// bob true <nil>
}

// Subscribe hears what machines announce, once it is durable.
func ExampleEngine_Subscribe() {
	engine, stop := launch(shell.Options{})
	defer stop()

	s := engine.Subscribe(func(e effects.Event) bool { return e.Kind.Category == "queue" }, 8)
	defer s.Close()
	if _, _, err := engine.Queues().Push(context.Background(), "default", "default", "mail", shell.PushOptions{}); err != nil {
		panic(err)
	}
	e := <-s.C
	fmt.Println(e.Kind.Category, e.Kind.Action)
	// Output: queue push
}

// A subscriber of a tenant hears the events of that tenant, and what it does is there, too: here it pushes each deploy
// into a queue, within the transaction in which the deploy is announced.
func ExampleEngine_Subscribers() {
	engine, stop := launch(shell.Options{})
	defer stop()

	ctx, acme := context.Background(), shell.Scope{Namespace: "shop", Tenant: "acme"}
	bus, err := engine.Subscribers().Send(ctx, acme, core.BusSubscribe{Subscriber: core.Subscription{
		Name: "deploys", Match: core.EventMatch{Category: "deploy"}, Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: "deployed"}}},
	}})
	fmt.Println(len(bus.Subscribers), err)
	for _, of := range []shell.Scope{acme, {Namespace: "shop", Tenant: "other"}} {
		if _, err := engine.Subscribers().Send(ctx, of, core.BusPublish{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci"}}); err != nil {
			panic(err)
		}
	}
	queue, err := engine.Queues().Get(ctx, acme.Namespace, acme.Tenant, "deployed")
	fmt.Println(queue.Pushed, err)
	// Output:
	// 1 <nil>
	// 1 <nil>
}

// A webhook is stored raw before Receive returns; then it becomes an action of the
// route's tool.
func ExampleIngress_Receive() {
	body := make(chan string, 1)
	show := shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		body <- string(c.Payload)
		return nil, nil
	})
	engine, stop := launch(shell.Options{
		Tools:    map[string]shell.Tool{"show": show},
		Webhooks: map[string]shell.WebhookRoute{"push": {Tool: "show", Namespace: "default", Tenant: "default"}},
	})
	defer stop()

	id, err := engine.Webhooks().Receive(context.Background(), "push", map[string]string{"Content-Type": "text/plain"}, []byte("raw bytes"))
	fmt.Println(id != uuid.Nil, err)
	fmt.Println(<-body)
	// Output:
	// true <nil>
	// raw bytes
}

// wallClock is a clock that a test sets by hand: the engine sees its time alone.
type wallClock struct {
	mu  sync.Mutex
	now time.Time
	set chan struct{} // closed, and made anew, when the time is set
}

func (c *wallClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *wallClock) Steady() time.Time { return c.Now() }

func (c *wallClock) Timer(d time.Duration) (<-chan time.Time, func()) {
	fire, done := make(chan time.Time, 1), make(chan struct{})
	at := c.Now().Add(d)
	go func() {
		for {
			c.mu.Lock()
			now, set := c.now, c.set
			c.mu.Unlock()
			if !now.Before(at) {
				fire <- now
				return
			}
			select {
			case <-set:
			case <-done:
				return
			}
		}
	}()
	return fire, sync.OnceFunc(func() { close(done) })
}

func (c *wallClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	close(c.set)
	c.set = make(chan struct{})
}

// With a clock of one's own, a day passes in no time. Under testing/synctest no clock is
// needed: the engine's own runs on virtual time there.
func ExampleClock() {
	clock := &wallClock{now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), set: make(chan struct{})}
	engine, stop := launch(shell.Options{Tools: map[string]shell.Tool{"greet": greet}, Clock: clock})
	defer stop()

	ctx := context.Background()
	a, err := engine.Actions().Create(ctx, core.ActionSpec{
		ToolName: "greet", Label: "tomorrow", Trigger: core.Scheduled(effects.TimeOf(clock.Now().Add(24 * time.Hour))),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Status.Type)
	clock.advance(24 * time.Hour)
	a, err = engine.Actions().Wait(ctx, a.ID)
	fmt.Println(a.Status.Type, a.StartedAt, err)
	// Output:
	// pending
	// completed 2030-01-02T12:00:00.000Z <nil>
}

// pager asks for a person where an action fails. Its methods are pure: what they give follows
// from the event alone, so that a replay makes it again.
type pager struct{}

func (pager) Matches(e effects.Event) bool { return e.Kind.String() == "action:failed" }

func (pager) Handle(e effects.Event) []effects.Effect {
	id := core.ChildID(e.ID, "page", 0, 0) // derived, so that it is the same in a replay
	return []effects.Effect{effects.Send{To: effects.Ref{Kind: core.KindAction, ID: id}, Event: core.ActionCreate{Spec: core.ActionSpec{
		ID: id, ToolName: "page", Label: "look at it", Trigger: core.Scheduled(e.Timestamp),
	}}}}
}

// A subscriber of one's own hears what machines announce, and what it makes of it is
// carried out in the same transaction: the action that pages is stored with the failure.
func ExampleOptions_subscribers() {
	paged := make(chan string)
	engine, stop := launch(shell.Options{
		Subscribers: map[string]core.Subscriber{"pager": pager{}},
		Tools: map[string]shell.Tool{
			"fail": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) { return nil, errors.New("no route to host") }),
			"page": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) { paged <- c.Label; return nil, nil }),
		},
	})
	defer stop()

	if _, err := engine.Actions().Create(context.Background(), core.ActionSpec{ToolName: "fail"}); err != nil {
		panic(err)
	}
	fmt.Println(<-paged)
	// Output: look at it
}
