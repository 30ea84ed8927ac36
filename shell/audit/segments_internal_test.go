package audit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
)

// Of a write that fails at its second segment the first part stands in the log, and is
// counted as written.
func TestWhatStandsInTheLogBeforeAFaultCountsAsWritten(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "audit"), time.Now()
	entry := func(seq uint64) Entry {
		return Entry{Seq: seq, At: effects.TimeOf(now), Operation: "listActions", Count: 1}
	}
	first := entry(1)
	line := int64(len(first.line()))
	s := &segments{dir: dir, most: 1 << 20, each: 3 * line, keep: time.Hour, streams: map[string]*stream{}}
	second := filepath.Join(dir, streamKey("token")+segmentName(4))
	require.NoError(t, os.MkdirAll(second, 0o700)) // no file can be made there

	n, err := s.write("token", []Entry{first, entry(2), entry(3), entry(4), entry(5)}, now)

	require.Error(t, err)
	assert.Equal(t, 3, n)
}
