//go:build !unix

package postgrestest

import (
	"fmt"
	"os/exec"
	"runtime"
)

// account is the user of this process.
type account struct{}

func runsAs() (account, error) {
	return account{}, fmt.Errorf("%w: these tests run it on Unix only, not on %s", errMissing, runtime.GOOS)
}

func (account) own(string) error { return nil }

func (account) applyTo(*exec.Cmd) {}

func alone(*exec.Cmd) {}

// process is none: runsAs has refused before.
type process struct{}

func begin(*exec.Cmd) (process, error) { return process{}, errMissing }

func (*process) ended() bool { return true }

// shutdown is a way in which a server ends.
type shutdown struct{}

var fast, immediate shutdown

func (*Server) stop(shutdown) error { return errMissing }

func (*Server) kill() error { return errMissing }

func (*Server) freeze() error { return errMissing }

func (*Server) thaw() error { return nil }
