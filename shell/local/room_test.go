//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/local"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// daemon begins an engine with a local runner that has room for one pod.
func daemon(t *testing.T, s store.Store, dir string) (e *shell.Engine, j *jobs.Service, stop func()) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	r, err := local.New(local.Options{Dir: dir, Logger: quiet})
	require.NoError(t, err)
	o := shell.Options{Store: s, Logger: quiet, StopTimeout: time.Second}
	j, err = jobs.Wire(&o, jobs.Options{Runners: map[string]jobs.Runner{"local": r}, MaxPods: map[string]int{"local": 1}, Logger: quiet})
	require.NoError(t, err)
	e, err = shell.New(o)
	require.NoError(t, err)
	outer, end := context.WithCancel(context.Background())
	inner, endJobs := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- e.Run(outer) }()
	go func() { served <- j.Run(inner, e) }()
	return e, j, func() {
		endJobs()
		require.NoError(t, <-served)
		end()
		require.NoError(t, <-ran)
	}
}

func TestPodsOfThisMachineWaitForRoomAlsoAfterARestart(t *testing.T) {
	s, dir, marks := memory.New(), t.TempDir(), t.TempDir()
	e, _, stop := daemon(t, s, dir)
	defer func() { stop() }()
	at := func(name string) string { return filepath.Join(marks, name) }
	trigger := func(name string) uuid.UUID {
		spec := script(fmt.Sprintf("touch %s; until [ -e %s ]; do sleep 0.02; done", at(name+".began"), at(name+".end"))).Spec
		spec.ID, spec.Namespace, spec.Tenant = name, "default", "default"
		_, err := e.Jobs().Apply(t.Context(), spec)
		require.NoError(t, err)
		made, err := e.Jobs().Trigger(t.Context(), shell.Scope{Namespace: "default", Tenant: "default"}, name, shell.TriggerOptions{By: "test"})
		require.NoError(t, err)
		return made.Run
	}
	queued := func(id uuid.UUID) bool {
		o, err := e.Runs().Get(t.Context(), id)
		require.NoError(t, err)
		return o.Pod.Queued
	}
	ends := func(name string, id uuid.UUID) {
		t.Helper()
		require.NoError(t, os.WriteFile(at(name+".end"), nil, 0o600))
		o, err := e.Runs().Wait(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, core.OrchestratorCompleted, o.State, o.Error)
	}
	first := trigger("first")
	until(t, "the first has begun", func() bool { return there(at("first.began")) })
	second := trigger("second")
	third := trigger("third")
	until(t, "both others wait", func() bool { return queued(second) && queued(third) })
	stop()
	var j *jobs.Service
	e, j, stop = daemon(t, s, dir)
	until(t, "it is known who lives and who waits", func() bool { return j.Pods()["local"] == jobs.Pods{Max: 1, Living: 1, Waiting: 2} })
	assert.True(t, queued(second))
	assert.NoFileExists(t, at("second.began"))
	ends("first", first)
	until(t, "the second has begun", func() bool { return there(at("second.began")) })
	assert.NoFileExists(t, at("third.began"))
	ends("second", second)
	ends("third", third)
	assert.Equal(t, jobs.Pods{Max: 1}, j.Pods()["local"])
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
