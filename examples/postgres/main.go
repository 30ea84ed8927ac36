// Command postgres is Orrery in a program of your own, on a PostgreSQL database: of several processes one works, the others pass
// requests on to it, and the next takes over once that is gone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/fleet"
	"github.com/orrery-go/orrery/shell/fleet/forward"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/store/postgres"
)

const lease = 2 * time.Second // the same in all processes

func main() {
	if len(os.Args) != 3 {
		fmt.Println("usage: DATABASE=postgres://… postgres NAME HOST:PORT")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("DATABASE"), os.Args[1], os.Args[2])
	stop()
	if err != nil {
		fmt.Println("ended:", err)
		os.Exit(1)
	}
}

// run takes part in the cluster until ctx ends.
func run(ctx context.Context, url, name, listen string) error {
	cluster, err := postgres.Connect(ctx, url, postgres.Options{Lease: lease})
	if err != nil {
		return err
	}
	defer cluster.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	member, err := fleet.New(fleet.Options{
		Cluster: cluster, Name: name, Address: "http://" + listener.Addr().String(), Lease: lease,
		Events: func(e fleet.Event) {
			if e.Kind == fleet.EventStandsBy {
				fmt.Println(name, "stands by at", listener.Addr())
			}
		},
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	passes, err := forward.New(forward.Options{Member: member, Name: name, Open: true}) // whoever reaches this machine may do everything
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	front := forward.NewFront(passes)
	server := &http.Server{Handler: front, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until Close
	defer func() { _ = server.Close() }()
	return member.Run(ctx, func(ctx context.Context, t fleet.Term) error { return work(ctx, t, name, front) })
}

// work runs an engine, and answers requests, while the database is this process's: ctx ends once another one has it, and nothing of
// what runs here is stored any more.
func work(ctx context.Context, t fleet.Term, name string, front *forward.Front) error {
	greet := func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		return json.Marshal(name + " says hi to " + c.Label)
	}
	engine, err := shell.New(shell.Options{
		Store: t.Store, Clock: t.Clock, Tools: map[string]shell.Tool{"greet": shell.ToolFunc(greet)},
		Handover: t.Handover, // a stop leaves the database to one that stands by at once, not once the last tool has ended
	})
	if err != nil {
		return err
	}
	api, err := httpapi.New(httpapi.Options{Engine: engine})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	defer front.Own(api.Handler())()
	a, err := engine.Actions().Create(ctx, core.ActionSpec{ToolName: "greet", Label: "you"})
	if err == nil {
		a, err = engine.Actions().Wait(ctx, a.ID)
	}
	if err == nil {
		fmt.Println(name, "works:", a.Status.Type, string(a.Status.Result))
	}
	return <-ended
}
