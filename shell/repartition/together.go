package repartition

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/orrery-go/orrery/store"
)

// errNotTaken is the error about a target that has ended without an export.
var errNotTaken = errors.New("the target has not taken what it was given")

// together begins all targets, has do fill their sinks, and ends them. If one fails, all do. The error is the first one.
func together(ctx context.Context, to []Target, do func(ctx context.Context, sinks []store.Sink) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	sinks, begun, over := make([]store.Sink, len(to)), make(chan struct{}, len(to)), make(chan struct{})
	var result error // once over is closed
	failed := make(chan error, len(to))
	for k, fill := range to {
		all.Go(func() {
			e := &joined{begin: func(sink store.Sink) error {
				sinks[k] = sink
				begun <- struct{}{}
				<-over
				return result
			}}
			err := fill(ctx, e)
			if err == nil && !e.called {
				err = cmp.Or(context.Cause(ctx), errNotTaken) // a target that was told to end before it asked has refused nothing
			}
			if err != nil {
				failed <- err
			}
		})
	}
	for range to {
		select {
		case <-begun:
		case result = <-failed:
			cancel(result)
			close(over)
			all.Wait()
			return result
		case <-ctx.Done():
			result = context.Cause(ctx)
			close(over)
			all.Wait()
			return result
		}
	}
	result = do(ctx, sinks)
	close(over)
	all.Wait()
	if result != nil {
		return result
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// joined is the exporter that a target gets.
type joined struct {
	begin  func(store.Sink) error
	called bool
}

// Export implements [store.Exporter].
func (j *joined) Export(_ context.Context, to store.Sink) error {
	if j.called {
		return errors.New("the export was asked for twice")
	}
	j.called = true
	return j.begin(to)
}
