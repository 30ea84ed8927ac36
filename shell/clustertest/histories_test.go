//go:build unix

package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
)

const (
	clients = 6
	// partitions is how many the divided database has.
	partitions = 4
)

// stepsAsked gives how many steps the schedule is to have: as many as there are for the gate, few without ORRERY_SLOW.
func stepsAsked(t *testing.T, few, gate int) int {
	t.Helper()
	if v := os.Getenv("ORRERY_FAULTS"); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err, "ORRERY_FAULTS")
		return n
	}
	if os.Getenv("ORRERY_SLOW") == "1" {
		return gate
	}
	return few
}

func TestWhatClientsOfThreeDaemonsSeeWhileThingsFailIsWhatOneDaemonThatNeverFailsCouldShow(t *testing.T) {
	histories(t, run{steps: stepsAsked(t, 3, 5), tenants: []string{"hist"}})
}

func TestWhatClientsOfSeveralPartitionsSeeWhileThingsFailAndMoveIsWhatOneDaemonThatNeverFailsCouldShow(t *testing.T) {
	n := stepsAsked(t, 2, int(frozenInCall))
	histories(t, run{partitions: partitions, steps: n, tenants: tenantsOf(partitions), upgrade: n > 2})
}

// tenantsOf gives the names of tenants: one in each partition, and one more.
func tenantsOf(partitions int) (names []string) {
	at, more := make(map[int]bool), 1
	for n := 0; len(at) < partitions || more > 0; n++ {
		name := fmt.Sprint("t", n)
		p := core.Partition(core.Scope{Namespace: scopeName, Tenant: name}, partitions)
		switch {
		case !at[p]:
			at[p] = true
		case more > 0:
			more--
		default:
			continue
		}
		names = append(names, name)
	}
	return names
}

// run is what a test runs.
type run struct {
	partitions int // 0: the database is not divided
	steps      int // of the schedule
	tenants    []string
	upgrade    bool // one daemon after the other gets another core; else all have the same
	pods       bool // daemons run pods, and are frozen within calls about them
}

// histories has clients ask while the faults of a schedule happen, and holds together what they were told.
func histories(t *testing.T, r run) {
	t.Helper()
	seed := seedtest.Seed(t)
	rng := newRand(seed)
	steps := plan(rng, r.steps, r.partitions > 0)
	var api *podAPI
	if r.pods {
		steps, api = planCalls(rng, r.steps), newPodAPI(t)
		api.seedStrangers(r.tenants[0])
	}
	minutes := func() time.Duration { return time.Duration(rng.IntN(600)-300) * time.Second }
	ahead := [daemons]time.Duration{0, minutes(), minutes()}
	t.Logf("tenants %v; the clocks are ahead by %v", r.tenants, ahead)
	next, at := "", map[int]bool{}
	if r.upgrade {
		next, at = coming.build(t), upgrades(len(steps))
	}
	c := newCluster(t, ahead, r.partitions, api)
	h := newHistory(r.tenants...)
	f := &findings{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.chief = newClient(0, seed, h, c)
	defer c.chief.http.CloseIdleConnections()
	recurring := prepare(ctx, t, c.chief)
	if r.pods {
		prepareJobs(ctx, t, c.chief)
	}

	stop := make(chan struct{})
	var working sync.WaitGroup
	for n := 1; n <= clients; n++ {
		working.Go(func() { newClient(n, seed, h, c).work(ctx, stop) })
	}
	old := c.members[:daemons]
	for n, s := range steps {
		if at[n] {
			c.upgrade(t, old[0], next)
			old = old[1:]
			c.members[daemons].program = next // who is added later is new
		}
		assert.NoError(t, h.progress(50), "before: %s", s)
		began := time.Now()
		c.suffer(t, s)
		assert.NoError(t, h.progress(1), "after: %s", s)
		t.Logf("  at work again %s after its begin", time.Since(began).Round(time.Millisecond))
		f.list = append(f.list, c.revive()...)
	}
	assert.NoError(t, h.progress(50), "at the end")
	close(stop)
	late := time.AfterFunc(patience, cancel)
	working.Wait()
	late.Stop()

	end(ctx, t, f, c, h, recurring, r.partitions)
	if r.upgrade {
		c.upgraded(t, f, r.partitions)
	}
	for _, bad := range f.list {
		t.Error(bad)
	}
	t.Logf("%s", h.summary())
	if t.Failed() {
		t.Logf("the schedule:\n%s", described(steps))
		h.keep(t, c.dir)
	}
}

// newRand draws what happens to the daemons; clients draw by themselves.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// described is a schedule, one step in a line.
func described(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString("  " + s.String() + "\n")
	}
	return b.String()
}

// recurring is an action of a tenant that recurs each second.
type recurring struct {
	of           *tenant
	id           uuid.UUID
	made, paused span
}

// prepare declares the queues of each tenant, and an action that recurs.
func prepare(ctx context.Context, t *testing.T, chief *client) (all []*recurring) {
	t.Helper()
	for _, of := range chief.h.tenants {
		for q := range queues {
			a := chief.do(ctx, http.MethodPut, fmt.Sprintf("/v1/queues/q%d%s", q, of.scope()), map[string]any{
				"visibility_timeout_ms": time.Hour.Milliseconds(), "retry": map[string]any{"max_attempts": maxAttempts},
			})
			require.True(t, a.ok(), "%d %s", a.status, a.body)
		}
		var made struct {
			ID uuid.UUID `json:"recurring_id"`
		}
		r := &recurring{of: of, made: span{asked: time.Now()}}
		a := chief.do(ctx, http.MethodPost, "/v1/recurring", map[string]any{
			"namespace": scopeName, "tenant": of.name, "cron_expr": "* * * * * *", "provider": "line", "action_type": recurringType,
			"payload": toolInput(chief.effects, "0", "0", "recurring", "fail"), "missed": "all",
		})
		require.True(t, chief.into(a, &made), "%d %s", a.status, a.body)
		r.id, r.made.answered = made.ID, time.Now()
		all = append(all, r)
	}
	return all
}

// end waits until all that was begun has ended, stops the daemons, and holds everything together.
func end(ctx context.Context, t *testing.T, f *findings, c *cluster, h *history, recurring []*recurring, partitions int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, r := range recurring {
		r.paused.asked = time.Now()
		a := c.chief.do(ctx, http.MethodPost, "/v1/recurring/"+r.id.String()+"/pause"+r.of.scope(), map[string]any{"reason": "the test ends"})
		assert.True(t, a.ok(), "%d %s", a.status, a.body)
		r.paused.answered = time.Now()
	}
	r := reader{c.chief}
	var actions map[uuid.UUID]core.Action
	assert.NoError(t, poll(patience, func() (err error) {
		if actions, err = r.actions(ctx); err != nil {
			return err
		}
		for _, a := range actions {
			if !a.Status.Type.Terminal() {
				return fmt.Errorf("action %s is %s: %w", a.ID, a.Status.Type, errLater)
			}
		}
		return nil
	}))
	pipelines, err := r.pipelines(ctx)
	assert.NoError(t, err)
	verdicts := make(map[*tenant][]verdict)
	for _, one := range recurring {
		verdicts[one.of], err = r.verdicts(ctx, one.of, one.id)
		assert.NoError(t, err)
	}
	owners, err := r.owners(ctx)
	assert.NoError(t, err)
	t.Logf("owners that the partitions have had, one after the other: %v", owners)
	if c.pods != nil {
		c.checkPods(ctx, t, f, h, r)
	}
	c.rest(t, f)
	lines, err := readLines(c.effects())
	assert.NoError(t, err)
	c.replays(t, partitions)

	f.list = append(f.list, h.plaints...)
	entries := 0
	for _, one := range recurring {
		one.of.check(f)
		checkVerdicts(f, "the recurring action of "+one.of.name, verdicts[one.of], one.made, one.paused)
		entries += len(verdicts[one.of])
	}
	checkActions(f, h, actions)
	checkEffects(f, lines, actions)
	checkPipelines(f, h, pipelines)
	t.Logf("%d actions, %d lines of tools, %d pipelines, %d entries of recurring actions", len(actions), len(lines), len(pipelines), entries)
}

// check holds together what clients were told of the queues and locks of a tenant.
func (t *tenant) check(f *findings) {
	for q, ops := range t.queues {
		checkOrder(f, fmt.Sprintf("queue %d of %s", q, t.name), queueModel(), ops)
	}
	for l, ops := range t.locks {
		checkOrder(f, fmt.Sprintf("lock %d of %s", l, t.name), lockModel(), ops)
		checkTokens(f, fmt.Sprintf("lock %d of %s", l, t.name), ops)
	}
}

// rest stops the daemons, and adds what they complain of.
func (c *cluster) rest(t *testing.T, f *findings) {
	t.Helper()
	for _, m := range c.members {
		if m.cmd != nil {
			assert.NoError(t, m.stop(), "%s", m.name)
		}
		if m.gone != nil { // it has taken part
			f.list = append(f.list, m.complaints()...)
		}
	}
}

// replays replays the journal of each partition.
func (c *cluster) replays(t *testing.T, partitions int) {
	t.Helper()
	of := [][]string{nil}
	if partitions > 0 {
		of = nil
		for p := range partitions {
			of = append(of, []string{"--partition", strconv.Itoa(p)})
		}
	}
	for _, one := range of {
		out, err := c.run(append([]string{"replay", "--verify", "--database", c.server.URL(c.database)}, one...)...)
		assert.NoError(t, err, "%v: %s", one, out)
		t.Logf("%s", out)
	}
}
