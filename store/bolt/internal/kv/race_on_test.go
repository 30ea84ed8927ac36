//go:build race

package kv_test

// rounds are few where each takes ten times as long.
const rounds = 1
