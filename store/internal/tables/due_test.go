package tables

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/effects"
)

// Behind a kind stands nothing, or a slash and six digits of 6 bits. All else is a kind as it
// stands, so that what is damaged can still be named and taken away.
func TestAWordOfTheDueIndexIsTakenApartOnlyIfItIsOne(t *testing.T) {
	for _, c := range []struct {
		word  string
		kind  effects.Kind
		share uint32
	}{
		{"action", "action", 0},
		{"action/?????@", "action", 1},
		{"action/B~~~~~", "action", 1<<32 - 1},
		{"action/C?????", "action/C?????", 0}, // beyond 32 bits
		{"action/??????", "action/??????", 0}, // a share of 0 is left out
		{"action/????@", "action/????@", 0},
		{"action/???????@", "action/???????@", 0},
		{"action/????>@", "action/????>@", 0},
		{"/?????@", "/?????@", 0},
	} {
		kind, share, others := cutKinds(c.word + " next")
		assert.Equal(t, c.kind, kind, c.word)
		assert.Equal(t, c.share, share, c.word)
		assert.Equal(t, "next", others)
		if !strings.Contains(string(c.kind), "/") {
			assert.Equal(t, c.word, string(appendDueWord(nil, c.kind, c.share)))
		}
	}
}
