package secrets

import (
	"context"
	"sync/atomic"
)

// Replaceable is a [Source] whose secrets can be replaced while an engine uses it. Make one with [NewReplaceable].
type Replaceable struct{ source atomic.Pointer[Source] }

// NewReplaceable makes one that begins with a source.
func NewReplaceable(s Source) *Replaceable {
	r := &Replaceable{}
	r.Replace(s)
	return r
}

// Replace has another source asked from now on; what was asked before is not asked again.
func (r *Replaceable) Replace(s Source) { r.source.Store(&s) }

// Allows implements [Source].
func (r *Replaceable) Allows(name string, use Use) bool { return (*r.source.Load()).Allows(name, use) }

// Value implements [Source].
func (r *Replaceable) Value(ctx context.Context, name string) (string, error) {
	return (*r.source.Load()).Value(ctx, name)
}
