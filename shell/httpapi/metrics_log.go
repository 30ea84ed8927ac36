package httpapi

import (
	"context"

	"github.com/orrery-go/orrery/store"
)

var (
	descLogFrames   = desc("orrery_log_frames", "Commits in the log that the database file does not have yet.")
	descLogBytes    = desc("orrery_log_bytes", "Bytes of the commits in the log that the database file does not have yet.")
	descLogMemory   = desc("orrery_log_memory_bytes", "Bytes of the commits in the log that the database file does not have yet and that are in memory.")
	descLogWritten  = desc("orrery_log_written_bytes_total", "Bytes of the commits that were written to the log.")
	descCheckpoints = desc("orrery_checkpoints_total", "Times that the log was brought into the database file.")
	descCheckFailed = desc("orrery_checkpoints_failed_total", "Times that the log could not be brought into the database file; it is tried again.")
	descCheckTime   = desc("orrery_checkpoint_seconds_total", "Time that it took to bring the log into the database file, in all.")
	descCheckIll    = desc("orrery_checkpoint_failing", "1 if the last attempt to bring the log into the database file failed, else 0.")
)

// collectLog reads how the log and its checkpoints go, of a store that has them.
func (s *Server) collectLog(_ context.Context, ch samples) {
	logged, ok := s.engine.Store().(store.Logged)
	if !ok {
		return
	}
	l := logged.LogStats()
	ch.gauge(descLogFrames, float64(l.Frames))
	ch.gauge(descLogBytes, float64(l.Bytes))
	ch.gauge(descLogMemory, float64(l.Memory))
	ch.counter(descLogWritten, l.Written)
	ch.counter(descCheckpoints, l.Checkpoints)
	ch.counter(descCheckFailed, l.Failed)
	ch.seconds(descCheckTime, l.Total)
	failing := 0.0
	if l.Err != nil {
		failing = 1
	}
	ch.gauge(descCheckIll, failing)
}
