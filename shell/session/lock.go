package session

import (
	"context"
	"sync"
)

// keyedLock lets one at a time do something with a session.
type keyedLock struct {
	mu   sync.Mutex
	held map[string]*heldKey
}

type heldKey struct {
	token chan struct{} // has room for the one who holds the key
	users int           // who hold it or wait for it
}

// lock waits for the key, or for ctx.
func (l *keyedLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*heldKey{}
	}
	k := l.held[key]
	if k == nil {
		k = &heldKey{token: make(chan struct{}, 1)}
		l.held[key] = k
	}
	k.users++
	l.mu.Unlock()
	select {
	case k.token <- struct{}{}:
		return func() { <-k.token; l.leave(key, k) }, nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, context.Cause(ctx)
	}
}

func (l *keyedLock) leave(key string, k *heldKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.held, key)
	}
}
