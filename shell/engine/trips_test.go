package engine_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/postgres"
	"github.com/orrery-go/orrery/store/postgres/postgrestest"
)

// sent are the statements that were sent to a database, each a round trip. That the server describes a statement, once for
// each connection, is not counted.
type sent struct {
	mu  sync.Mutex
	sql []string
}

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sql = append(s.sql, strings.Join(strings.Fields(d.SQL), " "))
	return ctx
}

func (*sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// since gives what was sent since the last time.
func (s *sent) since() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sql := s.sql
	s.sql = nil
	return sql
}

const (
	things = 512 // of a kind; whoever opens the store reads the first and the last few
	atOnce = 64  // that one batch is about
	apart  = 3   // one of so many
	first  = 200 // that a batch is about
)

// numbered makes ids that begin with that byte and grow with n.
func numbered(kind byte, n int) (id uuid.UUID) {
	id[0] = kind
	binary.BigEndian.PutUint32(id[12:], uint32(n)+1)
	return id
}

func to(ref effects.Ref, e core.Event) core.Input {
	return core.Input{To: ref, Actor: "test", Event: e}
}

func actionRef(id uuid.UUID) effects.Ref   { return effects.Ref{Kind: core.KindAction, ID: id} }
func pipelineRef(id uuid.UUID) effects.Ref { return effects.Ref{Kind: core.KindPipeline, ID: id} }
func complete(id uuid.UUID) core.Input     { return to(actionRef(id), core.ActionComplete{Run: 1}) }

// running makes an action that runs.
func running(n int, dedup string) []core.Input {
	spec := core.ActionSpec{ID: numbered(1, n), Namespace: "ns", Tenant: "t", ToolName: "x", Trigger: core.Scheduled(1), DedupKey: dedup}
	made := to(actionRef(spec.ID), core.ActionCreate{Spec: spec})
	if dedup != "" {
		made = to(core.DedupRef("ns", "t", dedup), core.DedupClaim{Create: spec})
	}
	return []core.Input{made, to(actionRef(spec.ID), core.ActionDue{})}
}

// pipeline makes one that has begun its one phase, or waits for another one.
func pipeline(id uuid.UUID, phase core.PhaseDef, after ...uuid.UUID) []core.Input {
	phase.Name = "only"
	spec := core.PipelineSpec{ID: id, Namespace: "ns", Tenant: "t", DependsOn: after, Definition: core.PipelineDef{Name: "p", Phases: []core.PhaseDef{phase}}}
	return []core.Input{to(pipelineRef(id), core.PipelineCreate{Spec: spec}), to(pipelineRef(id), core.PipelineDue{})}
}

var (
	runs   = core.PhaseDef{Run: &core.ToolRun{Tool: "x"}}
	manual = core.PhaseDef{Manual: &core.ManualPhase{}}
	queue  = core.QueueRef("ns", "t", "q")
)

// taken makes an item with a key of its own that a worker has taken.
func taken(n int) []core.Input {
	return []core.Input{
		to(queue, core.QueuePush{Namespace: "ns", Tenant: "t", Name: "q", Data: json.RawMessage("1"), Key: numbered(2, n).String()}),
		to(queue, core.QueueTake{Holder: "h", Max: 1, VisibilityMS: 3_600_000 + 1000*int64(n)}),
	}
}

// stored decides inputs, and stores what comes of them where all that was decided before is in the database's tables. The ids of the actions
// that run and of the items that were taken are given in the order in which they were made.
func stored(t *testing.T, url string, inputs []core.Input, more func(tx store.Tx, st *postgres.Store, actions []uuid.UUID), last func(st *postgres.Store)) (actions, items []uuid.UUID) {
	t.Helper()
	now := effects.TimeOf(time.Now())
	seen := make(map[uuid.UUID]bool)
	for again := true; again; { // the actions that pipelines make are due, too
		again = false
		for _, w := range decided(t, now, inputs...) {
			if s, err := core.DecodeState(w.Kind, w.State); err == nil && !seen[w.ID] {
				if a, ok := s.(core.Action); ok && a.Status.Type == core.StatusPending {
					seen[w.ID], again = true, true
					inputs = append(inputs, to(actionRef(w.ID), core.ActionDue{}))
				}
			}
		}
	}
	writes := decided(t, now, inputs...)
	for _, w := range writes {
		switch w.Kind {
		case core.KindAction:
			actions = append(actions, w.ID)
		case core.KindQueueItem:
			items = append(items, w.ID)
		}
	}
	st, err := postgres.Open(t.Context(), url, postgres.Options{Checkpoint: time.Millisecond})
	require.NoError(t, err)
	write(t, st, func(tx store.Tx) error {
		require.NoError(t, tx.Put(1, writes))
		if more != nil {
			more(tx, st, actions)
		}
		return tx.AppendJournal(1, now, core.NewEntry(1, now, "test").AppendJSON(nil))
	})
	e := idle(t, engine.Options{Store: st, TickRate: 24 * time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	_, err = e.Do(t.Context(), acquire("test"))
	require.NoError(t, err)
	stop()
	require.NoError(t, <-ended)
	require.Eventually(t, func() bool { return st.LogStats().Frames == 0 }, time.Minute, time.Millisecond)
	if last != nil {
		last(st)
	}
	require.NoError(t, st.Close())
	return actions, items
}

// unhurried is a clock of a machine with nothing else to do: by it no part of a batch takes so long that the rest is left to the next one.
type unhurried struct {
	engine.SystemClock
	begin time.Time
}

func (c unhurried) Steady() time.Time { return c.begin.Add(time.Since(c.begin) / 1000) }

// fresh runs an engine that has read nothing of the store.
func fresh(t *testing.T, url string, change func(o *engine.Options)) (*engine.Engine, *sent) {
	t.Helper()
	s := &sent{}
	st, err := postgres.Open(t.Context(), url, postgres.Options{Checkpoint: time.Hour, Configure: func(c *pgxpool.Config) { c.ConnConfig.Tracer = s }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	o := engine.Options{Store: st, TickRate: 24 * time.Hour, LeaseTTL: 24 * time.Hour, Clock: unhurried{begin: time.Now()}}
	if change != nil {
		change(&o)
	}
	s.since()
	e := idle(t, o)
	begin(t, e)
	return e, s
}

// The bounds are those of issue 17: three round trips, and one more for each further level of reference. No batch is the first one of the engine.
func TestABatchOfAFreshOwnerCostsARoundTripForEachLevelOfReference(t *testing.T) {
	task := func(n int) effects.Ref { return effects.Ref{Kind: core.KindTask, ID: numbered(5, n)} }
	lock := func(n int) string { return numbered(6, n).String() }
	for name, tc := range map[string]struct { // order-free: each has a database of its own
		made  func(n int) []core.Input
		asked func(n int, made uuid.UUID) core.Input
		most  int
	}{
		"completions": {
			made:  func(n int) []core.Input { return running(n, "") },
			asked: func(_ int, id uuid.UUID) core.Input { return complete(id) },
			most:  3,
		},
		"completions under dedup keys": {
			made:  func(n int) []core.Input { return running(n, numbered(2, n).String()) },
			asked: func(_ int, id uuid.UUID) core.Input { return complete(id) },
			most:  4,
		},
		"completions that pipelines wait for": {
			made:  func(n int) []core.Input { return pipeline(numbered(3, n), runs) },
			asked: func(_ int, id uuid.UUID) core.Input { return complete(id) },
			most:  4,
		},
		"completions that end pipelines on which others depend": {
			made: func(n int) []core.Input {
				return append(pipeline(numbered(3, n), runs), pipeline(numbered(4, n), manual, numbered(3, n))...)
			},
			asked: func(_ int, id uuid.UUID) core.Input { return complete(id) },
			most:  5,
		},
		"completions of items": {
			made: taken,
			asked: func(_ int, id uuid.UUID) core.Input {
				return to(queue, core.QueueComplete{Item: id, Holder: "h", Attempt: 1})
			},
			most: 4,
		},
		"failures of items": {
			made: taken,
			asked: func(_ int, id uuid.UUID) core.Input {
				return to(queue, core.QueueFail{Item: id, Holder: "h", Attempt: 1, Error: "no"})
			},
			most: 4,
		},
		"items that are given back": {
			made: taken,
			asked: func(_ int, id uuid.UUID) core.Input {
				return to(queue, core.QueueRelease{Item: id, Holder: "h", Attempt: 1})
			},
			most: 4,
		},
		"heartbeats of workers": {
			made: taken,
			asked: func(_ int, id uuid.UUID) core.Input {
				return to(queue, core.QueueExtend{Item: id, Holder: "h", Attempt: 1})
			},
			most: 4,
		},
		"heartbeats of tasks": {
			made: func(n int) []core.Input {
				spec := core.TaskSpec{ID: task(n).ID, Namespace: "ns", Tenant: "t", Prompt: "do it", Config: core.TaskConfig{HeartbeatTimeoutMS: 600_000 + 1000*int64(n)}}
				return []core.Input{to(task(n), core.TaskCreate{Spec: spec}), to(task(n), core.TaskStart{})}
			},
			asked: func(n int, _ uuid.UUID) core.Input {
				return to(task(n), core.TaskHeartbeat{Status: core.LivenessActive})
			},
			most: 3,
		},
		"heartbeats of holders": {
			made: func(n int) []core.Input {
				return []core.Input{to(core.LockRef("ns", "t", lock(n)), core.LockAcquire{Name: lock(n), Namespace: "ns", Tenant: "t", Holder: "h", TTLMS: 3_600_000 + 1000*int64(n)})}
			},
			asked: func(n int, _ uuid.UUID) core.Input {
				return to(core.LockRef("ns", "t", lock(n)), core.LockRenew{Holder: "h"})
			},
			most: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var made []core.Input
			for n := range things {
				made = append(made, tc.made(n)...)
			}
			url := postgrestest.Database(t)
			actions, items := stored(t, url, made, nil, nil)
			ids := append(actions, items...)
			e, s := fresh(t, url, nil)
			_, err := e.Do(t.Context(), acquire("test"))
			require.NoError(t, err)
			for round := range apart {
				var asked []core.Input
				for i := range atOnce {
					n, id := first+apart*i+round, uuid.Nil
					if len(ids) > 0 {
						id = ids[n]
					}
					asked = append(asked, tc.asked(n, id))
				}
				s.since()
				rep, err := e.Ask(t.Context(), engine.Request{Inputs: asked, Many: &engine.Many{All: true}})
				require.NoError(t, err)
				got := s.since()
				require.Len(t, rep.Each, atOnce)
				for _, a := range rep.Each {
					require.True(t, a.Result.Changed && a.Result.Refused == nil, "%+v", a.Result)
				}
				assert.LessOrEqual(t, len(got), tc.most, "round %d: %s", round, strings.Join(got, "\n"))
			}
		})
	}
}

// held puts the runs of the actions into the outbox, as another process has them in hand.
func held(t *testing.T) func(store.Tx, *postgres.Store, []uuid.UUID) {
	return func(tx store.Tx, _ *postgres.Store, actions []uuid.UUID) {
		c, err := tx.Acquire(engine.ClaimPrefix+"9", "another", time.Hour, effects.TimeOf(time.Now()))
		require.NoError(t, err)
		for _, id := range actions {
			require.NoError(t, tx.PutOutbox(store.OutboxEntry{Key: store.EffectKey{ID: id, N: 1}, Seq: 1, Kind: core.KindAction, Lane: "x", Holder: c.Name, Token: c.Token}))
		}
	}
}

func pipelines() (made []core.Input) {
	for n := range things {
		made = append(made, pipeline(numbered(3, n), runs)...)
	}
	return made
}

// untilEnded has an engine tell once so many actions have ended.
func untilEnded(o *engine.Options, many int) <-chan struct{} {
	ended, done := 0, make(chan struct{})
	o.Hooks.Committed = func(c engine.Committed) {
		for _, change := range c.Changes {
			if a, ok := change.After.(core.Action); ok && a.Status.Type.Terminal() {
				if ended++; ended == many {
					close(done)
				}
			}
		}
	}
	return done
}

func TestWhatAnOwnerTakesBackFromAProcessThatIsGoneCostsFewRoundTrips(t *testing.T) {
	url := postgrestest.Database(t)
	stored(t, url, pipelines(), held(t), nil)
	var done <-chan struct{}
	_, s := fresh(t, url, func(o *engine.Options) {
		o.MaxBatch, o.RecoverAfter = atOnce, time.Nanosecond
		done = untilEnded(o, things)
	})
	<-done
	got := s.since()
	assert.LessOrEqual(t, len(got), 40+5*things/atOnce, "%s", strings.Join(got, "\n"))
}

func TestWhatFormerOwnersReportCostsFewRoundTrips(t *testing.T) {
	url := postgrestest.Database(t)
	c, err := postgres.Connect(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	defer c.Close()
	const reported, atOnce = 128, 32 // as many as an owner asks for
	former := store.Former{Owner: "another"}
	var results []store.FormerResult
	stored(t, url, pipelines(), func(tx store.Tx, st *postgres.Store, actions []uuid.UUID) {
		held(t)(tx, st, actions)
		former.Session = st.Session()
		for _, id := range actions[first : first+reported] {
			key := store.EffectKey{ID: id, N: 1}
			data := append(core.AppendEvent([]byte(`{"kind":"action","event":`), core.ActionComplete{Run: 1}), '}')
			former.Running, results = append(former.Running, key), append(results, store.FormerResult{Session: former.Session, Key: key, Data: data})
		}
	}, func(st *postgres.Store) {
		require.NoError(t, c.Remain(t.Context(), former))
	})
	former.Running = nil
	_, err = c.Report(t.Context(), former, results)
	require.NoError(t, err)
	var done <-chan struct{}
	_, s := fresh(t, url, func(o *engine.Options) {
		o.Clock = engine.SystemClock{} // by which it asks again
		o.Handover = &engine.Handover{Through: c, Lease: time.Minute, GiveBack: func() error { return nil }}
		done = untilEnded(o, reported)
	})
	<-done
	got := s.since()
	assert.LessOrEqual(t, len(got), 40+5*reported/atOnce, "%s", strings.Join(got, "\n"))
}
