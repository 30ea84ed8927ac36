//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package daemon

import "context"

// disk is nothing on this system, which has neither sessions nor pods of its own.
type disk struct{}

func holdDisk(context.Context, string) (*disk, error) { return nil, nil }

func (*disk) alone(_ context.Context, do func() error) error { return do() }

func (*disk) close() {}
