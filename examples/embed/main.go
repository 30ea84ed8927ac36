// Command embed is Orrery in a program of your own: a store, a tool, an action.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

func main() {
	st, openErr := bolt.Open("embed.db", bolt.Options{})
	greet := func(_ context.Context, c shell.Call) (json.RawMessage, error) { return json.Marshal("hi " + c.Label) }
	engine, newErr := shell.New(shell.Options{Store: st, Tools: map[string]shell.Tool{"greet": shell.ToolFunc(greet)}})
	if err := errors.Join(openErr, newErr); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- engine.Run(ctx) }()
	a, addErr := engine.Actions().Create(ctx, core.ActionSpec{ToolName: "greet", Label: "world"})
	a, waitErr := engine.Actions().Wait(ctx, a.ID)
	stop()
	fmt.Println(a.Status.Type, string(a.Status.Result), errors.Join(addErr, waitErr, <-stopped, st.Close()))
}
