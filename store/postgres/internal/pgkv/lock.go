package pgkv

import "context"

// lock is a mutex that is waited for no longer than a context goes: who has it may wait for the database. newLock makes it.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

// Lock implements [sync.Locker].
func (l lock) Lock() { l <- struct{}{} }

// Unlock implements [sync.Locker].
func (l lock) Unlock() { <-l }

// lockWithin is Lock until the context ends: then it gives why that has ended. What is free is had, whatever the context says.
func (l lock) lockWithin(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
