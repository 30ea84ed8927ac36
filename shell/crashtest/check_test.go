//go:build unix

package crashtest

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

// findings collects what is wrong.
type findings struct{ list []string }

func (f *findings) add(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// examine holds what a drained store holds, and what the tools did, against what
// the clients were told. An empty answer says that all is well.
func examine(s *snapshot, l *ledger, lines []line) []string {
	f := &findings{list: slices.Clone(l.plaints)}
	checkAcknowledged(f, s, l)
	checkBatches(f, s, l)
	checkWebhooks(f, s, l)
	checkOrigins(f, s, l)
	checkEffects(f, s, lines)
	checkDedup(f, s)
	checkStuck(f, s)
	strangers := 0
	for id := range s.recurring {
		e := l.recurring[id]
		if e == nil || !e.acked { // made, and the answer got lost
			strangers++
		}
		if e == nil {
			checkRecurring(f, s, id, nil)
		}
	}
	if strangers > l.unnamed {
		f.add("%d recurring actions are there that nobody was told of: the answer to %d was lost", strangers, l.unnamed)
	}
	for id, e := range l.recurring {
		checkRecurring(f, s, id, e)
	}
	return f.list
}

// checkAcknowledged: every acknowledged action is there, as it was asked for,
// and what was done to it has lasted.
func checkAcknowledged(f *findings, s *snapshot, l *ledger) {
	for id, e := range l.actions {
		a, there := s.actions[id]
		switch {
		case !there && e.acked:
			f.add("action %s was acknowledged, and is lost", id)
		case !there:
			continue
		case e.cancelled && a.Status.Type != core.StatusCancelled:
			f.add("action %s was cancelled, which was acknowledged, and is %s", id, a.Status.Type)
		case e.saw.Status.Terminal() && a.Status.Type != e.saw.Status || a.Run < e.saw.Run || a.Cycle < e.saw.Cycle:
			f.add("action %s was seen as %+v, and is %s, run %d, cycle %d", id, e.saw, a.Status.Type, a.Run, a.Cycle)
		case e.ran && a.Run == 0:
			f.add("action %s was triggered, which was acknowledged, and has never run", id)
		case a.Cycle == 1 && a.Trigger.KeyTime() != core.Time(e.order.AtMS) && e.order.AtMS != 0 &&
			(!e.hurried || a.Trigger.KeyTime() > core.Time(e.order.AtMS)):
			f.add("action %s was asked for at %s, and is for %s", id, core.Time(e.order.AtMS), a.Trigger.KeyTime())
		}
		if want := retryOf(e.order.Retry); there && a.Policy.OnInterrupt != want {
			f.add("action %s was asked for with on_interrupt %s, and has %s", id, want, a.Policy.OnInterrupt)
		}
		if again := a.Policy.OnFailure == core.FailureRetry; there && again != e.order.Again {
			f.add("action %s was asked for with on_failure retry %t, and has %t", id, e.order.Again, again)
		}
	}
}

// checkBatches: of actions that were asked for together all are there, or none, whatever was
// answered.
func checkBatches(f *findings, s *snapshot, l *ledger) {
	asked, there := make(map[uuid.UUID]int), make(map[uuid.UUID]int)
	for id, e := range l.actions {
		if e.order.Batch == uuid.Nil {
			continue
		}
		asked[e.order.Batch]++
		if _, ok := s.actions[id]; ok {
			there[e.order.Batch]++
		}
	}
	for batch, n := range asked {
		if there[batch] != 0 && there[batch] != n {
			f.add("of the %d actions that were asked for together with %s, %d are there", n, batch, there[batch])
		}
	}
}

func retryOf(retry bool) core.OnInterrupt {
	if retry {
		return core.InterruptRetry
	}
	return core.InterruptFail
}

// checkWebhooks: every acknowledged webhook is an action with the same bytes,
// and no request became two.
func checkWebhooks(f *findings, s *snapshot, l *ledger) {
	for id, body := range l.hooks {
		a, ok := s.actions[id]
		switch {
		case !ok:
			f.add("webhook %s was acknowledged, and is lost", id)
		case a.Trigger.Type != core.TriggerWebhook || string(a.Trigger.RawPayload) != body:
			f.add("webhook %s came with %q, and holds %q", id, body, a.Trigger.RawPayload)
		}
	}
	seen := make(map[string]uuid.UUID)
	for id, a := range s.actions {
		if a.Trigger.Type != core.TriggerWebhook {
			continue
		}
		body := string(a.Trigger.RawPayload)
		if other, ok := seen[body]; ok {
			f.add("webhook %q became two actions, %s and %s", body, other, id)
		}
		seen[body] = id
	}
}

// checkOrigins: there is no action that nobody asked for.
func checkOrigins(f *findings, s *snapshot, l *ledger) {
	made := make(map[uuid.UUID]bool) // by recurring actions
	for _, list := range s.occurrences {
		for _, o := range list {
			if o.ActionID != uuid.Nil {
				made[o.ActionID] = true
			}
		}
	}
	for id, a := range s.actions {
		switch {
		case a.Trigger.Type == core.TriggerWebhook:
			if !l.bodies[string(a.Trigger.RawPayload)] {
				f.add("action %s is of a webhook that nobody sent: %q", id, a.Trigger.RawPayload)
			}
		case a.Occurrence != uuid.Nil:
			if !made[id] {
				f.add("action %s is of occurrence %s, which does not know it", id, a.Occurrence)
			}
		default:
			if _, ok := l.actions[id]; !ok {
				f.add("action %s was made, and nobody asked for it", id)
			}
		}
	}
}

// checkEffects: no run left a line that the state does not know of, none was
// repeated that must not be, and none is missing of what completed.
func checkEffects(f *findings, s *snapshot, lines []line) {
	type cycle struct {
		id uuid.UUID
		n  uint32
	}
	runs := make(map[cycle]int)
	seen := make(map[line]bool)
	for _, l := range lines {
		runs[cycle{l.action, l.cycle}]++
		a, ok := s.actions[l.action]
		switch {
		case !ok:
			f.add("a tool ran for action %s, which is not there", l.action)
		case seen[l]:
			f.add("action %s, on_interrupt %s: attempt %d of cycle %d was carried out twice", l.action, a.Policy.OnInterrupt, l.attempt, l.cycle)
		case l.cycle > a.Cycle || l.cycle == a.Cycle && l.attempt > a.Attempt:
			f.add("action %s is at cycle %d, attempt %d: its tool ran for cycle %d, attempt %d, before that was durable (A8)",
				l.action, a.Cycle, a.Attempt, l.cycle, l.attempt)
		}
		seen[l] = true
	}
	for c, n := range runs {
		a, ok := s.actions[c.id]
		switch {
		case !ok:
		case a.Policy.OnInterrupt == core.InterruptFail && a.Policy.OnFailure != core.FailureRetry && n > 1:
			f.add("action %s, on_interrupt fail: cycle %d was carried out %d times", c.id, c.n, n)
		case n > int(a.Policy.MaxAttempts):
			f.add("action %s: cycle %d was carried out %d times, at most %d are allowed", c.id, c.n, n, a.Policy.MaxAttempts)
		}
	}
	for _, a := range s.actions {
		checkAttempts(f, a)
	}
	for id, a := range s.actions {
		if a.Status.Type == core.StatusCompleted && runs[cycle{id, a.Cycle}] == 0 {
			f.add("action %s is completed, and its tool has left no line", id)
		}
		if r := a.LastRun; r != nil && r.Status.Type == core.StatusCompleted && runs[cycle{id, r.Cycle}] == 0 {
			f.add("action %s completed cycle %d, and its tool has left no line", id, r.Cycle)
		}
	}
}

// checkAttempts: what is kept of the attempts of an action goes with its policy.
func checkAttempts(f *findings, a core.Action) {
	last := uint32(0)
	for i, t := range a.Attempts {
		goesOn := i < len(a.Attempts)-1 || a.Attempt > t.Number || a.Status.Type == core.StatusPending
		switch {
		case t.Number <= last || t.Number > a.Attempt && a.Status.Type != core.StatusPending:
			f.add("action %s in attempt %d: attempt %d is kept behind attempt %d", a.ID, a.Attempt, t.Number, last)
		case t.Cause == core.CauseInterrupted && a.Policy.OnInterrupt == core.InterruptFail && goesOn:
			f.add("action %s, on_interrupt fail: it went on after attempt %d, which was interrupted", a.ID, t.Number)
		case t.Cause != core.CauseInterrupted && a.Policy.OnFailure != core.FailureRetry && goesOn:
			f.add("action %s, on_failure fail: it went on after attempt %d, which failed", a.ID, t.Number)
		}
		last = t.Number
	}
}

// checkDedup: of the actions with one key, one lived at a time.
func checkDedup(f *findings, s *snapshot) {
	byKey := make(map[string][]core.Action)
	for _, a := range s.actions {
		if a.DedupKey != "" {
			byKey[a.DedupKey] = append(byKey[a.DedupKey], a)
		}
	}
	for key, list := range byKey {
		slices.SortFunc(list, func(a, b core.Action) int {
			if a.CreatedAt != b.CreatedAt {
				return int(a.CreatedAt - b.CreatedAt)
			}
			return int(a.UpdatedAt - b.UpdatedAt)
		})
		for i, a := range list[1:] {
			if before := list[i]; before.UpdatedAt.After(a.CreatedAt) {
				f.add("dedup key %q: action %s was made at %s, while %s lived until %s", key, a.ID, a.CreatedAt, before.ID, before.UpdatedAt)
			}
		}
	}
}

// checkStuck: in a drained store nothing waits, runs or is held, and the totals
// are right.
func checkStuck(f *findings, s *snapshot) {
	count := make(map[core.StatusType]uint64)
	for id, a := range s.actions {
		count[a.Status.Type]++
		if !a.Status.Type.Terminal() {
			f.add("action %s is stuck: %s since %s, due %s, run %d", id, a.Status.Type, a.UpdatedAt, a.Trigger.KeyTime(), a.Run)
		}
	}
	for _, g := range s.guards {
		f.add("dedup key %q is still held by action %s, which is %q", g.Key, g.Holder, s.actions[g.Holder].Status.Type)
	}
	for _, e := range s.outbox {
		f.add("an outbox entry is stuck: %s", e)
	}
	for _, id := range s.webhooks {
		f.add("webhook %s was never read", id)
	}
	for _, q := range s.quarantine {
		f.add("set aside: %s", q)
	}
	for _, d := range s.due {
		f.add("the due index still holds %s at %s", d.ID(), d.At())
	}
	for _, st := range statuses {
		if got := s.counts[core.StatusTerm(st)]; got != count[st] {
			f.add("the store counts %d actions that are %s: there are %d", got, st, count[st])
		}
	}
	if got := s.counts[core.TermAll]; got != uint64(len(s.actions)) {
		f.add("the store counts %d actions: there are %d", got, len(s.actions))
	}
}
