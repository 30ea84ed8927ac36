package page

import (
	"strings"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// scheduleState is the badge of a schedule. What has ended cannot be resumed, and is not paused.
func scheduleState(on, ended bool) cell {
	switch {
	case ended:
		return state(stateEnded, toneOff)
	case on:
		return state(stateOn, toneGood)
	}
	return state(statePaused, toneWait)
}

// pausing names the act that pauses a schedule, or the one that resumes it; neither of one that has ended.
func pausing(paused, ended bool) string {
	switch {
	case ended:
		return ""
	case paused:
		return "resume"
	}
	return "pause"
}

const editEnded = " No time of it is to come. To have it go on, edit its schedule, and resume it."

// restsSince says why a recurring action does not fire; nothing if it does.
func restsSince(a wire.RecurringAction, ended bool) string {
	byHand := strings.HasPrefix(a.DisabledReason, "paused ")
	switch {
	case a.Enabled:
		return ""
	case ended && (byHand || a.DisabledReason == ""):
		return "It has ended." + editEnded
	case ended:
		return "It has ended: " + a.DisabledReason + "." + editEnded
	case byHand:
		return "It is " + a.DisabledReason
	case a.DisabledReason != "":
		return "It is paused: " + a.DisabledReason
	}
	return ""
}
