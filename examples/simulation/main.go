// Command simulation tests a runbook of its own against crashes, lost answers and failovers: orders, whose card is charged
// before they are shipped. With -careless the phase that charges is begun again after an interruption, and a seed shows what
// comes of that.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/sim"
	"github.com/orrery-go/orrery/store"
)

// shop is the world outside: what was charged and shipped stays so, whatever becomes of the process that did it.
type shop struct{ charged, shipped map[string]int }

func (s *shop) note(m map[string]int) shell.Tool {
	return shell.ToolFunc(func(_ context.Context, c shell.Call) (json.RawMessage, error) {
		m[string(c.Input)]++
		return nil, nil
	})
}

// orders gives a simulation of three orders. Each run has a shop of its own.
func orders(onInterrupt core.OnInterrupt) sim.Options {
	s := &shop{map[string]int{}, map[string]int{}}
	return sim.Options{
		Engine: func(o *shell.Options) {
			o.Tools = map[string]shell.Tool{"charge": s.note(s.charged), "ship": s.note(s.shipped)}
		},
		Requests: func(*rand.Rand) (list []sim.Request) {
			for n := range 3 {
				input, _ := json.Marshal(fmt.Sprintf("order %d", n)) //nolint:errchkjson // a string
				def := core.PipelineDef{Name: "order", Phases: []core.PhaseDef{
					{Name: "charge", Run: &core.ToolRun{Tool: "charge", Input: input, OnInterrupt: onInterrupt}},
					{Name: "ship", Run: &core.ToolRun{Tool: "ship", Input: input, OnInterrupt: core.InterruptRetry}},
				}}
				spec := core.PipelineSpec{ID: uuid.NewSHA1(uuid.NameSpaceURL, input), Definition: def}
				list = append(list, sim.Request{Name: "take " + string(input), Do: func(ctx context.Context, e *shell.Engine) error {
					_, err := e.Pipelines().Create(ctx, spec)
					return err
				}})
			}
			return list
		},
		Check: func(store.ReadTx) (wrong []string) {
			for n := range 3 {
				order := fmt.Sprintf("%q", fmt.Sprintf("order %d", n))
				if s.charged[order] > 1 {
					wrong = append(wrong, fmt.Sprintf("%s is charged %d times", order, s.charged[order]))
				}
				if s.shipped[order] > 0 && s.charged[order] == 0 {
					wrong = append(wrong, order+" is shipped and not charged")
				}
			}
			return wrong
		},
	}
}

func main() {
	careless := flag.Bool("careless", false, "begin the charge again after an interruption")
	seeds := flag.Uint64("seeds", 200, "how many seeds to run")
	flag.Parse()
	onInterrupt := core.InterruptFail
	if *careless {
		onInterrupt = core.InterruptRetry
	}
	for seed := uint64(1); seed <= *seeds; seed++ {
		rep, err := sim.Run(seed, orders(onInterrupt))
		if err != nil {
			panic(err)
		}
		if rep.Failed() {
			if rep, err = sim.Shrink(rep, func() sim.Options { return orders(onInterrupt) }, 100); err != nil {
				panic(err)
			}
			fmt.Print(rep)
			os.Exit(1)
		}
	}
	fmt.Println("nothing found in", *seeds, "seeds")
}
