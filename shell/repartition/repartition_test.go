package repartition_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/repartition"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

func tenant(n int) core.Scope { return core.Scope{Namespace: "n", Tenant: fmt.Sprint("t", n)} }

// step has a tenant do something, as a number says.
func (w *world) step(of core.Scope, does int, id uuid.UUID) {
	p := w.in(of)
	switch does {
	case 0: // an action, under a dedup key
		spec := core.ActionSpec{ID: id, Namespace: of.Namespace, Tenant: of.Tenant, ToolName: "t", DedupKey: "k" + id.String()[:1], Trigger: core.Scheduled(w.now.Add(3_600_000_000_000))}
		w.commit(p, core.Input{To: core.DedupRef(of.Namespace, of.Tenant, spec.DedupKey), Event: core.DedupClaim{Create: spec}})
	case 1: // one that runs
		spec := core.ActionSpec{ID: id, Namespace: of.Namespace, Tenant: of.Tenant, ToolName: "t", Trigger: core.Scheduled(w.now)}
		w.taken(p, effects.Ref{Kind: core.KindAction, ID: id}, core.ActionCreate{Spec: spec})
		w.taken(p, effects.Ref{Kind: core.KindAction, ID: id}, core.ActionDue{})
		require.NoError(w.t, w.parts[p].Update(context.Background(), func(tx store.Tx) error { return tx.PutRunLog(id, 1, []byte("said")) }))
	case 2: // something with a name
		spec := core.RecurringSpec{
			ID: id, Namespace: of.Namespace, Tenant: of.Tenant, Name: "r" + id.String()[:1], CronExpr: "0 9 * * *", Timezone: "UTC", Enabled: true,
			ActionTemplate: core.RecurringActionTemplate{ActionType: "t"},
		}
		w.commit(p, core.Input{To: effects.Ref{Kind: core.KindRecurring, ID: id}, Event: core.RecurringCreate{Spec: spec}})
	case 3: // an item
		push := core.QueuePush{Namespace: of.Namespace, Tenant: of.Tenant, Name: "q", Data: json.RawMessage(`1`), Key: id.String()[:1], DedupKey: id.String()}
		w.taken(p, core.QueueRef(of.Namespace, of.Tenant, "q"), push)
	case 4:
		w.lock(of)
	case 5: // a run, whose heartbeats are awaited
		runID := core.RunID("j", w.now)
		ref := core.RunRef(of.Namespace, of.Tenant, runID)
		job := core.JobSpec{ID: "j", Namespace: of.Namespace, Tenant: of.Tenant, PodSpec: json.RawMessage(`{"containers":[{"name":"a","image":"b"}]}`), Timezone: "UTC"}
		spec := core.RunSpec{ID: ref.ID, RunID: runID, JobID: "j", Namespace: of.Namespace, Tenant: of.Tenant, ScheduledAt: w.now, Config: job}
		w.taken(p, ref, core.OrchestratorCreate{Spec: spec})
		w.commit(p, core.Input{To: core.SchedulerRef(ref.ID), Event: core.SchedulerTrack{Run: ref.ID}})
	case 6: // a subscriber
		sub := core.Subscription{Name: "s" + id.String()[:1], Match: core.EventMatch{Category: "action"}, Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Namespace: of.Namespace, Tenant: of.Tenant, Name: "q"}}}}
		w.commit(p, core.Input{To: core.BusOf(of.Namespace, of.Tenant), Event: core.BusSubscribe{Namespace: of.Namespace, Tenant: of.Tenant, Subscriber: sub}})
	}
}

// lock takes a lock, gives it back, and gives its token.
func (w *world) lock(of core.Scope) uint64 {
	ref := core.LockRef(of.Namespace, of.Tenant, "deploy")
	w.taken(w.in(of), ref, core.LockAcquire{Name: "deploy", Namespace: of.Namespace, Tenant: of.Tenant, Holder: "me", TTLMS: 60_000})
	r := w.get(w.in(of), ref)
	w.taken(w.in(of), ref, core.LockRelease{Holder: "me"})
	return r.(core.Lock).Token
}

func (w *world) get(partition int, ref effects.Ref) (s core.State) {
	require.NoError(w.t, w.parts[partition].View(context.Background(), func(tx store.ReadTx) (err error) {
		s, err = loader{tx}.Load(ref)
		return err
	}))
	return s
}

func TestAPopulationThatIsCopiedToAndFroIsWhatItWasAndEachRecordIsWhereItsTenantLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 5).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "m")
		w := newWorld(t, n)
		const tenants = 7
		tokens := map[int]uint64{}
		for i := range rapid.IntRange(0, 40).Draw(t, "steps") {
			id := uuid.UUID{byte(rapid.IntRange(0, 255).Draw(t, "id")), byte(i), 1}
			w.step(tenant(rapid.IntRange(0, tenants-1).Draw(t, "tenant")), rapid.IntRange(0, 6).Draw(t, "does"), id)
		}
		if rapid.Bool().Draw(t, "a tenant whose names are empty") {
			w.step(core.Scope{}, 6, uuid.UUID{9, 9, 2})
			w.step(core.Scope{}, 0, uuid.UUID{9, 9, 3})
		}
		for i := range tenants {
			tokens[i] = w.lock(tenant(i))
		}
		w.verified()
		there, report := w.copied(m, options)
		assert.Empty(t, report.Left)
		assert.Zero(t, report.Damaged)
		assert.Equal(t, n == m, report.Journal)
		back, report := there.copied(n, options)
		assert.Empty(t, report.Left)
		assert.Equal(t, w.all(), back.all(), "%d → %d → %d", n, m, n)
		for _, of := range []*world{there, back} {
			for i := range tenants {
				assert.Greater(t, of.lock(tenant(i)), tokens[i])
			}
			of.verified()
		}
	})
}

// tell has an alert tell something to a channel in a partition.
func (w *world) tell(partition int, channel string) {
	ev := core.DigestTell{Channel: channel, Kind: core.AlertLate, Schedule: effects.Ref{Kind: core.KindJob, ID: uuid.UUID{1}}, Name: "j", Since: w.now, Reason: "it is late"}
	w.taken(partition, core.DigestRef(channel), ev)
}

func (w *world) notice(partition int) {
	push := core.QueuePush{Namespace: core.NotifyNamespace, Tenant: core.NotifyTenant, Name: "ops", Data: json.RawMessage(`{}`), DedupKey: fmt.Sprint(partition)}
	w.taken(partition, core.QueueRef(core.NotifyNamespace, core.NotifyTenant, "ops"), push)
}

func TestWhatEachPartitionHasForItselfStaysWithItsNumberAndIsToldIfThatIsGone(t *testing.T) {
	w := newWorld(t, 3)
	for k := range 3 {
		w.tell(k, "ops")
		w.notice(k)
		w.parts[k].Update(t.Context(), func(tx store.Tx) error { //nolint:errcheck // of a memory store
			return tx.SetAside(store.Quarantined{Kind: core.KindAction, ID: uuid.UUID{byte(k)}, At: start, Reason: "why not", Raw: []byte("bad")}, 0)
		})
	}
	more, report := w.copied(4, options)
	assert.Empty(t, report.Left)
	for k := range 3 {
		assert.NotNil(t, more.get(k, core.DigestRef("ops")))
		assert.NotNil(t, more.get(k, core.QueueRef(core.NotifyNamespace, core.NotifyTenant, "ops")))
	}
	assert.Nil(t, more.get(3, core.DigestRef("ops")))

	fewer, report := w.copied(2, options)
	var what []string
	for _, l := range report.Left {
		assert.EqualValues(t, 1, l.Count, l.String())
		assert.Contains(t, l.String(), "it belongs to no tenant")
		what = append(what, l.What)
	}
	assert.Equal(t, []string{"digest", "queue", "queue_dedup", "queue_item"}, what)
	for k, want := range []int{1, 2} {
		require.NoError(t, fewer.parts[k].View(t.Context(), func(tx store.ReadTx) error {
			aside, err := tx.Quarantine(9)
			assert.Len(t, aside, want, "partition %d", k)
			return err
		}))
	}
}

func TestTheSubscribersOfTheCommonBusGoWhereItsTenantLives(t *testing.T) {
	w := newWorld(t, 2)
	home := w.in(core.Scope{})
	subscribe := func(partition int, name string) {
		sub := core.Subscription{Name: name, Match: core.EventMatch{Category: "action"}, Do: core.Reaction{Push: &core.PushReaction{MachineName: core.MachineName{Name: "q"}}}}
		w.taken(partition, core.BusRef(), core.BusSubscribe{Subscriber: sub})
	}
	subscribe(home, "stays")
	subscribe(1-home, "strays")
	there, report := w.copied(3, options)
	require.Len(t, report.Left, 1)
	assert.Equal(t, "subscriber", report.Left[0].What)
	assert.Equal(t, "strays", report.Left[0].First)
	bus := there.get(there.in(core.Scope{}), core.BusRef()).(core.Bus)
	require.Len(t, bus.Subscribers, 1)
	assert.Equal(t, "stays", bus.Subscribers[0].Name)
}

func TestTheFirstBatchOfEachPartitionIsAboveThoseOfAllSources(t *testing.T) {
	w := newWorld(t, 2)
	for range 20 {
		w.tell(1, "busy")
	}
	w.tell(0, "quiet")
	require.NoError(t, w.parts[0].Update(t.Context(), func(tx store.Tx) error {
		for range 7 {
			c, err := tx.Acquire("a", "me", 1e9, 5)
			require.NoError(t, err)
			require.NoError(t, tx.Release("a", c.Token))
		}
		return nil
	}))
	there, report := w.copied(5, options)
	assert.EqualValues(t, 20, report.Batch)
	assert.EqualValues(t, 7, report.Token)
	for k, p := range there.parts {
		require.NoError(t, p.View(t.Context(), func(tx store.ReadTx) error {
			seq, err := tx.Seq()
			assert.EqualValues(t, 20, seq)
			epochs, _ := tx.Epochs()
			assert.Equal(t, []store.Epoch{{Number: 2, First: 21, Started: start}}, epochs)
			return err
		}))
		require.NoError(t, p.Update(t.Context(), func(tx store.Tx) error {
			c, err := tx.Acquire("a", "me", 1e9, 5)
			assert.Greater(t, c.Token, uint64(7), "partition %d", k)
			return err
		}))
	}
}

func meta(t *testing.T, st *memory.Store, name string) (value string) {
	t.Helper()
	require.NoError(t, st.View(t.Context(), func(tx store.ReadTx) error {
		b, err := tx.Meta(name)
		value = string(b)
		return err
	}))
	return value
}

func TestSmallValuesOfSeveralPartitionsBecomeThoseOfOthers(t *testing.T) {
	w := newWorld(t, 2)
	of := func(name string, values ...string) {
		for k, v := range values {
			require.NoError(t, w.parts[k].Update(t.Context(), func(tx store.Tx) error { return tx.SetMeta(name, []byte(v)) }))
		}
	}
	of("jobs/feed/updates", "\x00\x00\x00\x00\x00\x00\x00\x09", "\x00\x00\x00\x00\x00\x00\x00\x05")
	of("jobs/feed/metrics", "\x00\x00\x00\x00\x00\x00\x00\x09")
	of("jobs/database", "first", "second")
	of("jobs/cluster", "both", "both")
	of("httpapi/page_token_key", "same", "same")
	of("mine", "same", "same")
	of("other", "a", "b")
	of("journal-core", `"15"`, `"15"`)
	of("presence", `{"stopped":"2026-03-02T09:00:09.000Z"}`, `{"stopped":"2026-03-02T09:00:05.000Z"}`)
	there, report := w.copied(3, options)
	for k, p := range there.parts {
		for name, want := range map[string]string{
			"jobs/feed/updates": "\x00\x00\x00\x00\x00\x00\x00\x05", "jobs/feed/metrics": "", "jobs/database": "", "jobs/cluster": "", "httpapi/page_token_key": "",
			"mine": "same", "other": "", "journal-core": `"15"`, "partition": []string{"", "1", "2"}[k], "presence": `{"stopped":"2026-03-02T09:00:05.000Z"}`,
		} {
			assert.Equal(t, want, meta(t, p, name), "%s in partition %d", name, k)
		}
	}
	assert.Equal(t, []repartition.Left{{What: "small value", Count: 1, First: "other", Reason: "the partitions have different ones"}}, report.Left)
}

func TestACopyThatWouldLoseSomethingIsRefused(t *testing.T) {
	w := newWorld(t, 2)
	copies := func(o repartition.Options, to int) error {
		var targets []repartition.Target
		for range to {
			targets = append(targets, memory.New().Import)
		}
		_, err := repartition.Copy(t.Context(), w.sources(), targets, o)
		return err
	}
	w.parts[1].Update(t.Context(), func(tx store.Tx) error { //nolint:errcheck // of a memory store
		return tx.PutWebhook(store.Webhook{ID: uuid.UUID{7}, Route: "git", Body: []byte("x")})
	})
	require.ErrorIs(t, copies(options, 3), repartition.ErrWebhooks)
	require.ErrorContains(t, copies(options, 3), `partition 1: webhooks wait that no action was made of, such as 07000000-0000-0000-0000-000000000000 of route "git"`)
	require.NoError(t, copies(options, 1))
	require.NoError(t, copies(options, 2))

	run := core.Orchestrator{RunSpec: core.RunSpec{ID: uuid.UUID{5}, JobID: "j", Namespace: "n", Tenant: "t"}, State: core.OrchestratorRunning, InCluster: true}
	w.put(0, run)
	require.ErrorIs(t, copies(options, 1), repartition.ErrPods)
	o := options
	o.LeavePods = true
	require.NoError(t, copies(o, 1))

	w.put(1, core.Task{TaskSpec: core.TaskSpec{ID: uuid.UUID{7}, Namespace: "n", Tenant: "t"}, State: core.TaskState{Type: core.TaskDone}})
	require.NoError(t, copies(o, 1), "its session has ended")
	for n := range 2 {
		w.put(n, core.Task{TaskSpec: core.TaskSpec{ID: uuid.UUID{8, byte(n)}, Namespace: "n", Tenant: "t"}, State: core.TaskState{Type: core.TaskRunning}, SessionID: "s", Spawned: true})
	}
	refused := copies(o, 1)
	require.ErrorIs(t, refused, repartition.ErrSessions)
	require.ErrorContains(t, refused, "tasks have terminal sessions: 2, such as task/08000000-0000-0000-0000-000000000000: ")
	require.NoError(t, copies(o, 2), "they keep their names")
	o.LeaveSessions = true
	require.NoError(t, copies(o, 1))

	other := core.Queue{ID: core.QueueRef("n", "t", "q").ID, Namespace: "n", Tenant: "t", Name: "q"}
	w.put(0, other)
	w.put(1, other)
	require.ErrorIs(t, copies(o, 1), repartition.ErrTwice)
	_, err := repartition.Copy(t.Context(), nil, nil, o)
	require.ErrorContains(t, err, "0 partitions into 0")
}

// A session is found by the number of the partition: also where there are more of them.
func TestACopyIntoMorePartitionsIsRefusedWhileATaskHasASession(t *testing.T) {
	w := newWorld(t, 1)
	w.put(0, core.Task{TaskSpec: core.TaskSpec{ID: uuid.UUID{8}, Namespace: "n", Tenant: "t"}, State: core.TaskState{Type: core.TaskStuck}, SessionID: "s", Spawned: true})
	_, err := repartition.Copy(t.Context(), w.sources(), []repartition.Target{memory.New().Import, memory.New().Import}, options)
	require.ErrorIs(t, err, repartition.ErrSessions)
}

func TestAnIDThatSeveralPartitionsHaveIsCopiedUnlessTwoOfItsMachinesMeet(t *testing.T) {
	w := newWorld(t, 3)
	id := uuid.UUID{7}
	var of []core.Scope // in partitions 0, 1 and 2, and in 0, 1 and 0 of two
	for n := 0; len(of) < 3; n++ {
		if s := tenant(n); core.Partition(s, 3) == len(of) && core.Partition(s, 2) == len(of)%2 {
			of = append(of, s)
			w.step(s, 0, id)
		}
	}
	there, _ := w.copied(3, options)
	assert.Equal(t, w.all(), there.all(), "the same number keeps them apart")

	var targets []repartition.Target
	for range 2 {
		targets = append(targets, memory.New().Import)
	}
	_, err := repartition.Copy(t.Context(), w.sources(), targets, options)
	require.ErrorIs(t, err, repartition.ErrTwice)
	require.ErrorContains(t, err, fmt.Sprintf(`action/%s is in partition 0 (namespace "n", tenant %q) and in partition 2 (namespace "n", tenant %q), and both belong in partition 0 of the copy`, id, of[0].Tenant, of[2].Tenant))

	w = newWorld(t, 2)
	of = nil
	for n := 0; len(of) < 2; n++ {
		if s := tenant(n); core.Partition(s, 2) == len(of) && core.Partition(s, 3) == 1+len(of) {
			of = append(of, s)
			w.step(s, 0, id)
		}
	}
	there, report := w.copied(3, options)
	assert.Empty(t, report.Left)
	for k, s := range of {
		assert.Equal(t, s.Tenant, there.get(1+k, effects.Ref{Kind: core.KindAction, ID: id}).(core.Action).Tenant, "both are there, where their tenants live")
	}
}

// put stores a state as it is.
func (w *world) put(partition int, s core.State) {
	require.NoError(w.t, w.parts[partition].Update(context.Background(), func(tx store.Tx) error {
		seq, err := tx.Seq()
		require.NoError(w.t, err)
		ref := s.Ref()
		require.NoError(w.t, tx.Put(seq+1, []store.Write{{Kind: ref.Kind, ID: ref.ID, State: s.AppendJSON(nil), Due: s.Deadline(), Terms: s.Terms()}}))
		return tx.AppendJournal(seq+1, w.now, []byte("{}"))
	}))
}

func TestATargetThatFailsEndsAll(t *testing.T) {
	w := newWorld(t, 1)
	w.step(tenant(1), 0, uuid.UUID{1})
	full := memory.New()
	require.NoError(t, full.Update(t.Context(), func(tx store.Tx) error { return tx.SetMeta("a", []byte("b")) }))
	empty := memory.New()
	_, err := repartition.Copy(t.Context(), w.sources(), []repartition.Target{empty.Import, full.Import}, options)
	require.ErrorContains(t, err, "the store is not empty")
	_, err = repartition.Copy(t.Context(), w.sources(), []repartition.Target{empty.Import, func(context.Context, store.Exporter) error { return nil }}, options)
	require.ErrorContains(t, err, "has not taken what it was given")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = repartition.Copy(ctx, w.sources(), []repartition.Target{empty.Import, memory.New().Import}, options)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWhatCannotBeDecodedIsSetAsideAndTold(t *testing.T) {
	w := newWorld(t, 1)
	require.NoError(t, w.parts[0].Update(t.Context(), func(tx store.Tx) error {
		require.NoError(t, tx.Put(1, []store.Write{{Kind: core.KindAction, ID: uuid.UUID{3}, State: []byte("no state"), Terms: []store.Term{{Name: "all"}}}}))
		return tx.AppendJournal(1, start, []byte("{}"))
	}))
	to := []*memory.Store{memory.New(), memory.New()}
	report, err := repartition.Copy(t.Context(), w.sources(), []repartition.Target{to[0].Import, to[1].Import}, options)
	require.NoError(t, err)
	assert.EqualValues(t, 1, report.Damaged)
	require.Len(t, report.Omitted, 1)
	assert.Equal(t, "record", report.Omitted[0].What)
	require.NoError(t, to[0].View(t.Context(), func(tx store.ReadTx) error {
		aside, err := tx.Quarantine(9)
		require.Len(t, aside, 1)
		assert.Equal(t, "no state", string(aside[0].Raw))
		return err
	}))
}

func TestACopyIntoAnotherNumberOfPartitionsNeedsToKnowWhereTenantsLive(t *testing.T) {
	_, err := repartition.Copy(t.Context(), make([]repartition.Source, 1), make([]repartition.Target, 2), repartition.Options{})
	assert.EqualError(t, err, "copy partitions: Place is nil: want what gives the partition of a tenant, such as core.Partition")
}
