// Command postgres is Orrery in a program of your own, on a PostgreSQL database: of several processes one works, and the
// next takes over once that is gone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
)

const lease = 2 * time.Second // the same in all processes

func main() {
	if len(os.Args) != 2 {
		fmt.Println("usage: DATABASE=postgres://… postgres NAME")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("DATABASE"), os.Args[1])
	stop()
	if err != nil {
		fmt.Println("ended:", err)
		os.Exit(1) // for the supervisor to start it again, to stand by
	}
}

// run works on the database until ctx ends, or another process has taken it over.
func run(ctx context.Context, url, name string) error {
	st, err := open(ctx, url, name)
	if err != nil {
		return err
	}
	greet := func(_ context.Context, c shell.Call) (json.RawMessage, error) { return json.Marshal("hi " + c.Label) }
	engine, err := shell.New(shell.Options{Store: st, Tools: map[string]shell.Tool{"greet": shell.ToolFunc(greet)}})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	living, end := context.WithCancel(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		renew(living, st)
	}()
	stopped := make(chan error, 1)
	go func() { stopped <- engine.Run(ctx) }()
	a, err := engine.Actions().Create(ctx, core.ActionSpec{ToolName: "greet", Label: name})
	if err == nil {
		a, err = engine.Actions().Wait(ctx, a.ID)
	}
	if err == nil {
		fmt.Println(name, "works:", a.Status.Type, string(a.Status.Result))
	}
	runErr := <-stopped // at a signal, or with store.ErrFenced: then nothing of what ran here is stored
	end()
	<-renewed
	return errors.Join(err, runErr, st.Close()) // Close gives the database back: the next one need not wait for the lease
}

// open stands by until the database is this process's.
func open(ctx context.Context, url, name string) (*postgres.Store, error) {
	for standsBy := false; ; standsBy = true {
		// Open returns at the next sign of life of another owner, and without one takes over after a lease.
		st, err := postgres.Open(ctx, url, postgres.Options{Owner: name, Lease: lease})
		switch {
		case !errors.Is(err, store.ErrClaimed):
			return st, err
		case !standsBy:
			fmt.Println(name, "stands by")
		}
	}
}

// renew gives signs of life also while there is nothing to store.
func renew(ctx context.Context, st *postgres.Store) {
	for tick := time.NewTicker(lease / 5); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			_ = st.Renew(ctx) // an engine whose store is another process's ends by itself
		}
	}
}
