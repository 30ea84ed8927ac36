package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// far is a store whose transactions want to be told what is going to be read.
type far struct {
	store.Store
	fetches int           // that had anything to fetch
	alone   []effects.Ref // schedules that were read without being told beforehand
	read    int           // schedules that were read
	answers int           // to requests that were looked up
	buses   []bool        // event buses that were read: whether it was told beforehand
	untold  []store.AnswerKey
}

func (f *far) Update(ctx context.Context, fn func(store.Tx) error) error {
	return f.Store.Update(ctx, func(tx store.Tx) error {
		return fn(&farTx{tx, f, map[effects.Ref]bool{}, nil})
	})
}

type farTx struct {
	store.Tx
	f       *far
	fetched map[effects.Ref]bool
	answers []store.AnswerKey
}

func (t *farTx) Fetch(refs []effects.Ref, outbox []store.EffectKey, answers []store.AnswerKey) error {
	t.f.fetches++
	t.answers = append(t.answers, answers...)
	for _, ref := range refs {
		t.fetched[ref] = true
	}
	if len(refs)+len(outbox)+len(answers) == 0 {
		return fmt.Errorf("fetch: nothing is asked for")
	}
	return nil
}

func (t *farTx) Answer(key store.AnswerKey) (store.Answer, error) {
	if t.f.answers++; !slices.Contains(t.answers, key) {
		t.f.untold = append(t.f.untold, key)
	}
	return t.Tx.Answer(key)
}

func (t *farTx) Get(kind effects.Kind, id uuid.UUID) (store.Record, error) {
	if ref := (effects.Ref{Kind: kind, ID: id}); kind == core.KindRecurring {
		if t.f.read++; !t.fetched[ref] {
			t.f.alone = append(t.f.alone, ref)
		}
	}
	if kind == core.KindBus {
		t.f.buses = append(t.f.buses, t.fetched[effects.Ref{Kind: kind, ID: id}])
	}
	return t.Tx.Get(kind, id)
}

func TestAStoreThatWantsToBeToldWhatIsReadIsToldOfAllRequestsAndDueEntriesAtOnce(t *testing.T) {
	for _, maxBatch := range []int{64, 16} { // all at once, and by the backlog
		synctest.Test(t, func(t *testing.T) {
			st, now := &far{Store: memory.New()}, effects.TimeOf(time.Now())
			var inputs []core.Input
			for n := range 40 {
				spec := core.RecurringSpec{
					ID: uuid.UUID{0: 0xff, 15: byte(n)}, Namespace: "ns", Tenant: "b", CronExpr: "@every 24h", Enabled: true,
					ActionTemplate:  core.RecurringActionTemplate{Provider: "noop", ActionType: "x"},
					ScheduleOptions: core.ScheduleOptions{StartsAt: now.Add(time.Hour)},
				}
				inputs = append(inputs, core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: spec.ID}, Actor: "test", Event: core.RecurringCreate{Spec: spec}})
			}
			write(t, st.Store, func(tx store.Tx) error {
				require.NoError(t, tx.Put(1, decided(t, now, inputs...)))
				return tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil))
			})
			e := idle(t, engine.Options{Store: st, MaxBatch: maxBatch, TickRate: 24 * time.Hour, LeaseTTL: 24 * time.Hour})
			begin(t, e)
			synctest.Wait()
			st.read, st.alone = 0, nil // an engine that starts looks at the indexes of all records, each alone

			asked := effects.Ref{Kind: core.KindRecurring, ID: uuid.UUID{0: 0xff}}
			_, err := e.Do(t.Context(), engine.Request{Want: asked, Inputs: []core.Input{{To: asked, Actor: "test", Event: core.RecurringPause{}}}})
			require.NoError(t, err)
			<-time.After(2 * time.Hour)
			synctest.Wait()

			assert.GreaterOrEqual(t, st.read, 40, "MaxBatch %d: the schedule that was asked for, and those that were due", maxBatch)
			assert.Empty(t, st.alone, "MaxBatch %d", maxBatch)
			assert.Positive(t, st.fetches)
			if maxBatch > 40 {
				assert.Less(t, st.fetches, 10, "one for each batch or page, not for each record")
			}
		})
	}
}

// An event of no tenant is heard on the bus of each tenant, and one of a tenant on that and the common ones.
func TestAStoreThatWantsToBeToldWhatIsReadIsToldOfTheBusesOnWhichAnEventIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, now := &far{Store: memory.New()}, effects.TimeOf(time.Now())
		const tenants = 40
		var inputs []core.Input
		for n := range tenants {
			of := fmt.Sprint(n)
			inputs = append(inputs, core.Input{To: core.BusOf("ns", of), Actor: "test", Event: core.BusSubscribe{
				Namespace: "ns", Tenant: of,
				Subscriber: core.Subscription{Name: "s", Match: core.EventMatch{Category: "deploy"}, Do: core.Reaction{WakeWorker: &core.MachineName{Name: "w"}}},
			}})
		}
		write(t, st.Store, func(tx store.Tx) error {
			require.NoError(t, tx.Put(1, decided(t, now, inputs...)))
			return tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil))
		})
		e := idle(t, engine.Options{Store: st, TickRate: 24 * time.Hour, LeaseTTL: 24 * time.Hour})
		begin(t, e)
		synctest.Wait()
		for _, tenant := range []string{"7", ""} {
			st.buses, st.fetches = nil, 0
			publish := core.BusPublish{Tenant: tenant, Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci"}}
			if tenant != "" {
				publish.Namespace = "ns"
			}
			_, err := e.Do(t.Context(), engine.Request{Inputs: []core.Input{{To: core.BusRef(), Actor: "test", Event: publish}}})
			require.NoError(t, err)
			assert.NotEmpty(t, st.buses)
			assert.NotContains(t, st.buses, false, "tenant %q", tenant)
			assert.LessOrEqual(t, st.fetches, 2, "tenant %q", tenant)
		}
	})
}
