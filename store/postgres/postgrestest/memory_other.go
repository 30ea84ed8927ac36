//go:build !linux

package postgrestest

// releaseMemory leaves the few bytes of shared memory of a killed server to the system.
func (p *process) releaseMemory() {}
