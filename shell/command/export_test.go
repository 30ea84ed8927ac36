package command

import (
	"os"
	"time"
)

// SetPipeDelay lets a test tell an output that was closed by the end of all who
// held it from one that was given up.
func (t *Tool) SetPipeDelay(d time.Duration) { t.pipeDelay = d }

// SetSIGKILL puts another deed in place of the kill of what an earlier attempt
// left: a test cannot make a process that does not die of one.
func (t *Tool) SetSIGKILL(f func(*os.Process) error) { t.sigkill = f }
