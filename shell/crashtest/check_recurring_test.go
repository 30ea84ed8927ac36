//go:build unix

package crashtest

import (
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
)

// second is the period of every recurring action here, in milliseconds.
const second = core.Time(1000)

// checkRecurring holds the history of one recurring action, of every second,
// against its counts and its actions. e is nil where the answer to its creation
// got lost.
func checkRecurring(f *findings, s *snapshot, id uuid.UUID, e *recurringEntry) {
	r, there := s.recurring[id]
	list := s.occurrences[id]
	if e != nil {
		state := recGone
		switch {
		case there && r.Enabled:
			state = recEnabled
		case there:
			state = recDisabled
		}
		if !e.possible[state] {
			f.add("recurring action %s is %s: possible is %v", id, state, e.possible)
		}
	}
	var n tally
	for _, o := range list {
		n.add(f, s, o)
	}
	if e != nil && (n.manual < e.fired[0] || n.manual > e.fired[1]) {
		f.add("recurring action %s was triggered by hand %d times, of which %d were acknowledged: its history has %d", id, e.fired[1], e.fired[0], n.manual)
	}
	checkTimes(f, id, list, e != nil && e.steady)
	if !there {
		return
	}
	if r.ExecutionCount != n.dispatched || r.DeduplicatedCount != n.deduplicated || r.MissedCount != n.missed || r.SkippedCount != n.skipped {
		f.add("recurring action %s counts %d executions, %d deduplicated, %d missed, %d skipped: its history has %d, %d, %d, %d",
			id, r.ExecutionCount, r.DeduplicatedCount, r.MissedCount, r.SkippedCount, n.dispatched, n.deduplicated, n.missed, n.skipped)
	}
	if r.Sequence != uint64(len(list)) {
		f.add("recurring action %s has made %d occurrences: its history has %d", id, r.Sequence, len(list))
	}
}

// tally counts a history.
type tally struct {
	dispatched, deduplicated, missed, skipped uint64
	manual                                    int
}

// add counts an occurrence: a dispatched one has made exactly one action, which
// knows it, and has its outcome.
func (n *tally) add(f *findings, s *snapshot, o core.Occurrence) {
	if o.Manual {
		n.manual++
	}
	switch o.Verdict {
	case core.VerdictMissed:
		n.missed += o.Count
		return
	case core.VerdictDeduplicated:
		n.deduplicated++
		return
	case core.VerdictDispatched:
		n.dispatched++
	case core.VerdictSkipped:
		n.skipped += o.Count
		return
	case core.VerdictCancelled, core.VerdictExpired, core.VerdictWaiting:
		f.add("occurrence %s is %s: no time of it waits", o.ID, o.Verdict)
		return
	}
	a, ok := s.actions[o.ActionID]
	switch {
	case !ok:
		f.add("occurrence %s was dispatched as action %s, which is not there", o.ID, o.ActionID)
	case a.Occurrence != o.ID || a.Metadata[core.MetaRecurringID] != o.RecurringID.String():
		f.add("occurrence %s was dispatched as action %s, which is of occurrence %s", o.ID, a.ID, a.Occurrence)
	case a.Status.Type.Terminal() && o.Outcome != string(a.Status.Type):
		f.add("occurrence %s has the outcome %q: its action %s is %s", o.ID, o.Outcome, a.ID, a.Status.Type)
	}
}

// checkTimes: no second was decided twice, and of one that was never paused all
// were decided, from its first to its last.
func checkTimes(f *findings, id uuid.UUID, list []core.Occurrence, steady bool) {
	var due []core.Time
	for _, o := range list {
		if o.Manual {
			continue
		}
		for t := o.DueAt; !t.After(o.LastDueAt); t += second {
			due = append(due, t)
		}
	}
	slices.Sort(due)
	for i, t := range due {
		if t%second != 0 {
			f.add("recurring action %s has an occurrence at %s, which is not in its schedule", id, t)
		}
		if i == 0 {
			continue
		}
		switch before := due[i-1]; {
		case before == t:
			f.add("recurring action %s: %s was decided twice", id, t)
		case steady && t != before+second:
			f.add("recurring action %s: nothing was decided between %s and %s", id, before, t)
		}
	}
}
