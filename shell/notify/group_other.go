//go:build !unix

package notify

import "os/exec"

// ownGroup does nothing: there are no groups, so the program alone is ended.
func ownGroup(*exec.Cmd) {}
