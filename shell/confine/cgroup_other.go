//go:build !linux

package confine

import (
	"fmt"
	"os/exec"
	"syscall"
)

// Tree would be a part of the hierarchy of control groups.
type Tree struct{}

// OpenTree says that this system has no control groups.
func OpenTree(string, Limits) (*Tree, error) {
	return nil, fmt.Errorf("control groups: %w", ErrUnsupported)
}

// Group would be one control group.
type Group struct{}

// Make says that this system has no control groups.
func (t *Tree) Make(string, Limits) (*Group, error) {
	return nil, fmt.Errorf("control groups: %w", ErrUnsupported)
}

// Sweep does nothing.
func (t *Tree) Sweep(string) error { return nil }

// Remove does nothing.
func (t *Tree) Remove(string) error { return nil }

// Root is empty.
func (t *Tree) Root() string { return "" }

// BindProcess does nothing.
func (g *Group) BindProcess(*syscall.SysProcAttr) {}

// Bind does nothing.
func (g *Group) Bind(*exec.Cmd) {}

// Close does nothing.
func (g *Group) Close() error { return nil }
