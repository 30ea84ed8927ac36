// Package locked has a buffer for tests to look into while others write to it.
package locked

import (
	"bytes"
	"sync"
)

// Buffer keeps what is written to it. It is safe for concurrent use, and empty as it
// is.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is what was written up to now.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
