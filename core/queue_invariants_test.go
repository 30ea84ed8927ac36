package core_test

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

func itemsOf(q core.Queue) map[uuid.UUID]core.QueueItem {
	out := map[uuid.UUID]core.QueueItem{}
	for _, i := range q.Items {
		out[i.ID] = i
	}
	return out
}

// waits reports whether an item waits for nothing but its turn.
func waits(i core.QueueItem) bool {
	return i.State.Type == core.ItemPending && i.State.Until.IsZero()
}

// firster orders two items that wait.
func firster(a, b core.QueueItem) int {
	if a.Priority != b.Priority {
		return int(max(min(int64(b.Priority)-int64(a.Priority), 1), -1))
	}
	return int(int64(a.Position) - int64(b.Position))
}

// takenBy gives what a step took, in order.
func takenBy(s step) []core.QueueItem {
	for _, e := range s.effs {
		if a, ok := e.(effects.Answer); ok {
			if items, ok := a.Value.(core.QueueItems); ok {
				return items
			}
		}
	}
	for _, e := range sends[core.QueueTaken](s) {
		return e.Items
	}
	return nil
}

func deadLetters(s step) map[uuid.UUID]bool {
	out := map[uuid.UUID]bool{}
	for _, e := range s.effs {
		if d, ok := e.(effects.DeadLetter); ok {
			out[d.Item.(core.QueueItem).ID] = true
		}
	}
	return out
}

// counted is the queue with its gauges counted anew.
func counted(q core.Queue) core.Queue {
	q.Ready, q.Waiting, q.Delayed, q.InFlight, q.Retrying, q.Kept, q.Dead = 0, 0, 0, 0, 0, 0, 0
	for _, i := range q.Items {
		switch {
		case i.State.Type == core.ItemProcessing:
			q.InFlight++
		case i.State.Type == core.ItemFailed:
			q.Retrying++
		case i.State.Type == core.ItemCompleted:
			q.Kept++
		case i.State.Type == core.ItemDead:
			q.Dead++
		case !i.State.Until.IsZero():
			q.Delayed++
		case i.ReadyPosition > 0:
			q.Ready++
		default:
			q.Waiting++
		}
	}
	q.KeyCount, q.Windows = uint64(len(q.Keys)), uint64(len(q.Dedups))
	return q
}

func checkCounts(_ step, _, a core.Queue) string {
	if c := counted(a); encoded(a.Header()) != encoded(c.Header()) {
		return fmt.Sprintf("counted %s", encoded(c.Header()))
	}
	for _, k := range a.Keys {
		flight, waiting := uint64(0), uint64(0)
		for _, i := range a.Items {
			if i.Key == k.Key && waits(i) {
				waiting++
			}
			if i.Key == k.Key && i.State.Type == core.ItemProcessing {
				flight++
			}
		}
		if k.InFlight != flight || k.Waiting != waiting {
			return fmt.Sprintf("key %q: %d in flight and %d waiting, counted %d and %d", k.Key, k.InFlight, k.Waiting, flight, waiting)
		}
	}
	for _, i := range a.Items {
		known := slices.ContainsFunc(a.Keys, func(k core.QueueKey) bool { return k.Key == i.Key })
		if i.Key != "" && !known && (waits(i) || i.State.Type == core.ItemProcessing) {
			return fmt.Sprintf("key %q of item %s has no record", i.Key, i.ID)
		}
	}
	return ""
}

func checkHolders(s step, b, a core.Queue) string {
	was := itemsOf(b)
	take, taking := s.event.(core.QueueTake)
	_, extending := s.event.(core.QueueExtend)
	for _, i := range a.Items {
		o := was[i.ID]
		if i.State.Type != core.ItemProcessing || encoded(o) == encoded(i) {
			continue
		}
		took := taking && i.State.Holder == take.Holder && i.Attempts == o.Attempts+1 && i.State.TakenAt == s.clock.Now
		kept := extending && o.State.Type == core.ItemProcessing && o.State.Holder == i.State.Holder && o.Attempts == i.Attempts
		if !took && !kept {
			return fmt.Sprintf("%s became %s", encoded(o), encoded(i))
		}
		if taking && o.State.Type == core.ItemProcessing && o.State.Until > s.clock.Now {
			return fmt.Sprintf("taken from %q: %s", o.State.Holder, encoded(i))
		}
	}
	return ""
}

func checkNoneLost(s step, b, a core.Queue) string {
	was, is := itemsOf(b), itemsOf(a)
	if len(is) != len(a.Items) {
		return "an item stands there twice"
	}
	added := 0
	for _, i := range a.Items {
		if _, ok := was[i.ID]; !ok {
			added++
		}
	}
	wantAdded := 0
	switch s.event.(type) {
	case core.QueuePush, core.QueueDeadLetter:
		if refusal(s.effs) == nil {
			wantAdded = 1
		}
	}
	if added != wantAdded {
		return fmt.Sprintf("%d came", added)
	}
	dead := deadLetters(s)
	for _, i := range b.Items {
		if _, ok := is[i.ID]; ok || dead[i.ID] {
			continue
		}
		if i.State.Type == core.ItemCompleted && i.State.Until <= s.clock.Now {
			continue
		}
		switch e := s.event.(type) {
		case core.QueueMend:
			if e.ID == i.ID {
				continue
			}
		case core.QueueComplete:
			if e.Item == i.ID {
				continue
			}
		case core.QueueCancelItem:
			if e.Item == i.ID {
				continue
			}
		case core.QueuePurge:
			if i.State.Type != core.ItemProcessing {
				continue
			}
		case core.QueueRedrive:
			if i.Origin != nil && i.State.Type != core.ItemProcessing {
				continue
			}
		}
		return fmt.Sprintf("%s is gone", encoded(i))
	}
	return ""
}

func checkAttempts(s step, _, a core.Queue) string {
	for _, i := range takenBy(s) {
		if i.Attempts > a.Config.Retry.Attempts() {
			return encoded(i)
		}
	}
	return ""
}

func checkOrder(s step, _, a core.Queue) string {
	taken := takenBy(s)
	for n, i := range taken {
		if n > 0 && taken[n-1].Priority < i.Priority {
			return fmt.Sprintf("%s before %s", encoded(taken[n-1]), encoded(i))
		}
		for _, left := range a.Items {
			if waits(left) && left.Key == i.Key && firster(left, i) < 0 {
				return fmt.Sprintf("%s was taken before %s", encoded(i), encoded(left))
			}
		}
		for _, later := range taken[n+1:] {
			if later.Key == i.Key && firster(later, i) < 0 {
				return fmt.Sprintf("%s was taken before %s", encoded(i), encoded(later))
			}
		}
	}
	return ""
}

func checkLimits(s step, b, a core.Queue) string {
	if len(takenBy(s)) == 0 {
		return ""
	}
	if n := uint64(a.Config.Concurrency); n > 0 && a.InFlight > n {
		return fmt.Sprintf("%d are in flight", a.InFlight)
	}
	for _, k := range a.Keys {
		before := uint64(0)
		for _, o := range b.Keys {
			if o.ID == k.ID {
				before = o.InFlight
			}
		}
		if n := uint64(a.Config.KeyConcurrency); n > 0 && k.InFlight > max(n, before) {
			return fmt.Sprintf("%d of key %q are in flight", k.InFlight, k.Key)
		}
	}
	return ""
}

func checkLine(_ step, _, a core.Queue) string {
	for _, k := range a.Keys {
		var line []core.QueueItem
		for _, i := range a.Items {
			if i.Key == k.Key && waits(i) {
				line = append(line, i)
			}
		}
		slices.SortFunc(line, firster)
		for n, i := range line {
			if i.ReadyPosition > 0 && (n > 0 || k.Front != i.ID) {
				return fmt.Sprintf("%s stands in line, front is %s", encoded(i), k.Front)
			}
		}
		if k.Front != uuid.Nil && (len(line) == 0 || line[0].ID != k.Front || line[0].ReadyPosition == 0) {
			return fmt.Sprintf("key %q has front %s, which does not stand in line", k.Key, k.Front)
		}
		if free := a.Config.KeyConcurrency == 0 && a.Config.KeyRate.Limit == 0; free && k.Front == uuid.Nil && k.Until.IsZero() && len(line) > 0 && k.InFlight == 0 {
			return fmt.Sprintf("key %q waits for nothing", k.Key)
		}
	}
	return ""
}

func checkWake(_ step, _, a core.Queue) string {
	late := func(t core.Time) bool { return !t.IsZero() && (a.Wake.IsZero() || a.Wake > t) }
	for _, i := range a.Items {
		if (i.State.Type != core.ItemPending || !i.State.Until.IsZero()) && i.State.Type != core.ItemDead && late(i.State.Until) {
			return encoded(i)
		}
	}
	for _, k := range a.Keys {
		if late(k.Until) {
			return encoded(k)
		}
	}
	for _, d := range a.Dedups {
		if late(d.Until) {
			return encoded(d)
		}
	}
	return unless(!late(a.Limited), "limited until %s", a.Limited)
}

var queueInvariants = []invariant{
	on("Every gauge equals what a count over all items gives.", checkCounts),
	on("An item is held by at most one holder, and only a take gives it to one.", checkHolders),
	on("No item is lost or duplicated: one comes by push or dead_letter, and goes by complete, cancel_item, purge or redrive, as a dead letter, or once it was kept long enough.", checkNoneLost),
	on("A take never lets the attempts of an item exceed max_attempts.", checkAttempts),
	on("What is taken comes first in the order: the highest priority, and within it the first pushed of those that may run.", checkOrder),
	on("A take leaves no more items in flight than concurrency and key_concurrency allow.", checkLimits),
	on("Of each key at most one item stands in line, and it is the first of those that wait.", checkLine),
	on("A dedup key without a window is held only by an item that has not ended.", func(_ step, _, a core.Queue) string {
		for _, d := range a.Dedups {
			i, there := itemsOf(a)[d.Item]
			if live := there && i.State.Type != core.ItemDead && i.State.Type != core.ItemCompleted; d.Until.IsZero() && !live {
				return encoded(d)
			}
		}
		return ""
	}),
	on("The deadline is never after the first time at which something is to happen.", checkWake),
}
