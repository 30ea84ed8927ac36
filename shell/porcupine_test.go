package shell_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// tick is by how much the wall clock jumps at a time. All that is asked for is
// measured in such jumps, and a minute less is left for the time that the test
// itself takes.
const tick = time.Hour

func outOfSight(ticks int) time.Duration { return time.Duration(ticks)*tick - time.Minute }

// lab is an engine on a bolt file with clients that write down what they ask and
// what they are told.
type lab struct {
	t     *testing.T
	path  string
	clock *jumping
	begin time.Time

	mu      sync.Mutex
	changed *sync.Cond
	engine  *shell.Engine // nil while it is restarted
	batch   sync.Mutex    // held by a batch, and by a jump of the clock
	history []porcupine.Operation
	ids     map[int]uuid.UUID
	asked   atomic.Int64
	left    atomic.Int64 // callers that went away
}

// unmoved is a store in whose batches time stands still. A batch has the time at which it
// begins, and is seen once it is committed: if the clock jumped in between, a reader could see
// the new time before the batch that is of the old one.
type unmoved struct {
	*bolt.Store
	batch sync.Locker
}

func (u unmoved) Update(ctx context.Context, fn func(store.Tx) error) error {
	u.batch.Lock()
	defer u.batch.Unlock()
	return u.Store.Update(ctx, fn)
}

func newLab(t *testing.T, r queueRules) (l *lab, restart func(), stop func()) {
	l = &lab{
		t: t, path: filepath.Join(t.TempDir(), "orrery.db"), clock: &jumping{}, begin: time.Now(),
		ids: make(map[int]uuid.UUID),
	}
	l.changed = sync.NewCond(&l.mu)
	var st store.Store
	var end func() error
	up := func() {
		file, err := bolt.Open(l.path, bolt.Options{})
		require.NoError(t, err)
		st = unmoved{file, &l.batch}
		var e *shell.Engine
		e, end = start(t, shell.Options{Store: st, Clock: l.clock})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.engine = e
		l.changed.Broadcast()
	}
	down := func() {
		assert.NoError(t, end()) // clients are at it all the while
		l.mu.Lock()
		l.engine = nil
		l.mu.Unlock()
		assert.NoError(t, st.Close())
	}
	up()
	_, err := l.engine.Queues().Configure(bg(), "ns", "t", "work", core.QueueConfig{
		Retry: core.Retry{MaxAttempts: r.attempts}, Concurrency: uint32(r.concurrency), VisibilityTimeoutMS: outOfSight(1).Milliseconds(),
	})
	require.NoError(t, err)
	return l, func() { down(); up() }, func() {
		assert.NoError(t, end())
		verify(t, st)
		assert.NoError(t, st.Close())
	}
}

// running gives the engine, once there is one.
func (l *lab) running() *shell.Engine {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.engine == nil {
		l.changed.Wait()
	}
	return l.engine
}

// ask does one operation, and writes it down. One that the stopping engine did
// not take has not been: it is asked again.
func (l *lab) ask(ctx context.Context, client int, in queueAsk) queueSaid {
	for {
		e := l.running()
		call := time.Since(l.begin).Nanoseconds()
		out, err := l.carry(ctx, e, in)
		end := time.Since(l.begin).Nanoseconds()
		var r *shell.Refusal
		switch {
		case errors.Is(err, shell.ErrStopped), in.op == "count" && err != nil: // its store may be closed
			continue
		case errors.Is(err, context.Canceled):
			out, end = queueSaid{unknown: true}, math.MaxInt64
		case errors.Is(err, shell.ErrNotFound):
			out.code = saidNotFound
		case errors.As(err, &r):
			out.code = string(r.Code)
		case err != nil:
			out.code = err.Error() // no model knows it
		default:
			out.code = saidOK
		}
		l.mu.Lock()
		l.history = append(l.history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
		l.mu.Unlock()
		l.asked.Add(1)
		return out
	}
}

func (l *lab) carry(ctx context.Context, e *shell.Engine, in queueAsk) (out queueSaid, err error) {
	hold := shell.Hold{Queue: work, Item: l.id(in.item), Holder: strconv.Itoa(in.holder), Attempt: in.attempt}
	switch in.op {
	case "tick":
		l.batch.Lock()
		defer l.batch.Unlock()
		l.clock.jump(tick)
	case "push":
		var i core.QueueItem
		if i, _, err = e.Queues().Push(ctx, "ns", "t", "work", shell.PushOptions{Data: []byte(strconv.Itoa(in.item)), Priority: in.prio}); err == nil {
			l.know(in.item, i.ID)
		}
	case "take":
		var items []core.QueueItem
		items, err = e.Queues().Take(ctx, work, shell.TakeOptions{Holder: hold.Holder, Max: in.max, Visibility: outOfSight(in.ticks)})
		for _, i := range items {
			n, bad := strconv.Atoi(string(i.Data))
			if bad != nil {
				return out, bad
			}
			l.know(n, i.ID)
			out.taken = append(out.taken, takenItem{n, i.Attempts})
		}
	case "complete":
		err = e.Queues().Complete(ctx, hold, nil)
	case "fail":
		err = e.Queues().Fail(ctx, hold, "no luck", false)
	case "extend":
		_, err = e.Queues().Extend(ctx, hold, outOfSight(in.ticks))
	case "release":
		err = e.Queues().Release(ctx, hold)
	case "cancel":
		err = e.Queues().CancelItem(ctx, work, hold.Item, "")
	case "redrive":
		var moved core.QueueMoved
		moved, err = e.Queues().Redrive(ctx, work, hold.Item, 0)
		out.count = uint64(moved.Moved)
	case "count":
		var q core.Queue
		q, err = e.Queues().Get(ctx, "ns", "t", "work")
		out.count = q.Ready + q.InFlight + q.Dead
	}
	return out, err
}

func (l *lab) know(n int, id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[n] = id
}

func (l *lab) id(n int) uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[n]
}

// some gives an item that is known, of whomever.
func (l *lab) some(rng *rand.Rand) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ids) == 0 {
		return 0, false
	}
	known := make([]int, 0, len(l.ids))
	for n := range l.ids {
		known = append(known, n)
	}
	slices.Sort(known)
	return known[rng.IntN(len(known))], true
}

// mayLeave lets a caller go away before the answer. Few do: each may have been
// heard at any time later, which is much to try for the checker.
func (l *lab) mayLeave(rng *rand.Rand, cancel func()) {
	if rng.IntN(15) == 0 && l.left.Add(1) <= 2 {
		go cancel()
	}
}

// client asks this and that: it takes more than it pushes, so that the queue is
// often nearly empty, where mistakes are seen; it answers late, and twice, and for
// others.
func (l *lab) client(n, operations int, rng *rand.Rand) {
	var mine []queueAsk // what it was given, answered or not
	for k := range operations {
		ctx, cancel := context.WithCancel(bg())
		in := queueAsk{op: "push", item: n*1000 + k, prio: int32(rng.IntN(3)), holder: n}
		switch pick := rng.IntN(100); {
		case pick < 25:
			l.mayLeave(rng, cancel)
		case pick < 55:
			// Its caller stays: what is taken for one who goes is given back some time
			// later, see TestWhatIsTakenForACallerWhoGoesMeanwhileIsGivenBack.
			in = queueAsk{op: "take", holder: n, max: 1 + rng.IntN(2), ticks: 1 + rng.IntN(2)}
		case pick < 60:
			in = queueAsk{op: "count"}
		case pick < 68:
			item, ok := l.some(rng)
			if !ok {
				break
			}
			in = queueAsk{op: []string{"cancel", "redrive"}[rng.IntN(2)], item: item}
		default:
			if len(mine) == 0 {
				break
			}
			in = mine[max(0, len(mine)-1-rng.IntN(3))]
			if rng.IntN(2) == 0 { // one of long ago, which it may hold again
				in = mine[rng.IntN(len(mine))]
			}
			in.op = []string{"complete", "complete", "complete", "fail", "extend", "release"}[rng.IntN(6)]
			in.ticks = 1 + rng.IntN(2)
			if rng.IntN(10) == 0 {
				in.holder++ // a stranger
			}
		}
		out := l.ask(ctx, n, in)
		cancel()
		for _, i := range out.taken {
			mine = append(mine, queueAsk{item: i.item, attempt: i.attempt, holder: n})
		}
	}
}

// record lets clients work at once, while the clock jumps and, where asked for,
// the engine is stopped and started again, and gives the history.
func record(t *testing.T, r queueRules, seed uint64, restarts int) []porcupine.Operation {
	const clients, each = 4, 50
	l, restart, stop := newLab(t, r)
	var wg sync.WaitGroup
	for n := 1; n <= clients; n++ {
		wg.Go(func() { l.client(n, each, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	var besides sync.WaitGroup
	besides.Go(func() { // the clock, each time so many operations were done
		for at := int64(20); at < clients*each-20; at += 20 {
			l.await(at)
			l.ask(bg(), 0, queueAsk{op: "tick"})
		}
	})
	for n := range restarts {
		l.await(int64((n + 1) * clients * each / (restarts + 2)))
		restart()
	}
	wg.Wait()
	besides.Wait()
	stop()
	return l.history
}

// await waits until so many operations were done.
func (l *lab) await(operations int64) {
	for l.asked.Load() < operations {
		e := l.running()
		_ = e.Health(bg()) // a turn of the loop, so as not to spin
	}
}

// check holds the history against the model, for so long.
func check(r queueRules, history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(r.model(), history, time.Minute)
}

// hold records histories until the checker decides about one: there are some that
// have too many orders to try.
func hold(t *testing.T, r queueRules, seed uint64, restarts int) {
	t.Helper()
	from := seedtest.Seed(t)
	for n := range uint64(4) {
		history := record(t, r, from+100*n+seed, restarts)
		switch check(r, history) {
		case porcupine.Ok:
			t.Logf("%d operations: %s", len(history), summary(history))
			return
		case porcupine.Illegal:
			t.Fatalf("nobody alone could have seen this:\n%s", told(history))
		case porcupine.Unknown:
			t.Logf("undecided: %d operations", len(history))
		}
	}
	t.Fatal("the checker did not decide about any history")
}

// 003 Queue: any number of workers at once see what one after the other could
// have seen, with time-outs, and with callers that go away.
func TestWhatConcurrentWorkersSeeOfAQueueIsWhatOneAfterTheOtherCouldSee(t *testing.T) {
	for seed, r := range []queueRules{{attempts: 3}, {attempts: 2}, {attempts: 3, concurrency: 3}, {attempts: 1}} {
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) { hold(t, r, uint64(seed), 0) })
	}
}

func TestWhatWorkersSeeOfAQueueIsTheSameAcrossRestartsOfTheEngine(t *testing.T) {
	hold(t, queueRules{attempts: 3}, 11, 4)
}

// The checker must see what it is there for: each of these tampers with one
// answer, and the history has no explanation any more.
func TestTheCheckerSeesAQueueThatErrs(t *testing.T) {
	r := queueRules{attempts: 3}
	var history []porcupine.Operation // short: to find that there is no order takes trying them all
	end := int64(0)
	next := func(in queueAsk, out queueSaid) {
		end += 10
		out.code = saidOK
		history = append(history, porcupine.Operation{Input: in, Output: out, Call: end, Return: end + 5})
	}
	next(queueAsk{op: "push", item: 90001, prio: 100}, queueSaid{})
	next(queueAsk{op: "push", item: 90002, prio: 100}, queueSaid{})
	next(queueAsk{op: "push", item: 90003, prio: 101}, queueSaid{})
	base := len(history)
	for name, errs := range map[string]func(){
		"an item is given to two": func() {
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}}})
			next(queueAsk{op: "take", holder: 2, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}}})
		},
		"an item is lost": func() {
			next(queueAsk{op: "take", holder: 1, max: 2, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}, {90002, 1}}})
		},
		"the higher priority does not go first": func() {
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90001, 1}}})
		},
		"the queue says that it is empty": func() {
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{})
		},
		"an item is completed twice": func() {
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}}})
			next(queueAsk{op: "complete", holder: 1, item: 90003, attempt: 1}, queueSaid{})
			next(queueAsk{op: "complete", holder: 1, item: 90003, attempt: 1}, queueSaid{})
		},
		"a completed item comes back": func() {
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}}})
			next(queueAsk{op: "complete", holder: 1, item: 90003, attempt: 1}, queueSaid{})
			next(queueAsk{op: "tick"}, queueSaid{})
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 2}}})
		},
		"an item does not come back after its time": func() {
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}}})
			next(queueAsk{op: "tick"}, queueSaid{})
			next(queueAsk{op: "take", holder: 2, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90001, 1}}})
		},
		"a stranger's answer counts": func() {
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}}})
			next(queueAsk{op: "complete", holder: 2, item: 90003, attempt: 1}, queueSaid{})
		},
		"an attempt is not counted": func() {
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}}})
			next(queueAsk{op: "fail", holder: 1, item: 90003, attempt: 1}, queueSaid{})
			next(queueAsk{op: "take", holder: 1, max: 1, ticks: 1}, queueSaid{taken: []takenItem{{90003, 1}}})
		},
	} {
		errs()
		assert.Equal(t, porcupine.Illegal, check(r, history), name)
		history = history[:base]
	}
	assert.Equal(t, porcupine.Ok, check(r, history), "before each of them it was fine")
}

func summary(history []porcupine.Operation) string {
	counts := make(map[string]int)
	for _, o := range history {
		out := o.Output.(queueSaid)
		counts[o.Input.(queueAsk).op+" "+out.code]++
	}
	return fmt.Sprint(counts)
}

// told lists a history for whoever must find out.
func told(history []porcupine.Operation) string {
	var b []byte
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, o := range history {
		b = fmt.Appendf(b, "%d..%d %+v -> %+v\n", o.Call/1000, o.Return/1000, o.Input, o.Output)
	}
	return string(b)
}
