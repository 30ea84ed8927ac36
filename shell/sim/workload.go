package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
)

// patience is how long a client waits for an answer before it asks again.
const patience = 30 * time.Second

// request is one with what became of it.
type request struct {
	Request
	n        int
	key      [32]byte
	to       *incarnation // that has it; nil: nobody
	tries    int          // how often it was sent
	wait     time.Time    // not sent before that
	answered bool
	err      error // the answer
	step     int   // at which it was answered
	first    int   // at which it was sent first
	since    time.Time
	dropped  bool                 // left out of the plan
	patient  func()               // ends the time after which its client gives up
	out      map[int]*incarnation // tries that were not answered yet
	at       map[int]*incarnation // and whose engine has them; nil: that of nobody
	late     bool                 // one of them came so late that its key may have been forgotten
}

func newRequest(seed uint64, n int, q Request) *request {
	return &request{Request: q, n: n, out: map[int]*incarnation{}, at: map[int]*incarnation{}, key: sha256.Sum256(fmt.Appendf(nil, "%d/%d", seed, n))}
}

// sendable gives requests that may be sent now: the next few of those that were not answered.
func (r *run) sendable() (list []*stimulus) {
	offered := 0
	for _, q := range r.requests {
		if q.answered || q.dropped || q.Last && !r.draining || q.After > 0 && !r.requests[q.After-1].answered {
			continue
		}
		if offered++; offered > 4 {
			break
		}
		if q.to != nil || q.wait.After(r.now) {
			continue
		}
		for _, on := range r.instances {
			if i := on.runs; i.serves() && !i.told && !on.frozen.After(r.now) {
				list = append(list, &stimulus{name: fmt.Sprintf("request %d to %s: %s", q.n, i.name, q.Name), fire: func() {
					q.to = i
					r.send(q)
					r.Add(-1)
				}})
			}
		}
	}
	return list
}

// send has the instance that has a request asked.
func (r *run) send(q *request) {
	i := q.to
	q.tries++
	if q.tries == 1 {
		q.first, q.since = r.steps, r.now
	}
	try := q.tries
	q.out[try] = i
	q.patient = r.plan(&stimulus{name: fmt.Sprintf("the client of request %d gives up try %d", q.n, try), fire: func() {
		if q.to == i && q.tries == try && !q.answered {
			r.giveUp(q)
		}
		r.Add(-1)
	}}, patience)
	r.Add(1)
	go func() {
		defer r.Add(-1)
		ctx := context.Background()
		if !r.defects.noKeys {
			ctx = shell.WithOnce(ctx, shell.NewOnce(q.key, nil))
		}
		ctx = context.WithValue(ctx, clientKey{}, fmt.Sprintf("request %d try %d", q.n, try))
		at, e, err := r.reach(i, q.Partition, fmt.Sprintf("request %d try %d", q.n, try))
		if err == nil {
			r.mu.Lock()
			q.at[try] = at
			r.mu.Unlock()
			err = q.Do(ctx, e)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.replies = append(r.replies, reply{q, i, try, err})
	}()
}

// reply is what a client was answered.
type reply struct {
	*request
	from *incarnation
	try  int
	err  error
}

// hear takes the replies of a step, in an order that does not depend on who came first.
func (r *run) hear() {
	slices.SortFunc(r.replies, func(a, b reply) int { return cmp.Or(a.n-b.n, a.try-b.try) })
	for _, a := range r.replies {
		q := a.request
		delete(q.out, a.try)
		q.aged(r.now, r.jumped)
		if q.answered || q.to != a.from {
			continue // nobody listens any more
		}
		fmt.Fprintf(&r.trace, "    request %d try %d: %v\n", q.n, a.try, a.err)
		if again(a.err) {
			q.to, q.wait = nil, r.now.Add(2*time.Second)
			continue
		}
		q.answered, q.err, q.step = true, a.err, r.steps
		q.patient()
	}
	r.replies = nil
}

// again reports whether a client asks again after an error, since it does not say what became of the request.
func again(err error) bool {
	var refused *effects.Refused
	if err == nil || errors.As(err, &refused) {
		return false
	}
	return !errors.Is(err, errGivenUp)
}

// errGivenUp ends a request of which there is nothing to do any more.
var errGivenUp = errors.New("there is nothing to do")

// giveUp has a client stop to wait.
func (r *run) giveUp(q *request) { q.to, q.wait = nil, r.now.Add(time.Second) }

// forsake has all clients of a process that is gone notice it.
func (r *run) forsake(i *incarnation) {
	for _, q := range r.requests {
		for try, to := range q.out {
			if to == i {
				q.aged(r.now, r.jumped)
				delete(q.out, try)
			}
		}
		if q.to == i && !q.answered {
			r.giveUp(q)
		}
	}
}

// aged notes that something of a request was on its way until now. Keys are kept for a time of the store's clock, which goes by faster where one was set forward.
func (q *request) aged(now time.Time, jumped time.Duration) {
	q.late = q.late || now.Sub(q.since)+jumped > shell.AnswersKept-time.Minute
}

// underway gives the request that a fault meets; nil: none is on its way.
func (r *run) underway(f Fault) *request {
	var on []*request
	for _, q := range r.requests {
		if q.to != nil && !q.answered {
			on = append(on, q)
		}
	}
	if len(on) == 0 {
		return nil
	}
	return on[f.N%len(on)]
}

// grant is a lock's token as a client was told it.
type grant struct {
	token       uint64
	holder      string
	partition   int // each has a lock of that name
	first, step int // when it was asked for first, and answered
}

// tenant gives one that is in a partition.
func (r *run) tenant(partition int) shell.Scope {
	name := "t"
	for n := 0; core.Partition(shell.Scope{Namespace: "ns", Tenant: name}, len(r.dbs)) != partition; n++ {
		name = fmt.Sprint("t", n)
	}
	return shell.Scope{Namespace: "ns", Tenant: name}
}

// idOf gives the id of what a request makes.
func (r *run) idOf(n int, what string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d/%d/%s", r.seed, n, what))
}

// input draws what a tool does.
func input(r *rand.Rand) json.RawMessage {
	all := []string{"ok", "ok", "ok", "fail", "flaky", "slow", "slow", "hang", "stubborn"}
	b, _ := json.Marshal(does{all[r.IntN(len(all))]}) //nolint:errchkjson // a string
	return b
}

// workload is Orrery's own.
func (r *run) workload(d *rand.Rand) (list []Request) {
	var tenants []shell.Scope
	for p := range r.dbs {
		of := r.tenant(p)
		tenants = append(tenants, of)
		list = append(list, Request{Name: "configure the queue", Partition: p, Do: func(ctx context.Context, e *shell.Engine) error {
			_, err := e.Queues().Configure(ctx, of.Namespace, of.Tenant, "work", core.QueueConfig{
				VisibilityTimeoutMS: 20_000, KeepCompletedMS: 1000 * 3600 * 24, Retry: core.Retry{MaxAttempts: 2},
			})
			return err
		}})
	}
	actions := map[int][]int{}
	var ends []Request
	for n := len(tenants); n < 13+len(tenants)+d.IntN(10); n++ {
		p := 0
		if len(tenants) > 1 {
			p = d.IntN(len(tenants))
		}
		of := tenants[p]
		add := func(q Request) {
			q.Partition = p
			list = append(list, q)
		}
		switch kind := d.IntN(12); {
		case kind < 5:
			actions[p] = append(actions[p], n)
			if len(tenants) == 1 { // each has a queue of its own for what waits
				of.Tenant += []string{"", "u", "v"}[n%3]
			}
			add(r.action(n, of, d))
		case kind == 5 && len(actions[p]) > 0:
			id := r.idOf(actions[p][d.IntN(len(actions[p]))], "action")
			how := core.ActionCancel{Reason: "not wanted"}
			if n%2 == 0 {
				how.Mode = core.CancelAwait
			}
			add(Request{Name: "cancel " + string(how.Mode), Do: func(ctx context.Context, e *shell.Engine) error {
				_, err := e.Actions().CancelWith(ctx, id, how)
				return gone(err)
			}, Check: func(tx store.ReadTx) error { return ended(tx, core.KindAction, id) }})
		case kind == 6:
			first, last := r.recurring(n, of, d)
			add(first)
			last.Partition = p
			ends = append(ends, last)
		case kind == 7:
			add(r.pipeline(n, of, d))
		case kind == 8:
			add(r.lock(n, of, d))
		case kind == 9:
			add(r.worker(n, p, of, d))
		default:
			add(r.push(n, p, of, d))
		}
	}
	return append(list, ends...)
}

// gone takes the absence of what was asked for as an answer.
func gone(err error) error {
	if errors.Is(err, shell.ErrNotFound) {
		return errGivenUp
	}
	return err
}

func (r *run) action(n int, of shell.Scope, d *rand.Rand) Request {
	spec := core.ActionSpec{ID: r.idOf(n, "action"), Namespace: of.Namespace, Tenant: of.Tenant, Label: "l", ToolName: "work", ToolInput: input(d)}
	if d.IntN(3) == 0 {
		spec.Trigger = core.Scheduled(effects.TimeOf(begin.Add(time.Duration(d.IntN(60)) * time.Second)))
	}
	if d.IntN(2) == 0 {
		spec.Policy.OnInterrupt = core.InterruptRetry
	}
	if d.IntN(2) == 0 {
		spec.Policy.OnFailure = core.FailureRetry
	}
	spec.Policy.MaxAttempts = uint32(1 + d.IntN(3))
	spec.Policy.TimeoutMS = int64(d.IntN(3)) * 10_000
	return Request{
		Name: fmt.Sprintf("create an action that is to %s (%s, %s, %d)", spec.ToolInput, spec.Policy.OnInterrupt, spec.Policy.OnFailure, spec.Policy.MaxAttempts),
		Do: func(ctx context.Context, e *shell.Engine) error {
			_, err := e.Actions().Create(ctx, spec)
			return err
		},
		Check: func(tx store.ReadTx) error {
			if err := ended(tx, core.KindAction, spec.ID); err != nil {
				return err
			}
			return r.checkAction(tx, spec)
		},
	}
}

func (r *run) recurring(n int, of shell.Scope, d *rand.Rand) (first, last Request) {
	spec := core.RecurringSpec{
		ID: r.idOf(n, "recurring"), Namespace: of.Namespace, Tenant: of.Tenant, CronExpr: "* * * * *", Timezone: "UTC", Enabled: true,
		ActionTemplate: core.RecurringActionTemplate{Provider: "work", ActionType: "x", Payload: input(d)},
	}
	spec.Missed = []core.MissedPolicy{"", core.MissedLatest, core.MissedAll}[d.IntN(3)]
	spec.Overlap = []core.OverlapPolicy{"", core.OverlapSkip, core.OverlapBufferOne}[d.IntN(3)]
	first = Request{
		Name: fmt.Sprintf("create a recurring action (%s, %s)", spec.Missed, spec.Overlap),
		Do: func(ctx context.Context, e *shell.Engine) error {
			_, err := e.Recurring().Create(ctx, spec)
			return err
		},
		Check: func(tx store.ReadTx) error {
			_, err := tx.Get(core.KindRecurring, spec.ID)
			return err
		},
	}
	last = Request{Name: "pause the recurring action", Last: true, Do: func(ctx context.Context, e *shell.Engine) error {
		_, err := e.Recurring().Pause(ctx, spec.ID, "enough")
		return gone(err)
	}}
	return first, last
}

func (r *run) pipeline(n int, of shell.Scope, d *rand.Rand) Request {
	id := r.idOf(n, "pipeline")
	def := core.PipelineDef{Name: "p"}
	for k := range 1 + d.IntN(3) {
		def.Phases = append(def.Phases, core.PhaseDef{Name: fmt.Sprintf("phase%d", k), Run: &core.ToolRun{Tool: "work", Input: input(d)}, IgnoreFailure: d.IntN(2) == 0})
	}
	return Request{
		Name: fmt.Sprintf("create a pipeline of %d phases", len(def.Phases)),
		Do: func(ctx context.Context, e *shell.Engine) error {
			_, err := e.Pipelines().Create(ctx, core.PipelineSpec{ID: id, Namespace: of.Namespace, Tenant: of.Tenant, Label: "l", Definition: def})
			return err
		},
		Check: func(tx store.ReadTx) error { return ended(tx, core.KindPipeline, id) },
	}
}

func (r *run) lock(n int, of shell.Scope, d *rand.Rand) Request {
	holder := fmt.Sprintf("h%d", d.IntN(3))
	ev := core.LockAcquire{Name: "door", Namespace: of.Namespace, Tenant: of.Tenant, Holder: holder, TTLMS: 10_000}
	return Request{Name: "acquire the lock for " + holder, Do: func(ctx context.Context, e *shell.Engine) error {
		l, err := e.Locks().Send(ctx, of, "door", ev)
		if err != nil || l.Holder != holder {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if q := r.requests[n]; !q.answered {
			r.grants = append(r.grants, grant{l.Token, holder, q.Partition, q.first, r.steps})
		}
		return nil
	}}
}

func (r *run) push(n, partition int, of shell.Scope, d *rand.Rand) Request {
	queue := core.QueueRef(of.Namespace, of.Tenant, "work")
	data := json.RawMessage(fmt.Sprint(n))
	priority := int32(d.IntN(3))
	return Request{
		Name: "push an item", After: partition + 1,
		Do: func(ctx context.Context, e *shell.Engine) error {
			_, _, err := e.Queues().Push(ctx, of.Namespace, of.Tenant, "work", shell.PushOptions{Data: data, Priority: priority})
			return err
		},
		Check: func(tx store.ReadTx) error {
			seen := 0
			err := tx.Records(func(rec store.Record) error {
				if rec.Kind != core.KindQueueItem {
					return nil
				}
				s, err := core.DecodeState(rec.Kind, rec.State)
				if err != nil {
					return err
				}
				if i, ok := s.(core.QueueItem); ok && i.Queue == queue.ID && string(i.Data) == string(data) {
					seen++
				}
				return nil
			})
			if err == nil && seen != 1 {
				err = fmt.Errorf("%d items of it are there, not one", seen)
			}
			return err
		},
	}
}

func (r *run) worker(n, partition int, of shell.Scope, d *rand.Rand) Request {
	queue := core.QueueRef(of.Namespace, of.Tenant, "work")
	how := d.IntN(4)
	return Request{Name: "take an item and answer it", After: partition + 1, Do: func(ctx context.Context, e *shell.Engine) error {
		items, err := e.Queues().Take(ctx, queue, shell.TakeOptions{Holder: fmt.Sprintf("w%d", n)})
		if err != nil {
			return gone(err)
		}
		if len(items) == 0 {
			return errGivenUp
		}
		h := shell.HoldOf(items[0])
		switch how {
		case 0:
			err = e.Queues().Complete(ctx, h, json.RawMessage(`"done"`))
		case 1:
			err = e.Queues().Fail(ctx, h, "no luck", false)
		case 2:
			err = e.Queues().Release(ctx, h)
		}
		return gone(err)
	}}
}
