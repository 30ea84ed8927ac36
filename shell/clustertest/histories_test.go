//go:build unix

package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
)

const clients = 6

// stepsAsked gives how many steps the schedule is to have.
func stepsAsked(t *testing.T) int {
	t.Helper()
	if v := os.Getenv("ORRERY_FAULTS"); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err, "ORRERY_FAULTS")
		return n
	}
	if os.Getenv("ORRERY_SLOW") == "1" {
		return int(kinds)
	}
	return 3
}

func TestWhatClientsOfThreeDaemonsSeeWhileThingsFailIsWhatOneDaemonThatNeverFailsCouldShow(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := newRand(seed)
	steps := plan(rng, stepsAsked(t))
	minutes := func() time.Duration { return time.Duration(rng.IntN(600)-300) * time.Second }
	ahead := [daemons]time.Duration{0, minutes(), minutes()}
	t.Logf("the clocks are ahead by %v", ahead)
	c := newCluster(t, ahead)
	h := newHistory()
	f := &findings{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	chief := newClient(0, seed, h, c)
	defer chief.http.CloseIdleConnections()
	recurring, made := prepare(ctx, t, chief)

	stop := make(chan struct{})
	var working sync.WaitGroup
	for n := 1; n <= clients; n++ {
		working.Go(func() { newClient(n, seed, h, c).work(ctx, stop) })
	}
	for _, s := range steps {
		assert.NoError(t, h.progress(50), "before: %s", s)
		began := time.Now()
		c.suffer(t, s)
		assert.NoError(t, h.progress(1), "after: %s", s)
		t.Logf("  at work again %s after its begin", time.Since(began).Round(time.Millisecond))
		f.list = append(f.list, c.revive()...)
	}
	assert.NoError(t, h.progress(50), "at the end")
	close(stop)
	late := time.AfterFunc(patience, cancel)
	working.Wait()
	late.Stop()

	end(ctx, t, f, c, h, chief, recurring, made)
	for _, bad := range f.list {
		t.Error(bad)
	}
	t.Logf("%s", h.summary())
	if t.Failed() {
		t.Logf("the schedule:\n%s", described(steps))
		h.keep(t, c.dir)
	}
}

// newRand draws what happens to the daemons; clients draw by themselves.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// described is a schedule, one step in a line.
func described(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString("  " + s.String() + "\n")
	}
	return b.String()
}

// prepare declares the queues, and an action that recurs each second.
func prepare(ctx context.Context, t *testing.T, chief *client) (recurring uuid.UUID, at span) {
	t.Helper()
	scope := "?namespace=" + scopeName + "&tenant=" + scopeName
	for q := range queues {
		a := chief.do(ctx, http.MethodPut, fmt.Sprintf("/v1/queues/q%d%s", q, scope), map[string]any{
			"visibility_timeout_ms": time.Hour.Milliseconds(), "retry": map[string]any{"max_attempts": maxAttempts},
		})
		require.True(t, a.ok(), "%d %s", a.status, a.body)
	}
	var made struct {
		ID uuid.UUID `json:"recurring_id"`
	}
	at.asked = time.Now()
	a := chief.do(ctx, http.MethodPost, "/v1/recurring", map[string]any{
		"namespace": scopeName, "tenant": scopeName, "cron_expr": "* * * * * *", "provider": "line", "action_type": recurringType,
		"payload": toolInput(chief.effects, "0", "0", "recurring", "fail"), "missed": "all",
	})
	require.True(t, chief.into(a, &made), "%d %s", a.status, a.body)
	at.answered = time.Now()
	return made.ID, at
}

// end waits until all that was begun has ended, stops the daemons, and holds everything together.
func end(ctx context.Context, t *testing.T, f *findings, c *cluster, h *history, chief *client, recurring uuid.UUID, made span) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	scope := "?namespace=" + scopeName + "&tenant=" + scopeName
	paused := span{asked: time.Now()}
	a := chief.do(ctx, http.MethodPost, "/v1/recurring/"+recurring.String()+"/pause"+scope, map[string]any{"reason": "the test ends"})
	assert.True(t, a.ok(), "%d %s", a.status, a.body)
	paused.answered = time.Now()
	r := reader{chief}
	var actions map[uuid.UUID]core.Action
	assert.NoError(t, poll(patience, func() (err error) {
		if actions, err = r.actions(ctx); err != nil {
			return err
		}
		for _, a := range actions {
			if !a.Status.Type.Terminal() {
				return fmt.Errorf("action %s is %s: %w", a.ID, a.Status.Type, errLater)
			}
		}
		return nil
	}))
	pipelines, err := r.pipelines(ctx)
	assert.NoError(t, err)
	verdicts, err := r.verdicts(ctx, recurring)
	assert.NoError(t, err)
	for _, m := range c.members {
		assert.NoError(t, m.stop(), "%s", m.name)
		f.list = append(f.list, m.complaints()...)
	}
	lines, err := readLines(c.effects())
	assert.NoError(t, err)
	out, err := c.run("replay", "--verify", "--database", c.server.URL(c.database))
	assert.NoError(t, err, "%s", out)
	t.Logf("%s", out)

	f.list = append(f.list, h.plaints...)
	for q, ops := range h.queues {
		checkOrder(f, fmt.Sprintf("queue %d", q), queueModel(), ops)
	}
	for l, ops := range h.locks {
		checkOrder(f, fmt.Sprintf("lock %d", l), lockModel(), ops)
		checkTokens(f, fmt.Sprintf("lock %d", l), ops)
	}
	checkActions(f, h, actions)
	checkEffects(f, lines, actions)
	checkPipelines(f, h, pipelines)
	checkVerdicts(f, verdicts, made, paused)
	t.Logf("%d actions, %d lines of tools, %d pipelines, %d entries of the recurring action", len(actions), len(lines), len(pipelines), len(verdicts))
}

// summary says how much was asked, for the log.
func (h *history) summary() string {
	n := 0
	for _, ops := range h.queues {
		n += len(ops)
	}
	m := 0
	for _, ops := range h.locks {
		m += len(ops)
	}
	return fmt.Sprintf("%d requests were answered, %d operations of queues, %d of locks, %d of them may have been carried out later; other tries: %v",
		h.answered.Load(), n, m, h.ghosts, h.tries)
}

// keep writes the histories into a folder.
func (h *history) keep(t *testing.T, dir string) {
	t.Helper()
	write := func(name string, model porcupine.Model, ops []porcupine.Operation) {
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		var b strings.Builder
		for _, o := range ops {
			fmt.Fprintf(&b, "%10.3f %10.3f client-%d %s\n", float64(o.Call)/1e6, float64(o.Return)/1e6, o.ClientId, model.DescribeOperation(o.Input, o.Output))
		}
		assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o600))
	}
	for q, ops := range h.queues {
		write(fmt.Sprintf("queue-%d.history", q), queueModel(), ops)
	}
	for l, ops := range h.locks {
		write(fmt.Sprintf("lock-%d.history", l), lockModel(), ops)
	}
}
