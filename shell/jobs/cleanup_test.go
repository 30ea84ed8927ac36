package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

// forbidden has each deletion fail until the flag is cleared.
func (r *rig) forbid() *atomic.Bool {
	var forbidden atomic.Bool
	forbidden.Store(true)
	r.fake.OnDelete = func(context.Context, jobs.Attempt) error {
		if forbidden.Load() {
			return permanent{errors.New("forbidden")}
		}
		return nil
	}
	return &forbidden
}

func (r *rig) cancel(o core.Orchestrator) {
	r.t.Helper()
	_, err := r.e.Runs().Send(r.t.Context(), o.ID, core.OrchestratorCancel{Reason: "not needed"})
	require.NoError(r.t, err)
}

// The right to delete is taken away, the daemon restarts, the right is given back.
func TestARunIsNotCancelledBeforeItsPodCanBeDeletedAlsoOverARestart(t *testing.T) {
	locks := &checker{result: jobs.ConstraintCheckResult{ShouldProceed: true, Locks: []string{"db"}}}
	withRig(t, func(r *rig) { r.o.Checker = locks }, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly", constrained))
		r.lock("db", core.RunLockHolder(o.ID))
		forbidden := r.forbid()
		r.cancel(o)
		pass(20 * time.Minute)
		r.restart()
		pass(20 * time.Minute)
		waits := r.run(o.ID)
		assert.Equal(t, core.OrchestratorRunning, waits.State)
		assert.True(t, waits.InCluster)
		assert.Equal(t, "forbidden", waits.Cleanup.Error)
		assert.Greater(t, waits.Cleanup.Failures, uint32(40))
		assert.Less(t, waits.Cleanup.Failures, uint32(60), "at most one a minute")
		assert.Equal(t, []jobs.Attempt{a}, r.fake.Attempts())
		assert.Equal(t, []string{"db"}, r.locked())
		failing, _, err := r.e.Runs().List(t.Context(), shell.JobRunFilter{CleanupFailed: true}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, failing, 1)
		stats, err := r.e.JobStats(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, stats.CleanupFailing)
		lines := strings.Count(r.log.String(), "still cannot be deleted")
		assert.Greater(t, lines, 2)
		assert.Less(t, lines, 8, "ever more rarely:\n%s", r.log.String())

		forbidden.Store(false)
		pass(61 * time.Second)
		assert.Equal(t, core.OrchestratorCancelled, r.run(o.ID).State)
		assert.Zero(t, r.run(o.ID).Cleanup)
		assert.Empty(t, r.fake.Attempts())
		assert.Empty(t, r.locked())
	})
}

// lastWords is a pod that writes after it was told to end.
func lastWords(jobs.Run) runnertest.Script {
	return runnertest.Script{Output: "begun\n", LastWords: "saved\n", Grace: 10 * time.Second}
}

func (r *rig) stored(o core.Orchestrator) string {
	r.t.Helper()
	text, err := r.logs.Log(r.t.Context(), o.ID, o.RetryAttempt)
	require.NoError(r.t, err)
	return string(text)
}

func TestWhatAPodWritesAsItIsCancelledIsStored(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.Script = lastWords
		o, _ := r.started(job("nightly"))
		to := r.follow(t.Context(), o, 0)
		r.cancel(o)
		pass(time.Second)
		assert.Equal(t, "begun\n", r.stored(o), "a crash now would cost no more than the last words")
		var live bytes.Buffer
		require.NoError(t, r.s.Logs(t.Context(), r.run(o.ID), 0, jobs.LogOptions{}, &live))
		assert.Equal(t, "begun\n", live.String())
		late := r.follow(t.Context(), o, 0)
		end := r.ended(o)
		assert.Equal(t, core.OrchestratorCancelled, end.State)
		assert.Equal(t, "begun\nsaved\n", r.stored(o))
		assert.Equal(t, core.RunLogs{Stored: true, Bytes: 12}, end.Logs)
		for _, reader := range []*reader{to, late} {
			require.NoError(t, <-reader.err)
			assert.Equal(t, "begun\nsaved\n", reader.String())
		}
	})
}

// Each deletion that reads logs holds them in memory: a thousand pods must not.
func TestOfManyPodsThatAreCancelledSomeAreReadAndAllAreDeleted(t *testing.T) {
	const pods = jobs.MaxReadings + 3
	withRig(t, func(r *rig) { r.lanes = map[string]int{effects.LaneRun: 2 * pods} }, func(t *testing.T, r *rig) {
		r.fake.Script = lastWords
		var reads atomic.Int32
		var runs []core.Orchestrator
		for range pods {
			o, _ := r.started(job("nightly"))
			runs = append(runs, o)
		}
		r.fake.OnLogs = func(context.Context, jobs.Attempt) error {
			reads.Add(1)
			return nil
		}
		began := time.Now()
		for _, o := range runs {
			r.cancel(o)
		}
		unread := 0
		for _, o := range runs {
			end := r.ended(o)
			assert.Equal(t, core.OrchestratorCancelled, end.State)
			if end.Logs.Error == "" {
				assert.Equal(t, "begun\nsaved\n", r.stored(o))
				continue
			}
			unread++
			assert.Equal(t, "the last of it was not read: for 5s, 64 other pods of this runner were being deleted and read", end.Logs.Error)
			assert.Equal(t, core.RunLogs{Stored: true, Bytes: 6, Truncated: true, Error: end.Logs.Error}, end.Logs)
			assert.Equal(t, "begun\n", r.stored(o), "what it wrote before is there")
		}
		assert.Equal(t, pods-jobs.MaxReadings, unread)
		assert.EqualValues(t, pods+jobs.MaxReadings, reads.Load(), "each reads what there was, and many the rest")
		assert.Less(t, time.Since(began), 20*time.Second, "none waits for long")
		assert.Empty(t, r.fake.Attempts())
	})
}

// The pods of one tenant ignore that they are told to end, and those of another one do not.
func TestATenantWhosePodsDoNotEndTakesNoLogsOfOthers(t *testing.T) {
	const pods = jobs.MaxReadings + 2
	withRig(t, func(r *rig) { r.lanes = map[string]int{effects.LaneRun: 4 * pods} }, func(t *testing.T, r *rig) {
		r.fake.Script = func(run jobs.Run) runnertest.Script {
			if run.Tenant == "greedy" {
				return runnertest.Script{Output: "begun\n", LastWords: "saved\n", Grace: 5 * time.Minute}
			}
			return lastWords(run)
		}
		start := func(tenant string, n int) []core.Orchestrator {
			runs := r.jobsOf(tenant, n)
			for _, o := range runs {
				r.fake.Start(r.created(o, 0))
			}
			synctest.Wait()
			return runs
		}
		greedy, others := start("greedy", pods), start("modest", 10)
		for _, o := range greedy {
			r.cancel(o)
		}
		pass(20 * time.Second)
		for _, o := range others {
			r.cancel(o)
		}
		for _, o := range others {
			assert.Empty(t, r.ended(o).Logs.Error)
			assert.Equal(t, "begun\nsaved\n", r.stored(o))
		}
		why := map[string]int{}
		for _, o := range greedy {
			end := r.ended(o)
			why[end.Logs.Error]++
			if end.Logs.Error != "" {
				assert.Equal(t, core.RunLogs{Stored: true, Bytes: 6, Truncated: true, Error: end.Logs.Error}, end.Logs)
				assert.Equal(t, "begun\n", r.stored(o), "what it wrote before is there")
				continue
			}
			assert.Equal(t, "begun\nsaved\n", r.stored(o))
		}
		assert.Equal(t, map[string]int{
			"": pods - 2 - 10,
			"the last of it was not read: for 5s, 64 other pods of this runner were being deleted and read":                                              2,
			"the last of it was not read: so many pods of this runner were being deleted that those of other tenants were read instead, which had fewer": 10,
		}, why)
	})
}

// While a deletion fails again and again, what the pod wrote is read and stored once; at its
// end all of it is there.
func TestWhatAPodWroteIsNotStoredAnewWithEachDeletionThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		unread error // the end of the logs cannot be read
		want   string
		logs   core.RunLogs
	}{
		"the end is read": {want: "begun\nmore\nsaved\n", logs: core.RunLogs{Stored: true, Bytes: 17}},
		"the end cannot be read": {unread: errCluster, want: "begun\n", logs: core.RunLogs{
			Stored: true, Bytes: 6, Truncated: true, Error: "the rest could not be read: the cluster says no",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, nil, func(t *testing.T, r *rig) {
				r.fake.Script = lastWords
				o, a := r.started(job("nightly"))
				var reads, deletions atomic.Int32
				var unread atomic.Bool
				r.fake.OnLogs = func(context.Context, jobs.Attempt) error {
					reads.Add(1)
					if unread.Load() {
						return c.unread
					}
					return nil
				}
				var forbidden atomic.Bool
				forbidden.Store(true)
				r.fake.OnDelete = func(context.Context, jobs.Attempt) error {
					deletions.Add(1)
					if forbidden.Load() {
						return errCluster
					}
					return nil
				}
				r.cancel(o)
				pass(time.Minute)
				require.Equal(t, "begun\n", r.stored(o))
				r.fake.Write(a, "more\n")
				pass(30 * time.Minute)
				require.Greater(t, deletions.Load(), int32(30))
				assert.Equal(t, deletions.Load()+1, reads.Load(), "the first one reads before, and each follows")
				assert.Equal(t, "begun\n", r.stored(o))
				unread.Store(true)
				forbidden.Store(false)
				end := r.ended(o)
				assert.Equal(t, core.OrchestratorCancelled, end.State)
				assert.Equal(t, c.want, r.stored(o))
				assert.Equal(t, c.logs, end.Logs)
			})
		})
	}
}

func TestWhatAPodWritesAsItsLimitEndsItIsStored(t *testing.T) {
	limit := &checker{result: jobs.ConstraintCheckResult{ShouldProceed: true, MaxAllowedRunTime: time.Minute}}
	withRig(t, func(r *rig) { r.o.Checker = limit }, func(t *testing.T, r *rig) {
		r.fake.Script = lastWords
		o, _ := r.started(job("nightly", constrained))
		end := r.ended(o)
		assert.Contains(t, end.Error, "it ran for longer than maxAllowedRunTime")
		assert.Equal(t, "begun\nsaved\n", r.stored(o))
	})
}

// outage is a cluster that does not answer until the flag is cleared.
func (r *rig) outage() *atomic.Bool {
	var out atomic.Bool
	out.Store(true)
	hang := func(ctx context.Context, _ jobs.Attempt) error {
		for out.Load() {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	r.fake.OnLogs, r.fake.OnDelete = hang, hang
	return &out
}

// unreached is a runner that may be down.
type unreached struct {
	*runnertest.Fake
	down *atomic.Bool
}

func (a unreached) Health() jobs.Health {
	if a.down.Load() {
		return jobs.Health{Status: jobs.HealthDown}
	}
	return jobs.Health{Status: jobs.HealthWorks}
}

func TestTheLogsOfAPodThatEndsBeforeALongOutageAreReadAfterIt(t *testing.T) {
	for _, lasts := range []time.Duration{9 * time.Minute, 11 * time.Minute, 35 * time.Minute, 5 * time.Hour} {
		var down atomic.Bool
		withRig(t, func(r *rig) {
			r.o.Runners = map[string]jobs.Runner{"fake": unreached{r.fake, &down}}
		}, func(t *testing.T, r *rig) {
			r.fake.Script = lastWords
			o, a := r.started(job("nightly"))
			out := r.outage()
			down.Store(true)
			r.fake.End(a, 0, "")
			pass(lasts)
			down.Store(false)
			out.Store(false)
			pass(15 * time.Minute)
			end := r.run(o.ID)
			assert.Equal(t, core.OrchestratorCompleted, end.State, end.Error)
			assert.Equal(t, core.RunLogs{Stored: true, Bytes: 6}, end.Logs, "%s", lasts)
			assert.Equal(t, "begun\n", r.stored(o))
			assert.Empty(t, r.fake.Attempts())
		})
	}
}

// The runner of a pod that has ended is not configured while its logs are to be fetched.
func TestLogsAreReadOnceTheirRunnerIsConfiguredAgain(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.Script = lastWords
		o, a := r.started(job("nightly", on("fake")))
		out := r.outage()
		r.fake.End(a, 0, "")
		synctest.Wait()
		r.stop()
		first := r.o.Runners
		r.o.Runners = map[string]jobs.Runner{"other": &runnertest.Fake{}}
		r.start()
		pass(time.Minute)
		assert.True(t, r.run(o.ID).Logs.ToRead)
		r.stop()
		out.Store(false)
		r.o.Runners = first
		r.start()
		pass(2 * time.Minute)
		assert.Equal(t, core.RunLogs{Stored: true, Bytes: 6}, r.run(o.ID).Logs)
		assert.Equal(t, core.OrchestratorCompleted, r.run(o.ID).State)
	})
}

func TestAnOrphanedRunWhosePodCannotBeDeletedHearsOfItsEnd(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		r.fake.Script = lastWords
		o, a := r.started(job("nightly"))
		forbidden := r.forbid()
		r.fake.Hang(true)
		pass(time.Minute)
		r.fake.Hang(false)
		pass(time.Minute)
		require.Equal(t, core.OrchestratorOrphaned, r.run(o.ID).State)
		r.fake.End(a, 7, "Error")
		pass(time.Second)
		waits := r.run(o.ID)
		require.NotNil(t, waits.Pod.ExitCode)
		assert.EqualValues(t, 7, *waits.Pod.ExitCode)
		assert.Equal(t, "begun\n", r.stored(o), "its logs are read at once")
		assert.True(t, waits.Cleanup.Failing())
		forbidden.Store(false)
		pass(2 * time.Minute)
		assert.False(t, r.run(o.ID).InCluster)
	})
}

// A pod may take as long as its grace period to end: that is no deletion that fails.
func TestAPodThatTakesItsGracePeriodToEndIsNoFailedCleanup(t *testing.T) {
	for _, grace := range []time.Duration{11 * time.Minute, time.Hour, 26 * time.Hour} {
		withRig(t, nil, func(t *testing.T, r *rig) {
			r.fake.Script = func(jobs.Run) runnertest.Script {
				return runnertest.Script{Output: "begun\n", LastWords: "saved\n", Grace: grace}
			}
			sub := r.e.Subscribe(func(ev effects.Event) bool { return strings.HasPrefix(ev.Kind.Action, "clean") }, 16)
			defer sub.Close()
			o, _ := r.started(job("nightly", func(s *core.JobSpec) {
				s.PodSpec = fmt.Appendf(nil, `{"terminationGracePeriodSeconds":%d,"containers":[{"name":"main"}]}`, int(grace.Seconds()))
			}))
			r.cancel(o)
			pass(grace - time.Second)
			waits := r.run(o.ID)
			assert.Equal(t, core.OrchestratorRunning, waits.State, waits.Error)
			assert.Zero(t, waits.Cleanup, "%s", grace)
			pass(2 * time.Second)
			end := r.run(o.ID)
			assert.Equal(t, core.OrchestratorCancelled, end.State, end.Error)
			assert.Equal(t, "begun\nsaved\n", r.stored(o))
			assert.Empty(t, sub.C)
		})
	}
}

func (r *rig) abandon(o core.Orchestrator) core.Orchestrator {
	r.t.Helper()
	after, err := r.e.Runs().Send(r.t.Context(), o.ID, core.OrchestratorAbandon{Reason: "the cluster is gone"})
	require.NoError(r.t, err)
	return after
}

// The runner of a run is not configured any more. Were it to come back, the pod goes as a stray.
func TestAnAbandonedRunEndsAndItsPodIsAStrayOnceItsRunnerIsBack(t *testing.T) {
	locks := &checker{result: jobs.ConstraintCheckResult{ShouldProceed: true, Locks: []string{"db"}}}
	withRig(t, func(r *rig) { everyMinute(r); r.o.Checker = locks }, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly", constrained, on("fake"), retries(3)))
		r.lock("db", core.RunLockHolder(o.ID))
		r.stop()
		first := r.o.Runners
		r.o.Runners = map[string]jobs.Runner{"other": &runnertest.Fake{}}
		r.start()
		r.cancel(o)
		pass(5 * time.Second)
		require.True(t, r.run(o.ID).Cleanup.Failing())
		end := r.abandon(o)
		assert.Equal(t, core.OrchestratorCancelled, end.State)
		assert.Equal(t, "abandoned: its pod "+end.Pod.Name+" may still run; not needed", end.Error)
		pass(time.Hour)
		assert.Empty(t, r.locked())
		_, err := r.e.Runs().Send(t.Context(), o.ID, core.OrchestratorAbandon{})
		require.ErrorContains(t, err, "was abandoned already")
		assert.Equal(t, []jobs.Attempt{a}, r.fake.Attempts())
		r.stop()
		r.o.Runners = first
		r.start()
		pass(2 * time.Minute)
		assert.Empty(t, r.fake.Attempts())
		after := r.run(o.ID)
		after.Metrics, after.Reported = end.Metrics, end.Reported
		assert.Equal(t, end, after, "what it says stays true")
	})
}

func TestAnAbandonedRunGivesItsPlaceWithTheRunnerBack(t *testing.T) {
	withRig(t, func(r *rig) { everyMinute(r); roomFor(1, 0)(r) }, func(t *testing.T, r *rig) {
		o, a := r.started(job("nightly"))
		forbidden := r.forbid()
		r.cancel(o)
		pass(time.Minute)
		r.abandon(o)
		next := r.trigger(job("next"))
		pass(3 * time.Minute)
		assert.True(t, r.run(next.ID).Pod.Queued, "its pod lives, and takes the place")
		r.fake.Vanish(a)
		pass(2 * time.Minute)
		assert.Equal(t, 1, r.fake.Creates(jobs.Attempt{Run: next.ID}))
		forbidden.Store(false)
	})
}

// A crash in the midst of the grace period: the deletion is repeated, and reads once more.
func TestARestartInTheGracePeriodNeitherLosesNorDoublesLogs(t *testing.T) {
	for name, gone := range map[string]bool{"the pod is still there": false, "the pod is gone": true} {
		t.Run(name, func(t *testing.T) {
			withRig(t, nil, func(t *testing.T, r *rig) {
				r.fake.Script = lastWords
				o, a := r.started(job("nightly"))
				r.cancel(o)
				pass(time.Second)
				r.stop()
				want := "begun\nsaved\n"
				if gone {
					r.fake.Vanish(a)
					want = "begun\n"
				}
				r.start()
				end := r.ended(o)
				assert.Equal(t, want, r.stored(o))
				assert.Equal(t, core.RunLogs{Stored: true, Bytes: int64(len(want))}, end.Logs)
			})
		})
	}
}

func TestARepeatedReadingDoesNotReplaceLogsByFewer(t *testing.T) {
	withRig(t, func(r *rig) { r.o.LogHeadBytes, r.o.LogTailBytes = 10, 10 }, func(t *testing.T, r *rig) {
		r.fake.Script = func(jobs.Run) runnertest.Script { return runnertest.Script{Output: "short\n"} }
		o, a := r.started(job("nightly"))
		before := "head\n… 980 bytes dropped …\ntail\n"
		require.NoError(t, r.logs.PutLog(t.Context(), o.ID, 0, []byte(before)))
		r.fake.End(a, 0, "")
		end := r.ended(o)
		assert.Equal(t, before, r.stored(o))
		assert.Equal(t, core.RunLogs{Stored: true, Bytes: 10, Dropped: 980, Truncated: true}, end.Logs)
	})
}

// A pod whose logs hang, or whose runner does not follow them, is deleted all the same.
func TestLogsThatCannotBeReadHoldNoDeletionUp(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		o, _ := r.started(job("nightly"))
		r.fake.OnLogs = func(ctx context.Context, _ jobs.Attempt) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		began := time.Now()
		r.cancel(o)
		end := r.ended(o)
		assert.Equal(t, core.OrchestratorCancelled, end.State)
		assert.LessOrEqual(t, time.Since(began), 45*time.Second)
		assert.Contains(t, end.Logs.Error, "read the logs")
	})
}

func TestTheEndOfAFailedCleanupIsTold(t *testing.T) {
	withRig(t, nil, func(t *testing.T, r *rig) {
		var told []string
		sub := r.e.Subscribe(func(ev effects.Event) bool { return strings.HasPrefix(ev.Kind.Action, "clean") }, 16)
		defer sub.Close()
		o, _ := r.started(job("nightly"))
		forbidden := r.forbid()
		r.cancel(o)
		pass(time.Minute)
		forbidden.Store(false)
		require.Equal(t, core.OrchestratorCancelled, r.ended(o).State)
		synctest.Wait()
		for len(sub.C) > 0 {
			told = append(told, (<-sub.C).Kind.Action)
		}
		assert.Equal(t, []string{"cleanup_failed", "cleaned_up"}, told)
	})
}
