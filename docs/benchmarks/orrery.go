package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
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
