// Package loopbacktest gives the tests of one process loopback addresses that hardly
// another process uses, since they follow from its id: nobody takes a port there while
// a test starts or restarts the server that listens on it. At 127.0.0.1 the processes
// of other tests may open thousands of ports.
package loopbacktest

import (
	"fmt"
	"os"
	"runtime"
)

// shared is the address where the system has only one on loopback: all but Linux.
const shared = "127.0.0.1"

// Daemon is the address of this process's daemons, and of what stands before them.
func Daemon() string { return of(runtime.GOOS, os.Getpid(), daemon) }

// Database is the address of this process's database servers. It is never a [Daemon] or [Guide].
func Database() string { return of(runtime.GOOS, os.Getpid(), database) }

// Guide is the address of the daemons that the commands of a page of docs start. It
// is never a [Daemon] or [Database].
func Guide() string { return of(runtime.GOOS, os.Getpid(), guide) }

// The second number of an address tells its use.
func daemon(id int) int   { return 1 + id>>14&0x7f }    // 1 to 128
func database(id int) int { return 129 + (id>>14)%126 } // 129 to 254
func guide(int) int       { return 255 }

// of gives the address of the process id for a use, on the system goos.
func of(goos string, id int, use func(id int) int) string {
	if goos != "linux" {
		return shared
	}
	return fmt.Sprintf("127.%d.%d.%d", use(id), 1+id>>7&0x7f, 1+id&0x7f)
}
