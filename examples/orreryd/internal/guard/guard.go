// Package guard keeps what the daemon holds in its memory from programs that it starts as
// its own user.
package guard
