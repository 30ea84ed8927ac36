//go:build !unix

package session

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

func newBackend(Options, string, map[string]string) (backend, error) { return nil, errUnsupported() }

func (tree) end(context.Context, time.Duration) error { return errUnsupported() }

func markedNames(string) ([]string, error) { return nil, errUnsupported() }

// errUnsupported is why New fails where there are no terminals of this kind.
func errUnsupported() error {
	return fmt.Errorf("terminal sessions are not supported on %s: run the daemon on Linux or macOS", runtime.GOOS)
}
