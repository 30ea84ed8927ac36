package shell

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Raw webhooks are read in the order of their ids, some at a time: those of an earlier
// stretch of time must go first, whatever their deliveries are called.
func TestDeliveriesOfAnEarlierStretchOfTimeAreReadFirst(t *testing.T) {
	for stretch := range int64(100) {
		for _, delivery := range []string{"a", "b", "c"} {
			before, after := deliveryID("hook", delivery, stretch), deliveryID("hook", "x", stretch+1)
			assert.Negative(t, bytes.Compare(before[:], after[:]))
			assert.EqualValues(t, 5, before.Version())
			assert.NotEqual(t, before, deliveryID("other", delivery, stretch))
		}
	}
}
