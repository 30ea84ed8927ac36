package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// pods carries out what runs ask for, each in its own way by its id: some pods
// fail, some are never created, some are lost, some never start.
type pods struct {
	e       *shell.Engine
	carries func() // is called while an effect is carried out; nil: nobody is told
}

func (p *pods) Carry(ctx context.Context, ref effects.Ref, e effects.Outer) (json.RawMessage, error) {
	kind := ref.ID[1] % 8
	if p.carries != nil {
		p.carries()
	}
	switch e := e.(type) {
	case effects.CheckConstraints:
		r := core.ConstraintReport{ShouldProceed: kind != 1, Message: "m", Locks: []string{"db"}, MaxAllowedRunTimeMS: 30_000}
		if kind < 4 {
			r.Checks = []core.ConstraintCheck{{Name: "w", Met: kind == 0, Actions: []core.ActionRequest{{Type: "log"}, {Type: core.ActionSkipNext}}}}
		}
		return json.Marshal(r)
	case effects.CreateRun:
		if kind == 2 && e.Attempt == 0 {
			return nil, errors.New("no room")
		}
		p.live(ref.ID, e.Attempt, kind)
	case effects.FetchLogs:
		if err := p.e.Runs().PutLog(ctx, ref.ID, e.Attempt, []byte("said")); err != nil {
			return nil, err
		}
		return json.RawMessage(`{"api_calls":1,"logs":{"stored":true,"bytes":4}}`), nil
	}
	return json.RawMessage(`{"api_calls":1}`), nil
}

func (p *pods) live(run uuid.UUID, attempt uint32, kind byte) {
	after := func(d time.Duration, ev core.OrchestratorEvent) {
		time.AfterFunc(d, func() { _, _ = p.e.Runs().Send(context.Background(), run, ev) }) // late ones are refused
	}
	exit := int32(kind % 2)
	after(time.Second, core.PodCreated{Attempt: attempt, Pod: core.Pod{Name: "p", Reason: "ContainerCreating"}})
	if kind == 3 {
		return // it never starts
	}
	after(2*time.Second, core.PodRunning{Attempt: attempt, Pod: core.Pod{Name: "p"}})
	switch kind {
	case 4:
		after(5*time.Second, core.PodLost{Attempt: attempt, Reason: "deleted by hand"})
	case 5: // it runs for longer than it may
	case 6: // its heartbeats are missing
		after(3*time.Minute, core.PodEnded{Attempt: attempt, Pod: core.Pod{Name: "p", ExitCode: &exit}})
	default:
		after(10*time.Second, core.PodEnded{Attempt: attempt, Pod: core.Pod{Name: "p", ExitCode: &exit}})
	}
}

func (p *pods) beat(t *testing.T) {
	shards := map[effects.Ref][]uuid.UUID{}
	for _, id := range []string{"allow", "forbid", "replace"} {
		j, err := p.e.Jobs().Get(t.Context(), scope, id)
		if errors.Is(err, shell.ErrNotFound) {
			continue
		}
		require.NoError(t, err)
		for _, a := range j.Active {
			to := core.SchedulerRef(a.Run)
			shards[to] = append(shards[to], uuid.Nil)
			if a.Run[1]%8 != 6 { // the heartbeats of these are missing
				shards[to] = append(shards[to], a.Run)
			}
		}
	}
	for ref, runs := range shards {
		_, _ = p.e.Send(t.Context(), ref, core.SchedulerHeartbeats{Runs: runs}) // some have just ended
	}
}

var scope = shell.Scope{Namespace: "ns", Tenant: "t"}

// What a day of jobs leaves is what its journal says, also where that was cut off
// in the midst of it.
func TestADayOfJobsReplaysByteForByte(t *testing.T) {
	for name, keep := range map[string]time.Duration{"whole": 0, "cut off": 5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				p, stop := begunJobs(t, st, keep)
				dayOfJobs(t, p)
				stats, err := p.e.JobStats(t.Context())
				require.NoError(t, err)
				for _, state := range []core.OrchestratorStatus{core.OrchestratorCompleted, core.OrchestratorFailed, core.OrchestratorCancelled, core.OrchestratorOrphaned} {
					assert.Positive(t, stats.Ended[state], "it would prove little: %s", state)
				}
				assert.Positive(t, stats.Retries)
				stop()
				rep, err := replay.Verify(context.Background(), st, replay.Options{})
				require.NoError(t, err)
				assert.Empty(t, rep.Divergences)
				assert.Greater(t, rep.Inputs, uint64(500))
			})
		})
	}
}

// begunJobs runs an engine with pods over the store, until stop is called.
func begunJobs(t *testing.T, st store.Store, keep time.Duration) (p *pods, stop func()) {
	t.Helper()
	p = &pods{}
	e, err := shell.New(shell.Options{
		Store: st, Logger: slog.New(slog.DiscardHandler), JournalRetention: keep, ActionRetention: 3 * time.Hour, TickRate: time.Minute,
		Interpreters: map[string]shell.Interpreter{effects.LaneConstraints: p, effects.LaneActions: p, effects.LaneRun: p, effects.LaneLogs: p},
	})
	require.NoError(t, err)
	p.e = e
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return p, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func dayOfJobs(t *testing.T, p *pods) {
	for _, s := range []core.JobSpec{
		{ID: "allow", Schedule: "*/10 * * * *", ConstraintConfig: json.RawMessage(`{}`), RetryConfig: core.RetryConfig{MaxRetries: 2, InitialDelayMS: 1000}},
		{ID: "forbid", Schedule: "@every 7m", Overlap: core.OverlapForbid, PodStartTimeoutMS: 900_000, Timezone: "Europe/Berlin"},
		{ID: "replace", Schedule: "*/5 * * * *", Overlap: core.OverlapReplace, OrphanPolicy: core.OrphanAdopt, Logs: core.LogPolicy{Discard: true}},
	} {
		s.Namespace, s.Tenant, s.PodSpec = scope.Namespace, scope.Tenant, json.RawMessage(` {"containers" : []} `)
		_, err := p.e.Jobs().Apply(t.Context(), s)
		require.NoError(t, err)
	}
	for minute := range 24 * 60 {
		switch {
		case minute%97 == 0:
			_, _ = p.e.Jobs().Trigger(t.Context(), scope, "allow", shell.TriggerOptions{By: "ann"}) // it may be paused, and is not there at last
		case minute%241 == 0:
			_, _ = p.e.Jobs().Send(t.Context(), scope, "forbid", core.JobPause{Reason: "r"})
		case minute%251 == 0:
			_, _ = p.e.Jobs().Send(t.Context(), scope, "forbid", core.JobResume{})
		case minute%173 == 0:
			_, _ = p.e.Jobs().Send(t.Context(), scope, "allow", core.JobKill{All: true, Reason: "r"})
		case minute == 1400:
			_, err := p.e.Jobs().Send(t.Context(), scope, "replace", core.JobDelete{Reason: "r"})
			require.NoError(t, err)
		}
		for range 3 {
			<-time.After(20 * time.Second)
			p.beat(t)
		}
	}
	synctest.Wait()
}
