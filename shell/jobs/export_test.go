package jobs

import (
	"context"
	"sync"
)

var testHeartbeats sync.Map // of a service

// LogStore keeps what runs have written.
type LogStore = logStore

// KeepLogsIn lets a test keep the logs itself.
func (s *Service) KeepLogsIn(l LogStore) { s.logs = l }

// KeptText gives what is kept of a log.
var KeptText = keptText

// MaxMarker is the most that a marker adds.
const MaxMarker = maxMarker

// Interval sends the heartbeats of one interval, with what was known of the runs in
// the interval before.
func Interval(ctx context.Context, s *Service) {
	v, _ := testHeartbeats.LoadOrStore(s, newHeartbeats(s))
	if b, ok := v.(*heartbeats); ok {
		b.interval(ctx)
	}
}

// HearLittle lets the feeds forget what comes beyond n announcements.
func (s *Service) HearLittle(n int) { s.feedBuffer = n }

// SmallPages lets the service list n things at a time.
func (s *Service) SmallPages(n int) { s.pageSize = n }

// LittleRoom lets n observations wait at a time.
func (s *Service) LittleRoom(n int) { s.sinkRoom = n }

// LockedRuns is of how many runs somebody holds the lock, or waits for it.
func LockedRuns(s *Service) int { return s.runLocks.Len() }

// Known reports whether it is known what lives.
func (s *Service) Known(runner string) bool { return s.places[runner].isKnown() }

// LoseTurn forgets that an attempt waits for room.
func LoseTurn(s *Service, runner string, a Attempt) { s.places[runner].withdraw(a) }

// MaxReadings is how many deletions of one runner read logs at a time.
const MaxReadings = maxReadings

// OfContainer picks what one container has written.
var OfContainer = ofContainer
