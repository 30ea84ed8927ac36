package shell

import (
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// shortened says the same in fewer words where the journal has it often.
func (p *plan) shortened(in core.Input) core.Input {
	e, ok := in.Event.(core.SchedulerHeartbeats)
	if !ok {
		return in
	}
	if s, err := p.batch.State(in.To); err == nil && p.broken == nil {
		if s, ok := s.(core.Scheduler); ok {
			in.Event = s.Shortened(e)
		}
	}
	return in
}

// putLog stores a log, where its run is there: it is to go with the run. p.broken
// says that nothing more can be decided.
func (p *plan) putLog(l runLog) error {
	p.broken = nil
	ref := effects.Ref{Kind: core.KindOrchestrator, ID: l.run}
	s, err := p.batch.State(ref)
	if err != nil {
		return err // what cannot be decoded is set aside with the rest of the batch
	}
	o, ok := s.(core.Orchestrator)
	switch {
	case !ok:
		return fmt.Errorf("%s %w", ref, ErrNotFound)
	case l.attempt > o.RetryAttempt:
		return refuseLog(l.run, fmt.Sprintf("attempt: %d is to come: the run is at attempt %d", l.attempt, o.RetryAttempt))
	}
	if err := p.tx.PutRunLog(l.run, l.attempt, l.text); err != nil {
		p.broken = err
		return err
	}
	p.dirty = true
	return nil
}

// dropLogs deletes the logs of a run whose record goes.
func (p *plan) dropLogs(c core.Change) error {
	if c.Ref.Kind != core.KindOrchestrator || c.After != nil || c.Before == nil {
		return nil
	}
	return p.tx.DeleteRunLogs(c.Ref.ID)
}
