package shell_test

import (
	"sync/atomic"
	"time"

	"github.com/orrery-go/orrery/shell"
)

// jumping is a wall clock that can be set; its timers are those of the system.
type jumping struct {
	shell.SystemClock
	offset atomic.Int64
}

func (j *jumping) jump(d time.Duration) { j.offset.Add(int64(d)) }

func (j *jumping) Now() time.Time {
	return j.SystemClock.Now().Add(time.Duration(j.offset.Load()))
}
