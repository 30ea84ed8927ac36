package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

var _ = register(core.KindQueue, kit{
	typ:        "Queue",
	absent:     core.Queue{},
	apply:      applying(core.Queue.Apply),
	made:       func() core.State { return madeQueue() },
	hostile:    func(t *rapid.T) core.State { return hostileQueue(t) },
	draw:       func(t *rapid.T, s core.State, c core.Clock) core.Event { return drawQueueEvent(t, s.(core.Queue), c) },
	own:        core.QueueResume{},
	states:     goldenQueues,
	events:     goldenQueueEvents,
	phase:      queuePhase,
	phases:     []string{"absent", "active", "paused"},
	invariants: queueInvariants,
})

func queuePhase(s core.State) string {
	if s.(core.Queue).Paused {
		return "paused"
	}
	return "active"
}

// scan lists the cursors of records under a term, as a store does.
func scan(states map[effects.Ref]core.State, kind effects.Kind, term string, after core.Cursor, limit int) []core.Cursor {
	var out []core.Cursor
	for ref, s := range states { // order-free: sorted below
		if ref.Kind != kind || s == nil {
			continue
		}
		for _, t := range s.Terms() {
			if p := (core.Cursor{At: t.At, ID: ref.ID}); t.Name == term && (after == core.Cursor{} || comparePlaces(p, after) > 0) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, comparePlaces)
	return out[:min(limit, len(out))]
}

func comparePlaces(a, b core.Cursor) int {
	if a.At != b.At {
		return int(max(min(a.At-b.At, 1), -1))
	}
	return bytes.Compare(a.ID[:], b.ID[:])
}

func (l loader) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	return scan(l, kind, term, after, limit), nil
}

func (w world) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	states := map[effects.Ref]core.State{}
	for ref := range w { // order-free: into a map
		if ref.Kind == kind {
			states[ref], _ = w.Load(ref)
		}
	}
	return scan(states, kind, term, after, limit), nil
}

var queueConfigs = []core.QueueConfig{
	{}, {}, {VisibilityTimeoutMS: 1000, Retry: core.Retry{MaxAttempts: 2, BackoffMS: 500}, KeepCompletedMS: 2000, DedupWindowMS: 3000},
	{VisibilityTimeoutMS: 500, DeadLetterQueue: "dlq", Retry: core.Retry{MaxAttempts: 1}},
	{Concurrency: 2, KeyConcurrency: 1, KeyRate: core.QueueRate{Limit: 2, PerMS: 1000}},
	{Rate: core.QueueRate{Limit: 10, PerMS: 1000, Burst: 3}, KeyConcurrency: 2, Retry: core.Retry{MaxAttempts: 3, BackoffMS: 100, NoRetry: []string{"never"}}},
}

func drawQueueConfig(t *rapid.T) core.QueueConfig {
	c := rapid.SampledFrom(queueConfigs).Draw(t, "config")
	if rapid.IntRange(0, 9).Draw(t, "odd config") == 0 {
		c.VisibilityTimeoutMS = rapid.SampledFrom([]int64{-1, 0, core.MaxVisibilityMS + 1}).Draw(t, "visibility")
		c.DeadLetterQueue = rapid.SampledFrom([]string{"q", "", "\xff"}).Draw(t, "dead_letter_queue")
		c.Rate.PerMS = rapid.SampledFrom([]int64{0, -1, math.MaxInt64}).Draw(t, "per_ms")
	}
	return c
}

func drawPush(t *rapid.T) core.QueuePush {
	e := core.QueuePush{
		Name: "q", Priority: rapid.SampledFrom([]int32{0, 0, 0, 1, -1, math.MaxInt32, math.MinInt32}).Draw(t, "priority"),
		Key:      rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "key"),
		DedupKey: rapid.SampledFrom([]string{"", "", "", "d", "e"}).Draw(t, "dedup_key"),
		DelayMS:  rapid.SampledFrom([]int64{0, 0, 0, 1000, core.MaxDelayMS}).Draw(t, "delay"),
		Data:     json.RawMessage(rapid.SampledFrom([]string{"1", ` {"a": "<&>"} `, ""}).Draw(t, "data")),
	}
	switch rapid.IntRange(0, 14).Draw(t, "odd") {
	case 0:
		e.Data = drawJSON(t, "odd data")
	case 1:
		e.Key, e.DelayMS = drawText(t, "odd key"), rapid.Int64().Draw(t, "odd delay")
	case 2:
		e.Owner = core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(9)}, N: 4}
	case 3:
		e.Name = drawName(t, "odd name")
	}
	return e
}

func drawDeadLetter(t *rapid.T) core.QueueDeadLetter {
	return core.QueueDeadLetter{Item: core.QueueItem{
		ID: drawID(t, "id"), Data: json.RawMessage(rapid.SampledFrom([]string{"7", "{", ""}).Draw(t, "data")), Key: rapid.SampledFrom([]string{"", "a"}).Draw(t, "key"),
		Origin: rapid.SampledFrom([]*core.QueueOrigin{nil, {Name: "work", To: "q", Error: "\xff", Attempts: 3, Hops: 1}, {Name: "work", To: "q", Hops: 4}}).Draw(t, "origin"),
	}}
}

// drawHeld names an item and who holds it: mostly right.
func drawHeld(t *rapid.T, q core.Queue) (item uuid.UUID, holder string, attempt uint32) {
	var held []core.QueueItem
	for _, i := range q.Items {
		if i.State.Type == core.ItemProcessing || rapid.IntRange(0, 9).Draw(t, "other") == 0 {
			held = append(held, i)
		}
	}
	if len(held) == 0 {
		return drawID(t, "item"), "h1", 1
	}
	i := rapid.SampledFrom(held).Draw(t, "item")
	item, holder, attempt = i.ID, i.State.Holder, i.Attempts
	switch rapid.IntRange(0, 9).Draw(t, "wrong") {
	case 0:
		holder = drawName(t, "holder")
	case 1:
		attempt += rapid.SampledFrom([]uint32{1, math.MaxUint32}).Draw(t, "attempt")
	}
	return item, holder, attempt
}

func drawAnyItem(t *rapid.T, q core.Queue) uuid.UUID {
	if len(q.Items) == 0 {
		return drawID(t, "item")
	}
	return rapid.SampledFrom(q.Items).Draw(t, "item").ID
}

func drawQueueEvent(t *rapid.T, q core.Queue, _ core.Clock) core.Event {
	if !exists(q) {
		switch rapid.IntRange(0, 9).Draw(t, "make") {
		case 0, 1, 2, 3, 4, 5:
			return core.QueueCreate{Name: "q", Config: drawQueueConfig(t)}
		case 6, 7, 8:
			return drawPush(t)
		}
	}
	limit := rapid.SampledFrom([]uint32{0, 1, 2, core.MaxQueueBatch + 1}).Draw(t, "limit")
	item, holder, attempt := drawHeld(t, q)
	switch rapid.SampledFrom([]string{
		"push", "push", "push", "push", "push", "take", "take", "take", "take", "complete", "complete", "fail", "fail", "fail", "extend", "release",
		"cancel", "redrive", "pause", "resume", "purge", "delete", "due", "due", "dead letter", "configure", "create", "mend",
	}).Draw(t, "event") {
	case "push":
		return drawPush(t)
	case "take":
		e := core.QueueTake{
			Holder: rapid.SampledFrom([]string{"h1", "h2", "", "\xff"}).Draw(t, "holder"), Max: rapid.SampledFrom([]uint32{0, 1, 2, 5, core.MaxQueueTake + 1}).Draw(t, "max"),
			VisibilityMS: rapid.SampledFrom([]int64{0, 0, 100, -1}).Draw(t, "visibility"),
		}
		if rapid.IntRange(0, 4).Draw(t, "owned") == 0 {
			e.Owner = core.Owner{Ref: effects.Ref{Kind: core.KindWorker, ID: id(8)}, N: 2}
		}
		return e
	case "complete":
		return core.QueueComplete{Item: item, Holder: holder, Attempt: attempt, Result: drawJSON(t, "result")}
	case "fail":
		return core.QueueFail{Item: item, Holder: holder, Attempt: attempt, Error: rapid.SampledFrom([]string{"boom", "", "never again", "\xff"}).Draw(t, "error"), Permanent: rapid.IntRange(0, 4).Draw(t, "permanent") == 0}
	case "extend":
		return core.QueueExtend{Item: item, Holder: holder, Attempt: attempt, VisibilityMS: rapid.SampledFrom([]int64{0, 60_000, -1}).Draw(t, "visibility")}
	case "release":
		return core.QueueRelease{Item: item, Holder: holder, Attempt: attempt}
	case "cancel":
		return core.QueueCancelItem{Item: drawAnyItem(t, q), Reason: drawText(t, "reason")}
	case "redrive":
		e := core.QueueRedrive{Limit: limit}
		if rapid.Bool().Draw(t, "one") {
			e.Item = drawAnyItem(t, q)
		}
		return e
	case "pause":
		return core.QueuePause{By: drawName(t, "by"), Reason: drawText(t, "reason")}
	case "resume":
		return core.QueueResume{}
	case "purge":
		return core.QueuePurge{
			States: rapid.SampledFrom([][]core.ItemStateType{nil, {core.ItemDead}, {core.ItemPending, core.ItemFailed}, {core.ItemCompleted}, {core.ItemProcessing}, {"odd"}}).Draw(t, "states"),
			Limit:  limit, Reason: drawText(t, "reason"),
		}
	case "delete":
		return core.QueueDelete{}
	case "due":
		return core.QueueDue{}
	case "dead letter":
		return drawDeadLetter(t)
	case "mend":
		return drawMend(t, q)
	case "configure":
		return core.QueueConfigure{Config: drawQueueConfig(t)}
	}
	return core.QueueCreate{Name: "q", Config: drawQueueConfig(t)}
}

// drawMend loses an item, or what a queue does not keep.
func drawMend(t *rapid.T, q core.Queue) core.Event {
	if len(q.Items) == 0 {
		return core.QueueMend{Kind: core.KindPipeline, ID: id(1)}
	}
	i := rapid.SampledFrom(q.Items).Draw(t, "lost")
	return core.MendQueue(q.ID, i.Ref(), i.Terms(), []byte(encoded(i)))
}

func madeQueue() core.Queue {
	q, _ := core.Queue{}.Apply(core.QueuePush{Name: "q", DelayMS: 1000}, core.Clock{Now: start})
	return q
}

// hostileQueue gives a queue of which nothing fits together.
func hostileQueue(t *rapid.T) core.Queue {
	c := core.Clock{Now: start}
	count := func(label string) uint64 {
		return rapid.SampledFrom([]uint64{0, 1, 2, math.MaxUint64}).Draw(t, label)
	}
	q := core.Queue{
		ID: drawID(t, "id"), Name: drawText(t, "name"), Config: drawQueueConfig(t), Paused: rapid.IntRange(0, 3).Draw(t, "paused") == 0,
		LastPosition: uint32(count("turn")), RateTAT: int64(count("tat")), Limited: drawTime(t, c), Wake: drawTime(t, c), Pushed: count("pushed"), Taken: count("taken"),
		Ready: count("ready"), Waiting: count("waiting"), Delayed: count("delayed"), InFlight: count("in_flight"), Retrying: count("retrying"),
		Kept: count("kept"), Dead: count("dead"), KeyCount: count("keys"), Windows: count("windows"),
	}
	for n := range rapid.IntRange(0, 4).Draw(t, "items") {
		q.Items = append(q.Items, core.QueueItem{
			ID: id(n + 1), Queue: q.ID, Priority: rapid.Int32().Draw(t, "priority"), Key: rapid.SampledFrom([]string{"", "a"}).Draw(t, "key"), DedupKey: rapid.SampledFrom([]string{"", "d"}).Draw(t, "dedup"),
			Attempts: uint32(count("attempts")), Position: uint32(count("turn")), ReadyPosition: uint32(count("place")), CreatedAt: drawTime(t, c),
			Origin: rapid.SampledFrom([]*core.QueueOrigin{nil, {}, {Name: "x", Hops: math.MaxUint32}}).Draw(t, "origin"),
			State: core.ItemState{
				Type:  rapid.SampledFrom([]core.ItemStateType{"", "odd", core.ItemPending, core.ItemPending, core.ItemProcessing, core.ItemProcessing, core.ItemCompleted, core.ItemFailed, core.ItemDead}).Draw(t, "state"),
				Until: drawTime(t, c), At: drawTime(t, c), Holder: "h1",
			},
		})
	}
	for n := range rapid.IntRange(0, 2).Draw(t, "key records") {
		q.Keys = append(q.Keys, core.QueueKey{ID: id(n + 1), Queue: q.ID, Key: "a", InFlight: count("key in flight"), Waiting: count("key waiting"), Front: drawID(t, "front"), RateTAT: int64(count("key tat")), Until: drawTime(t, c)})
		q.Dedups = append(q.Dedups, core.QueueDedup{ID: id(n + 1), Queue: q.ID, Key: "d", Item: drawID(t, "dedup item"), Until: drawTime(t, c)})
	}
	return q
}

func goldenQueues() []core.State {
	clock := core.Clock{Now: start, Step: 1}
	q := core.Queue{}
	var out []core.State
	next := func(e core.QueueEvent) {
		var effs []effects.Effect
		if q, effs = q.Apply(e, clock); refusal(effs) != nil {
			panic(refusal(effs).Reason)
		}
		out = append(out, q)
		clock.Now, clock.Step = clock.Now.Add(1e9), clock.Step+1
	}
	next(core.QueueCreate{Namespace: "n", Tenant: "t", Name: "work", Config: core.QueueConfig{
		Retry: core.Retry{MaxAttempts: 2, BackoffMS: 1000, NoRetry: []string{"<never>"}}, Concurrency: 2, KeyConcurrency: 1,
		Rate: core.QueueRate{Limit: 5}, KeyRate: core.QueueRate{Limit: 1, PerMS: 60_000, Burst: 2}, KeepCompletedMS: 60_000,
	}})
	push := core.QueuePush{Namespace: "n", Tenant: "t", Name: "work", Data: json.RawMessage(` {"x": 1.50}`), Priority: -3, Key: "<k>", DedupKey: "d", Owner: core.Owner{Ref: effects.Ref{Kind: core.KindPipeline, ID: id(1)}, N: 7}}
	next(push)
	push.DedupKey, push.Priority, push.DelayMS = "", 0, 5000
	next(push)
	next(core.QueueTake{Holder: "w", Max: 1})
	next(core.QueueFail{Item: out[1].(core.Queue).Items[0].ID, Holder: "w", Attempt: 1, Error: "boom"})
	next(core.QueueDue{})
	next(core.QueueTake{Holder: "w", Max: 1})
	next(core.QueueComplete{Item: q.Items[0].ID, Holder: "w", Attempt: 2, Result: json.RawMessage(`{"ok":true}`)})
	next(core.QueueDeadLetter{Item: core.QueueItem{Data: json.RawMessage("[]"), Origin: &core.QueueOrigin{Namespace: "n", Tenant: "t", Name: "other", To: "work", Item: id(3), Attempts: 3, Error: "e", DeadAt: start, Hops: 1}}})
	next(core.QueuePause{By: "ann", Reason: "holidays"})
	return out
}

func goldenQueueEvents() []core.Event {
	owner := core.Owner{Ref: effects.Ref{Kind: core.KindWorker, ID: id(2)}, N: 3}
	return []core.Event{
		core.QueueCreate{Namespace: "n", Tenant: "t", Name: "q", Config: queueConfigs[5]}, core.QueueConfigure{Config: queueConfigs[2]}, core.QueueConfigure{},
		core.QueuePush{Namespace: "n", Tenant: "t", Name: "q", Data: json.RawMessage(`{"<a>": 1}`), Priority: -1, Key: "k", DedupKey: "d", DelayMS: 5, Owner: owner}, core.QueuePush{},
		core.QueueTake{Holder: "h", Max: 2, VisibilityMS: 1000}, core.QueueTake{Owner: owner},
		core.QueueComplete{Item: id(1), Holder: "h", Attempt: 1, Result: json.RawMessage(`{"ok":true}`)}, core.QueueComplete{},
		core.QueueFail{Item: id(1), Holder: "h", Attempt: 1, Error: "e", Permanent: true}, core.QueueExtend{Item: id(1), Holder: "h", Attempt: 1, VisibilityMS: 9},
		core.QueueRelease{Item: id(1), Holder: "h", Attempt: 1}, core.QueueCancelItem{Item: id(1), Reason: "r"}, core.QueueRedrive{Item: id(1)}, core.QueueRedrive{Limit: 5},
		core.QueuePause{By: "ann", Reason: "r"}, core.QueueResume{}, core.QueuePurge{States: []core.ItemStateType{core.ItemDead}, Limit: 3}, core.QueuePurge{}, core.QueueDelete{}, core.QueueDue{},
		core.QueueDeadLetter{Item: core.QueueItem{ID: id(1), Data: json.RawMessage(`1`), Origin: &core.QueueOrigin{Name: "a", To: "q"}}},
		core.QueueMend{Kind: core.KindQueueItem, ID: id(1), List: "ready", Key: id(2), Dedup: id(3), Owner: owner}, core.QueueMend{Kind: core.KindQueue, ID: id(1)},
	}
}

// queueIDs are names of queues and of their items in traces: Q(name), and I(n)
// for the n-th item of the queue "q".
func queueIDs() (pairs []string) {
	for n := 1; n <= 40; n++ {
		pairs = append(pairs, core.ItemID(core.QueueRef("", "", "q").ID, uint64(n), 0).String(), fmt.Sprintf("I(%d)", n))
	}
	for _, name := range []string{"q", "work", "dlq"} {
		pairs = append(pairs, core.QueueRef("", "", name).ID.String(), "Q("+name+")")
	}
	return pairs
}

var expandQueueIDs = func() *strings.Replacer {
	pairs := queueIDs()
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
	}
	return strings.NewReplacer(pairs...)
}()

// queueParts writes what changes of each item, key and dedup key of a queue.
func queueParts(q core.Queue, values map[string]string) (names []string) {
	add := func(name, value string) {
		name = longIDs.Replace(name)
		names, values[name] = append(names, name), longIDs.Replace(value)
	}
	for _, i := range q.Items {
		state, _ := json.Marshal(i.State)
		text := strings.TrimSuffix(strings.TrimPrefix(brief(state), `{"type":`), "}")
		if i.Attempts > 0 {
			text += fmt.Sprintf(", attempt %d", i.Attempts)
		}
		text += fmt.Sprintf(", turn %d", i.Position)
		if i.ReadyPosition > 0 {
			text += fmt.Sprintf(", place %d", i.ReadyPosition)
		}
		if i.LastError != "" {
			text += fmt.Sprintf(", last error %q", i.LastError)
		}
		add("item "+i.ID.String(), text)
	}
	for _, k := range q.Keys {
		front := "none"
		if k.Front != uuid.Nil {
			front = k.Front.String()
		}
		add(fmt.Sprintf("key %q", k.Key), fmt.Sprintf("%d in flight, %d waiting, front %s, until %s", k.InFlight, k.Waiting, front, k.Until))
	}
	for _, d := range q.Dedups {
		add(fmt.Sprintf("dedup key %q", d.Key), fmt.Sprintf("held by %s, until %s", d.Item, d.Until))
	}
	return names
}
