// Program benchmarks compares the queue of Orrery, on its embedded store and on
// PostgreSQL, with River on the same PostgreSQL and Asynq on Redis, on one machine
// and in one run: how many items a second are pushed, taken and completed, each
// step durable.
//
// It is a module of its own, so that what it needs never enters Orrery's. The
// script run next to it starts the servers; see README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// system is a queue that is measured. Each call of run is a fresh queue.
type system struct {
	name string
	// run pushes n items from as many producers as there are workers, lets the
	// workers take and complete them, and returns how long it took from the first
	// push to the last completion.
	run func(ctx context.Context, n, workers int) (time.Duration, error)
}

// produce pushes the items 0 to n-1 from as many producers at once as there are workers.
func produce(n, workers int, push func(i int) error) error {
	var producers errgroup.Group
	for p := range workers {
		producers.Go(func() error {
			for i := p; i < n; i += workers {
				if err := push(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return producers.Wait()
}

func main() {
	if err := compare(); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func compare() error {
	postgres := flag.String("postgres", "", "`url` of a PostgreSQL database for River and for Orrery; empty: they are left out")
	redis := flag.String("redis", "", "`path` of the Unix socket of a Redis for Asynq; empty: Asynq is left out")
	workers := flag.String("workers", "1,16,256", "`numbers` of workers, with commas")
	perWorker := flag.Int("items", 500, "`items` per run with one worker; more workers get more, up to 40 times as many")
	runs := flag.Int("runs", 5, "`runs` of each; the median counts")
	flag.Parse()

	systems := []system{{"orrery", runOrrery}}
	if *postgres != "" {
		systems = append(systems, system{"orrery-pg", orreryOn(*postgres)}, system{"river", riverOn(*postgres)})
	}
	if *redis != "" {
		systems = append(systems, system{"asynq", asynqOn(*redis)})
	}
	fmt.Printf("%8s", "workers")
	for _, s := range systems {
		fmt.Printf("%12s/s", s.name)
	}
	fmt.Println("   (median of", *runs, "runs)")
	for _, text := range strings.Split(*workers, ",") {
		w, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || w < 1 {
			return fmt.Errorf("-workers: %q is not a number of at least 1", text)
		}
		n := *perWorker * min(w, 40)
		rates := make([][]float64, len(systems))
		for range *runs { // in turns, so that what disturbs the machine disturbs all
			for i, s := range systems {
				took, err := s.run(context.Background(), n, w)
				if err != nil {
					return fmt.Errorf("%s with %d workers: %w", s.name, w, err)
				}
				rates[i] = append(rates[i], float64(n)/took.Seconds())
			}
		}
		fmt.Printf("%8d", w)
		for i := range systems {
			slices.Sort(rates[i])
			fmt.Printf("%14.0f", rates[i][len(rates[i])/2])
		}
		fmt.Println()
	}
	return nil
}
