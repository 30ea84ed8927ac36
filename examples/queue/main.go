// Command queue is a durable queue in a program of your own: push, work, done.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

func main() {
	st, openErr := bolt.Open("queue.db", bolt.Options{})
	engine, newErr := shell.New(shell.Options{Store: st})
	if err := errors.Join(openErr, newErr); err != nil {
		panic(err)
	}
	running, stopEngine := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- engine.Run(running) }()

	_, err := engine.Queues().Configure(running, "default", "default", "words", core.QueueConfig{
		VisibilityTimeoutMS: 10_000, Retry: core.Retry{MaxAttempts: 5, BackoffMS: 100},
	})
	for n, text := range []string{"to be", "or not", "to be"} {
		_, _, pushErr := engine.Queues().Push(running, "default", "default", "words", shell.PushOptions{
			Data: json.RawMessage(fmt.Sprintf("%q", text)), DedupKey: fmt.Sprint("line ", n),
		})
		err = errors.Join(err, pushErr)
	}

	working, stopWork := context.WithTimeout(running, time.Minute)
	left := make(chan string, 3)
	shout := func(_ context.Context, i core.QueueItem) (json.RawMessage, error) {
		if i.Attempts == 1 && string(i.Data) == `"or not"` {
			return nil, errors.New("not in the mood") // tried again after the back-off
		}
		left <- strings.ToUpper(string(i.Data))
		return json.RawMessage(`{"loud": true}`), nil
	}
	worked := make(chan error)
	go func() {
		worked <- engine.Queues().Work(working, core.QueueRef("default", "default", "words"), shout, shell.WorkOptions{})
	}()
	fmt.Println(<-left, <-left, <-left)
	stopWork()
	err = errors.Join(err, <-worked) // first the workers, then the engine
	stopEngine()
	fmt.Println("done:", errors.Join(err, <-stopped, st.Close()))
}
