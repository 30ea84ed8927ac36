package scarce_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/internal/scarce"
)

func TestWhatTheSystemLacked(t *testing.T) {
	for want, errs := range map[string][]error{
		"file descriptors": {
			&os.PathError{Op: "fork/exec", Err: syscall.EMFILE},
			fmt.Errorf("start: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}),
			os.NewSyscallError("pipe2", syscall.ENFILE),
			&os.PathError{Op: "fork/exec", Err: syscall.EBADF},
			&net.DNSError{Err: "dial udp 127.0.0.1:53: socket: too many open files", Name: "example.com"},
		},
		"processes": {&os.PathError{Op: "fork/exec", Err: syscall.EAGAIN}},
		"memory":    {&os.PathError{Op: "fork/exec", Err: syscall.ENOMEM}},
		"": {
			nil, errors.New("too many open files"), syscall.EAGAIN, &os.PathError{Op: "read", Err: syscall.EAGAIN},
			&os.PathError{Op: "fork/exec", Err: syscall.ENOENT}, &net.DNSError{Err: "no such host", Name: "example.com"},
			os.NewSyscallError("connect", syscall.EAGAIN), &os.PathError{Op: "read", Err: syscall.EBADF}, os.NewSyscallError("pipe2", syscall.EBADF),
		},
	} {
		for _, err := range errs {
			assert.Equal(t, want, scarce.What(err), "%v", err)
		}
	}
}
