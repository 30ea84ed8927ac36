// Package keymutex has mutual exclusion by key: one caller at a time holds the mutex of
// a key, and those of other keys are not concerned.
package keymutex

import (
	"context"
	"sync"
)

// Map is the mutexes of all keys. Its zero value is ready for use; it keeps nothing of
// a key that nobody holds or waits for.
type Map[K comparable] struct {
	mu sync.Mutex
	m  map[K]*mutex
}

type mutex struct {
	free  chan struct{} // holds a token while nobody holds the mutex
	users int           // who holds it and who waits for it
}

// Lock waits until the caller holds the mutex of the key. unlock must be called once.
// The error is the cause for which ctx has ended.
func (m *Map[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	x := m.join(key)
	select {
	case <-x.free:
		return m.unlocking(key, x), nil
	case <-ctx.Done():
		m.part(key, x)
		return nil, context.Cause(ctx)
	}
}

// TryLock takes the mutex of the key if nobody holds it.
func (m *Map[K]) TryLock(key K) (unlock func(), ok bool) {
	x := m.join(key)
	select {
	case <-x.free:
		return m.unlocking(key, x), true
	default:
		m.part(key, x)
		return nil, false
	}
}

// Len is how many keys have somebody who holds their mutex or waits for it.
func (m *Map[K]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.m)
}

// join counts the caller among the users of the key's mutex.
func (m *Map[K]) join(key K) *mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.m[key]
	if x == nil {
		x = &mutex{free: make(chan struct{}, 1)}
		x.free <- struct{}{}
		if m.m == nil {
			m.m = make(map[K]*mutex)
		}
		m.m[key] = x
	}
	x.users++
	return x
}

// part takes back what join did.
func (m *Map[K]) part(key K, x *mutex) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(m.m, key)
	}
}

func (m *Map[K]) unlocking(key K, x *mutex) func() {
	return func() {
		x.free <- struct{}{}
		m.part(key, x)
	}
}
