package core_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func TestAnAnswerIsReadAsItWasGiven(t *testing.T) {
	for _, v := range []effects.Value{
		nil,
		core.QueueItems{{ID: uuid.Max, Data: []byte(`{"n": 1}`)}, {ID: uuid.Max, Data: []byte(`null`)}},
		core.QueueItem{ID: uuid.Max, Data: []byte(`1`)},
		core.QueueMoved{Moved: 3, More: true},
		core.JobApplied{NextTimes: []core.Time{1000}},
		core.JobTriggered{Run: uuid.Max, RunID: "r", Duplicate: true},
		core.RecurringChanged{NextTimesBefore: []core.Time{1000}},
		core.Semaphore{ID: uuid.Max, Name: "s", Total: 2},
	} {
		kept, err := core.EncodeAnswer(v)
		require.NoError(t, err, "%T", v)
		got, err := core.DecodeAnswer(kept)
		require.NoError(t, err, "%s", kept)
		if v != nil {
			assert.Equal(t, string(v.AppendJSON(nil)), string(got.AppendJSON(nil)))
			assert.IsType(t, v, got)
		} else {
			assert.Nil(t, got)
		}
	}
}

type unnamed struct{}

func (unnamed) AppendJSON(b []byte) []byte { return append(b, "{}"...) }

func TestAnAnswerWithoutANameIsNoneThatIsKept(t *testing.T) {
	_, err := core.EncodeAnswer(unnamed{})
	require.ErrorContains(t, err, "core_test.unnamed has no name")
	_, err = core.DecodeAnswer([]byte("x\n1"))
	require.ErrorContains(t, err, `"x" is unknown`)
	_, err = core.DecodeAnswer([]byte("queue_moved\n{"))
	require.Error(t, err)
}
