package httpapi

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func TestRunnersOfAllPartitionsAreToldAsTheWorstOfThemWithThePodsOfAll(t *testing.T) {
	list := func(r ...wire.Runner) wire.RunnerList { return wire.RunnerList{Runners: r} }
	got := joinRunners([]wire.RunnerList{
		list(wire.Runner{Name: "east", Status: "works", Since: 1, SeenAt: 50, WatchAgeSeconds: 1}, wire.Runner{Name: "local", Status: "works", MaxPods: 100, Pods: 2, PodsWaiting: 1}),
		list(wire.Runner{Name: "east", Status: "down", Since: 9, Error: "no answer", LastError: "no answer", LastErrorAt: 9, SeenAt: 5, WatchAgeSeconds: 60},
			wire.Runner{Name: "local", Status: "works", MaxPods: 100, Pods: 3}),
		list(wire.Runner{Name: "east", Status: "degraded", Since: 3, Error: "cannot delete", LastError: "cannot list", LastErrorAt: 30, SeenAt: 40, WatchAgeSeconds: 3},
			wire.Runner{Name: "alone", Status: "works"}),
		list(),
	})
	assert.Equal(t, list(
		wire.Runner{Name: "alone", Status: "works"},
		wire.Runner{Name: "east", Status: "down", Since: 9, Error: "no answer", LastError: "cannot list", LastErrorAt: 30, SeenAt: 5, WatchAgeSeconds: 60},
		wire.Runner{Name: "local", Status: "works", MaxPods: 100, Pods: 5, PodsWaiting: 1},
	), got)
}
