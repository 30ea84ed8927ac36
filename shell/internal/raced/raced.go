// Package raced tells tests whether they run under the race detector, which makes those
// that move megabytes or repeat one thing hundreds of times ten times as slow.
package raced

// Skip skips a test that looks for no race and would take long under the detector. The
// same test runs whole without it.
func Skip(t interface {
	Helper()
	Skip(args ...any)
}) {
	t.Helper()
	if Detector {
		t.Skip("it weighs bytes: run without the race detector")
	}
}
