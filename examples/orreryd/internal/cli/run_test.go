package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

func TestLogsOfWhichTheRestIsMissingAreNotCalledNone(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "7 bytes: the rest could not be read: gone", logsText(core.RunLogs{Stored: true, Truncated: true, Bytes: 7, Error: "the rest could not be read: gone"}))
	assert.Equal(t, "none: there is no pod", logsText(core.RunLogs{Error: "there is no pod"}))
}

func TestRunLogsSaysThatItShowsWhatWasStoredBecauseTheClusterIsAway(t *testing.T) {
	r := against(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/logs") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"run_id":"j:t","retry_attempt":0,"state":"running"}`)
			return
		}
		w.Header().Set("X-Orrery-Logs-Stored-Only", "runner kubernetes is down: unreachable")
		_, _ = io.WriteString(w, "begun\n")
	}, "run", "logs", "0193f2a4-5b6c-7d8e-9f01-23456789abcd")
	assert.Zero(t, r.code)
	assert.Equal(t, "begun\n", r.out)
	assert.Equal(t, "orreryd: runner kubernetes is down: unreachable; this is what was stored before, and may not be all\n", r.err)
}
