package core

import (
	"encoding/json"
	"slices"

	"github.com/google/uuid"
)

// AppendJSON appends the stored form.
func (q Queue) AppendJSON(b []byte) []byte {
	o := begin(b)
	o.id("id", q.ID)
	o.str("namespace", q.Namespace)
	o.str("tenant", q.Tenant)
	o.str("name", q.Name)
	o.value("config", q.Config.appendJSON)
	o.time("created_at", q.CreatedAt)
	o.bool("paused", q.Paused)
	o.str("paused_by", q.PausedBy)
	o.str("reason", q.Reason)
	o.num("turn", uint64(q.LastPosition))
	o.int("rate_tat", q.RateTAT)
	o.time("limited", q.Limited)
	o.time("wake", q.Wake)
	o.num("pushed", q.Pushed)
	o.num("taken", q.Taken)
	o.num("completed", q.Completed)
	o.num("failed", q.Failed)
	o.num("timed_out", q.TimedOut)
	o.num("dead_lettered", q.DeadLettered)
	o.num("cancelled", q.Cancelled)
	o.num("redriven", q.Redriven)
	o.num("ready", q.Ready)
	o.num("waiting", q.Waiting)
	o.num("delayed", q.Delayed)
	o.num("in_flight", q.InFlight)
	o.num("retrying", q.Retrying)
	o.num("kept", q.Kept)
	o.num("dead", q.Dead)
	o.num("keys_count", q.KeyCount)
	o.num("dedups_count", q.Windows)
	appendMembers(&o, "items", q.Items)
	appendMembers(&o, "keys", q.Keys)
	appendMembers(&o, "dedups", q.Dedups)
	return o.end()
}

// appendMembers appends a list as a field, which is left out where there is nothing in it.
func appendMembers[T interface{ AppendJSON([]byte) []byte }](o *object, k string, list []T) {
	if len(list) > 0 {
		o.key(k)
		o.b = appendList(o.b, list)
	}
}

func appendList[T interface{ AppendJSON([]byte) []byte }](b []byte, list []T) []byte {
	b = append(b, '[')
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.AppendJSON(b)
	}
	return append(b, ']')
}

// intNotZero appends a number, which is left out where it is 0.
func (o *object) intNotZero(k string, v int64) {
	if v != 0 {
		o.int(k, v)
	}
}

func (o *object) bool(k string, v bool) {
	o.key(k)
	if v {
		o.b = append(o.b, "true"...)
	} else {
		o.b = append(o.b, "false"...)
	}
}

func (o *object) owner(k string, v Owner) {
	o.value(k, v.appendJSON)
}

func (c QueueConfig) appendJSON(b []byte) []byte {
	o := begin(b)
	o.int("visibility_timeout_ms", c.VisibilityTimeoutMS)
	o.value("retry", c.Retry.appendJSON)
	o.str("dead_letter_queue", c.DeadLetterQueue)
	o.num("concurrency", uint64(c.Concurrency))
	o.num("key_concurrency", uint64(c.KeyConcurrency))
	o.value("rate", c.Rate.appendJSON)
	o.value("key_rate", c.KeyRate.appendJSON)
	o.int("keep_completed_ms", c.KeepCompletedMS)
	o.int("dedup_window_ms", c.DedupWindowMS)
	return o.end()
}

func (r QueueRate) appendJSON(b []byte) []byte {
	o := begin(b)
	o.intNotZero("limit", int64(r.Limit))
	o.intNotZero("per_ms", r.PerMS)
	o.intNotZero("burst", int64(r.Burst))
	return o.end()
}

// appendJSON appends the form that encoding/json gives, without its cost.
func (r Retry) appendJSON(b []byte) []byte {
	if len(r.NoRetry) > 0 {
		return appendMarshaled(b, r)
	}
	o := begin(b)
	o.intNotZero("max_attempts", int64(r.MaxAttempts))
	o.intNotZero("backoff_ms", r.BackoffMS)
	o.intNotZero("factor_percent", int64(r.FactorPercent))
	o.intNotZero("max_backoff_ms", r.MaxBackoffMS)
	o.intNotZero("jitter_percent", int64(r.JitterPercent))
	return o.end()
}

// AppendJSON appends the stored form.
func (i QueueItem) AppendJSON(b []byte) []byte {
	o := begin(b)
	o.id("id", i.ID)
	o.id("queue", i.Queue)
	o.raw("data", i.Data)
	o.int("priority", int64(i.Priority))
	o.str("key", i.Key)
	o.str("dedup_key", i.DedupKey)
	o.time("created_at", i.CreatedAt)
	o.num("attempts", uint64(i.Attempts))
	o.value("state", i.State.appendJSON)
	o.str("last_error", i.LastError)
	o.num("turn", uint64(i.Position))
	o.num("place", uint64(i.ReadyPosition))
	o.owner("owner", i.Owner)
	o.key("origin")
	if i.Origin == nil {
		o.b = append(o.b, "null"...)
	} else {
		o.b = i.Origin.appendJSON(o.b)
	}
	return o.end()
}

func (s ItemState) appendJSON(b []byte) []byte {
	o := begin(b)
	o.str("type", string(s.Type))
	switch s.Type {
	case ItemPending:
		if !s.Until.IsZero() {
			o.time("until", s.Until)
		}
	case ItemProcessing:
		o.time("until", s.Until)
		o.str("holder", s.Holder)
		o.time("taken_at", s.TakenAt)
	case ItemCompleted:
		o.time("until", s.Until)
		o.time("at", s.At)
		if len(s.Result) > 0 {
			o.raw("result", s.Result)
		}
	case ItemFailed:
		o.time("until", s.Until)
		o.str("error", s.Error)
	case ItemDead:
		o.time("at", s.At)
		o.str("reason", s.Reason)
	}
	return o.end()
}

func (g QueueOrigin) appendJSON(b []byte) []byte {
	o := begin(b)
	o.str("namespace", g.Namespace)
	o.str("tenant", g.Tenant)
	o.str("name", g.Name)
	o.str("to", g.To)
	o.id("item", g.Item)
	o.num("attempts", uint64(g.Attempts))
	o.str("error", g.Error)
	o.time("dead_at", g.DeadAt)
	o.num("hops", uint64(g.Hops))
	return o.end()
}

// AppendJSON appends a list of stored forms.
func (s QueueItems) AppendJSON(b []byte) []byte { return appendList(b, s) }

// AppendJSON appends the stored form.
func (k QueueKey) AppendJSON(b []byte) []byte {
	o := begin(b)
	o.id("id", k.ID)
	o.id("queue", k.Queue)
	o.str("key", k.Key)
	o.num("in_flight", k.InFlight)
	o.num("waiting", k.Waiting)
	o.id("front", k.Front)
	o.int("rate_tat", k.RateTAT)
	o.time("until", k.Until)
	return o.end()
}

// AppendJSON appends the stored form.
func (d QueueDedup) AppendJSON(b []byte) []byte {
	o := begin(b)
	o.id("id", d.ID)
	o.id("queue", d.Queue)
	o.str("key", d.Key)
	o.id("item", d.Item)
	o.time("until", d.Until)
	return o.end()
}

// MarshalJSON encodes the stored form.
func (i QueueItem) MarshalJSON() ([]byte, error) { return i.AppendJSON(nil), nil }

// MarshalJSON encodes the tagged union.
func (s ItemState) MarshalJSON() ([]byte, error) { return s.appendJSON(nil), nil }

// UnmarshalJSON decodes the tagged union: what does not belong to the state is
// left out.
func (s *ItemState) UnmarshalJSON(b []byte) error {
	type fields ItemState
	var f fields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	v := ItemState{Type: f.Type}
	switch f.Type {
	case ItemPending:
		v.Until = f.Until
	case ItemProcessing:
		v.Until, v.Holder, v.TakenAt = f.Until, f.Holder, f.TakenAt
	case ItemCompleted:
		v.Until, v.At, v.Result = f.Until, f.At, f.Result
	case ItemFailed:
		v.Until, v.Error = f.Until, f.Error
	case ItemDead:
		v.At, v.Reason = f.At, f.Reason
	}
	*s = v
	return nil
}

func (e QueuePush) appendFields(o object) object {
	o.str("namespace", e.Namespace)
	o.str("tenant", e.Tenant)
	o.str("name", e.Name)
	o.raw("data", e.Data)
	o.int("priority", int64(e.Priority))
	o.str("key", e.Key)
	o.str("dedup_key", e.DedupKey)
	o.int("delay_ms", e.DelayMS)
	o.owner("owner", e.Owner)
	if !e.Ack.IsZero() {
		o.owner("ack", e.Ack)
	}
	return o
}

func (e QueueTake) appendFields(o object) object {
	o.str("holder", e.Holder)
	o.num("max", uint64(e.Max))
	o.int("visibility_ms", e.VisibilityMS)
	o.owner("owner", e.Owner)
	return o
}

func (e QueueTaken) appendFields(o object) object {
	o.num("n", uint64(e.N))
	o.key("items")
	o.b = appendList(o.b, e.Items)
	return o
}

// holding appends what the events of a holder begin with.
func (o object) holding(item uuid.UUID, holder string, attempt uint32) object {
	o.id("item", item)
	o.str("holder", holder)
	o.num("attempt", uint64(attempt))
	return o
}

func (e QueueComplete) appendFields(o object) object {
	o = o.holding(e.Item, e.Holder, e.Attempt)
	if result := storedResult(e.Result); len(result) > 0 {
		o.raw("result", result)
	}
	return o
}

func (e QueueFail) appendFields(o object) object {
	o = o.holding(e.Item, e.Holder, e.Attempt)
	o.str("error", e.Error)
	o.bool("permanent", e.Permanent)
	return o
}

func (e QueueExtend) appendFields(o object) object {
	o = o.holding(e.Item, e.Holder, e.Attempt)
	o.int("visibility_ms", e.VisibilityMS)
	return o
}

func (e QueueRelease) appendFields(o object) object {
	o = o.holding(e.Item, e.Holder, e.Attempt)
	if e.DelayMS != 0 {
		o.int("delay_ms", e.DelayMS)
	}
	return o
}

func (e QueueCancelItem) stored() Event { return QueueCancelItem{e.Item, validText(e.Reason)} }

func (e QueuePurge) stored() Event {
	if e.States = slices.Clone(e.States); len(e.States) == 0 {
		e.States = []ItemStateType{}
	}
	e.Reason = validText(e.Reason)
	return e
}

func (e QueueDeadLetter) appendFields(o object) object {
	o.value("item", e.Item.AppendJSON)
	return o
}
