//go:build !unix

package session

import (
	"context"
	"time"
)

func newBackend(Options, string, map[string]string) (backend, error) { return nil, errUnsupported() }

func (tree) end(context.Context, time.Duration) error { return errUnsupported() }

func markedNames(string) ([]string, error) { return nil, errUnsupported() }
