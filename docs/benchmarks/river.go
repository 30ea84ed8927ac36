package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverArgs struct {
	N int `json:"n"`
}

func (riverArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	left *atomic.Int64
	done chan struct{}
}

func (w *riverWorker) Work(context.Context, *river.Job[riverArgs]) error {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
	return nil
}

// riverOn measures River as its documentation starts it, but with the shortest
// pause between two fetches that it allows, which is to its advantage here.
func riverOn(url string) func(context.Context, int, int) (time.Duration, error) {
	return func(ctx context.Context, n, workers int) (time.Duration, error) {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
		if err != nil {
			return 0, err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return 0, err
		}
		if _, err := pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
			return 0, err
		}
		left := &atomic.Int64{}
		left.Store(int64(n))
		w := &riverWorker{left: left, done: make(chan struct{})}
		ws := river.NewWorkers()
		river.AddWorker(ws, w)
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
			Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
			FetchCooldown: river.FetchCooldownMin,
			Workers:       ws,
		})
		if err != nil {
			return 0, err
		}
		if err := client.Start(ctx); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := produce(n, workers, func(i int) error {
			_, err := client.Insert(ctx, riverArgs{N: i}, nil)
			return err
		}); err != nil {
			return 0, err
		}
		<-w.done
		// What was worked is completed in batches: the stop waits for the last one.
		err = client.Stop(ctx)
		return time.Since(start), err
	}
}
