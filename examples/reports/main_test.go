package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReportsAreWrittenUntilThereAreEnough(t *testing.T) {
	db := filepath.Join(t.TempDir(), "reports.db")
	for range 2 { // the second start finds the schedule of the first
		lines := start(t.Context(), t, db, 1)
		assert.Regexp(t, `^completed: "report for astronomy, due .+\.000Z"$`, <-lines)
		assert.Equal(t, "stopped cleanly", <-lines)
		_, more := <-lines
		assert.False(t, more)
	}
}

func TestReportsStopCleanlyWhenTheyAreTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lines := start(ctx, t, filepath.Join(t.TempDir(), "reports.db"), 0)
	assert.Contains(t, <-lines, "completed: ")
	stop()
	var last string
	for line := range lines {
		last = line
	}
	assert.Equal(t, "stopped cleanly", last)
}

// start runs the program and gives the lines that it prints.
func start(ctx context.Context, t *testing.T, db string, runs int) <-chan string {
	t.Helper()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, db, runs, w)
		done <- err
		_ = w.Close()
	}()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() { require.NoError(t, <-done) })
	return lines
}
