//go:build unix

package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

// toldFile has a line for each update and each metrics that the database of runs took.
const toldFile = "told.txt"

// runsDatabase is who takes updates and metrics of runs (E8). It outlives the engines.
type runsDatabase struct {
	mu      sync.Mutex
	f       *os.File
	refuses func() bool // asked for each batch; nil: it takes all
}

func openRunsDatabase(dir string, refuses func() bool) (*runsDatabase, error) {
	f, err := os.OpenFile(filepath.Join(dir, toldFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &runsDatabase{f: f, refuses: refuses}, err
}

// toldLine is a line of the file: one of the two.
type toldLine struct {
	Update  *core.JobRunUpdate        `json:"update,omitempty"`
	Metrics *core.OrchestratorMetrics `json:"metrics,omitempty"`
}

// Sync implements [jobs.JobStateSyncer].
func (d *runsDatabase) Sync(_ context.Context, updates []core.JobRunUpdate) error {
	var lines []toldLine
	for i := range updates {
		lines = append(lines, toldLine{Update: &updates[i]})
	}
	return d.take(lines)
}

// Collect implements [jobs.StatsCollector].
func (d *runsDatabase) Collect(_ context.Context, metrics []core.OrchestratorMetrics) error {
	var lines []toldLine
	for i := range metrics {
		lines = append(lines, toldLine{Metrics: &metrics[i]})
	}
	return d.take(lines)
}

// take writes a batch at once. A kill may tear it: it was not taken then, so the next batch
// begins a line of its own.
func (d *runsDatabase) take(lines []toldLine) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuses != nil && d.refuses() {
		return errors.New("the database of runs is down")
	}
	text := []byte("\n")
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			return err
		}
		text = append(append(text, b...), '\n')
	}
	_, err := d.f.Write(text)
	return err
}

// toldOfRuns is what the database has been told: updates by their ids, metrics by the runs'.
type toldOfRuns struct {
	updates map[uuid.UUID][]core.JobRunUpdate
	metrics map[string][]core.OrchestratorMetrics
}

func readToldOfRuns(dir string) (toldOfRuns, error) {
	told := toldOfRuns{map[uuid.UUID][]core.JobRunUpdate{}, map[string][]core.OrchestratorMetrics{}}
	b, err := os.ReadFile(filepath.Join(dir, toldFile))
	for line := range bytes.Lines(b) {
		var l toldLine
		if json.Unmarshal(line, &l) != nil {
			continue // empty, or torn by a kill
		}
		if u := l.Update; u != nil {
			told.updates[u.UpdateID] = append(told.updates[u.UpdateID], *u)
		}
		if m := l.Metrics; m != nil {
			told.metrics[m.RunID] = append(told.metrics[m.RunID], *m)
		}
	}
	return told, err
}

// examineToldOfRuns makes sure that the database is told each update and the metrics of each
// run at least once, whoever was killed before, the same each time, and nothing else.
func examineToldOfRuns(t *testing.T, dir string, all []core.Orchestrator) {
	t.Helper()
	var told toldOfRuns
	await(t, 2*time.Minute, func() (err error) {
		if told, err = readToldOfRuns(dir); err != nil {
			return err
		}
		for _, o := range all {
			if len(told.metrics[o.RunID]) == 0 {
				return fmt.Errorf("%w: nobody was told the metrics of run %s", errLater, o.RunID)
			}
			for _, u := range o.Updates() {
				if len(told.updates[u.UpdateID]) == 0 {
					return fmt.Errorf("%w: nobody was told that run %s is %s in attempt %d", errLater, u.RunID, u.Status, u.RetryAttempt)
				}
			}
		}
		return nil
	})
	updates, metrics := 0, 0
	for _, o := range all {
		for _, u := range o.Updates() {
			for _, was := range told.updates[u.UpdateID] {
				assert.Equal(t, u, was)
				updates++
			}
			delete(told.updates, u.UpdateID)
		}
		for _, was := range told.metrics[o.RunID] {
			assert.Equal(t, o.Metrics, was)
			metrics++
		}
		delete(told.metrics, o.RunID)
	}
	assert.Empty(t, told.updates)
	assert.Empty(t, told.metrics)
	t.Logf("told: %d updates and %d metrics of %d runs", updates, metrics, len(all))
}
