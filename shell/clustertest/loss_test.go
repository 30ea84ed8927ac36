//go:build unix

package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// quietConfig is that of daemons which commit nothing of themselves, and of which none takes a partition over before its owner has looked at what the standby lacks.
func quietConfig(t *testing.T) string {
	t.Helper()
	config := daemonConfig
	for _, change := range [][2]string{
		{"tick_rate_seconds = 1\n", "tick_rate_seconds = 3600\n"}, {"lease_ttl_seconds = 2\n", "lease_ttl_seconds = 3600\nscrub_records_per_second = 0\n"},
		{"lease_seconds = %v\n", "lease_seconds = 5 # instead of %v\n"},
	} {
		require.Equal(t, 1, strings.Count(config, change[0]), change[0])
		config = strings.Replace(config, change[0], change[1], 1)
	}
	return config
}

// losing is a cluster whose database has lost commits that clients were told of.
type losing struct {
	*cluster
	chief *client
	of    map[int]*tenant // one tenant of each partition
	has   map[int]int     // how many items a partition has, as far as it may not be lost
}

func newLosing(t *testing.T, partitions int) *losing {
	t.Helper()
	l := &losing{cluster: prepareCluster(t, [daemons]time.Duration{}, partitions, nil, quietConfig(t)), of: make(map[int]*tenant), has: make(map[int]int)}
	l.start(t)
	names := []string{"hist"}
	if partitions > 0 {
		names = tenantsOf(partitions)
	}
	for _, name := range names {
		p := core.Partition(core.Scope{Namespace: scopeName, Tenant: name}, max(partitions, 1))
		l.of[p] = &tenant{name: name}
	}
	l.chief = newClient(0, 1, newHistory(), l.cluster)
	t.Cleanup(l.chief.http.CloseIdleConnections)
	return l
}

// parts are the numbers of the partitions.
func (l *losing) parts() []int { return slices.Sorted(maps.Keys(l.of)) }

// push puts an item into the queue of a partition's tenant, which is acknowledged.
func (l *losing) push(t *testing.T, part int) {
	t.Helper()
	a := l.chief.do(t.Context(), http.MethodPost, "/v1/queues/q0/items"+l.of[part].scope(), map[string]any{"data": 1})
	require.True(t, a.ok(), "partition %d: %d %s", part, a.status, a.body)
}

// requireItems has the queue of a partition's tenant hold what was acknowledged and not lost.
func (l *losing) requireItems(t *testing.T, part int) {
	t.Helper()
	a := l.chief.do(t.Context(), http.MethodGet, "/v1/queues/q0"+l.of[part].scope(), nil)
	require.Equal(t, l.has[part], l.chief.counted(a), "partition %d: %d %s", part, a.status, a.body)
}

// lastOf gives the number of each partition's last commit, as a server has it.
func (l *losing) lastOf(t *testing.T, s *postgrestest.Server) (last []string) {
	t.Helper()
	v, err := s.Query(t.Context(), l.database, `SELECT string_agg(last::text, ' ' ORDER BY part) FROM orrery.partitions`)
	require.NoError(t, err)
	last = strings.Fields(v)
	require.Len(t, last, len(l.of))
	return last
}

// calm waits until each partition is where it should be, and nobody commits: what the standby lacks then is what the test has asked for.
func (l *losing) calm(t *testing.T) {
	t.Helper()
	if len(l.of) > 1 {
		require.NoError(t, poll(patience, func() error {
			a := l.chief.do(t.Context(), http.MethodPost, "/v1/cluster/rebalance", nil)
			var said wire.ClusterPlacing
			if !l.chief.into(a, &said) || slices.ContainsFunc(said.Partitions, func(p wire.ClusterPlace) bool { return p.Owner != p.Should }) {
				return fmt.Errorf("%d %s: %w", a.status, a.body, errLater)
			}
			return nil
		}))
	}
	var last []string
	require.NoError(t, poll(patience, func() error {
		was := last
		wait(lease / 2)
		if last = l.lastOf(t, l.server); !slices.Equal(was, last) {
			return fmt.Errorf("commits go on, from %v to %v: %w", was, last, errLater)
		}
		return nil
	}))
}

// lose has clients told of an item in some partitions that the standby lacks, and that standby take the place of the primary. It gives why each partition
// is stopped from now on; "": it is not.
func (l *losing) lose(t *testing.T, standby *postgrestest.Server, parts ...int) (why []string) {
	t.Helper()
	l.calm(t)
	standby.Detach(t, l.server)
	for _, p := range parts {
		l.push(t, p)
	}
	acknowledged, there := l.lastOf(t, l.server), l.lastOf(t, standby)
	for p, last := range acknowledged {
		why = append(why, "")
		if there[p] != last {
			why[p] = fmt.Sprintf("commit %s was acknowledged, the database's last one is %s, as after a failover to a standby that lagged behind", last, there[p])
		}
		require.Equal(t, slices.Contains(parts, p), why[p] != "", "partition %d: %s, %s", p, last, there[p])
	}
	l.server.Kill(t)
	standby.Promote(t)
	l.lead(standby)
	return why
}

// get asks a daemon once; the status 0: it has not answered.
func (l *losing) get(ctx context.Context, m *member, path string) (status int, body string, header http.Header) {
	resp, raw, err := l.chief.try(ctx, m, http.MethodGet, path, "", nil)
	if err != nil {
		return 0, err.Error(), nil
	}
	return resp.StatusCode, string(raw), resp.Header
}

// tells says what is missing until a daemon tells why partitions are stopped, and answers for the others.
func (l *losing) tells(ctx context.Context, m *member, why []string) error {
	if m.ended() {
		return fmt.Errorf("it has ended: %w", m.err)
	}
	status, body, _ := l.get(ctx, m, "/v1/cluster")
	var said wire.Cluster
	if err := json.Unmarshal([]byte(body), &said); err != nil || status != http.StatusOK {
		return fmt.Errorf("%d %s: %w", status, body, errLater)
	}
	_, metrics, _ := l.get(ctx, m, "/metrics")
	if len(said.Partitions) != len(why) {
		return fmt.Errorf("%s: %w", body, errLater)
	}
	for p, want := range why {
		is := said.Partitions[p]
		if is.Stopped != want || is.LossCanBeAccepted != (want != "") {
			return fmt.Errorf("partition %d: %q, want %q: %w", p, is.Stopped, want, errLater)
		}
		stopped := 0
		if want != "" {
			stopped = 1
		}
		if line := fmt.Sprintf("orrery_partition_stopped{partition=\"%d\"} %d\n", p, stopped); !strings.Contains(metrics, line) {
			return fmt.Errorf("/metrics does not say %s: %w", line, errLater)
		}
		status, body, header := l.get(ctx, m, "/v1/queues/q0"+l.of[p].scope())
		switch {
		case want == "" && status != http.StatusOK:
			return fmt.Errorf("partition %d: %d %s: %w", p, status, body, errLater)
		case want != "" && (status != http.StatusServiceUnavailable || !strings.Contains(body, fmt.Sprintf("partition %d is stopped since its database has lost commits, until somebody accepts that: nothing was done", p)) || header.Get("Retry-After") == ""):
			return fmt.Errorf("partition %d, which is stopped: %d %s: %w", p, status, body, errLater)
		}
	}
	return nil
}

// requireTold has all daemons tell why partitions are stopped.
func (l *losing) requireTold(t *testing.T, why []string) {
	t.Helper()
	for _, m := range l.members[:daemons] {
		require.NoError(t, poll(patience, func() error { return l.tells(t.Context(), m, why) }), m.name)
	}
	for p, reason := range why {
		if reason == "" {
			l.requireItems(t, p)
		}
	}
}

func (l *losing) killAll() {
	for _, m := range l.members[:daemons] {
		m.kill()
	}
}

// prepareItems has some items in each partition, which the standby has, too.
func (l *losing) prepareItems(t *testing.T) {
	t.Helper()
	for _, p := range l.parts() {
		a := l.chief.do(t.Context(), http.MethodPut, "/v1/queues/q0"+l.of[p].scope(), map[string]any{})
		require.True(t, a.ok(), "%d %s", a.status, a.body)
		l.push(t, p)
		l.push(t, p)
		l.has[p] = 2
	}
}

// requireGoesOn has each partition be worked on, with what was acknowledged and not lost, and its journal be whole.
func (l *losing) requireGoesOn(t *testing.T, partitions int) {
	t.Helper()
	for _, p := range l.parts() {
		l.requireItems(t, p)
		l.push(t, p)
		l.has[p]++
		l.requireItems(t, p)
	}
	f := &findings{}
	l.rest(t, f)
	f.list = append(f.list, l.chief.h.plaints...)
	assert.Empty(t, f.list)
	l.replays(t, partitions)
}

func TestWhatAFailoverToAnAsynchronousStandbyLosesOfSomePartitionsIsToldUntilItIsAccepted(t *testing.T) {
	l := newLosing(t, partitions)
	standby := l.server.Standby(t, postgrestest.Asynchronous)
	l.prepareItems(t)
	lost := []int{1, 3}
	why := l.lose(t, standby, lost...)
	l.requireTold(t, why)
	for _, p := range []int{0, 2} {
		l.push(t, p)
		l.has[p]++
	}
	l.requireTold(t, why)
	l.killAll()
	l.start(t)
	l.requireTold(t, why)

	a := l.chief.do(t.Context(), http.MethodPost, "/v1/cluster/accept-loss", map[string]any{"partition": 1, "stopped": why[3] + "?"})
	require.Equal(t, http.StatusConflict, a.status, "%s", a.body)
	a = l.chief.do(t.Context(), http.MethodPost, "/v1/cluster/accept-loss", map[string]any{"partition": 1, "stopped": why[1]})
	require.Equal(t, http.StatusNoContent, a.status, "%s", a.body)
	why[1] = ""
	l.requireTold(t, why)
	out, err := l.run("cluster", "accept-loss", "3", "--stopped", why[3], "--server", "http://"+l.members[0].address)
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, why[3])
	why[3] = ""
	l.requireTold(t, why)
	l.requireGoesOn(t, partitions)
}

func TestWhatAFailoverToAnAsynchronousStandbyLosesOfTheOnlyPartitionEndsEachDaemonUntilItIsAccepted(t *testing.T) {
	l := newLosing(t, 0)
	standby := l.server.Standby(t, postgrestest.Asynchronous)
	l.prepareItems(t)
	why := l.lose(t, standby, 0)[0]
	told := func(m *member) {
		t.Helper()
		require.NoError(t, poll(patience, func() error {
			if m.ended() {
				return nil
			}
			return errLater
		}), "%s goes on", m.name)
		lines := strings.Split(strings.TrimSpace(m.logged()), "\n")
		last := lines[len(lines)-1]
		require.Contains(t, last, why, m.name)
		require.Contains(t, last, "orreryd cluster accept-loss 0 --database", m.name)
	}
	for _, m := range l.members[:daemons] {
		told(m)
		m.cmd = nil
		m.start()
		told(m)
		m.cmd = nil
	}

	out, err := l.run("cluster", "accept-loss", "0", "--yes", "--database", l.server.URL(l.database))
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, why)
	l.start(t)
	l.requireGoesOn(t, 0)
}
