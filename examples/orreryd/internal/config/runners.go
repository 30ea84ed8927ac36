package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/kube"
)

// kubeOptions are those of a runner of a cluster.
func (r runnerConfig) kubeOptions(log *slog.Logger) kube.Options {
	return kube.Options{
		Kubeconfig: deref(r.Kubeconfig), Context: deref(r.Context), Namespace: deref(r.Namespace),
		QPS: float32(deref(r.QPS)), Burst: deref(r.Burst), Instance: deref(r.Instance), Logger: log, KeepFailed: Seconds(deref(r.KeepFailed)),
		MaxGrace: time.Duration(deref(r.MaxGrace)) * time.Second,
		Profile:  deref(r.Profile), ServiceAccounts: deref(r.ServiceAccounts), Secrets: deref(r.Secrets),
		ConfigMaps: deref(r.ConfigMaps), PersistentVolumeClaims: deref(r.PersistentVolumeClaims),
		PriorityClasses: deref(r.PriorityClasses), RuntimeClasses: deref(r.RuntimeClasses), NodeLabels: deref(r.NodeLabels), Tolerations: deref(r.Tolerations),
		Labels: deref(r.Labels),
	}
}

// Pools are what the runners of several partitions in one daemon have in common, by their names: those of a cluster.
type Pools map[string]*kube.Pool

// MakePools makes the pools of all runners of a cluster that are enabled.
func (c *Config) MakePools(log *slog.Logger) (Pools, error) {
	out := Pools{}
	for _, name := range c.RunnerNames() {
		r := c.Runners[name]
		if r.Type != runnerKubernetes {
			continue
		}
		kube.LogTo(log) // nothing of client-go's runs yet
		p, err := kube.NewPool(r.kubeOptions(log.With("runner", name)))
		if err != nil {
			return nil, runnerError(name, wrongf("%w", r.kubeError(err)))
		}
		out[name] = p
	}
	return out, nil
}

// MakeRunners makes all runners that are enabled; if none is, one that begins nothing. Those that have a pool are made by it.
func (c *Config) MakeRunners(pools Pools, log *slog.Logger) (map[string]jobs.Runner, error) {
	out := map[string]jobs.Runner{}
	home, err := c.Home()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Runners)) {
		r, own := c.Runners[name], log.With("runner", name)
		if !r.enabled() {
			continue
		}
		if p := pools[name]; p != nil {
			out[name] = p.Runner(own)
			continue
		}
		if r.Type == runnerKubernetes {
			kube.LogTo(log) // nothing of client-go's runs yet
		}
		made, err := r.make(c.DB, c.Cgroup.Root, home, own)
		if err != nil {
			return nil, runnerError(name, err)
		}
		out[name] = made
	}
	if len(out) == 0 {
		made, err := c.makeDrained(home, log.With("runner", runnerLocal))
		if err != nil {
			return nil, fmt.Errorf("runners.%s: %w", runnerLocal, err)
		}
		out[runnerLocal] = made
	}
	return out, nil
}

// LeftRunners makes the local runners whose folders are there: they may hold what an earlier process has begun.
func (c Config) LeftRunners(log *slog.Logger) (map[string]jobs.Runner, error) { //nolint:gocritic // a copy is what it changes
	c.Runners = maps.Clone(c.Runners)
	maps.DeleteFunc(c.Runners, func(_ string, r runnerConfig) bool {
		if !r.enabled() || r.Type != runnerLocal {
			return true
		}
		_, err := os.Stat(r.dir(c.DB))
		return err != nil
	})
	if len(c.Runners) == 0 {
		return nil, nil
	}
	return c.MakeRunners(nil, log)
}

// runnerError names the runner that cannot be made.
func runnerError(name string, err error) error {
	if wrong, ok := errors.AsType[*Error](err); ok { // its text begins with a key
		return wrongf("runners.%s.%w", name, wrong.Err)
	}
	return fmt.Errorf("runners.%s: %w", name, err)
}
