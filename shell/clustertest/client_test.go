//go:build unix

package clustertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
)

const (
	scopeName = "hist"
	queues    = 2
	locks     = 2
	// tryLimit is how long a client waits for the answer to a try.
	tryLimit = 3 * time.Second
	// pace is the least time between two requests of a client: histories must not be too long for the checker.
	pace = 25 * time.Millisecond
)

// client asks one thing after the other, of any daemon.
type client struct {
	n       int
	h       *history
	members []*member
	rng     *rand.Rand
	http    *http.Client
	effects string // the file of the side effects
	asked   int
	items   map[uuid.UUID]int // all that it has seen
	has     map[*tenant]*holding
	open    []string // labels of pipelines that wait for signals
	pods    bool     // it also asks for runs of jobs
	runs    []*askedRun
}

// holding is what a client has of a tenant.
type holding struct {
	held   [queues][]heldItem
	grants [locks][]grant
}

type heldItem struct {
	id uuid.UUID
	takenItem
}

type grant struct {
	holder string
	token  uint64
}

func newClient(n int, seed uint64, h *history, cl *cluster) *client {
	has := make(map[*tenant]*holding)
	for _, t := range h.tenants {
		has[t] = &holding{}
	}
	return &client{
		n: n, h: h, has: has, members: cl.members, effects: cl.effects(), pods: cl.pods != nil, rng: rand.New(rand.NewPCG(seed, uint64(n))), items: make(map[uuid.UUID]int),
		http: &http.Client{Timeout: tryLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
}

// answer is how a request was answered in the end.
type answer struct {
	status    int
	body      []byte
	call, end int64
	// unsure: an earlier try was not answered, and may yet be carried out if the answer is a refusal, which is not kept under the key.
	unsure bool
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// into decodes the body of an answer of success.
func (c *client) into(a answer, v any) bool {
	if !a.ok() {
		return false
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		c.h.complain("an answer cannot be read: %v: %q", err, a.body)
		return false
	}
	return true
}

// do asks until it is answered, of one daemon after the other, with the same key.
func (c *client) do(ctx context.Context, method, path string, body any) (a answer) {
	key := ""
	if method != http.MethodGet {
		key = uuid.NewString()
	}
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			panic(err)
		}
	}
	a.call = c.h.now()
	for {
		m := c.members[c.rng.IntN(len(c.members))]
		for m.apart.Load() {
			m = c.members[c.rng.IntN(len(c.members))]
		}
		resp, text, err := c.try(ctx, m, method, path, key, raw)
		pause := 20 * time.Millisecond
		switch {
		case err != nil:
			c.h.note("no answer")
			a.unsure = true
		case resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests:
			c.h.note(strconv.Itoa(resp.StatusCode))
			a.unsure = true // such as: the store did not answer in time
			seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			if err != nil {
				c.h.complain("%s %s of %s: %d without Retry-After: %s", method, path, m.name, resp.StatusCode, text)
			}
			pause = time.Duration(seconds) * time.Second
		case resp.StatusCode == http.StatusBadGateway:
			c.h.note("502")
			a.unsure = true
		case resp.StatusCode >= http.StatusInternalServerError:
			c.h.note(strconv.Itoa(resp.StatusCode))
			c.h.complain("%s %s of %s: %d %s", method, path, m.name, resp.StatusCode, text)
			a.unsure = true
		default:
			a.status, a.body, a.end = resp.StatusCode, text, c.h.now()
			c.h.answered.Add(1)
			select {
			case c.h.moved <- struct{}{}:
			default:
			}
			if resp.Header.Get("Idempotency-Replayed") != "" {
				c.h.note("replayed")
			}
			return a
		}
		wait(pause)
		if ctx.Err() != nil {
			c.h.complain("%s %s was not answered until the end", method, path)
			a.end = math.MaxInt64
			return a
		}
	}
}

func (c *client) try(ctx context.Context, m *member, method, path, key string, raw []byte) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+m.address+path, bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	if raw != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		var said struct{ Error string }
		if bad := json.Unmarshal(text, &said); bad != nil || said.Error == "" {
			c.h.complain("%s %s of %s: %d with %q, which is no error body", method, path, m.name, resp.StatusCode, text)
		}
	}
	return resp, text, err
}

// work asks this and that until it is told to stop.
func (c *client) work(ctx context.Context, stop <-chan struct{}) {
	defer c.http.CloseIdleConnections()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		c.asked++
		of := c.h.tenants[c.rng.IntN(len(c.h.tenants))]
		if c.pods && c.rng.IntN(10) == 0 {
			c.run(ctx, of)
			continue
		}
		switch pick := c.rng.IntN(100); {
		case pick < 50:
			c.queue(ctx, of)
		case pick < 75:
			c.lock(ctx, of)
		case pick < 88:
			c.action(ctx, of)
		default:
			c.pipeline(ctx, of)
		}
	}
}

// code is what the models call a status.
func (c *client) code(a answer, what string) string {
	switch {
	case a.ok():
		return saidOK
	case a.status == http.StatusConflict:
		return saidConflict
	case a.status == http.StatusNotFound:
		return saidNotFound
	case a.status == 0: // the test has ended
		return ""
	}
	c.h.complain("%s: %d %s", what, a.status, a.body)
	return strconv.Itoa(a.status)
}

// record writes an operation down. One that was refused, or given nothing, may yet be carried out if a try of it is still on its way.
func (c *client) record(to *[]porcupine.Operation, a answer, in, out, unknown any, changed bool) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	lost := a.end == math.MaxInt64
	if !lost {
		*to = append(*to, porcupine.Operation{ClientId: c.n, Input: in, Call: a.call, Output: out, Return: a.end})
	}
	if unknown != nil && (lost || a.unsure && !changed) {
		c.h.ghosts++
		*to = append(*to, porcupine.Operation{ClientId: c.n, Input: in, Call: a.call, Output: unknown, Return: math.MaxInt64})
	}
}

func (c *client) queue(ctx context.Context, of *tenant) {
	has, scope := c.has[of], of.scope()
	q := c.rng.IntN(queues)
	path := fmt.Sprintf("/v1/queues/q%d", q)
	in := queueAsk{op: opPush, item: c.n*100_000 + c.asked, prio: c.rng.IntN(3), holder: c.n}
	var a answer
	var said queueSaid
	switch pick := c.rng.IntN(100); {
	case pick < 25:
		a = c.do(ctx, http.MethodPost, path+"/items"+scope, map[string]any{"data": in.item, "priority": in.prio})
	case pick < 55:
		in = queueAsk{op: opTake, holder: c.n, max: 1 + c.rng.IntN(2)}
		a = c.do(ctx, http.MethodPost, path+"/take"+scope, map[string]any{"holder": c.name(), "max": in.max})
		said.taken = c.taken(a, has, q)
	case pick < 62 || len(has.held[q]) == 0:
		in = queueAsk{op: opCount}
		a = c.do(ctx, http.MethodGet, path+scope, nil)
		said.count = c.counted(a)
	default:
		at := max(0, len(has.held[q])-1-c.rng.IntN(3))
		i := has.held[q][at]
		if c.rng.IntN(4) > 0 { // else it is answered once more later
			has.held[q] = append(has.held[q][:at:at], has.held[q][at+1:]...)
		}
		in = queueAsk{op: []string{opComplete, opComplete, opComplete, opFail, opRelease}[c.rng.IntN(5)], item: i.item, attempt: i.attempt, holder: c.n}
		body := map[string]any{"holder": c.name(), "attempt": i.attempt}
		if in.op == opFail {
			body["error"] = "no luck"
		}
		a = c.do(ctx, http.MethodPost, path+"/items/"+i.id.String()+"/"+in.op+scope, body)
	}
	said.code = c.code(a, "queue: "+in.op)
	var unknown any
	if in.op != opCount {
		unknown = queueSaid{unknown: true}
	}
	c.record(&of.queues[q], a, in, said, unknown, a.ok() && (in.op != opTake || len(said.taken) > 0))
}

func (c *client) name() string { return fmt.Sprintf("client-%d", c.n) }

func (c *client) taken(a answer, has *holding, q int) (all []takenItem) {
	var said struct {
		Items []struct {
			ID       uuid.UUID
			Data     int
			Attempts int
		}
	}
	if !c.into(a, &said) {
		return nil
	}
	for _, i := range said.Items {
		all = append(all, takenItem{i.Data, i.Attempts})
		has.held[q] = append(has.held[q], heldItem{i.ID, takenItem{i.Data, i.Attempts}})
	}
	return all
}

func (c *client) counted(a answer) (n int) {
	var said struct {
		Items struct{ Ready, Waiting, Delayed, Processing, Failed, Dead int }
	}
	if !c.into(a, &said) {
		return 0
	}
	i := said.Items
	return i.Ready + i.Waiting + i.Delayed + i.Processing + i.Failed + i.Dead
}

func (c *client) lock(ctx context.Context, of *tenant) {
	has, scope := c.has[of], of.scope()
	l := c.rng.IntN(locks)
	path := fmt.Sprintf("/v1/locks/l%d", l)
	var in lockAsk
	var a answer
	var said lockSaid
	mine := has.grants[l]
	switch pick := c.rng.IntN(100); {
	case pick < 25:
		in = lockAsk{op: opLook}
		a = c.do(ctx, http.MethodGet, path+scope, nil)
		var is struct{ Holder string }
		if a.status == http.StatusNotFound {
			a.status, a.body = http.StatusOK, []byte("{}")
		}
		c.into(a, &is)
		said.holder = is.Holder
	case pick < 55 || len(mine) == 0:
		in = lockAsk{op: opAcquire, holder: fmt.Sprintf("%s-%d", c.name(), c.asked)}
		a = c.do(ctx, http.MethodPost, path+"/acquire"+scope, map[string]any{"holder": in.holder, "ttl_ms": time.Hour.Milliseconds()})
		var is struct{ Token uint64 }
		if c.into(a, &is) {
			said.token = is.Token
			has.grants[l] = append(mine, grant{in.holder, is.Token})
		}
	default:
		// The last one, which it may have, or one of long ago.
		g := mine[len(mine)-1]
		if c.rng.IntN(4) == 0 {
			g = mine[c.rng.IntN(len(mine))]
		}
		in = lockAsk{op: []string{opRenew, opRelease, opRelease, opRelease}[c.rng.IntN(4)], holder: g.holder, token: g.token}
		body := map[string]any{"holder": g.holder, "token": g.token}
		if in.op == opRenew {
			body["ttl_ms"] = time.Hour.Milliseconds()
		}
		a = c.do(ctx, http.MethodPost, path+"/"+in.op+scope, body)
	}
	said.code = c.code(a, "lock: "+in.op)
	var unknown any
	if in.op != opLook {
		unknown = lockSaid{unknown: true}
	}
	c.record(&of.locks[l], a, in, said, unknown, a.ok())
}

// action asks for an action, and for the end of some.
func (c *client) action(ctx context.Context, of *tenant) {
	label := fmt.Sprintf("%s-%d", c.name(), c.asked)
	o := &askedAction{tenant: of.name, retry: c.rng.IntN(2) == 0}
	policy := "fail"
	if o.retry {
		policy = "retry"
	}
	times := []string{"0", "0", "0.3", "2"}
	cancel := c.rng.IntN(4) == 0
	body := map[string]any{
		"namespace": scopeName, "tenant": of.name, "label": label, "tool_name": "line",
		"tool_input": toolInput(c.effects, times[c.rng.IntN(len(times))], times[c.rng.IntN(len(times))], label, policy),
		"policy":     map[string]any{"on_interrupt": policy, "max_attempts": 1000},
	}
	if cancel {
		body["trigger"] = map[string]any{"type": "scheduled", "next_tick_at": time.Now().Add(time.Duration(c.rng.IntN(3000)) * time.Millisecond).UTC().Format(time.RFC3339Nano)}
	}
	c.h.mu.Lock()
	c.h.actions[label] = o
	c.h.mu.Unlock()
	a := c.do(ctx, http.MethodPost, "/v1/actions", body)
	var made struct{ ID uuid.UUID }
	if !c.into(a, &made) {
		c.h.complain("action %s: %d %s", label, a.status, a.body)
		return
	}
	c.h.mu.Lock()
	o.id = made.ID
	c.h.mu.Unlock()
	if !cancel {
		return
	}
	a = c.do(ctx, http.MethodPost, "/v1/actions/"+made.ID.String()+"/cancel", map[string]string{"reason": "for a test"})
	if a.ok() {
		c.h.mu.Lock()
		o.cancelled = true
		c.h.mu.Unlock()
	}
}

// pipeline begins a pipeline, or sends one its next signal.
func (c *client) pipeline(ctx context.Context, of *tenant) {
	if len(c.open) > 0 && c.rng.IntN(4) > 0 {
		at := c.rng.IntN(len(c.open))
		c.signalNext(ctx, at)
		return
	}
	label := fmt.Sprintf("%s-%d", c.name(), c.asked)
	o := &askedPipeline{tenant: of.name}
	c.h.mu.Lock()
	c.h.pipelines[label] = o
	c.h.mu.Unlock()
	var waits []map[string]any
	for n := range phases {
		waits = append(waits, map[string]any{"name": phaseName(n), "signal": map[string]any{"name": "go"}})
	}
	a := c.do(ctx, http.MethodPost, "/v1/pipelines", map[string]any{
		"namespace": scopeName, "tenant": of.name, "label": label, "definition": map[string]any{"name": "waits", "phases": waits},
	})
	var made struct{ ID uuid.UUID }
	if !c.into(a, &made) {
		c.h.complain("pipeline %s: %d %s", label, a.status, a.body)
		return
	}
	c.h.mu.Lock()
	o.id = made.ID
	c.h.mu.Unlock()
	c.open = append(c.open, label)
}

func (c *client) signalNext(ctx context.Context, at int) {
	label := c.open[at]
	c.h.mu.Lock()
	o := c.h.pipelines[label]
	c.h.mu.Unlock()
	a := c.do(ctx, http.MethodPost, "/v1/pipelines/"+o.id.String()+"/signal", map[string]any{"name": "go", "payload": map[string]int{"n": o.signals}})
	if !a.ok() {
		c.h.complain("signal %d of pipeline %s: %d %s", o.signals, label, a.status, a.body)
		c.open = append(c.open[:at:at], c.open[at+1:]...)
		return
	}
	c.h.mu.Lock()
	o.signals++
	c.h.mu.Unlock()
	if o.signals == phases {
		c.open = append(c.open[:at:at], c.open[at+1:]...)
	}
}

// toolScript takes the file, the seconds before and after its line, a label and the policy.
const toolScript = `[ "$2" = 0 ] || sleep "$2"
printf '%s %s %s %s\n' "$4" "$5" "$ORRERY_IDEMPOTENCY_KEY" "$ORRERY_ATTEMPT" >> "$1"
[ "$3" = 0 ] || sleep "$3"`

func toolInput(file, before, after, label, policy string) map[string]any {
	return map[string]any{"argv": []string{"/bin/sh", "-c", toolScript, "line", file, before, after, label, policy}}
}
