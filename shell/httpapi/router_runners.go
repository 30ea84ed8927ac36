package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/shell/jobs"
)

// mergeRunners tells how the runners of all partitions are.
func mergeRunners(rt *Router, w http.ResponseWriter, r *http.Request, _ *call) error {
	all, err := gather[wire.RunnerList](rt, r, http.MethodGet, r.URL.Query())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, joinRunners(all))
}

// joinRunners makes one list of those of several partitions, by the names of the runners: the pods are those of all partitions, the status and its error are those of the
// partition whose runner is worst off.
func joinRunners(all []wire.RunnerList) wire.RunnerList {
	out := wire.RunnerList{Runners: []wire.Runner{}}
	for _, of := range all {
		for _, r := range of.Runners {
			i, found := slices.BinarySearchFunc(out.Runners, r.Name, func(a wire.Runner, name string) int { return cmp.Compare(a.Name, name) })
			if !found {
				out.Runners = slices.Insert(out.Runners, i, r)
				continue
			}
			out.Runners[i] = joinRunner(out.Runners[i], r)
		}
	}
	return out
}

func joinRunner(a, b wire.Runner) wire.Runner {
	if badness(b.Status) > badness(a.Status) {
		a, b = b, a
	}
	a.MaxPods, a.Pods, a.PodsWaiting = max(a.MaxPods, b.MaxPods), a.Pods+b.Pods, a.PodsWaiting+b.PodsWaiting
	a.WatchAgeSeconds = max(a.WatchAgeSeconds, b.WatchAgeSeconds)
	if a.SeenAt.IsZero() || !b.SeenAt.IsZero() && b.SeenAt.Before(a.SeenAt) {
		a.SeenAt = b.SeenAt // the watch that has heard nothing for the longest time
	}
	if b.LastErrorAt > a.LastErrorAt {
		a.LastError, a.LastErrorAt = b.LastError, b.LastErrorAt
	}
	return a
}

// badness says how badly off a runner with that status is.
func badness(status string) int {
	return slices.Index([]string{string(jobs.HealthWorks), string(jobs.HealthDegraded), string(jobs.HealthDown)}, status)
}
