package jobs

import "context"

// Killer is implemented by a [Runner] that can delete an attempt without the grace period of its
// pod.
type Killer interface {
	// Kill does what [Runner.Delete] does, but gives the pod's processes no time to end by
	// themselves.
	Kill(ctx context.Context, a Attempt) (calls int, err error)
}

// killing is a runner whose Delete kills, if it can.
type killing struct{ Runner }

// Unwrap gives the runner itself.
func (k killing) Unwrap() Runner { return k.Runner }

// Delete implements [Runner].
func (k killing) Delete(ctx context.Context, a Attempt) (int, error) {
	if killer, ok := as[Killer](k.Runner); ok {
		return killer.Kill(ctx, a)
	}
	return k.Runner.Delete(ctx, a)
}
