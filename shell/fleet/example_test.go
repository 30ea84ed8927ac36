package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store/memory"
)

// An engine runs while this process owns the partition. A program takes the database from postgres.Connect.
func ExampleRun() {
	cluster := memory.NewCluster().Process()
	greet := func(_ context.Context, c shell.Call) (json.RawMessage, error) { return json.Marshal("hi " + c.Label) }
	ctx, stop := context.WithCancel(context.Background()) // a program ends it with a signal
	err := fleet.Run(ctx, fleet.Options{Cluster: cluster, Name: "a"}, func(ctx context.Context, t fleet.Term) error {
		engine, err := shell.New(shell.Options{Store: t.Store, Tools: map[string]shell.Tool{"greet": shell.ToolFunc(greet)}})
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- engine.Run(ctx) }()
		a, err := engine.Actions().Create(ctx, core.ActionSpec{ToolName: "greet", Label: "you"})
		if err == nil {
			a, err = engine.Actions().Wait(ctx, a.ID)
		}
		if err == nil {
			fmt.Println("with token", t.Store.Token(), a.Status.Type, string(a.Status.Result))
		}
		stop()
		return <-ended
	})
	fmt.Println(err)
	// Output:
	// with token 1 completed "hi you"
	// <nil>
}
