// Command sets is a service whose schedules and queues stand in files: it applies the folder orrery at its start, says
// what that has changed, and runs one of them by hand.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/setfile"
	"github.com/orrery-go/orrery/store/bolt"
)

func main() {
	if err := run(context.Background(), "examples/sets/orrery", "sets.db"); err != nil {
		fmt.Fprintln(os.Stderr, "sets:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder, db string) error {
	st, err := bolt.Open(db, bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	printed := make(chan string, 1)
	engine, err := shell.New(shell.Options{Store: st, Tools: map[string]shell.Tool{"print": shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		var in struct{ Text string }
		err := json.Unmarshal(c.Input, &in)
		printed <- in.Text
		return nil, err
	})}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	stopped := make(chan error)
	go func() { stopped <- engine.Run(ctx) }()
	err = apply(ctx, engine, folder)
	if err == nil {
		digest, named := engine.Recurring().Named(ctx, "default", "reports", "digest")
		_, triggered := engine.Recurring().Trigger(ctx, digest.ID)
		if err = errors.Join(named, triggered); err == nil {
			fmt.Println("digest:", <-printed)
		}
	}
	stop()
	return errors.Join(err, <-stopped)
}

// apply makes what the files declare, and says what that has changed.
func apply(ctx context.Context, engine *shell.Engine, folder string) error {
	entries, err := setfile.Load([]string{folder}, setfile.Options{})
	if err != nil {
		return err
	}
	res, err := engine.Sets().Apply(ctx, "service", entries, shell.SetOptions{Prune: true})
	for _, c := range res.Changes {
		fmt.Println(c.Action, c.Kind, c.Name)
	}
	return err
}
