package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two epochs from 1 on, and the record: what the bus was at a batch is the first
// form after it, if that was written before it.
func TestTheFormOfTheBusIsTheOneThatWasWrittenBefore(t *testing.T) {
	f := &fold{asked: true, bus: []busForm{{epoch: 1, written: 5, state: []byte("early")}, {epoch: 3, written: 20, state: []byte("late")}}}
	for _, row := range []struct {
		epoch int
		seq   uint64
		want  string
	}{
		{0, 4, ""}, {0, 5, ""}, {0, 6, "early"}, {0, 19, "early"},
		{1, 20, ""}, {1, 21, "late"}, {2, 21, "late"}, {3, 30, ""},
	} {
		f.epoch, f.seq = row.epoch, row.seq
		got, err := f.unchangedBus()
		require.NoError(t, err)
		assert.Equal(t, row.want, string(got), "batch %d of epoch %d", row.seq, row.epoch)
	}
}
