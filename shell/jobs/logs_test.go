package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/headtail"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

func TestALongLogKeepsItsHeadAndItsTailByLines(t *testing.T) {
	withRig(t, func(r *rig) { r.o.LogHeadBytes, r.o.LogTailBytes = 25, 25 }, func(t *testing.T, r *rig) {
		var all strings.Builder
		for n := range 100 {
			fmt.Fprintf(&all, "line %02d\n", n)
		}
		r.fake.Script = func(jobs.Run) runnertest.Script { return runnertest.Script{Output: all.String(), Ends: true} }
		o := r.ended(r.trigger(job("nightly")))
		text, err := r.logs.Log(t.Context(), o.ID, 0)
		require.NoError(t, err)
		assert.Equal(t, "line 00\nline 01\nline 02\n… 752 bytes dropped …\nline 97\nline 98\nline 99\n", string(text))
		assert.Equal(t, core.RunLogs{Stored: true, Bytes: 48, Dropped: 752, Truncated: true}, o.Logs)
	})
}

func TestAJobSaysItselfWhatIsKeptOfItsLogs(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.Script = func(jobs.Run) runnertest.Script {
			return runnertest.Script{Output: strings.Repeat("x", 1000), Ends: true}
		}
		o := r.ended(r.trigger(job("short", func(s *core.JobSpec) { s.Logs.HeadBytes, s.Logs.TailBytes = 10, 20 })))
		assert.EqualValues(t, 30, o.Logs.Bytes)
		o = r.ended(r.trigger(job("none", func(s *core.JobSpec) { s.Logs.Discard = true })))
		assert.False(t, o.Logs.Stored)
		err := r.s.Logs(t.Context(), o, 0, jobs.LogOptions{}, &bytes.Buffer{})
		require.ErrorIs(t, err, jobs.ErrNoPod)
		assert.ErrorContains(t, err, "its job keeps no logs")
	})
}

func TestTheEndsOfALogAreKeptWhateverIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head := rapid.Int64Range(0, 64).Draw(t, "head")
		tail := rapid.Int64Range(0, 64).Draw(t, "tail")
		h := headtail.Parts(int(head), int(tail))
		var all []byte
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			p := []byte(rapid.StringOfN(rapid.SampledFrom([]rune("ab\né…")), 0, 40, -1).Draw(t, "text"))
			n, err := h.Write(p)
			require.NoError(t, err)
			require.Equal(t, len(p), n)
			all = append(all, p...)
		}
		text, kept, dropped := jobs.KeptText(h)
		require.Equal(t, int64(len(all)), kept+dropped)
		require.True(t, utf8.Valid(text), "cut within a character: %q", text)
		require.LessOrEqual(t, kept, max(head+tail, 0))
		require.LessOrEqual(t, len(text), int(head+tail)+jobs.MaxMarker)
		if int64(len(all)) <= head+tail {
			require.Equal(t, string(all), string(text))
			return
		}
		before, after, found := strings.Cut(string(text), fmt.Sprintf("… %d bytes dropped …\n", dropped))
		require.True(t, found, "%q", text)
		require.True(t, strings.HasPrefix(string(all), before) || strings.HasPrefix(string(all), strings.TrimSuffix(before, "\n")), "%q", before)
		require.True(t, strings.HasSuffix(string(all), after), "%q", after)
		require.Equal(t, 1, strings.Count(string(text), "bytes dropped"))
	})
}

func TestARunWithoutAPodSaysWhyItHasNoLogs(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly", retries(1)))
		err := r.s.Logs(t.Context(), r.run(o.ID), 1, jobs.LogOptions{}, &bytes.Buffer{})
		require.ErrorIs(t, err, jobs.ErrNoPod)
		require.EqualError(t, err, "it has not begun", "who asks knows the run and the attempt")
		r.fake.Lose(a, "drained")
		synctest.Wait()
		err = r.s.Logs(t.Context(), r.run(o.ID), 0, jobs.LogOptions{}, &bytes.Buffer{})
		require.ErrorIs(t, err, jobs.ErrNoPod)
		assert.ErrorContains(t, err, "the pod is gone")
		assert.NotContains(t, err.Error(), o.RunID)
	})
}

// reader follows logs in a goroutine of its own.
type reader struct {
	locked.Buffer
	err chan error
}

func (r *rig) follow(ctx context.Context, o core.Orchestrator, attempt uint32) *reader {
	to := &reader{err: make(chan error, 1)}
	go func() { to.err <- r.s.Logs(ctx, o, attempt, jobs.LogOptions{Follow: true}, to) }()
	return to
}

func TestFollowingGoesFromBeforeThePodToTheEndOfTheAttempt(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		goOn := make(chan struct{})
		r.fake.OnCreate = func(context.Context, jobs.Run) error { <-goOn; return nil }
		o := r.trigger(job("nightly"))
		to := r.follow(t.Context(), o, 0)
		pass(time.Minute)
		close(goOn)
		a := r.created(o, 0)
		r.fake.Start(a)
		r.fake.Write(a, "one\n")
		synctest.Wait()
		assert.Equal(t, "one\n", to.String())
		r.fake.Write(a, "two\n")
		r.fake.End(a, 0, "")
		require.NoError(t, <-to.err)
		assert.Equal(t, "one\ntwo\n", to.String(), "all of it, and nothing twice")

		again := r.follow(t.Context(), o, 0)
		require.NoError(t, <-again.err)
		assert.Equal(t, "one\ntwo\n", again.String(), "of a run that has ended")
	})
}

func TestFollowingAnAttemptEndsWithThatAttempt(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly", retries(1)))
		a := r.created(o, 0)
		first, second := r.follow(t.Context(), o, 0), r.follow(t.Context(), o, 1)
		r.fake.Write(a, "first\n")
		r.fake.End(a, 1, "")
		require.NoError(t, <-first.err)
		next := r.created(o, 1)
		r.fake.Write(next, "second\n")
		r.fake.End(next, 0, "")
		require.NoError(t, <-second.err)
		assert.Equal(t, "first\n", first.String())
		assert.Equal(t, "second\n", second.String())
	})
}

func TestFollowingARunThatNeverHasAPodEnds(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.OnCreate = func(context.Context, jobs.Run) error { return permanent{errCluster} }
		o := r.trigger(job("nightly"))
		to := r.follow(t.Context(), o, 0)
		require.ErrorIs(t, <-to.err, jobs.ErrNoPod)
		_ = r.ended(o)
	})
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o := r.trigger(job("nightly"))
		r.fake.Start(r.created(o, 0))
		ctx, cancel := context.WithCancel(t.Context())
		to := r.follow(ctx, o, 0)
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-to.err, context.Canceled)
	})
}

func TestAJobThatAsksForMoreLogsThanAreStoredKeepsTheirHeadFirst(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		text := strings.Repeat("0123456789abcde\n", 6<<16) // 6 MiB
		r.fake.Script = func(jobs.Run) runnertest.Script { return runnertest.Script{Output: text, Ends: true} }
		o := r.ended(r.trigger(job("nightly", func(s *core.JobSpec) { s.Logs = core.LogPolicy{HeadBytes: 3 << 20, TailBytes: 3 << 20} })))
		require.True(t, o.Logs.Stored, "%s", o.Logs.Error)
		kept, err := r.logs.Log(t.Context(), o.ID, 0)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(kept), 4<<20, "what the engine takes")
		assert.Greater(t, len(kept), 4<<20-8<<10)
		assert.Equal(t, text[:3<<20], string(kept[:3<<20]))
	})
}

// breaksOff is a runner whose logs can be read only so far.
type breaksOff struct {
	*runnertest.Fake
	text string
}

func (b breaksOff) Logs(_ context.Context, _ jobs.Attempt, _ jobs.LogOptions, w io.Writer) (int, error) {
	_, _ = io.WriteString(w, b.text)
	return 2, errCluster
}

func TestWhatThereIsOfLogsThatBreakOffIsKept(t *testing.T) {
	for text, want := range map[string]core.RunLogs{
		"":        {Error: "read the logs: the cluster says no"},
		"began\n": {Stored: true, Bytes: 6, Truncated: true, Error: "the rest could not be read: the cluster says no"},
	} {
		reads := uint32(1)
		if text == "" { // the deletion reads what it can, twice
			reads = 3
		}
		withRig(t, func(r *rig) { r.o.Runners = map[string]jobs.Runner{"fake": breaksOff{r.fake, text}} }, func(t *testing.T, r *rig) {
			o := r.trigger(job("nightly"))
			r.fake.End(r.created(o, 0), 0, "")
			o = r.ended(o)
			assert.Equal(t, core.OrchestratorCompleted, o.State, "logs that are missing do not fail a run")
			assert.Equal(t, want, o.Logs)
			assert.Equal(t, 1+2*reads+1, o.Metrics.KubernetesAPICalls, "creation, logs, deletion")
		})
	}
}

func TestTheLogsOfAPodThatIsGoneAreSaidToBeGone(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.OnLogs = func(_ context.Context, a jobs.Attempt) error {
			r.fake.Vanish(a)
			return nil
		}
		o := r.trigger(job("nightly"))
		a := r.created(o, 0)
		r.fake.End(a, 0, "")
		o = r.ended(o)
		assert.Equal(t, core.OrchestratorCompleted, o.State)
		assert.Equal(t, core.RunLogs{Error: "attempt " + a.Name() + ": " + jobs.ErrNoPod.Error()}, o.Logs)
		assert.EqualValues(t, 1+1+1, o.Metrics.KubernetesAPICalls, "creation, logs once, deletion")
	})
}

// What the engine waits for as it stops may store what it has read.
func TestTheLogsOfWhatEndsWhileTheDaemonStopsAreStored(t *testing.T) {
	for name, at := range map[string]struct {
		ends func(r *rig, o core.Orchestrator, a jobs.Attempt)
		take time.Duration // to read logs
		want string
	}{
		"fetched": {
			ends: func(r *rig, _ core.Orchestrator, a jobs.Attempt) { r.fake.End(a, 0, "") },
			take: 5 * time.Second, want: "begun\n",
		},
		"deleted, before the first reading": {
			ends: func(r *rig, o core.Orchestrator, _ jobs.Attempt) { r.cancel(o) },
			take: 5 * time.Second, want: "begun\nsaved\n",
		},
		"deleted, before the last words": {
			ends: func(r *rig, o core.Orchestrator, _ jobs.Attempt) { r.cancel(o) },
			want: "begun\nsaved\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, func(r *rig) { r.logs, r.stops, r.fake.Script = nil, time.Minute, lastWords }, func(t *testing.T, r *rig) {
				o, a := r.started(job("nightly"))
				r.fake.OnLogs = func(ctx context.Context, _ jobs.Attempt) error {
					select {
					case <-time.After(at.take):
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				at.ends(r, o, a)
				pass(time.Second)
				r.stop()
				text, err := r.e.Runs().Log(t.Context(), o.ID, 0)
				require.NoError(t, err, "%+v", r.run(o.ID).Logs)
				assert.Equal(t, at.want, string(text))
				assert.Equal(t, core.RunLogs{Stored: true, Bytes: int64(len(at.want))}, r.run(o.ID).Logs)
			})
		})
	}
}

func TestLogsThatCannotBeStoredDoNotStopTheRun(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.logs.fail = errCluster
		r.fake.Script = func(jobs.Run) runnertest.Script { return runnertest.Script{Output: "x\n", Ends: true} }
		o := r.ended(r.trigger(job("nightly")))
		assert.Equal(t, core.OrchestratorCompleted, o.State)
		assert.Equal(t, "store the logs: the cluster says no", o.Logs.Error)
	})
}
