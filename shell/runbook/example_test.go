package runbook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/runbook"
	"github.com/orrery-go/orrery/store/memory"
)

const hello = `
name = "hello"

[queues.greetings]

[workers.greeter]
queue = "greetings"
run = { tool = "greet", input = { who = "${item.data.who}" } }

[pipelines.hello]
inputs = [{ name = "who", required = true }]

[[pipelines.hello.phases]]
name = "greet"
push = { queue = "greetings", data = { who = "${who}" }, wait = true }
`

// declare tells an engine what a runbook declares, as "orreryd runbook apply" does.
func declare(ctx context.Context, e *shell.Engine, book *runbook.Runbook, in shell.Scope) error {
	var errs []error
	for _, q := range book.Queues {
		_, err := e.Queues().Configure(ctx, in.Namespace, in.Tenant, q.Name, q.Config)
		errs = append(errs, err)
	}
	for _, s := range book.Semaphores {
		_, err := e.Semaphores().Send(ctx, in, s.Name, core.SemaphoreConfigure{
			Name: s.Name, Namespace: in.Namespace, Tenant: in.Tenant, Slots: s.Slots,
		})
		errs = append(errs, err)
	}
	for _, s := range book.Subscriptions(in.Namespace, in.Tenant) {
		_, err := e.Subscribers().Send(ctx, in, core.BusSubscribe{Subscriber: s})
		errs = append(errs, err)
	}
	for _, w := range book.Workers {
		_, err := e.Workers().Send(ctx, in, w.Name, core.WorkerConfigure{Spec: w.Spec(in.Namespace, in.Tenant)})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// A runbook within a program of your own: what it declares is told to the engine,
// then a pipeline of it is started.
func Example() {
	book, err := runbook.Parse("hello.toml", []byte(hello)) // or Load, of a file
	if err != nil {
		panic(err) // as orreryd runbook check says it
	}
	greet := func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		var in struct{ Who string }
		err := json.Unmarshal(c.Input, &in)
		return json.RawMessage(fmt.Sprintf("%q", "hello "+in.Who)), err
	}
	engine, err := shell.New(shell.Options{
		Store: memory.New(), Tools: map[string]shell.Tool{"greet": shell.ToolFunc(greet)}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- engine.Run(ctx) }()

	in := shell.Scope{Namespace: "default", Tenant: "default"}
	err = declare(ctx, engine, book, in)
	def, _ := book.Pipeline("hello")
	p, startErr := engine.Pipelines().Create(ctx, core.PipelineSpec{
		Namespace: in.Namespace, Tenant: in.Tenant, Runbook: book.Name, Definition: def,
		Context: map[string]json.RawMessage{"who": json.RawMessage(`"ann"`)},
	})
	p, waitErr := engine.Pipelines().Wait(ctx, p.ID)
	stop()
	fmt.Println(p.Phase.Type, string(p.Context["greet"]), errors.Join(err, startErr, waitErr, <-stopped))
	// Output: done "hello ann" <nil>
}
