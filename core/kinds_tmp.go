package core

import (
	"encoding/json"

	"github.com/orrery-go/orrery/effects"
)

// AnswerEvent is the event that answers an outer effect of a machine of that
// kind; permanent says that trying again is pointless. A result beside a reason
// is what there is in spite of the failure.
func AnswerEvent(kind effects.Kind, n uint32, result json.RawMessage, reason string, permanent bool) Event {
	switch {
	case kind == KindAction && reason == "":
		return ActionComplete{Run: n, Result: result}
	case kind == KindAction:
		return ActionFail{Run: n, Reason: reason, Result: result}
	case reason == "":
		return EffectDone{N: n, Result: result}
	default:
		return EffectFailed{N: n, Reason: reason, Result: result, Permanent: permanent}
	}
}

// EndedAt tells whether a machine has come to its end, and when: from then on it
// only waits for its retention to end. The shell forgets it by [ExpireEvent].
func EndedAt(s State) (Time, bool) {
	switch s := s.(type) {
	case Action:
		return s.UpdatedAt, s.Status.Type.Terminal()
	case Occurrence:
		return max(s.DecidedAt, s.FinishedAt), s.Outcome != "" || s.Verdict != VerdictDispatched
	case interface{ endedAt() (Time, bool) }:
		return s.endedAt()
	}
	return 0, false
}
