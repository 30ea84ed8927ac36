// Package raced tells tests whether they run under the race detector, which makes those
// that move megabytes or repeat one thing hundreds of times ten times as slow.
package raced

import "testing"

// Skip skips a test that looks for no race and would take long under the detector. The
// same test runs whole without it.
func Skip(t testing.TB) {
	t.Helper()
	if Detector {
		t.Skip("it weighs bytes: run without the race detector")
	}
}
