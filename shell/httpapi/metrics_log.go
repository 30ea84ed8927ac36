package httpapi

import (
	"context"

	"github.com/orrery-go/orrery/store"
)

var (
	descLogFrames   = desc("orrery_log_frames", "Commits in the log that the database file does not have yet.")
	descLogBytes    = desc("orrery_log_bytes", "Bytes of the commits in the log that the database file does not have yet.")
	descLogMemory   = desc("orrery_log_memory_bytes", "Bytes of the commits in the log that the database file does not have yet and that are in memory.")
	descLogFill     = desc("orrery_log_fill_ratio", "How full the log is: from 1 on commits wait for a checkpoint; from 0.5 on retention does.")
	descLogWritten  = desc("orrery_log_written_bytes_total", "Bytes of the commits that were written to the log.")
	descViewsEnded  = desc("orrery_views_ended_total", "Reads of the database that were ended since they kept too much of it from being used anew.")
	descCheckpoints = desc("orrery_checkpoints_total", "Times that the log was brought into the database file.")
	descCheckFailed = desc("orrery_checkpoints_failed_total", "Times that the log could not be brought into the database file; it is tried again.")
	descCheckTime   = desc("orrery_checkpoint_seconds_total", "Time that it took to bring the log into the database file, in all.")
	descCheckIll    = desc("orrery_checkpoint_failing", "1 if the last attempt to bring the log into the database file failed, else 0.")
	descRedoBytes   = desc("orrery_redo_bytes", "Bytes of what is kept of the log behind the database file.")
	descRedoWaits   = desc("orrery_redo_unshipped_bytes", "Bytes of redo that wait beside the database to be shipped.")
	descStoreToken  = desc("orrery_store_token", "Fencing token with which this process owns its database, or each partition of a divided one: of the processes that show one for the same partition, the one with the greatest is the owner.")
	descStoreLost   = desc("orrery_store_lost", "1 if the database refuses everything of this process, as another one owns it or it was away for too long, else 0.")
	descRedoIll     = desc("orrery_redo_failing", "1 if the last attempt to keep or to ship redo failed, else 0.")
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
	ch.gauge(descLogFill, l.Fill)
	ch.counter(descLogWritten, l.Written)
	ch.counter(descViewsEnded, l.ViewsEnded)
	ch.counter(descCheckpoints, l.Checkpoints)
	ch.counter(descCheckFailed, l.Failed)
	ch.seconds(descCheckTime, l.Total)
	ch.gauge(descCheckIll, oneIf(l.Err != nil))
	ch.gauge(descRedoBytes, float64(l.Kept))
	ch.gauge(descRedoWaits, float64(l.Unshipped))
	ch.gauge(descRedoIll, oneIf(l.KeepErr != nil))
}

// collectClaim reads how a store is owned that others may take over.
func (s *Server) collectClaim(_ context.Context, ch samples) {
	if claimed, ok := s.engine.Store().(store.Claimed); ok {
		ch.gauge(descStoreToken, float64(claimed.Token()))
		ch.gauge(descStoreLost, oneIf(claimed.Failure() != nil))
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
