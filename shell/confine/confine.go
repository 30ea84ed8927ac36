// Package confine keeps a program that is started within bounds that the kernel holds: a
// user of its own, and limits of a control group (cgroup v2) for memory, processes and CPU.
//
// A user of its own keeps the program from the files, the memory and the processes of the
// daemon. Without one it can open whatever the daemon's user can, whatever else is restricted.
//
//   - user*.go: the user; cgroup*.go: control groups.
package confine

import "errors"

// ErrUnsupported says that the system has no such bounds.
var ErrUnsupported = errors.New("this system has none")
