package kubetest_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// 004 Kubernetes API Calls: at most five calls for a run, and one watch of each
// resource for all of them, however many there are.
func TestFiveHundredRunsAtOnceTakeAtMostFiveCallsEachAndOneWatchOfEachResource(t *testing.T) {
	if testing.Short() {
		t.Skip("500 runs take a minute")
	}
	const jobs, each = 10, 50
	w := newWorld(t, kubetest.Shared(t))
	w.settings.QPS = 200 // the limit of the rate is not what is tested
	w.run()
	eventually(t, w.watched) // until then a creation lists Jobs, too
	begun := time.Now()
	for j := range jobs {
		w.job("job-"+strconv.Itoa(j), fakePod(), labelled(kubetest.RunFor, "5s"))
	}
	var mu sync.Mutex
	var all []uuid.UUID
	var wg sync.WaitGroup
	for j := range jobs {
		wg.Go(func() {
			for range each {
				run, err := w.orrery.Trigger("job-" + strconv.Itoa(j))
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				all = append(all, run)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, all, jobs*each)

	most, sum := uint32(0), uint32(0)
	for _, run := range all {
		o := w.until(run, "completed", func(o core.Orchestrator) bool { return o.State == core.OrchestratorCompleted })
		assert.True(t, o.Logs.Stored, o.Logs.Error)
		most, sum = max(most, o.Metrics.KubernetesAPICalls), sum+o.Metrics.KubernetesAPICalls
	}
	took := time.Since(begun)
	w.leavesNothing()

	calls := w.proxy.Calls(func(c kubetest.Call) bool { return c.Verb != "watch" })
	watches := w.proxy.Calls(watching)
	t.Logf("%d runs in %.0f s: %.2f calls each by the proxy, %.2f and at most %d by the metrics; %d watches",
		len(all), took.Seconds(), float64(len(calls))/float64(len(all)), float64(sum)/float64(len(all)), most, len(watches))
	assert.LessOrEqual(t, len(calls), 5*len(all), "%v", tally(calls))
	assert.LessOrEqual(t, most, uint32(5))
	assert.LessOrEqual(t, w.proxy.Watches(), 3, "of Jobs, pods and events")
	assert.Len(t, w.attempts(), len(all), "one pod for each")
}

// tally counts calls by what they are.
func tally(calls []kubetest.Call) map[string]int {
	out := map[string]int{}
	for _, c := range calls {
		out[fmt.Sprintf("%s %s/%s %d", c.Verb, c.Resource, c.Subresource, c.Status)]++
	}
	return out
}
