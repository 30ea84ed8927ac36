package kubetest_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/kube"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// figures asks for the tests that measure: ORRERY_FIGURES=1. They hold nothing, and
// docs/performance.md quotes what they print.
const figures = "ORRERY_FIGURES"

// podEnds notes when somebody else who watches sees that the pod of a run has ended.
type podEnds struct {
	mu sync.Mutex
	at map[string]time.Time // by run
}

func newPodEnds(w *world) *podEnds {
	w.t.Helper()
	e := &podEnds{at: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	factory := informers.NewSharedInformerFactoryWithOptions(w.admin, 0, informers.WithNamespace(w.ns))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, o any) {
		pod, ok := o.(*corev1.Pod)
		if !ok || pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if run := pod.Labels[kube.LabelRun]; e.at[run].IsZero() {
			e.at[run] = time.Now()
		}
	}})
	require.NoError(w.t, err)
	factory.Start(ctx.Done())
	w.t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	return e
}

// after is how long after their pods' ends the runs of jobs ended, sorted.
func (e *podEnds) after(runs []shownRun, jobs string) (out []time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range runs {
		if at := e.at[r.ID]; strings.HasPrefix(r.JobID, jobs) && !at.IsZero() {
			out = append(out, r.Completed.Sub(at))
		}
	}
	slices.Sort(out)
	return out
}

// memory is the resident memory of a process, and the most that it ever was, in MB.
func memory(t *testing.T, pid int) (now, most int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kb, _ := strconv.Atoi(words[1])
		switch words[0] {
		case "VmRSS:":
			now = kb / 1000
		case "VmHWM:":
			most = kb / 1000
		}
	}
	return now, most
}

func TestFiguresOfAThousandRunsAtOnce(t *testing.T) {
	if os.Getenv(figures) == "" {
		t.Skip("set " + figures + "=1 to measure")
	}
	const calm, jobs, many = 50, 10, 1000
	all := []stormJob{{id: "calm", runFor: 3 * time.Second}}
	for i := range jobs {
		all = append(all, stormJob{id: fmt.Sprintf("many-%d", i), runFor: 75 * time.Second})
	}
	s := newStorm(t, 1, "", all)
	ends := newPodEnds(s.world)
	stop := s.up()
	s.ok("job", "apply", "-f", "jobs.yaml")
	idle, _ := memory(t, s.pid)

	for i := range calm {
		require.NoError(t, s.trigger(t.Context(), "calm", i))
		require.NoError(t, pause.For(t.Context(), 100*time.Millisecond))
	}
	took := ends.after(s.ended(calm), "calm")
	t.Logf("from a pod's end to its run's, %d runs, ten a second: median %s, most %s", len(took), took[len(took)/2], took[len(took)-1])

	s.proxy.Forget()
	begun := time.Now()
	var wg sync.WaitGroup
	for j := range jobs {
		wg.Go(func() {
			for i := range many / jobs {
				assert.NoError(t, s.trigger(t.Context(), fmt.Sprintf("many-%d", j), i))
			}
		})
	}
	wg.Wait()
	running := 0
	eventually(t, func() error {
		runs, err := s.runs("&status=running")
		if running = max(running, len(runs)); err == nil && running < many {
			err = fmt.Errorf("%d run", running)
		}
		return err
	})
	t.Logf("%d runs run %.0f s after the first was triggered", running, time.Since(begun).Seconds())
	with, _ := memory(t, s.pid)
	took = ends.after(s.ended(calm+many), "many-")
	after, most := memory(t, s.pid)
	t.Logf("memory: %d MB idle, %d MB as %d run, %d MB after them, never more than %d MB", idle, with, running, after, most)
	t.Logf("from a pod's end to its run's, %d runs that end together: median %s, most %s", len(took), took[len(took)/2], took[len(took)-1])
	calls, watches := s.proxy.Calls(func(c kubetest.Call) bool { return !watching(c) }), s.proxy.Calls(watching)
	t.Logf("%.2f calls for each of %d runs, %d watches open, %d begun meanwhile: %v", float64(len(calls))/many, many, s.proxy.Watches(), len(watches), tally(calls))
	s.leavesNothing()
	assert.Zero(t, stop(syscall.SIGTERM))
}
