package core

import (
	"time"
)

// ms gives a duration of that many milliseconds, which saturates.
func ms(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// clipText keeps a text from outside within its limit.
func clipText(s string) string {
	if len(s) > MaxTextBytes {
		return validText(s[:MaxTextBytes])
	}
	return s
}
