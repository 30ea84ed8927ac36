package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/postgres"
)

// runOrrery measures the engine with its embedded store as its documentation
// starts it: every push, take and completion is on the disk before it returns.
func runOrrery(ctx context.Context, n, workers int) (took time.Duration, err error) {
	dir, err := os.MkdirTemp("", "orrery-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	st, err := bolt.Open(filepath.Join(dir, "bench.db"), bolt.Options{})
	if err != nil {
		return 0, err
	}
	return runEngine(ctx, st, n, workers)
}

var schemas atomic.Int64

// orreryOn measures the engine with a partition of a PostgreSQL database, in a
// schema of its own, with no settings but the defaults.
func orreryOn(url string) func(context.Context, int, int) (time.Duration, error) {
	return func(ctx context.Context, n, workers int) (time.Duration, error) {
		schema := fmt.Sprintf("orrery_%d_%d", os.Getpid(), schemas.Add(1))
		st, err := postgres.Open(ctx, url, postgres.Options{Schema: schema})
		if err != nil {
			return 0, err
		}
		took, err := runEngine(ctx, st, n, workers)
		return took, errors.Join(err, drop(ctx, url, schema))
	}
}

func drop(ctx context.Context, url, schema string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
	return errors.Join(err, c.Close(ctx))
}

// runEngine measures an engine on a store, which it closes.
func runEngine(ctx context.Context, st store.Store, n, workers int) (took time.Duration, err error) {
	e, err := shell.New(shell.Options{Store: st, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, errors.Join(err, st.Close())
	}
	running, stop := context.WithCancel(ctx)
	var engine errgroup.Group
	engine.Go(func() error { return e.Run(running) })
	defer func() {
		stop()
		err = errors.Join(err, engine.Wait(), st.Close())
	}()

	var left atomic.Int64
	left.Store(int64(n))
	working, done := context.WithCancel(ctx)
	defer done()
	var work errgroup.Group
	work.Go(func() error {
		return e.Queues().Work(working, core.QueueRef("", "", "bench"), func(context.Context, core.QueueItem) (json.RawMessage, error) {
			if left.Add(-1) == 0 {
				done()
			}
			return nil, nil
		}, shell.WorkOptions{Concurrency: workers})
	})
	start := time.Now()
	if err := produce(n, workers, func(i int) error {
		_, _, err := e.Queues().Push(ctx, "", "", "bench", shell.PushOptions{Data: json.RawMessage(`{"n":` + strconv.Itoa(i) + `}`)})
		return err
	}); err != nil {
		return 0, err
	}
	err = work.Wait() // returns once the last completion is stored
	return time.Since(start), err
}
