//go:build !race

package kv_test

const rounds = 4
