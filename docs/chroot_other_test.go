//go:build !linux

package docs_test

import (
	"errors"
	"os/exec"
)

func intoFolder(*exec.Cmd, string) error { return errors.New("images are for Linux") }
