// Package scarce tells what the system lacked when something could not be begun.
package scarce

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// What gives what the system lacks according to the error: "file descriptors",
// "processes" or "memory"; "" if it is about something else. EAGAIN and ENOMEM have
// other meanings, too: they count only if a program was to be started, or a pipe or
// socket to be made. So does EBADF if a program was to be started: the child moves its
// descriptors up, and dup3 refuses a number beyond the limit in this way.
func What(err error) string {
	var dns *net.DNSError
	var path *fs.PathError
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.As(err, &dns) && (strings.HasSuffix(dns.Err, syscall.EMFILE.Error()) || strings.HasSuffix(dns.Err, syscall.ENFILE.Error())):
		return "file descriptors"
	case !begins(err):
		return ""
	case errors.Is(err, syscall.EBADF) && errors.As(err, &path) && path.Op == "fork/exec":
		return "file descriptors"
	case errors.Is(err, syscall.EAGAIN):
		return "processes"
	case errors.Is(err, syscall.ENOMEM):
		return "memory"
	}
	return ""
}

// begins reports whether the error is that of a call by which something begins.
func begins(err error) bool {
	calls := []string{"fork/exec", "pipe", "pipe2", "socket", "socketpair"}
	var path *fs.PathError
	var call *os.SyscallError
	return errors.As(err, &path) && slices.Contains(calls, path.Op) || errors.As(err, &call) && slices.Contains(calls, call.Syscall)
}
