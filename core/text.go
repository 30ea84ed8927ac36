package core

import (
	"cmp"

	"github.com/orrery-go/orrery/effects/texts"
)

// clip shortens a value that is quoted in a refusal.
func clip(s string) string { return texts.Clip(s, 64) }

// validText gives a text as it will be read back from a state or a journal.
func validText(s string) string { return texts.Valid(s) }

// firstText cleans a text from outside and keeps its beginning.
func firstText(s string) string { return texts.Head(s, MaxTextBytes) }

// reasonOr cleans a reason from outside, or gives another one if it is empty.
func reasonOr(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return validText(reason)
}

// boundedReason cleans a reason from outside, and keeps it short.
func boundedReason(reason, otherwise string) string {
	return texts.Head(cmp.Or(reason, otherwise), MaxTextBytes)
}
