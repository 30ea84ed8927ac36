//go:build race

package raced

// Detector says whether the race detector looks on.
const Detector = true
