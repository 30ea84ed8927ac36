package shell

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// watcher sends the heartbeats of the tasks whose sessions live on this machine.
type watcher struct {
	e    *Engine
	sent map[uuid.UUID]beat
}

// beat is the last heartbeat that was sent for a task.
type beat struct {
	session string
	at      time.Time // by the steady clock
	status  core.Liveness
}

// watchSessions looks at the sessions of all tasks that run or are stuck, until ctx ends
// or the engine stops: no heartbeat is taken then.
func (e *Engine) watchSessions(ctx context.Context) {
	select {
	case <-e.Resumed():
	case <-ctx.Done():
		return
	}
	w := &watcher{e: e, sent: make(map[uuid.UUID]beat)}
	for e.wait(ctx, nil, e.o.WatchEvery) == nil {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("watching sessions failed; trying again", "error", err)
		}
	}
}

// look observes once.
func (w *watcher) look(ctx context.Context) error {
	tasks, err := w.tasks(ctx)
	if err != nil || len(tasks) == 0 {
		clear(w.sent)
		return err
	}
	names := make([]string, 0, len(tasks))
	bySession := make(map[string]core.Task, len(tasks))
	for _, t := range tasks {
		names = append(names, t.SessionID)
		bySession[t.SessionID] = t
	}
	seen, err := w.e.o.Sessions.Observe(ctx, names)
	if err != nil {
		return fmt.Errorf("observe %d sessions: %w", len(names), err)
	}
	sent := make(map[uuid.UUID]beat, len(tasks))
	var wg sync.WaitGroup
	for _, o := range seen {
		t, ok := bySession[o.Session]
		if !ok {
			continue
		}
		last := w.sent[t.ID]
		if last.session != t.SessionID {
			last = beat{session: t.SessionID}
		}
		ev := heartbeatOf(o)
		if !w.worthwhile(t, o, ev, last) {
			sent[t.ID] = last
			continue
		}
		sent[t.ID] = beat{session: t.SessionID, at: w.e.o.Clock.Steady(), status: ev.Status}
		wg.Go(func() { // at once: they are committed together
			_, err := w.e.Send(WithActor(ctx, "watcher"), t.Ref(), ev)
			if err != nil && ctx.Err() == nil {
				w.e.log.Debug("heartbeat not taken", "task", t.ID, "error", err)
			}
		})
	}
	wg.Wait()
	w.sent = sent
	return nil
}

// worthwhile reports whether the heartbeat would tell the task something: a
// change, or, from time to time, that all is as it was. Each one is a commit and
// a line of the journal.
func (w *watcher) worthwhile(t core.Task, o SessionObservation, ev core.TaskHeartbeat, last beat) bool {
	idle := o.IdleFor.Milliseconds() > t.Config.IdleTimeoutMS
	every := time.Duration(min(t.Config.HeartbeatTimeoutMS, t.Config.IdleTimeoutMS)) * time.Millisecond / 3
	switch {
	case last.at.IsZero(), ev.Status == core.LivenessSessionDead, ev.Status != last.status && (t.State.Type == core.TaskStuck || idle):
		return true
	case t.State.Type == core.TaskStuck:
		return ev.Status == core.LivenessActive
	}
	return w.e.o.Clock.Steady().Sub(last.at) >= every
}

// heartbeatOf says to a task what was seen of its session.
func heartbeatOf(o SessionObservation) core.TaskHeartbeat {
	ev := core.TaskHeartbeat{Session: o.Session, Output: o.Tail, IdleMS: o.IdleFor.Milliseconds()}
	switch {
	case !o.Alive:
		ev.Status = core.LivenessSessionDead
		if o.ExitCode != nil {
			code := int32(*o.ExitCode)
			ev.ExitCode = &code
		}
	case o.Changed:
		ev.Status, ev.IdleMS = core.LivenessActive, 0
	default:
		ev.Status = core.LivenessIdle
	}
	return ev
}

// tasks lists those that have a session which was spawned.
func (w *watcher) tasks(ctx context.Context) ([]core.Task, error) {
	var out []core.Task
	err := w.e.store.View(ctx, func(tx store.ReadTx) error {
		for _, status := range []core.TaskStateType{core.TaskRunning, core.TaskStuck} {
			for c, err := range withStatus(tx, core.KindTask, status) {
				if err != nil {
					return err
				}
				rec, err := tx.Get(core.KindTask, c.ID)
				if err != nil {
					continue // set aside by the loop when it meets it
				}
				s, err := core.DecodeState(core.KindTask, rec.State)
				if t, ok := s.(core.Task); err == nil && ok && watched(t) && !w.e.o.isElsewhere(t.Home) {
					out = append(out, t)
				}
			}
		}
		return nil
	})
	return out, err
}

// watched reports whether the task's session is there to be looked at: it was
// spawned, and nothing is being done to it.
func watched(t core.Task) bool {
	if t.SessionID == "" || !t.Spawned {
		return false
	}
	for _, e := range core.Outstanding(t) {
		switch e.(type) {
		case effects.Spawn, effects.Kill:
			return false
		}
	}
	return true
}
