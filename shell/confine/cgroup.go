package confine

import (
	"fmt"
	"math"
	"strconv"
)

// Limits are what all processes of a program may have together. Zero values: no limit.
type Limits struct {
	MemoryMaxBytes int64   // beyond it the kernel ends processes of the program
	PidsMax        int     // processes and threads: beyond it none can be made
	CPUMax         float64 // CPUs: 0.5 is half of one
}

// cpuPeriod is the period of cpu.max, in microseconds: the kernel's default.
const cpuPeriod = 100_000

// files gives what is written into the files of a group.
func (l Limits) files() map[string]string {
	out := map[string]string{}
	if l.MemoryMaxBytes > 0 {
		out["memory.max"] = strconv.FormatInt(l.MemoryMaxBytes, 10)
		out["memory.swap.max"] = "0" // else the limit would only move memory to the disk
		out["memory.oom.group"] = "1"
	}
	if l.PidsMax > 0 {
		out["pids.max"] = strconv.Itoa(l.PidsMax)
	}
	if l.CPUMax > 0 {
		out["cpu.max"] = fmt.Sprintf("%d %d", int64(math.Ceil(l.CPUMax*cpuPeriod)), cpuPeriod)
	}
	return out
}

// controllers are those that the limits need.
func (l Limits) controllers() (names []string) {
	if l.MemoryMaxBytes > 0 {
		names = append(names, "memory")
	}
	if l.PidsMax > 0 {
		names = append(names, "pids")
	}
	if l.CPUMax > 0 {
		names = append(names, "cpu")
	}
	return names
}

// Any reports whether there is a limit.
func (l Limits) Any() bool { return l != Limits{} }

// optional are files that a kernel may not have: one without swap accounting, say.
var optional = map[string]bool{"memory.swap.max": true, "memory.oom.group": true}
