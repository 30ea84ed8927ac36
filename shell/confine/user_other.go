//go:build !unix

package confine

import (
	"fmt"
	"os"
	"os/exec"
)

// Check reports that this system cannot start programs as another user.
func (u *User) Check() error { return fmt.Errorf("users of programs: %w", ErrUnsupported) }

// CanEnter does nothing: Check has said so.
func (u *User) CanEnter(string) error { return nil }

// Bind does nothing: Check has said so.
func (u *User) Bind(*exec.Cmd) {}

// Become reports that this system has no such users.
func (u *User) Become() error { return u.Check() }

// Own does nothing: Check has said so.
func (u *User) Own(*os.Root, string) error { return nil }
