package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
)

// The rules that a run must keep.
const (
	RuleEnds         = "everything ends"
	RuleAcknowledged = "what was acknowledged is there"
	RuleOnce         = "no attempt is carried out twice"
	RuleVerdict      = "each occurrence has one verdict"
	RuleTokens       = "the tokens of locks only grow" //nolint:gosec // no credentials
	RuleReplay       = "the replay is clean"
	// RuleTold: an owner whose commits a failover has lost stores nothing any more, and ends with an error that says so.
	RuleTold = "an owner that has lost commits is told"
	// RuleStopped: nothing is stored in a partition that is stopped for a loss before an operator has accepted that.
	RuleStopped = "nothing is stored in a partition that is stopped"
	// RuleLives: an effect that a living process carries out for a partition which it has handed over is not declared interrupted, and what it has reported counts.
	RuleLives = "what a process runs that lives is taken from nobody"
	// RuleAnswered: whoever has come to an engine of a process that lives is answered.
	RuleAnswered = "a process that lives answers"
	// RuleWritten: a store refuses nothing of its owner since that rests on another state of it.
	RuleWritten = "an owner knows what it has written"
	// RuleSlots: an engine carries out no more at a time than its lane has slots, beside what was told to end.
	RuleSlots = "a lane has no more runs than slots"
	// RuleBegun: the tool of a run that is given back as one that was not begun was not called.
	RuleBegun = "what was begun does not count as not begun"
	// RuleKept: nobody takes a partition from another process that has given a sign of life within a lease; and some time after the last fault, with nothing that
	// comes late, from nobody.
	RuleKept = "an owner that lives keeps its partition"
	// RulePlace: some time after the last fault each partition is owned by the instance that should have it.
	RulePlace = "each partition is where it should be"
	// RuleOwn: a check that the caller of [Run] has given.
	RuleOwn = "the check of who runs the simulation"
)

// done reports whether all has ended.
func (r *run) done() bool {
	for _, q := range r.requests {
		if !q.answered && !q.dropped {
			return false
		}
	}
	for _, i := range r.all {
		if !i.dead && slices.ContainsFunc(slices.Concat(i.units, i.former), func(u *unit) bool { return r.waits(i, u.name+" commit") || r.waits(i, u.name+" tool") }) {
			return false
		}
	}
	return len(r.unended()) == 0 && r.settled() && len(r.owing()) == 0
}

// owing lists the callers that wait for an answer of an engine whose process lives.
func (r *run) owing() (list []string) {
	for _, q := range r.requests {
		for _, try := range slices.Sorted(maps.Keys(q.out)) {
			if i := q.at[try]; i != nil && !i.dead {
				list = append(list, fmt.Sprintf("try %d of request %d (%s), which has come to %s", try, q.n, q.Name, i.name))
			}
		}
	}
	return list
}

// unended lists what has not ended.
func (r *run) unended() (list []string) {
	for n := range r.dbs {
		formers, results, err := r.formers.Formers(context.Background(), n, 10)
		r.broken = errors.Join(r.broken, err)
		for _, f := range formers {
			list = append(list, fmt.Sprintf("the note of %s, a former owner of %s", f.Owner, r.partition(n)))
		}
		for _, f := range results {
			list = append(list, fmt.Sprintf("the report of %s to %s", f.Key, r.partition(n)))
		}
	}
	r.views(func(_ int, tx store.ReadTx) error {
		if err := tx.Outbox(func(e store.OutboxEntry) error {
			list = append(list, "outbox entry "+e.Key.String())
			return nil
		}); err != nil {
			return err
		}
		return tx.Records(func(rec store.Record) error {
			if rec.Kind != core.KindAction && rec.Kind != core.KindPipeline {
				return nil
			}
			s, err := core.DecodeState(rec.Kind, rec.State)
			if err != nil {
				return err
			}
			if !hasEnded(s) {
				list = append(list, s.Ref().String())
			}
			return nil
		})
	})
	return list
}

// views looks at each partition.
func (r *run) views(fn func(partition int, tx store.ReadTx) error) {
	for n, db := range r.dbs {
		if err := db.live.View(context.Background(), func(tx store.ReadTx) error { return fn(n, tx) }); err != nil {
			r.broken = errors.Join(r.broken, fmt.Errorf("look at the store: %w", err))
		}
	}
}

func hasEnded(s core.State) bool {
	switch s := s.(type) {
	case core.Action:
		return s.Status.Type.Terminal()
	case core.Pipeline:
		return s.Phase.Type.Ended()
	}
	return true
}

// ended checks that a machine is there, and has ended.
func ended(tx store.ReadTx, kind effects.Kind, id uuid.UUID) error {
	rec, err := tx.Get(kind, id)
	if err != nil {
		return err
	}
	s, err := core.DecodeState(kind, rec.State)
	if err == nil && !hasEnded(s) {
		err = fmt.Errorf("%s has not ended", s.Ref())
	}
	return err
}

// check gives all that was violated.
func (r *run) check() (list []Violation) {
	bad := func(rule, format string, args ...any) {
		if len(list) < 20 {
			list = append(list, Violation{rule, fmt.Sprintf(format, args...)})
		}
	}
	for _, q := range r.requests {
		if len(q.out) > 0 {
			q.aged(r.now, r.jumped)
		}
		if !q.answered && !q.dropped {
			bad(RuleEnds, "request %d (%s) was not answered", q.n, q.Name)
		}
	}
	for _, what := range r.unended() {
		bad(RuleEnds, "%s", what)
	}
	r.views(func(partition int, tx store.ReadTx) error {
		for _, q := range r.requests {
			if q.Partition != partition || q.Check == nil || !q.answered || q.err != nil || r.wasLost(q.first, q.step) || q.late {
				continue
			}
			if err := q.Check(tx); err != nil {
				bad(RuleAcknowledged, "request %d (%s): %v", q.n, q.Name, err)
			}
		}
		if r.o.Check != nil {
			for _, what := range r.o.Check(tx) {
				bad(RuleOwn, "%s", what)
			}
		}
		return r.checkOccurrences(tx, bad)
	})
	for _, what := range r.owing() {
		bad(RuleAnswered, "%s", what)
	}
	for _, what := range r.conflicts {
		bad(RuleWritten, "%s", what)
	}
	for _, what := range r.taken {
		bad(RuleKept, "%s", what)
	}
	for _, what := range r.unopened {
		bad(RuleStopped, "%s", what)
	}
	for _, what := range r.crowded {
		bad(RuleSlots, "%s", what)
	}
	r.checkCalls(bad)
	r.checkTokens(bad)
	r.checkTold(bad)
	r.checkPlaces(bad)
	r.checkFormers(bad)
	r.checkBegun(bad)
	for _, db := range r.dbs {
		rep, err := replay.Verify(context.Background(), db.live, replay.Options{})
		if err != nil {
			bad(RuleReplay, "%v", err)
		}
		for _, d := range rep.Divergences {
			bad(RuleReplay, "%s", d)
		}
	}
	return list
}

func (r *run) checkCalls(bad func(rule, format string, args ...any)) {
	type attempt struct {
		key string
		n   uint32
	}
	seen := map[attempt]called{}
	for _, c := range r.calls {
		k := attempt{c.key, c.attempt}
		if at, twice := seen[k]; twice && !r.wasLost(at.launched, at.launched) {
			bad(RuleOnce, "attempt %d of %s is carried out at step %d and at step %d", c.attempt, c.key, at.step, c.step)
		}
		seen[k] = c
	}
}

// checkTold checks that nobody goes on whose commits a failover has lost, and that who ends for that reason says so.
func (r *run) checkTold(bad func(rule, format string, args ...any)) {
	for _, b := range r.bereft {
		switch i := b.incarnation; {
		case b.had.heard > b.step:
			bad(RuleTold, "%s commits at step %d, although the failover of step %d has lost what it had committed", i.name, b.had.heard, b.step)
		case i.units[b.had.db.number].handle != b.had: // it has noticed, and has opened the store anew: it may end for another reason later
		case i.ended && !i.dead && !i.told && !isLost(i.err):
			bad(RuleTold, "%s has lost commits by the failover of step %d, and ends with: %v", i.name, b.step, i.err)
		}
	}
}

func (r *run) checkTokens(bad func(rule, format string, args ...any)) {
	for _, a := range r.grants {
		for _, b := range r.grants {
			if a.partition == b.partition && a.step < b.first && !r.wasLost(a.first, a.step) && (b.token < a.token || b.token == a.token && a.holder != b.holder) {
				bad(RuleTokens, "%s has %d at step %d, and then %s has %d at step %d", a.holder, a.token, a.step, b.holder, b.token, b.step)
			}
		}
	}
}

// checkOccurrences checks that the entries of each schedule leave out no time and have none twice.
func (r *run) checkOccurrences(tx store.ReadTx, bad func(rule, format string, args ...any)) error {
	of := map[uuid.UUID][]core.Occurrence{}
	err := tx.Records(func(rec store.Record) error {
		if rec.Kind != core.KindOccurrence {
			return nil
		}
		s, err := core.DecodeState(rec.Kind, rec.State)
		if o, ok := s.(core.Occurrence); ok && !o.Manual {
			of[o.RecurringID] = append(of[o.RecurringID], o)
		}
		return err
	})
	const minute = 60_000
	for id, list := range of {
		if r.o.Requests != nil {
			break // their schedules are not known
		}
		slices.SortFunc(list, func(a, b core.Occurrence) int { return cmp.Compare(a.DueAt, b.DueAt) })
		for n, o := range list {
			if got := int64(o.LastDueAt-o.DueAt)/minute + 1; got != int64(o.Count) {
				bad(RuleVerdict, "the entry of %s at %s stands for %d times, and has %d", id, o.DueAt, got, o.Count)
			}
			if n > 0 && o.DueAt != list[n-1].LastDueAt+minute {
				bad(RuleVerdict, "%s: after %s follows %s", id, list[n-1].LastDueAt, o.DueAt)
			}
		}
	}
	return err
}

// checkBegun checks that no more runs of an action were begun, or given back as not begun, than there were.
func (r *run) checkBegun(bad func(rule, format string, args ...any)) {
	if len(r.lost) > 0 {
		return
	}
	calls, back := map[string]int{}, map[uuid.UUID]int{}
	for _, c := range r.calls {
		calls[c.action]++
	}
	r.views(func(_ int, tx store.ReadTx) error {
		clear(back)
		if err := tx.Journal(1, func(_ uint64, raw []byte) error {
			if !bytes.Contains(raw, []byte(core.ActionHandBack{}.EventType())) {
				return nil
			}
			entry, err := core.DecodeEntry(raw)
			for _, in := range entry.Inputs {
				if _, ok := in.Event.(core.ActionHandBack); ok {
					back[in.To.ID]++
				}
			}
			return err
		}); err != nil {
			return err
		}
		for _, id := range slices.SortedFunc(maps.Keys(back), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
			rec, err := tx.Get(core.KindAction, id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			s, err := core.DecodeState(core.KindAction, rec.State)
			if err != nil {
				return err
			}
			if a := s.(core.Action); calls[id.String()]+back[id] > int(a.Run) { //nolint:forcetypeassert // by its kind
				bad(RuleBegun, "action %s has %d runs, of which %d were begun, and %d were given back as not begun", id, a.Run, calls[id.String()], back[id])
			}
		}
		return nil
	})
}

// checkAction checks that the runs of an action were those that its policy allows.
func (r *run) checkAction(tx store.ReadTx, spec core.ActionSpec) error {
	runs := 0
	for _, c := range r.calls {
		if c.action == spec.ID.String() && !r.wasLost(c.launched, c.launched) { // else nobody knows of it
			runs++
		}
	}
	if most := int(spec.Policy.MaxAttempts); runs > most {
		return fmt.Errorf("it was run %d times, its policy has %d", runs, most)
	}
	rec, err := tx.Get(core.KindAction, spec.ID)
	if err != nil {
		return err
	}
	s, err := core.DecodeState(core.KindAction, rec.State)
	if err != nil {
		return err
	}
	if a := s.(core.Action); a.Status.Type == core.StatusCompleted { //nolint:forcetypeassert // by its kind
		if want := fmt.Sprintf(`"%s/1/%d"`, spec.ID, a.Attempt); string(a.Status.Result) != want {
			return fmt.Errorf("it is completed with %s, and its tool gave %s", a.Status.Result, want)
		}
	}
	if spec.Policy.OnInterrupt != core.InterruptRetry && spec.Policy.OnFailure != core.FailureRetry && runs > 1 {
		return fmt.Errorf("it was run %d times", runs)
	}
	return nil
}

// journal adds the journal to the trace.
func (r *run) journal() {
	r.views(func(_ int, tx store.ReadTx) error {
		return tx.Journal(1, func(seq uint64, entry []byte) error {
			fmt.Fprintf(&r.trace, "journal %d %s\n", seq, entry)
			return nil
		})
	})
}
