package jobs

// LogStore keeps what runs have written.
type LogStore = logStore

// KeepLogsIn lets a test keep the logs itself.
func (s *Service) KeepLogsIn(l LogStore) { s.logs = l }

// HeadTail is what keeps the ends of a log.
type HeadTail = headTail

// NewHeadTail makes one.
var NewHeadTail = newHeadTail

// Kept gives what is kept.
func (h *headTail) Kept() ([]byte, int64, int64) { return h.kept() }

// MaxMarker is the most that a marker adds.
const MaxMarker = maxMarker
