package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// crowd is a tool whose runs last until they are let go, and that counts them by tenant.
type crowd struct {
	mu      sync.Mutex
	running map[string]int
	most    map[string]int
	quick   string // the runs of this tenant return at once
	let     chan struct{}
}

func newCrowd() *crowd {
	return &crowd{running: map[string]int{}, most: map[string]int{}, let: make(chan struct{})}
}

func (c *crowd) Run(ctx context.Context, call shell.Call) (json.RawMessage, error) {
	if call.Tenant == c.quick && c.quick != "" {
		return nil, nil
	}
	c.change(call.Tenant, 1)
	defer c.change(call.Tenant, -1)
	select {
	case <-c.let:
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *crowd) change(tenant string, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[tenant] += by
	c.most[tenant] = max(c.most[tenant], c.running[tenant])
}

func (c *crowd) now(tenant string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[tenant]
}

// createFor makes n actions of a tenant, due now.
func createFor(t *testing.T, e *shell.Engine, tenant string, n int) (ids []uuid.UUID) {
	t.Helper()
	for range n {
		a, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Namespace: "ns", Tenant: tenant})
		require.NoError(t, err)
		ids = append(ids, a.ID)
	}
	synctest.Wait()
	return ids
}

func TestTarpitsOfSomeTenantsLeaveASlotForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.quick = "a"
		o := shell.Options{Store: inMemory(t), Tools: tools(c), Limits: shell.Limits{MaxLaneShare: 0.75}}
		e, stop := start(t, o)
		createFor(t, e, "b", 70)
		assert.Equal(t, 48, c.now("b"), "three quarters of 64")
		createFor(t, e, "c", 70)
		assert.Equal(t, 12, c.now("c"), "three quarters of the 16 that b has left")
		createFor(t, e, "d", 70)
		assert.Equal(t, 3, c.now("d"))
		for _, id := range createFor(t, e, "a", 5) {
			assert.Equal(t, core.StatusCompleted, actionOf(t, e, id).Status.Type)
		}
		require.NoError(t, stop(), "what runs is cut off, what waits stays")

		e = running(t, o)
		synctest.Wait()
		assert.LessOrEqual(t, c.now("b"), 48, "the bound holds after a restart")
		for _, id := range createFor(t, e, "a", 5) {
			assert.Equal(t, core.StatusCompleted, actionOf(t, e, id).Status.Type)
		}
	})
}

func TestThreeTarpitsLeaveASlotOf64AndAFourthTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c), Limits: shell.Limits{MaxLaneShare: 0.75}})
		for _, tenant := range []string{"b", "c", "d", "f", "g"} {
			createFor(t, e, tenant, 70)
		}
		assert.Equal(t, []int{48, 12, 3, 1, 0}, []int{c.now("b"), c.now("c"), c.now("d"), c.now("f"), c.now("g")})
	})
}

func TestOneTenantAloneMayHoldAllSlotsUnlessTheyAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(c)})
		createFor(t, e, "b", 70)
		assert.Equal(t, 64, c.now("b"))
	})
}

func TestATenantWithoutASlotGetsOneHoweverSmallItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		e := running(t, shell.Options{
			Store: inMemory(t), Tools: tools(c), Concurrency: map[string]int{"count": 2}, Limits: shell.Limits{MaxLaneShare: 0.01},
		})
		for _, tenant := range []string{"a", "b", "c"} {
			createFor(t, e, tenant, 2)
		}
		assert.Equal(t, []int{1, 1, 0}, []int{c.now("a"), c.now("b"), c.now("c")})
	})
}

// rounds has each run last a second, and records by the second whose runs began.
type rounds struct {
	mu   sync.Mutex
	from time.Time
	by   map[int][]string
}

func (r *rounds) Run(_ context.Context, c shell.Call) (json.RawMessage, error) {
	r.mu.Lock()
	n := int(time.Since(r.from) / time.Second)
	r.by[n] = append(r.by[n], c.Tenant)
	r.mu.Unlock()
	<-time.After(time.Second)
	return nil, nil
}

// String gives the tenants of each second, sorted: "bb ac".
func (r *rounds) String() string {
	var out []string
	for n := range len(r.by) {
		slices.Sort(r.by[n])
		out = append(out, strings.Join(r.by[n], ""))
	}
	return strings.Join(out, " ")
}

func TestWhatWaitsForASlotTakesTurnsByTenant(t *testing.T) {
	twice := map[shell.Scope]int{{Namespace: "ns", Tenant: "c"}: 2}
	for _, c := range []struct {
		name    string
		weights map[shell.Scope]int
		slots   int
		want    string
	}{
		{name: "one slot goes around", slots: 1, want: "b a c a b c a b c b b"},
		{name: "two slots are two tenants'", slots: 2, want: "bb ac ab ac bc b"},
		{name: "a tenant of weight 2 has two turns for one", slots: 1, weights: twice, want: "b a c c a b c a b b b"},
		{name: "a tenant of weight 2 has two slots of four", slots: 4, weights: twice, want: "bbbb abcc aac"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := &rounds{from: time.Now(), by: map[int][]string{}}
				e := running(t, shell.Options{
					Store: inMemory(t), Tools: tools(got), Concurrency: map[string]int{"count": c.slots}, Limits: shell.Limits{Weights: c.weights},
				})
				createFor(t, e, "b", 5)
				createFor(t, e, "c", 3)
				createFor(t, e, "a", 3)
				elapse(time.Minute)
				assert.Equal(t, c.want, got.String())
			})
		})
	}
}

func TestWhatABuildWithoutSharesLeftInALaneIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		o := shell.Options{Store: inMemory(t), Tools: tools(c), Concurrency: map[string]int{"count": 1}}
		e, stop := start(t, o)
		createFor(t, e, "b", 3)
		require.NoError(t, stop())
		require.NoError(t, o.Store.Update(bg(), func(tx store.Tx) error {
			var left []store.OutboxEntry
			err := tx.Outbox(func(e store.OutboxEntry) error {
				assert.Equal(t, "count\x1fns\x1fb", e.Lane)
				e.Lane, e.Effect = "count", []byte(string(e.Effect))
				left = append(left, e)
				return nil
			})
			for _, e := range left {
				require.NoError(t, tx.PutOutbox(e))
			}
			assert.Len(t, left, 2)
			return err
		}))
		e = running(t, o)
		close(c.let)
		elapse(time.Minute)
		require.NoError(t, o.Store.View(bg(), func(tx store.ReadTx) error {
			return tx.Outbox(func(e store.OutboxEntry) error { return fmt.Errorf("%s is left", e.Key) })
		}))
		list, _, err := e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{})
		require.NoError(t, err)
		require.Len(t, list, 3)
	})
}

// dueTogether stores n actions of tenant b, due at once, and then some of tenant a, due
// a second later, in an engine that is stopped before.
func dueTogether(t *testing.T, o shell.Options, n, others int) {
	t.Helper()
	e, stop := start(t, o)
	for i := range n + others {
		spec := core.ActionSpec{ToolName: "count", Namespace: "ns", Tenant: "b", Label: fmt.Sprint(i), Trigger: at(time.Hour + time.Duration(i)*time.Microsecond)}
		if i >= n {
			spec.Tenant, spec.Trigger = "a", at(time.Hour+time.Second)
		}
		_, err := e.Actions().Create(bg(), spec)
		require.NoError(t, err)
	}
	require.NoError(t, stop())
	elapse(2 * time.Hour)
}

// begun gives the tenants of all actions in the order of the batches in which their runs
// began, which is the second that changes them. Which goroutine comes first to its tool is
// the scheduler's affair.
func begun(t *testing.T, st store.Store) (order []string) {
	t.Helper()
	tenants, changed := map[uuid.UUID]string{}, map[uuid.UUID]int{}
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
		err := tx.Records(func(r store.Record) error {
			s, err := core.DecodeState(r.Kind, r.State)
			if a, ok := s.(core.Action); ok {
				tenants[a.ID] = a.Tenant
			}
			return err
		})
		require.NoError(t, err)
		return tx.Batches(0, func(b store.Batch) error {
			for _, c := range b.Changes {
				if changed[c.ID]++; c.Kind == core.KindAction && changed[c.ID] == 2 {
					order = append(order, tenants[c.ID])
				}
			}
			return nil
		})
	}))
	return order
}

// sequence counts the runs of each label.
type sequence struct {
	mu     sync.Mutex
	labels map[string]int
}

func (s *sequence) Run(_ context.Context, c shell.Call) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.labels == nil {
		s.labels = map[string]int{}
	}
	s.labels[c.Label]++
	return nil, nil
}

func TestWhatIsDueOfOneTenantPutsOffAnothersByABatchOrTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &sequence{}
		o := shell.Options{Store: inMemory(t), Tools: tools(got), DefaultConcurrency: 10_000, MaxBatch: 16}
		dueTogether(t, o, 300, 2)
		running(t, o)
		elapse(time.Minute)
		order := begun(t, o.Store)
		require.Len(t, order, 302)
		last := 301 - slices.Index(reversed(order), "a")
		assert.Less(t, last, 3*16, "both of a ran while most of b waited")
		for label, runs := range got.labels {
			assert.Equal(t, 1, runs, label)
		}
	})
}

func TestABacklogIsCarriedOutOnceThoughCommitsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &sequence{}
		st := &everyThird{Store: inMemory(t)}
		o := shell.Options{Store: st, Tools: tools(got), DefaultConcurrency: 10_000, MaxBatch: 8, TickRate: 24 * time.Hour, LeaseTTL: 24 * time.Hour}
		dueTogether(t, o, 200, 10)
		st.fail = true
		e := running(t, o)
		elapse(time.Hour)
		st.fail = false
		elapse(time.Minute)
		require.Len(t, got.labels, 210)
		for label, runs := range got.labels {
			assert.Equal(t, 1, runs, label)
		}
		list, _, err := e.Actions().List(bg(), shell.ActionFilter{Status: core.StatusCompleted}, shell.Page{Limit: 1000})
		require.NoError(t, err)
		assert.Len(t, list, 210)
	})
}

// storeActions stores actions of tenants that are due after those times, one behind the other, in an
// engine that is stopped before.
func storeActions(t *testing.T, st store.Store, make func(create func(tenant string, n int, after time.Duration))) {
	t.Helper()
	e, stop := start(t, shell.Options{Store: st, Tools: tools(&sequence{})})
	label := 0
	make(func(tenant string, n int, after time.Duration) {
		for range n {
			label++
			_, err := e.Actions().Create(bg(), core.ActionSpec{ToolName: "count", Namespace: "ns", Tenant: tenant, Label: fmt.Sprint(label), Trigger: at(after)})
			require.NoError(t, err)
		}
	})
	require.NoError(t, stop())
}

// withoutShares is a store that is written as an earlier version did it.
type withoutShares struct{ store.Store }

func (s withoutShares) Update(ctx context.Context, fn func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return fn(shareless{tx}) })
}

type shareless struct{ store.Tx }

func (t shareless) Put(seq uint64, writes []store.Write) error {
	for i := range writes {
		writes[i].Share = 0
	}
	return t.Tx.Put(seq, writes)
}

// sharesIn counts the entries of the due index that have a share, and those that have none.
func sharesIn(t *testing.T, st store.Store) (with, without int) {
	t.Helper()
	require.NoError(t, st.View(bg(), func(tx store.ReadTx) error {
		entries, err := tx.Due(nil, nil, effects.MaxTime, 1<<20)
		for _, d := range entries {
			if d.Share != 0 {
				with++
			} else {
				without++
			}
		}
		return err
	}))
	return with, without
}

func TestWhatIsDueAtTheSameInstantAsMuchOfAnotherTenantBeginsInTheFirstBatch(t *testing.T) {
	for _, c := range []struct {
		name string
		old  func(store.Store) store.Store // writes what is due
		with bool
	}{
		{"in a database of this version", func(st store.Store) store.Store { return st }, true},
		{"in one of an earlier version", func(st store.Store) store.Store { return withoutShares{st} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const many, few, batch = 1500, 3, 16
				o := shell.Options{Store: inMemory(t), Tools: tools(&sequence{}), DefaultConcurrency: 10_000, MaxBatch: batch}
				storeActions(t, c.old(o.Store), func(create func(string, int, time.Duration)) {
					create("b", many, time.Hour)
					create("a", few, time.Hour) // ids are in order: they stand behind all of b
				})
				with, without := sharesIn(t, o.Store)
				assert.Equal(t, c.with, with == many+few)
				assert.Equal(t, !c.with, without == many+few)
				elapse(time.Hour)
				running(t, o)
				elapse(time.Minute)
				order := begun(t, o.Store)
				require.Len(t, order, many+few)
				assert.Equal(t, few, strings.Count(strings.Join(order[:batch], ""), "a"))
			})
		})
	}
}

func TestWeightsHoldInTheBacklogOfADatabaseOfEitherVersion(t *testing.T) {
	for name, old := range map[string]func(store.Store) store.Store{
		"this":    func(st store.Store) store.Store { return st },
		"earlier": func(st store.Store) store.Store { return withoutShares{st} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := shell.Options{
					Store: inMemory(t), Tools: tools(&sequence{}), DefaultConcurrency: 10_000, MaxBatch: 16,
					Limits: shell.Limits{Weights: map[shell.Scope]int{{Namespace: "ns", Tenant: "a"}: 3}},
				}
				storeActions(t, old(o.Store), func(create func(string, int, time.Duration)) {
					create("b", 100, time.Hour)
					create("a", 100, time.Hour)
				})
				elapse(time.Hour)
				running(t, o)
				elapse(time.Minute)
				assert.Equal(t, 12, strings.Count(strings.Join(begun(t, o.Store)[:16], ""), "a"))
			})
		})
	}
}

// slowly is a store of which each transaction takes a second.
type slowly struct {
	store.Store
	on bool
}

func (s *slowly) Update(ctx context.Context, fn func(store.Tx) error) error {
	if s.on {
		<-time.After(time.Second)
	}
	return s.Store.Update(ctx, fn)
}

func TestWhatFallsDueWhileABacklogIsCarriedOutBeginsInTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const batch = 16
		st := &slowly{Store: inMemory(t)}
		o := shell.Options{Store: st, Tools: tools(&sequence{}), DefaultConcurrency: 10_000, MaxBatch: batch, TickRate: 24 * time.Hour, LeaseTTL: 24 * time.Hour}
		storeActions(t, st.Store, func(create func(string, int, time.Duration)) {
			create("b", 500, time.Hour)
			create("a", 2, time.Hour+10500*time.Millisecond)
		})
		elapse(time.Hour)
		st.on = true
		running(t, o)
		elapse(2 * time.Hour)
		order := begun(t, o.Store)
		require.Len(t, order, 502)
		first := slices.Index(order, "a")
		assert.Less(t, first, 12*batch, "of about 500/16 batches, one a second")
		assert.Less(t, 501-slices.Index(reversed(order), "a"), 12*batch)
		assert.Greater(t, first, 5*batch, "they fell due amid the backlog")
	})
}

// everyThird is a store of which each third transaction fails at its end.
type everyThird struct {
	store.Store
	fail bool
	n    int
}

func (s *everyThird) Update(ctx context.Context, fn func(store.Tx) error) error {
	if s.n++; !s.fail || s.n%3 != 0 {
		return s.Store.Update(ctx, fn)
	}
	return s.Store.Update(ctx, func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errors.New("the disk is full")
	})
}

func reversed(s []string) []string {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

func TestARunIsEndedAtTheOperatorsCeilingWhateverItAsksFor(t *testing.T) {
	for _, c := range []struct {
		name, tenant string
		asks, want   time.Duration
	}{
		{"one that asks for more", "b", time.Hour, time.Minute},
		{"one that asks for none", "b", 0, time.Minute},
		{"one that asks for less", "b", time.Second, time.Second},
		{"one of a tenant with another ceiling", "a", time.Hour, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := running(t, shell.Options{Store: inMemory(t), Tools: tools(newCrowd()), Limits: shell.Limits{
					MaxTimeout: time.Minute, MaxTimeouts: map[shell.Scope]time.Duration{{Namespace: "ns", Tenant: "a"}: 2 * time.Minute},
				}})
				a, err := e.Actions().Execute(bg(), core.ActionSpec{
					ToolName: "count", Namespace: "ns", Tenant: c.tenant, Policy: core.RunPolicy{TimeoutMS: c.asks.Milliseconds(), MaxAttempts: 1},
				})
				require.NoError(t, err)
				assert.Equal(t, core.StatusFailed, a.Status.Type)
				assert.Contains(t, a.Status.Reason, "reached its time limit")
				assert.Equal(t, c.want, a.FinishedAt.Sub(a.StartedAt))
			})
		})
	}
}

// A few schedules whose decisions take long put off those of another tenant by a turn, also if all that
// is due fits into one batch.
func TestFewMachinesThatTakeLongDoNotPutOffThoseOfAnotherTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &hurrying{}
		e := running(t, shell.Options{Store: inMemory(t), Tools: tools(&counting{}), Clock: clock})
		spec := everyMinute()
		for n := range byte(20) {
			spec.ID = uuid.UUID{0: 1, 15: n}
			_, err := e.Recurring().Create(bg(), spec)
			require.NoError(t, err)
		}
		spec.ID, spec.Tenant = uuid.UUID{0: 0xff}, "another" // which is the last in the due index
		_, err := e.Recurring().Create(bg(), spec)
		require.NoError(t, err)
		clock.each.Store(int64(10 * time.Millisecond)) // so a batch has time for few of them
		elapse(2 * time.Minute)
		clock.each.Store(0)

		other, _, err := e.Recurring().History(bg(), spec.ID, shell.Page{Limit: 1000})
		require.NoError(t, err)
		require.NotEmpty(t, other)
		first := other[len(other)-1]
		before := 0
		for n := range byte(20) {
			list, _, err := e.Recurring().History(bg(), uuid.UUID{0: 1, 15: n}, shell.Page{Limit: 1000})
			require.NoError(t, err)
			require.NotEmpty(t, list)
			if o := list[len(list)-1]; o.DueAt == first.DueAt && o.DecidedAt < first.DecidedAt {
				before++
			}
		}
		assert.Less(t, before, 8, "schedules of the other tenant were decided before")
	})
}
