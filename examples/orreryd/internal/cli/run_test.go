package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

func TestLogsOfWhichTheRestIsMissingAreNotCalledNone(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "7 bytes: the rest could not be read: gone", logsText(core.RunLogs{Stored: true, Truncated: true, Bytes: 7, Error: "the rest could not be read: gone"}))
	assert.Equal(t, "none: there is no pod", logsText(core.RunLogs{Error: "there is no pod"}))
}
