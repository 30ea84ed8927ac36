package page

import (
	"strings"

	"github.com/orrery-go/orrery/core"
)

// tones says how the words for states stand. A word that is not there is neutral.
var tones = map[string]tone{
	"completed": toneGood, "done": toneGood, "succeeded": toneGood, "success": toneGood, "works": toneGood, "dispatched": toneGood, "ran": toneGood,
	"failed": toneBad, "dead": toneBad, "orphaned": toneBad, "down": toneBad, "exhausted": toneBad, "missed": toneBad, "expired": toneBad, "stuck": toneBad,
	"running": toneBusy, "processing": toneBusy, "working": toneBusy, "starting": toneBusy,
	"pending": toneWait, "waiting": toneWait, "blocked": toneWait, "paused": toneWait, "retrying": toneWait, "degraded": toneWait, "delayed": toneWait,
	"cancelled": toneOff, "skipped": toneOff, "deduplicated": toneOff, "disabled": toneOff,
}

// badge shows a word for a state.
func badge(word string) cell {
	if word == "" {
		return cell{}
	}
	return state(strings.ReplaceAll(word, "_", " "), tones[strings.ToLower(word)])
}

// verdict shows what was decided about a time, and what came of it.
func verdict(o core.Occurrence) cell {
	c := badge(string(o.Verdict))
	if o.Outcome != "" {
		c.More = append(c.More, badge(o.Outcome))
	}
	return c
}
