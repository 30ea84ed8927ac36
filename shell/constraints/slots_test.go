package constraints_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/constraints"
)

func TestHooksOfATenantWaitForASlotOfTheirToolAndLeaveOneForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var mu sync.Mutex
		running, most, met := map[string]int{}, map[string]int{}, map[string]int{}
		change := func(tenant string, by int) {
			mu.Lock()
			defer mu.Unlock()
			running[tenant] += by
			most[tenant] = max(most[tenant], running[tenant])
		}
		c := checker(t, w, func(o *constraints.Options) {
			o.Concurrency, o.MaxShare = map[string]int{"gate": 4}, 0.75
			o.Tools = map[string]shell.Tool{"gate": shell.ToolFunc(func(_ context.Context, call shell.Call) (json.RawMessage, error) {
				change(call.Tenant, 1)
				<-time.After(time.Second)
				change(call.Tenant, -1)
				return nil, nil
			})}
		})
		spec := job(t, `constraints: [{preRunHook: {config: {tool: gate, input: {}}}}]`, "")
		check := func(tenant string, n int) {
			j := *spec
			j.ID, j.Tenant = tenant, tenant
			run := w.run(&j, noon, nil)
			for range n {
				go func() {
					if r, err := c.CheckPreExecution(context.Background(), &j, run.RunID); err == nil && len(r.Checks) == 1 && r.Checks[0].Met {
						mu.Lock()
						defer mu.Unlock()
						met[tenant]++
					}
				}()
			}
			synctest.Wait()
		}
		check("b", 6)
		check("a", 1)
		count := func(of map[string]int, tenant string) int {
			mu.Lock()
			defer mu.Unlock()
			return of[tenant]
		}
		assert.Equal(t, 3, count(running, "b"), "three of four")
		assert.Equal(t, 1, count(running, "a"), "the last one")
		<-time.After(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[string]int{"a": 1, "b": 6}, met)
		assert.Equal(t, 3, most["b"])
	})
}

func TestASlotOfAHooksToolThatDoesNotComeIsNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := checker(t, w, func(o *constraints.Options) {
			o.Concurrency = map[string]int{"gate": 1}
			o.Tools = map[string]shell.Tool{"gate": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
				<-time.After(time.Hour) // whatever its context says
				return nil, nil
			})}
		})
		j := job(t, `constraints: [{preRunHook: {config: {tool: gate, input: {}}}}]`, "")
		first := w.run(j, noon, nil)
		go func() { _, _ = c.CheckPreExecution(context.Background(), j, first.RunID) }()
		synctest.Wait()
		_, err := c.CheckPreExecution(t.Context(), j, first.RunID)
		require.ErrorContains(t, err, `tool "gate": waited for one of the 1 slots that its hooks have: no verdict within`)
		<-time.After(2 * time.Hour)
	})
}

func TestCheckersThatShareSlotsRunNoMoreHooksTogetherThanOneMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var mu sync.Mutex
		running, most := 0, 0
		var shared constraints.Slots
		made := func() *constraints.Checker {
			return checker(t, w, func(o *constraints.Options) {
				o.Concurrency, o.Slots = map[string]int{"gate": 2}, &shared
				o.Tools = map[string]shell.Tool{"gate": shell.ToolFunc(func(context.Context, shell.Call) (json.RawMessage, error) {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					<-time.After(time.Second)
					mu.Lock()
					running--
					mu.Unlock()
					return nil, nil
				})}
			})
		}
		j := job(t, `constraints: [{preRunHook: {config: {tool: gate, input: {}}}}]`, "")
		run := w.run(j, noon, nil)
		var checks sync.WaitGroup
		for _, c := range []*constraints.Checker{made(), made()} {
			for range 3 {
				checks.Go(func() {
					r, err := c.CheckPreExecution(context.Background(), j, run.RunID)
					assert.NoError(t, err)
					assert.True(t, r.ShouldProceed)
				})
			}
		}
		checks.Wait()
		assert.Equal(t, 2, most)
	})
}
