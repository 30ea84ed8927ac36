package replay_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store/memory"
)

// Verify makes every decision of the journal anew, and compares what follows with what is
// stored, byte for byte.
func ExampleVerify() {
	st := memory.New()
	engine, err := shell.New(shell.Options{Store: st, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- engine.Run(ctx) }()
	for range 3 {
		if _, _, err := engine.Queues().Push(ctx, "default", "default", "mail", shell.PushOptions{}); err != nil {
			panic(err)
		}
	}
	stop()
	if err := <-stopped; err != nil {
		panic(err)
	}

	report, err := replay.Verify(context.Background(), st, replay.Options{})
	fmt.Println(report.Inputs, "inputs,", len(report.Divergences), "divergences,", err)
	// Output: 3 inputs, 0 divergences, <nil>
}
