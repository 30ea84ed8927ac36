package command

import "time"

// SetPipeDelay lets a test tell an output that was closed by the end of all who
// held it from one that was given up.
func (t *Tool) SetPipeDelay(d time.Duration) { t.pipeDelay = d }
