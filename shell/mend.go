package shell

import (
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
	"github.com/orrery-go/orrery/store"
)

// mend lists what is to be told to those who count on a machine whose record was set
// aside: the queue that it was a part of, and who waits for it.
func mend(d engine.Damaged, m engine.Mending) ([]core.Input, error) {
	tell := core.LostTo(d.Lost, d.Raw)
	queue := d.Met
	switch d.Lost.Kind {
	case core.KindOrchestrator:
		more, err := mendRun(m, d.Lost.ID, d.Terms)
		return append(tell, more...), err
	case core.KindScheduler:
		more, err := mendScheduler(m, d.Lost.ID)
		return append(tell, more...), err
	case core.KindQueue:
		queue = d.Lost
		fallthrough
	case core.KindQueueItem, core.KindQueueKey, core.KindQueueDedup:
		if queue.Kind == core.KindQueue {
			tell = append(tell, core.Input{To: queue, Event: core.MendQueue(queue.ID, d.Lost, d.Terms, d.Raw)})
		}
	}
	return tell, nil
}

// mendAtEnd releases the dedup keys of an action whose record was set aside: it will
// not do so itself.
func mendAtEnd(lost effects.Ref, m engine.Mending) ([]core.Input, error) {
	if lost.Kind != core.KindAction {
		return nil, nil
	}
	held, err := m.Scan(core.KindDedup, core.HolderTerm(lost.ID), store.Cursor{}, false, m.MaxBatch())
	if err != nil {
		return nil, err
	}
	tell := make([]core.Input, 0, len(held))
	for _, c := range held {
		tell = append(tell, core.Input{To: effects.Ref{Kind: core.KindDedup, ID: c.ID}, Event: core.DedupRelease{Holder: lost.ID}})
	}
	return tell, nil
}

// mendScheduler has the runs tracked anew whose scheduler was lost: one that nobody
// tracks would never be found silent. Each has a whole silence to beat in.
func mendScheduler(m engine.Mending, lost uuid.UUID) ([]core.Input, error) {
	var tell []core.Input
	for _, state := range core.OrchestratorStatuses() {
		if state.Terminal() {
			continue
		}
		for c, err := range withStatus(m, core.KindOrchestrator, state) {
			if err != nil {
				return nil, err
			}
			if ref := core.SchedulerRef(c.ID); ref.ID == lost {
				tell = append(tell, core.Input{To: ref, Event: core.SchedulerTrack{Run: c.ID}})
			}
		}
	}
	return tell, nil
}

// mendLook bounds how many occurrences of a job are looked through for that of a
// run whose record was lost, newest first.
const mendLook = 1024

// jobTermPrefix is what [core.JobTerm] puts before a job's key.
var jobTermPrefix = strings.TrimSuffix(core.JobTerm(uuid.Nil), uuid.Nil.String())

// mendRun is what must be told where the record of a run was lost: the run has
// failed, as far as its job, its scheduler and the ledger are concerned. Its slot
// would else be taken for ever, and with overlap forbid no run would follow. What it
// has in a cluster is found there as a stray.
func mendRun(m engine.Mending, run uuid.UUID, terms []store.Term) ([]core.Input, error) {
	tell := []core.Input{{To: core.SchedulerRef(run), Event: core.SchedulerForget{Run: run}}}
	for _, term := range terms {
		text, ok := strings.CutPrefix(term.Name, jobTermPrefix)
		if !ok {
			continue
		}
		job, err := uuid.Parse(text)
		if err != nil {
			continue
		}
		tell = append(tell, core.Input{To: effects.Ref{Kind: core.KindJob, ID: job}, Event: core.JobRunEnded{
			Run: run, State: core.OrchestratorFailed, Error: core.ReasonUnreadable,
		}})
		occurrence, err := occurrenceOf(m, job, run)
		if err != nil {
			return nil, err
		}
		if occurrence != uuid.Nil {
			tell = append(tell, core.Input{To: effects.Ref{Kind: core.KindOccurrence, ID: occurrence}, Event: core.OccurrenceSettle{
				Outcome: core.StatusFailed, Reason: core.ReasonUnreadable, FinishedAt: m.Now(),
			}})
		}
		break
	}
	return tell, nil
}

// occurrenceOf finds the record that a job has of a run; zero: there is none that
// waits for the run's end, or it is long ago.
func occurrenceOf(m engine.Mending, job, run uuid.UUID) (uuid.UUID, error) {
	found, err := m.Scan(core.KindOccurrence, core.RecurringTerm(job), store.Cursor{}, true, mendLook)
	if err != nil {
		return uuid.Nil, err
	}
	for _, c := range found {
		s, err := m.State(effects.Ref{Kind: core.KindOccurrence, ID: c.ID})
		if err != nil {
			return uuid.Nil, err
		}
		if o, ok := s.(core.Occurrence); ok && o.ActionID == run {
			return o.ID, nil
		}
	}
	return uuid.Nil, nil
}
