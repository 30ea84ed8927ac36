//go:build !linux

package git

import "errors"

// seesProcesses says whether it can be told which processes are at work.
const seesProcesses = false

func seesAllProcesses() bool { return false }

func bootID() string { return "" }

func gitProcesses([]string) ([]process, error) { return nil, errors.ErrUnsupported }

func holderOf(string, []process) error { return errors.ErrUnsupported }
