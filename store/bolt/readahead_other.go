//go:build !linux

package bolt

import "go.etcd.io/bbolt"

// readAhead does nothing here: see the one for Linux.
func readAhead(*bbolt.DB, int) {}
