//go:build !linux

package engine

import "time"

// suspended is not known.
func suspended() time.Duration { return -1 }
