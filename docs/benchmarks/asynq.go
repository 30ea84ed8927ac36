package main

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// asynqOn measures Asynq as its documentation starts it. How durable it is, the
// Redis decides: see the script run.
func asynqOn(addr string) func(context.Context, int, int) (time.Duration, error) {
	return func(_ context.Context, n, workers int) (time.Duration, error) {
		o := asynq.RedisClientOpt{Network: "unix", Addr: addr}
		inspector := asynq.NewInspector(o)
		defer inspector.Close()
		_, _ = inspector.DeleteAllPendingTasks("default") // there may be no such queue yet
		var left atomic.Int64
		left.Store(int64(n))
		done := make(chan struct{})
		server := asynq.NewServer(o, asynq.Config{Concurrency: workers, LogLevel: asynq.ErrorLevel})
		mux := asynq.NewServeMux()
		mux.HandleFunc("bench", func(context.Context, *asynq.Task) error {
			if left.Add(-1) == 0 {
				close(done)
			}
			return nil
		})
		if err := server.Start(mux); err != nil {
			return 0, err
		}
		client := asynq.NewClient(o)
		defer client.Close()
		start := time.Now()
		if err := produce(n, workers, func(i int) error {
			_, err := client.Enqueue(asynq.NewTask("bench", []byte(`{"n":`+strconv.Itoa(i)+`}`)))
			return err
		}); err != nil {
			return 0, err
		}
		<-done
		took := time.Since(start)
		server.Shutdown()
		return took, nil
	}
}
