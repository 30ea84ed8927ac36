package kube

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clienttesting "k8s.io/client-go/testing"

	"github.com/orrery-go/orrery/shell/jobs"
)

const partitions = 16

// pooled are the runners of one process's partitions of a cluster.
type pooled struct {
	*kit
	pool    *Pool
	watched map[string]int // watches that were begun, by resource
	runners map[int]*Runner
	sinks   map[int]*sinkOf
	ends    map[int]func()
}

func inPool(t *testing.T, test func(t *testing.T, p *pooled)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pooled{kit: newKit(t, &sinkOf{}), watched: map[string]int{}, runners: map[int]*Runner{}, sinks: map[int]*sinkOf{}, ends: map[int]func(){}}
		p.reactWatch("*", func(a clienttesting.Action) (bool, watchInterface, error) {
			p.watched[a.GetResource().Resource]++
			return false, nil, nil
		})
		var err error
		p.pool, err = NewPool(Options{Client: clientset{p.api}, Namespace: "jobs", Logger: slog.New(slog.NewTextHandler(p.logs, nil))})
		require.NoError(t, err)
		defer func() {
			for _, end := range p.ends {
				end()
			}
		}()
		test(t, p)
	})
}

// opens has the process work on a partition.
func (p *pooled) opens(n int) {
	p.t.Helper()
	r, sink := p.pool.Runner(nil), &sinkOf{}
	r.UseDatabase(fmt.Sprintf("database-%d", n))
	r.UsePlace("cluster", n, partitions)
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Watch(ctx, sink) }()
	p.runners[n], p.sinks[n] = r, sink
	p.ends[n] = func() {
		cancel()
		require.ErrorIs(p.t, <-done, context.Canceled)
		delete(p.ends, n)
	}
	synctest.Wait()
}

// runs has another process create the attempt of a tenant of the partition, whose pod runs.
func (p *pooled) runs(n int) jobs.Run {
	p.t.Helper()
	r := of(in(n, partitions), 0)
	p.put(r, map[string]string{LabelDatabase: fmt.Sprintf("database-%d", n), LabelCluster: "cluster", LabelPartition: fmt.Sprint(n)})
	return r
}

func (p *pooled) heldBy(n int) []jobs.Attempt {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	held, err := p.runners[n].Held(ctx)
	require.NoError(p.t, err)
	return held
}

func TestTheRunnersOfSixteenPartitionsHaveOneWatch(t *testing.T) {
	inPool(t, func(t *testing.T, p *pooled) {
		before := p.runs(3)
		for n := range partitions {
			p.opens(n)
		}
		after := p.runs(7)
		wait(time.Minute)
		assert.Equal(t, map[string]int{"jobs": 1, "pods": 1, "events": 1}, p.watched)
		for n := range partitions {
			switch n {
			case 3:
				assert.Equal(t, []jobs.Attempt{before.Attempt}, p.heldBy(n))
				assert.Contains(t, p.sinks[n].take(), "running")
			case 7:
				assert.Equal(t, []jobs.Attempt{after.Attempt}, p.heldBy(n))
				assert.Contains(t, p.sinks[n].take(), "running")
			default:
				assert.Empty(t, p.heldBy(n), n)
				assert.Empty(t, p.sinks[n].take(), n)
			}
		}
		assert.Equal(t, jobs.HealthWorks, p.runners[9].Health().Status)
	})
}

func TestAPartitionThatComesLaterKnowsWhatThereIsAndOneThatWentHearsNothing(t *testing.T) {
	inPool(t, func(t *testing.T, p *pooled) {
		p.opens(1)
		first, theirs := p.runs(1), p.runs(2)
		assert.Equal(t, []jobs.Attempt{first.Attempt}, p.heldBy(1))
		p.opens(2)
		assert.Equal(t, []jobs.Attempt{theirs.Attempt}, p.heldBy(2), "from what the watch of the other one has shown")
		assert.Contains(t, p.sinks[2].take(), "running")
		p.ends[1]()
		p.sinks[1].take()
		p.deletePod(podOf(p.job(first.Attempt)))
		p.deletePod(podOf(p.job(theirs.Attempt)))
		wait(time.Minute)
		assert.Empty(t, p.sinks[1].take())
		assert.Equal(t, []string{"lost"}, phasesOf(p.sinks[2].take()))
		assert.Equal(t, 1, p.watched["jobs"])

		p.ends[2]()
		assert.Equal(t, jobs.HealthDown, p.runners[2].Health().Status, "the last one has gone")
		p.opens(5)
		wait(time.Minute)
		assert.Equal(t, 2, p.watched["jobs"], "there was none between")
		assert.Equal(t, jobs.HealthWorks, p.runners[5].Health().Status)
	})
}

func TestWatchesThatBreakAreBegunAgainForAllPartitions(t *testing.T) {
	inPool(t, func(t *testing.T, p *pooled) {
		p.opens(1)
		p.opens(2)
		p.breakWatches()
		one, two := p.runs(1), p.runs(2)
		wait(time.Minute)
		assert.Equal(t, []jobs.Attempt{one.Attempt}, p.heldBy(1))
		assert.Equal(t, []jobs.Attempt{two.Attempt}, p.heldBy(2))
		assert.Equal(t, 2, p.watched["jobs"])
	})
}

func TestTheRunnersOfAPoolShareTheLimitOfTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		pool, err := NewPool(Options{Client: clientset{k.api}, Namespace: "jobs", QPS: 1, Burst: 1})
		require.NoError(t, err)
		began := time.Now()
		for n := range uint32(4) {
			_, err := pool.Runner(nil).Create(t.Context(), of("any", n))
			require.NoError(t, err)
		}
		assert.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	})
}

func TestAPoolThatCannotBeIsRefused(t *testing.T) {
	_, err := NewPool(Options{Instance: "no label"})
	require.ErrorContains(t, err, `Instance: "no label" is no value of a label`)
}

// phasesOf takes the reasons off what was told.
func phasesOf(told []string) (out []string) {
	for _, text := range told {
		var phase string
		_, _ = fmt.Sscan(text, &phase)
		out = append(out, phase)
	}
	return out
}
