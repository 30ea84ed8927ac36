package postgrestest

import "golang.org/x/sys/unix"

// releaseMemory gives back the shared memory that a killed server has left behind. A
// server that is started again with the same data does that itself.
func (p *process) releaseMemory() {
	if p.memory != 0 {
		_, _ = unix.SysvShmCtl(p.memory, unix.IPC_RMID, nil) // it may be gone
		p.memory = 0
	}
}
