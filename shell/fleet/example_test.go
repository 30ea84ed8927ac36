package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// An engine runs while this process owns the partition. A program takes the database from postgres.Connect.
func ExampleRun() {
	cluster := memory.NewCluster().Process()
	greet := func(_ context.Context, c shell.Call) (json.RawMessage, error) { return json.Marshal("hi " + c.Label) }
	ctx, stop := context.WithCancel(context.Background()) // a program ends it with a signal
	err := fleet.Run(ctx, fleet.Options{Cluster: cluster, Name: "a"}, func(ctx context.Context, t fleet.Term) error {
		engine, err := shell.New(shell.Options{
			Store: t.Store, Clock: t.Clock, Handover: t.Handover, Tools: map[string]shell.Tool{"greet": shell.ToolFunc(greet)},
		})
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

// A database of four partitions, each with an engine of its own. A tenant's work is done by the engine of its partition.
func ExampleGroup() {
	ctx, stop := context.WithCancel(context.Background()) // a program ends it with a signal
	defer stop()
	cluster := memory.NewCluster().Process()
	if err := cluster.SetLayout(ctx, store.Layout{Partitions: 4, Rule: core.PartitionRule}); err != nil { // once, when the database is made
		fmt.Println(err)
	}
	layout, err := cluster.Layout(ctx)
	if err != nil {
		fmt.Println(err)
	}
	group, err := fleet.NewGroup(fleet.Options{Cluster: cluster, Name: "a"}, layout)
	if err != nil {
		fmt.Println(err)
	}
	greet := func(_ context.Context, c shell.Call) (json.RawMessage, error) { return json.Marshal("hi " + c.Label) }
	tools := map[string]shell.Tool{"greet": shell.ToolFunc(greet)} // shared by all engines
	tenant := shell.Scope{Namespace: "shop", Tenant: "ann"}
	home := core.Partition(tenant, layout.Partitions)
	var worked atomic.Int32
	err = group.Run(ctx, func(ctx context.Context, t fleet.Term) error {
		engine, err := shell.New(shell.Options{Store: t.Store, Clock: t.Clock, Partition: t.Partition, Partitions: t.Partitions, Handover: t.Handover, Tools: tools})
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- engine.Run(ctx) }()
		if t.Partition == home {
			a, err := engine.Actions().Create(ctx, core.ActionSpec{Namespace: tenant.Namespace, Tenant: tenant.Tenant, ToolName: "greet", Label: "you"})
			if err == nil {
				a, err = engine.Actions().Wait(ctx, a.ID)
			}
			if err == nil {
				fmt.Println("in partition", t.Partition, a.Status.Type, string(a.Status.Result))
			}
		}
		if worked.Add(1) == int32(layout.Partitions) {
			stop()
		}
		return <-ended
	})
	fmt.Println(worked.Load(), "engines have run;", err)
	// Output:
	// in partition 1 completed "hi you"
	// 4 engines have run; <nil>
}
