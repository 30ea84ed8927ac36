package relay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/notify"
	"github.com/orrery-go/orrery/shell/notify/relay"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// people are told messages, unless they cannot be reached.
type people struct {
	mu    sync.Mutex
	down  func(m notify.Message) error // nil: they can be reached
	tries []time.Time
	told  []notify.Message
	at    []time.Time
}

func (p *people) Notify(ctx context.Context, n effects.Notify) error {
	return p.Tell(ctx, notify.Message{Title: n.Title, Text: n.Message})
}

func (p *people) Tell(_ context.Context, m notify.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries = append(p.tries, time.Now())
	if p.down != nil {
		if err := p.down(m); err != nil {
			return err
		}
	}
	p.told, p.at = append(p.told, m), append(p.at, time.Now())
	return nil
}

func (p *people) set(down func(notify.Message) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *people) titles() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.told {
		out = append(out, m.Title)
	}
	return out
}

var errDown = errors.New("connection refused")

func down(notify.Message) error { return errDown }

// daemon is an engine with a relay.
type daemon struct {
	*shell.Engine
	relay *relay.Relay
	stop  func()
}

// begin runs an engine and a relay until stop is called, which it may be twice.
func begin(t *testing.T, st store.Store, o relay.Options) *daemon {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e, err := shell.New(shell.Options{Store: st, Tools: map[string]shell.Tool{"fail": shell.ToolFunc(fail)}, Logger: slog.New(slog.DiscardHandler), TickRate: time.Hour})
	require.NoError(t, err)
	r, err := relay.New(o)
	require.NoError(t, err)
	engineCtx, stopEngine := context.WithCancel(context.Background())
	ctx, stopRelay := context.WithCancel(context.Background())
	var engine, relaying sync.WaitGroup
	engine.Go(func() { assert.NoError(t, e.Run(engineCtx)) })
	relaying.Go(func() { assert.NoError(t, r.Run(ctx, e)) })
	stop := sync.OnceFunc(func() {
		stopRelay()
		relaying.Wait()
		stopEngine()
		engine.Wait()
	})
	t.Cleanup(stop)
	d := &daemon{e, r, stop}
	synctest.Wait()
	return d
}

func fail(_ context.Context, c shell.Call) (json.RawMessage, error) {
	return json.RawMessage(`{"exit_code":1,"stderr":"no space left\n"}`), fmt.Errorf("%s failed", c.Label)
}

// pass lets time pass, and what happens in it come to rest: what it left may be read then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// failing has an action fail.
func (d *daemon) failing(t *testing.T, tenant, label string) core.Action {
	t.Helper()
	a, err := d.Actions().Create(t.Context(), core.ActionSpec{
		Namespace: "shop", Tenant: tenant, Label: label, ToolName: "fail", Policy: core.RunPolicy{OnFailure: core.FailureRetry, MaxAttempts: 2, Backoff: &core.Backoff{InitialMS: 1}},
	})
	require.NoError(t, err)
	_, err = d.Actions().Wait(t.Context(), a.ID)
	require.NoError(t, err)
	return a
}

func (d *daemon) publish(t *testing.T, action, data string) {
	t.Helper()
	_, err := d.Subscribers().Send(t.Context(), shell.Scope{}, core.BusPublish{Kind: effects.Custom("deploy", action), Source: effects.EventSource{Component: "test"}, Data: json.RawMessage(data)})
	require.NoError(t, err)
}

func inMemory(t *testing.T) store.Store {
	t.Helper()
	st := memory.New()
	t.Cleanup(func() {
		rep, err := replay.Verify(context.Background(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, rep.Divergences)
		require.NoError(t, st.Close())
	})
	return st
}

func ops(p *people, events ...string) map[string]relay.Channel {
	return map[string]relay.Channel{"ops": {Channel: p, Events: events}}
}

func TestAFailureIsToldWithWhatWhyItsOutputAndTheCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "action:failed"), Hints: func(_ effects.Event, s core.State) []notify.Hint {
			return []notify.Hint{{Does: "show it", Line: "orreryd actions show " + s.Ref().ID.String()}}
		}})
		a := d.failing(t, "eu", "nightly")
		synctest.Wait()
		require.Len(t, p.told, 1)
		m := p.told[0]
		assert.Equal(t, `Action "nightly" failed`, m.Title)
		for _, want := range []string{"Why: nightly failed\n", "Tenant: shop/eu\n", "Attempt: 2\n", "Tool: fail\n", "Its output:\n    no space left\n", "To show it:\n    orreryd actions show " + a.ID.String()} {
			assert.Contains(t, m.Text, want)
		}
		assert.Equal(t, "action:failed", m.Event.Kind.String())
		assert.Equal(t, relay.Stats{Told: 1}, d.relay.Stats()["ops"])
		d.failing(t, "eu", "again")
		synctest.Wait()
		require.Len(t, p.told, 2)
		assert.NotEqual(t, p.told[0].ID, p.told[1].ID)
	})
}

func TestAChannelThatIsDownForAnHourIsToldOnceAndInOrderSoonAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, other := &people{down: down}, &people{}
		channels := ops(p, "deploy:*")
		channels["dev"] = relay.Channel{Channel: other, Events: []string{"deploy:*"}}
		d := begin(t, inMemory(t), relay.Options{Channels: channels, Patience: 3 * time.Hour})
		for i := range 20 {
			d.publish(t, []string{"raised", "cleared"}[i%2], fmt.Sprintf(`{"label":"s%d"}`, i))
		}
		synctest.Wait()
		assert.Len(t, other.told, 20, "another channel waits for nothing")
		pass(time.Hour)
		assert.Empty(t, p.told)
		assert.LessOrEqual(t, len(p.tries), 20, "who is down is not hammered at")
		p.set(nil)
		back := time.Now()
		pass(5*time.Minute + time.Second)
		require.Len(t, p.told, 20)
		assert.Equal(t, other.titles(), p.titles(), "in the order in which it happened")
		assert.LessOrEqual(t, p.at[19].Sub(back), 5*time.Minute)
		pass(24 * time.Hour)
		assert.Len(t, p.told, 20, "once")
		q, err := d.Queues().Get(t.Context(), relay.Namespace, relay.Tenant, "ops")
		require.NoError(t, err)
		assert.Zero(t, q.Ready+q.Delayed+q.InFlight+q.Dead)
	})
}

func TestWhatAChannelDidNotTakeIsToldByTheNextProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orrery.db")
	synctest.Test(t, func(t *testing.T) {
		open := func() store.Store {
			st, err := bolt.Open(path, bolt.Options{})
			require.NoError(t, err)
			return st
		}
		p := &people{down: down}
		st := open()
		d := begin(t, st, relay.Options{Channels: ops(p, "deploy:*")})
		d.publish(t, "raised", `{"label":"a"}`)
		d.publish(t, "cleared", `{"label":"a"}`)
		pass(10 * time.Minute)
		begun := time.Now()
		d.stop()
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
		require.NoError(t, st.Close())

		st = open()
		p.set(nil)
		d = begin(t, st, relay.Options{Channels: ops(p, "deploy:*")})
		pass(time.Minute)
		assert.Equal(t, []string{"Deploy raised: a", "Deploy cleared: a"}, p.titles())
		d.stop()
		require.NoError(t, st.Close())
	})
}

func TestWhatMayHaveBeenToldIsToldAgainUnderTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		p := &people{}
		p.down = func(m notify.Message) error {
			if ids = append(ids, m.ID+" "+m.At.String()); len(ids) < 3 {
				return errors.New("the connection broke off before the answer")
			}
			return nil
		}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "deploy:*")})
		d.publish(t, "raised", `{"label":"a"}`)
		pass(time.Hour)
		require.Len(t, ids, 3)
		assert.Equal(t, ids[0], ids[1])
		assert.Equal(t, ids[0], ids[2])
	})
}

func TestAServerIsLeftAloneForAsLongAsItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		p.down = func(notify.Message) error {
			if len(p.tries) == 1 {
				return shell.RetryAfter(errors.New("429"), 17*time.Minute)
			}
			return nil
		}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "deploy:*")})
		d.publish(t, "raised", `{"label":"a"}`)
		pass(time.Hour)
		require.Len(t, p.tries, 2)
		assert.Equal(t, 17*time.Minute, p.tries[1].Sub(p.tries[0]))
	})
}

// waits gives how long lay between the tries.
func (p *people) waits() (out []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 1; i < len(p.tries); i++ {
		out = append(out, p.tries[i].Sub(p.tries[i-1]))
	}
	return out
}

func TestAChannelThatIsDownIsTriedAfterSecondsAndThenEveryFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{down: down}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "deploy:*")})
		d.publish(t, "raised", `{"label":"a"}`)
		pass(16 * time.Minute)
		const s = time.Second
		assert.Equal(t, []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}, p.waits())
		assert.Equal(t, relay.Stats{Failed: 9}, d.relay.Stats()["ops"])
	})
}

func TestAServerThatAsksForMuchOrLittleIsLeftAloneForAnHourAtMostAndForSecondsAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		asks := []time.Duration{24 * time.Hour, time.Second}
		p.down = func(notify.Message) error {
			if len(p.tries) <= len(asks) {
				return shell.RetryAfter(errors.New("429"), asks[len(p.tries)-1])
			}
			return nil
		}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "deploy:*"), Patience: 24 * time.Hour})
		d.publish(t, "raised", `{"label":"a"}`)
		pass(2 * time.Hour)
		assert.Equal(t, []time.Duration{time.Hour, 10 * time.Second}, p.waits())
		assert.Len(t, p.told, 1)
	})
}

func TestAChannelThatHangsHasThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Duration
		hangs := notify.ChannelFunc(func(ctx context.Context, _ effects.Notify) error {
			begun := time.Now()
			<-ctx.Done()
			tries = append(tries, time.Since(begun))
			return context.Cause(ctx)
		})
		var log bytes.Buffer
		channels := map[string]relay.Channel{"ops": {Channel: hangs, Events: []string{"deploy:*"}}}
		d := begin(t, inMemory(t), relay.Options{Channels: channels, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		d.publish(t, "raised", `{"label":"a"}`)
		pass(31 * time.Second)
		assert.Equal(t, []time.Duration{30 * time.Second}, tries)
		assert.Contains(t, log.String(), "it reached the time limit of 30s")
	})
}

func TestTheItemsBehindOneGoFirstAsSoonAsItsPatienceIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		p.down = func(m notify.Message) error {
			if strings.Contains(m.Title, "poison") {
				return errDown
			}
			return nil
		}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "deploy:*"), Patience: 35 * time.Second}) // the fourth try is due with its end
		begun := time.Now()
		d.publish(t, "raised", `{"label":"poison"}`)
		d.publish(t, "raised", `{"label":"good"}`)
		pass(time.Minute)
		require.Equal(t, []string{"Deploy raised: good"}, p.titles())
		assert.Equal(t, 35*time.Second, p.at[0].Sub(begun))
	})
}

func TestAMessageThatIsNeverTakenHoldsTheOthersUpForItsPatienceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		p.down = func(m notify.Message) error {
			if strings.Contains(m.Title, "poison") {
				return errDown
			}
			return nil
		}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "deploy:*"), Patience: 20 * time.Minute})
		d.publish(t, "raised", `{"label":"poison"}`)
		d.publish(t, "raised", `{"label":"good"}`)
		pass(30 * time.Minute)
		assert.Equal(t, []string{"Deploy raised: good"}, p.titles())
		p.set(nil)
		pass(time.Hour)
		assert.Len(t, p.told, 2)
	})
}

func TestWhatAChannelWillNeverTakeIsGivenUpAndSaidInTheLogAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &people{down: func(notify.Message) error { return shell.Permanent(errors.New("no_service")) }}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "deploy:*", "queue:dead"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		d.publish(t, "raised", `{"label":"a"}`)
		pass(24 * time.Hour)
		assert.Len(t, p.tries, 1, "that it was given up is not told by the channel that has given it up")
		assert.Contains(t, log.String(), `a notification was given up`)
		assert.Contains(t, log.String(), `error=no_service`)
		items, _, err := d.Queues().Items(t.Context(), core.QueueRef(relay.Namespace, relay.Tenant, "ops"), "dead", shell.Page{})
		require.NoError(t, err)
		require.Len(t, items, 1)
		assert.Equal(t, "no_service", items[0].State.Reason)
		assert.Equal(t, relay.Stats{Failed: 1, Dropped: 2}, d.relay.Stats()["ops"])
		p.set(nil)
		_, err = d.Queues().Redrive(t.Context(), core.QueueRef(relay.Namespace, relay.Tenant, "ops"), uuid.Nil, 0)
		require.NoError(t, err)
		pass(time.Minute)
		assert.Equal(t, []string{"Deploy raised: a"}, p.titles(), "what was wrong is mended, and it is told")
	})
}

func TestItemsThatOtherQueuesGiveUpAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "queue:dead")})
		for _, of := range [][2]string{{"shop", "eu"}, {relay.Namespace, "eu"}, {"shop", relay.Tenant}} {
			_, _, err := d.Queues().Push(t.Context(), of[0], of[1], "orders", shell.PushOptions{})
			require.NoError(t, err)
			items, err := d.Queues().Take(t.Context(), core.QueueRef(of[0], of[1], "orders"), shell.TakeOptions{Holder: "w"})
			require.NoError(t, err)
			require.NoError(t, d.Queues().Fail(t.Context(), shell.HoldOf(items[0]), "no luck", true))
		}
		pass(time.Minute)
		assert.Equal(t, slices.Repeat([]string{`Queue "orders" has given up an item`}, 3), p.titles(), "but for those of the channels themselves")
	})
}

func TestOfAPhaseThatFailsItsPipelineTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "*:failed")})
		run := core.PhaseDef{Name: "copy", Run: &core.ToolRun{Tool: "fail"}}
		_, err := d.Pipelines().Create(t.Context(), core.PipelineSpec{Label: "release", Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{run}}})
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, []string{`Pipeline "release" failed in phase "copy"`}, p.titles())
		assert.Contains(t, p.told[0].Text, "Why: ")
	})
}

func TestOfAnApproachThatFailsItsStrategyTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p, "action:failed", "strategy:exhausted")})
		try := core.PhaseDef{Name: "try", Strategy: &core.StrategyPhase{Approaches: []core.Approach{{Name: "plain", Action: core.ApproachAction{Command: &core.ToolRun{Tool: "fail"}}}}}}
		_, err := d.Pipelines().Create(t.Context(), core.PipelineSpec{Label: "release", Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{try}}})
		require.NoError(t, err)
		pass(time.Minute)
		require.Len(t, p.told, 1)
		assert.Contains(t, p.told[0].Title, "has no approach left")
	})
}

func TestAChannelOfATenantIsToldOfNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eu, all := &people{}, &people{}
		d := begin(t, inMemory(t), relay.Options{Channels: map[string]relay.Channel{
			"eu":  {Channel: eu, Events: []string{"action:failed", "deploy:*"}, Namespaces: []string{"shop"}, Tenants: []string{"eu"}},
			"all": {Channel: all, Events: []string{"action:failed", "deploy:*"}},
		}})
		d.failing(t, "us", "theirs")
		d.failing(t, "eu", "ours")
		d.publish(t, "raised", `{"label":"of nobody"}`)
		d.publish(t, "raised", `{"label":"of another namespace","namespace":"lab","tenant":"eu"}`)
		d.publish(t, "raised", `{"label":"ours","namespace":"shop","tenant":"eu"}`)
		pass(time.Minute)
		assert.Equal(t, []string{`Action "ours" failed`, "Deploy raised: ours"}, eu.titles())
		assert.Len(t, all.told, 5)
	})
}

// recurring makes a recurring action of every minute, whose alerts are told by the bus.
func (d *daemon) recurring(t *testing.T, tenant, name string) {
	t.Helper()
	_, err := d.Recurring().Create(t.Context(), core.RecurringSpec{
		Namespace: "shop", Tenant: tenant, Name: name, CronExpr: "* * * * *", Enabled: true, ActionTemplate: core.RecurringActionTemplate{Provider: "fail", ActionType: "x"},
		ScheduleOptions: core.ScheduleOptions{Alerts: core.AlertRules{Failing: 1}},
	})
	require.NoError(t, err)
}

func TestOfAlertsOfSeveralTenantsAChannelIsToldThoseOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eu, us, all, none := &people{}, &people{}, &people{}, &people{}
		channel := func(p *people, tenants ...string) relay.Channel {
			return relay.Channel{Channel: p, Events: []string{"alert:*"}, Tenants: tenants}
		}
		d := begin(t, inMemory(t), relay.Options{Channels: map[string]relay.Channel{"eu": channel(eu, "eu"), "us": channel(us, "us"), "all": channel(all), "none": channel(none, "asia")}})
		for _, tenant := range []string{"eu", "us"} {
			d.recurring(t, tenant, "copy-"+tenant)
		}
		for n := range 25 { // more than a message names
			d.recurring(t, "eu", fmt.Sprintf("more-%02d", n))
		}
		pass(2 * time.Minute)
		assert.Equal(t, []string{"27 schedules keep failing"}, all.titles(), "one message, however many there are")
		assert.Equal(t, []string{"26 schedules keep failing"}, eu.titles())
		assert.Equal(t, []string{`Recurring action "copy-us" keeps failing`}, us.titles())
		assert.Empty(t, none.titles())
		for p, foreign := range map[*people]string{eu: "copy-us", us: "copy-eu"} { // order-free: each by itself
			require.Len(t, p.told, 1)
			assert.NotContains(t, p.told[0].Text, foreign)
			assert.NotContains(t, string(p.told[0].Event.Data), foreign, "nor what a program is told")
			assert.NotContains(t, string(p.told[0].Event.Data), `"count":27`)
		}
		assert.Contains(t, us.told[0].Text, "Tenant: shop/us")
		assert.Contains(t, us.told[0].Text, "Why: action ")
	})
}

func TestAnotherConfigurationSubscribesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		subscribers := func(d *daemon) (names []string) {
			bus, err := d.Subscribers().Get(t.Context(), ofChannels)
			if !errors.Is(err, shell.ErrNotFound) {
				require.NoError(t, err)
			}
			for _, s := range bus.Subscribers {
				names = append(names, s.Name)
			}
			return names
		}
		p := &people{}
		channels := ops(p, "deploy:*", "action:failed")
		channels["dev"] = relay.Channel{Channel: p, Events: []string{"task:stuck"}}
		d := begin(t, st, relay.Options{Channels: channels})
		_, err := d.Subscribers().Send(t.Context(), ofChannels, core.BusSubscribe{Subscriber: core.Subscription{
			Name: "mine", Match: core.EventMatch{Category: "deploy"}, Do: core.Reaction{WakeWorker: &core.MachineName{Name: "w"}},
		}})
		require.NoError(t, err)
		assert.Equal(t, []string{"@notify/dev/task:stuck", "@notify/ops/action:failed", "@notify/ops/deploy:*", "mine"}, subscribers(d))
		d.stop()
		d = begin(t, st, relay.Options{Channels: ops(p, "deploy:*", "pipeline:failed")})
		assert.Equal(t, []string{"@notify/ops/deploy:*", "mine", "@notify/ops/pipeline:failed"}, subscribers(d), "what is not ours stays")
		d.stop()
		d = begin(t, st, relay.Options{})
		assert.Equal(t, []string{"mine"}, subscribers(d))
		d.stop()
	})
}

func TestTheQueueOfAChannelIsDeclaredOnceAndThenItsOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := inMemory(t)
		config := func(d *daemon) core.QueueConfig {
			q, err := d.Queues().Get(t.Context(), relay.Namespace, relay.Tenant, "ops")
			require.NoError(t, err)
			return q.Config
		}
		d := begin(t, st, relay.Options{Channels: ops(&people{})})
		c := config(d)
		assert.EqualValues(t, 1, c.Concurrency, "two processes tell nothing out of order")
		assert.EqualValues(t, 60_000, c.VisibilityTimeoutMS, "what a process has in hand that has died, the next one tells soon")
		assert.EqualValues(t, 10_000, c.Retry.BackoffMS)
		assert.EqualValues(t, 900_000, c.Retry.MaxBackoffMS)
		var waits time.Duration
		for attempt := range c.Retry.MaxAttempts {
			waits += time.Duration(c.Retry.Delay(uuid.Nil, attempt+1)) * time.Millisecond
		}
		assert.Greater(t, waits, 48*time.Hour, "a channel may be down for a weekend")
		c.Rate.Limit, c.Rate.PerMS = 1, 1000
		_, err := d.Queues().Configure(t.Context(), relay.Namespace, relay.Tenant, "ops", c)
		require.NoError(t, err)
		d.stop()
		d = begin(t, st, relay.Options{Channels: ops(&people{})})
		assert.EqualValues(t, 1, config(d).Rate.Limit)
		d.stop()
	})
}

func TestWhatIsHandedOverForLaterIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{down: down}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p)})
		m := notify.MessageOf(effects.Ref{Kind: core.KindPipeline, ID: uuid.Max}, effects.Notify{Title: "Built", Message: "all of it"})
		require.NoError(t, d.relay.Later(t.Context(), "ops", m))
		require.NoError(t, d.relay.Later(t.Context(), "ops", m), "asked for again")
		require.ErrorContains(t, d.relay.Later(t.Context(), "pager", m), `there is no channel "pager"`)
		pass(30 * time.Minute)
		p.set(nil)
		pass(30 * time.Minute)
		require.Len(t, p.told, 1)
		assert.Equal(t, m, p.told[0])
		assert.EqualValues(t, 2, d.relay.Stats()["ops"].Later)
		d.stop()
		require.ErrorContains(t, d.relay.Later(t.Context(), "ops", m), "the daemon is starting or stopping")
	})
}

func TestARelayWithoutChannelsRunsUntilItIsToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := shell.New(shell.Options{Store: inMemory(t), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		r, err := relay.New(relay.Options{})
		require.NoError(t, err)
		engineCtx, stopEngine := context.WithCancel(t.Context())
		ctx, stopRelay := context.WithCancel(t.Context())
		var engine, relaying sync.WaitGroup
		engine.Go(func() { assert.NoError(t, e.Run(engineCtx)) })
		var over atomic.Bool
		relaying.Go(func() {
			assert.NoError(t, r.Run(ctx, e))
			over.Store(true)
		})
		synctest.Wait()
		assert.False(t, over.Load())
		stopRelay()
		relaying.Wait()
		relaying.Go(func() { assert.NoError(t, r.Run(t.Context(), e)) })
		synctest.Wait()
		stopEngine()
		relaying.Wait() // an engine that stops ends it, too
		engine.Wait()
	})
}

func TestARelayThatIsToStopOrWhoseEngineDoesHasNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := shell.New(shell.Options{Store: inMemory(t), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		r, err := relay.New(relay.Options{Channels: ops(&people{}, "deploy:*"), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		engineCtx, stopEngine := context.WithCancel(t.Context())
		var engine, relaying sync.WaitGroup
		engine.Go(func() { assert.NoError(t, e.Run(engineCtx)) })
		synctest.Wait()
		stopped, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, r.Run(stopped, e), "before it has begun")
		relaying.Go(func() { assert.NoError(t, r.Run(t.Context(), e)) })
		synctest.Wait()
		stopEngine()
		relaying.Wait()
		engine.Wait()
		require.NoError(t, r.Run(t.Context(), e), "it has stopped already")
	})
}

func TestASubscriptionOfAChannelThatIsAnotherOneIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, st := &people{}, inMemory(t)
		d := begin(t, st, relay.Options{Channels: ops(p, "deploy:*")})
		bus, err := d.Subscribers().Get(t.Context(), ofChannels)
		require.NoError(t, err)
		changed := bus.Subscribers[0]
		changed.Match.Category = "elsewhere"
		_, err = d.Subscribers().Send(t.Context(), ofChannels, core.BusSubscribe{Subscriber: changed})
		require.NoError(t, err)
		d.publish(t, "raised", `{"label":"unheard"}`)
		d.stop()
		d = begin(t, st, relay.Options{Channels: ops(p, "deploy:*")})
		d.publish(t, "raised", `{"label":"a"}`)
		pass(time.Minute)
		assert.Equal(t, []string{"Deploy raised: a"}, p.titles())
		d.stop()
	})
}

func TestAnItemThatCannotBeReadIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &people{}
		d := begin(t, inMemory(t), relay.Options{Channels: ops(p)})
		_, _, err := d.Queues().Push(t.Context(), relay.Namespace, relay.Tenant, "ops", shell.PushOptions{Data: json.RawMessage(`[1]`)})
		require.NoError(t, err)
		pass(time.Hour)
		assert.Empty(t, p.tries)
		assert.Equal(t, relay.Stats{Dropped: 1}, d.relay.Stats()["ops"])
	})
}

// distinct are patterns of which no two have events in common.
func distinct(n int) (patterns []string) {
	for i := range n {
		patterns = append(patterns, fmt.Sprintf("deploy:step_%d", i))
	}
	return patterns
}

func TestPatternsThatCannotBeRightAreRefusedByName(t *testing.T) {
	for _, row := range []struct {
		events []string
		want   string
	}{
		{[]string{"action:failed", "action:cancelled", "alert:*", "*:stuck", "pipe*:failed", "queue:dead", "deploy:done"}, ""},
		{[]string{"failed"}, `Events[0]: "failed" is no pattern of events: want CATEGORY:ACTION, such as "action:failed" or "alert:*"`},
		{[]string{"a:b:c"}, `Events[0]: "a:b:c" is no pattern`},
		{[]string{"a: b"}, `Events[0]: "a: b" is no pattern`},
		{[]string{"action:faild"}, `Events[0]: "action:faild" is never announced: did you mean "action:failed"?`},
		{[]string{"action:whatever"}, `Events[0]: "action:whatever" is never announced: see`},
		{[]string{"*:*"}, `Events[0]: "*:*" has events of queues`},
		{[]string{"queue:push"}, `of them only "queue:dead" can be told`},
		{[]string{"*:failed", "*:d*"}, ""},
		{[]string{"*:com*"}, `Events[0]: "*:com*" has events of queues`},
		{[]string{"action:failed", "action:f*"}, `Events[1]: "action:f*" and "action:failed" have events in common`},
		{[]string{"alert:raised", "alert:*"}, `Events[1]: "alert:*" and "alert:raised" have events in common`},
		{[]string{"*:failed", "pipeline:failed"}, `Events[1]: "pipeline:failed" and "*:failed" have events in common`},
		{[]string{"*:failed", "deploy:*"}, `Events[1]: "deploy:*" and "*:failed" have events in common`},
		{[]string{"*:failed", "alert:*", "task:stuck"}, ""},
		{[]string{"a*c:x", "ab*:*"}, `Events[1]: "ab*:*" and "a*c:x" have events in common`},
		{[]string{"a*c:x", "b*:*", "a*d:x", "a*c:y*"}, ""},
		{distinct(50), ""},
		{distinct(51), "Events: has 51 patterns: want at most 50"},
		{[]string{"deploy:" + strings.Repeat("x", 111)}, ""},
		{[]string{"deploy:" + strings.Repeat("x", 112)}, "is no pattern"},
		{[]string{"a:b\x7f"}, `Events[0]: "a:b\x7f" is no pattern`},
	} {
		_, err := relay.New(relay.Options{Channels: map[string]relay.Channel{"ops": {Channel: &people{}, Events: row.events}}})
		if row.want == "" {
			require.NoError(t, err, "%q", row.events)
			continue
		}
		require.ErrorContains(t, err, row.want)
	}
	for want, o := range map[string]relay.Options{
		`Channels: "ops" is nil`: {Channels: map[string]relay.Channel{"ops": {}}},
		`Channels: the name "` + strings.Repeat("n", 128) + `" has 128 bytes: want 1 to 127`: {Channels: map[string]relay.Channel{strings.Repeat("n", 128): {Channel: &people{}}}},
		`the name "" has 0 by`: {Channels: map[string]relay.Channel{"": {Channel: &people{}}}},
		"Patience: -1ns is":    {Patience: -1},
	} {
		_, err := relay.New(o)
		require.ErrorContains(t, err, want)
	}
	_, err := relay.New(relay.Options{Channels: map[string]relay.Channel{strings.Repeat("n", relay.MaxName): {Channel: &people{}}}})
	require.NoError(t, err)
}
