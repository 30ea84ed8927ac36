package replay_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
)

// subscribed gives a subscription to all that actions announce: what the queue
// gets tells whether the replay has routed it too.
func subscribed(name string) core.BusSubscribe {
	return core.BusSubscribe{Subscriber: core.Subscription{
		Name: name, Match: core.EventMatch{Category: "action"},
		Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: "heard"}}},
	}}
}

func complete(t *testing.T, e *shell.Engine) {
	t.Helper()
	_, err := e.Actions().Create(t.Context(), core.ActionSpec{ToolName: "ok"})
	require.NoError(t, err)
	<-time.After(time.Second)
	synctest.Wait()
}

// The bus is read by every announcement, though no batch writes it: a replay must
// find it also where the batch that wrote it is dropped.
func TestTheBusIsFoundThoughTheJournalBeginsAfterItsSubscription(t *testing.T) {
	for name, later := range map[string]func(t *testing.T, st store.Store){
		"never changed again": func(*testing.T, store.Store) {},
		"changed in a later epoch": func(t *testing.T, st store.Store) {
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.BeginEpoch(effects.TimeOf(time.Now())) }))
			worked(t, st, func(e *shell.Engine) {
				complete(t, e)
				_, err := e.Send(t.Context(), core.BusRef(), subscribed("second"))
				require.NoError(t, err)
				complete(t, e)
			})
		},
		"removed in a later epoch": func(t *testing.T, st store.Store) {
			require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error { return tx.BeginEpoch(effects.TimeOf(time.Now())) }))
			worked(t, st, func(e *shell.Engine) {
				_, err := e.Send(t.Context(), core.BusRef(), core.BusUnsubscribe{Name: "first"})
				require.NoError(t, err)
				complete(t, e)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				worked(t, st, func(e *shell.Engine) {
					_, err := e.Send(t.Context(), core.BusRef(), subscribed("first"))
					require.NoError(t, err)
				})
				require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
					if err := tx.BeginEpoch(effects.TimeOf(time.Now())); err != nil {
						return err
					}
					_, err := tx.DropEpochs(2, 1000)
					return err
				}))
				worked(t, st, func(e *shell.Engine) { complete(t, e) })
				later(t, st)

				rep, err := replay.Verify(t.Context(), st, replay.Options{})
				require.NoError(t, err)
				assert.Empty(t, rep.Divergences)
				assert.Greater(t, rep.FirstBatch, uint64(1))
			})
		})
	}
}

// What was announced before anybody listened must be routed to nobody.
func TestABusThatIsMadeWithinTheJournalIsNotThereBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		worked(t, st, func(e *shell.Engine) {
			complete(t, e)
			_, err := e.Send(t.Context(), core.BusRef(), subscribed("first"))
			require.NoError(t, err)
			complete(t, e)
		})
		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		assert.Zero(t, rep.Untouched)
	})
}

// Each tenant has a bus of its own: that of the tenant of an event must be found, and those of all for an event of none.
func TestTheBusesOfTenantsReplay(t *testing.T) {
	for name, dropped := range map[string]bool{"of which the journal has all": false, "of which the journal begins later": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				tenants := []shell.Scope{{Namespace: "shop", Tenant: "acme"}, {Namespace: "shop", Tenant: "beta"}}
				worked(t, st, func(e *shell.Engine) {
					for _, of := range tenants {
						_, err := e.Subscribers().Send(t.Context(), of, core.BusSubscribe{Subscriber: core.Subscription{
							Name: "s", Match: core.EventMatch{Category: "deploy"}, Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: "heard"}}},
						}})
						require.NoError(t, err)
					}
				})
				if dropped {
					require.NoError(t, st.Update(t.Context(), func(tx store.Tx) error {
						if err := tx.BeginEpoch(effects.TimeOf(time.Now())); err != nil {
							return err
						}
						_, err := tx.DropEpochs(2, 1000)
						return err
					}))
				}
				worked(t, st, func(e *shell.Engine) {
					deploy := core.BusPublish{Kind: effects.Custom("deploy", "done"), Source: effects.EventSource{Component: "ci"}}
					for _, of := range append(tenants, shell.Scope{}, shell.Scope{Namespace: "shop", Tenant: "other"}) {
						_, err := e.Subscribers().Send(t.Context(), of, deploy)
						require.NoError(t, err)
					}
					for _, of := range tenants {
						assert.EqualValues(t, 2, heard(t, e, of), "%s: what is of it, and what is of none", of.Tenant)
					}
				})
				rep, err := replay.Verify(t.Context(), st, replay.Options{})
				require.NoError(t, err)
				assert.Empty(t, rep.Divergences)
			})
		})
	}
}

// heard tells how often something was pushed into the queue "heard" of a tenant.
func heard(t *testing.T, e *shell.Engine, of shell.Scope) uint64 {
	t.Helper()
	q, err := e.Queues().Get(t.Context(), of.Namespace, of.Tenant, "heard")
	require.NoError(t, err)
	return q.Pushed
}

// In the database of 5a9a01d2 one bus has the subscribers of shop/acme, shop/beta, of a channel, and of the tenant whose names are
// empty. Events of "deploy" push into the queues "heard" and start a pipeline; one of "release" signals a pipeline of shop/acme. The set
// "ops" owns one of the subscribers.
func TestTheBusOfAnEarlierCommitIsDivided(t *testing.T) {
	path := unpackedFolder(t, filepath.Join("testdata", "written-by-5a9a01d2", "buses.tar.gz"))
	synctest.Test(t, func(t *testing.T) {
		st, err := bolt.Open(path, bolt.Options{})
		require.NoError(t, err)
		acme, beta, nobody, channels := shell.Scope{Namespace: "shop", Tenant: "acme"}, shell.Scope{Namespace: "shop", Tenant: "beta"}, shell.Scope{}, shell.Scope{Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant}
		names := func(e *shell.Engine) map[shell.Scope][]string {
			buses, _, err := e.Subscribers().List(t.Context(), shell.Page{})
			require.NoError(t, err)
			out := map[shell.Scope][]string{}
			for _, b := range buses {
				for _, s := range b.Subscribers {
					out[core.ScopeOf(b)] = append(out[core.ScopeOf(b)], s.Name)
				}
			}
			return out
		}
		divided := map[shell.Scope][]string{acme: {"acme", "signals"}, beta: {"starts", "owned"}, nobody: {"nobody's", "signals nobody"}, channels: {"tells"}}
		worked(t, st, func(e *shell.Engine) {
			synctest.Wait() // its first batch
			assert.Equal(t, divided, names(e))
			owner, err := e.Sets().Owner(t.Context(), core.BusOf(beta.Namespace, beta.Tenant), "owned")
			require.NoError(t, err)
			assert.Equal(t, "ops", owner.Set)
			assert.Equal(t, beta, core.ScopeOf(owner))

			before := map[shell.Scope]uint64{}
			for of := range divided { // order-free: each by itself
				before[of] = heard(t, e, of)
			}
			publish := func(of shell.Scope, category string) {
				t.Helper()
				_, err := e.Subscribers().Send(t.Context(), of, core.BusPublish{Kind: effects.Custom(category, "done"), Source: effects.EventSource{Component: "ci"}})
				require.NoError(t, err)
			}
			publish(acme, "deploy")
			publish(beta, "deploy")
			publish(nobody, "deploy")
			publish(beta, "release")
			for of, more := range map[shell.Scope]uint64{acme: 2, beta: 2, nobody: 1, channels: 3} { // order-free: each by itself
				assert.Equal(t, before[of]+more, heard(t, e, of), "%s/%s", of.Namespace, of.Tenant)
			}
			waits, err := e.Pipelines().Get(t.Context(), uuid.NewSHA1(uuid.NameSpaceURL, []byte("orrery:old:bus")))
			require.NoError(t, err)
			assert.Equal(t, "wait", waits.Phase.Name, "what is released elsewhere does not signal it")
			publish(acme, "release")
			waits, err = e.Pipelines().Get(t.Context(), waits.ID)
			require.NoError(t, err)
			assert.Equal(t, "more", waits.Phase.Name)

			_, err = e.Sets().Apply(t.Context(), "ops", nil, shell.SetOptions{})
			require.NoError(t, err)
		})
		worked(t, st, func(e *shell.Engine) { assert.Equal(t, divided, names(e), "once") })

		rep, err := replay.Verify(t.Context(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		assert.EqualValues(t, 1, rep.FirstBatch)
		problems, err := st.Check(t.Context())
		require.NoError(t, err)
		assert.Empty(t, problems)
		require.NoError(t, st.Close())
	})
}
