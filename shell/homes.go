package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// withHome has the result of an effect that has made something on the disk of this computer say whose that is. A result that is no object stays as it is; one
// that tells of a home itself is believed.
func (o *Options) withHome(of effects.Outer, result json.RawMessage) json.RawMessage {
	switch of.(type) {
	case effects.Spawn:
	case effects.WorktreeAdd:
		if o.SharedWorkspace {
			return result
		}
	default:
		return result
	}
	home, err := json.Marshal(o.Home)
	if o.Home == "" || err != nil {
		return result
	}
	b := bytes.TrimSpace(result)
	switch {
	case len(b) == 0 || bytes.Equal(b, []byte("null")), bytes.HasPrefix(b, []byte("{")) && len(bytes.TrimSpace(b[1:])) == 1:
		return fmt.Appendf(nil, `{"home":%s}`, home)
	case b[0] == '{':
		return append(fmt.Appendf(nil, `{"home":%s,`, home), b[1:]...)
	}
	return result
}

// isElsewhere reports whether a home is that of another instance.
func (o *Options) isElsewhere(home string) bool { return o.Home != "" && home != "" && home != o.Home }

// tellLostHomes tells the machines that have something with another instance's home that it is lost: whoever works on a partition was
// the last to open it, so the other instance has given it back, or was silent for a lease. It is done once, after the engine has begun.
func (e *Engine) tellLostHomes(ctx context.Context) {
	select {
	case <-e.Resumed():
	case <-ctx.Done():
		return
	}
	for {
		err := e.loseHomes(WithActor(ctx, "watcher"))
		if err == nil || ctx.Err() != nil {
			return
		}
		e.log.Error("could not tell the machines whose sessions and worktrees are out of reach; trying again", "error", err)
		if e.wait(ctx, nil, e.o.WatchEvery) != nil {
			return
		}
	}
}

// loseHomes tells them. The pipelines are first: one that fails ends its tasks.
func (e *Engine) loseHomes(ctx context.Context) error {
	for _, of := range []struct {
		kind     effects.Kind
		statuses []string
	}{
		{core.KindPipeline, []string{string(core.PhaseRunning)}},
		{core.KindTask, []string{string(core.TaskRunning), string(core.TaskStuck)}},
	} {
		var lost []homeless
		for _, status := range of.statuses {
			some, err := e.homeless(ctx, of.kind, status)
			if err != nil {
				return err
			}
			lost = append(lost, some...)
		}
		for chunk := range slices.Chunk(lost, homesAtOnce) {
			if err := e.loseSome(ctx, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// homesAtOnce bounds the machines that are told at a time: those of one time are committed together.
const homesAtOnce = 256

// loseSome tells some of them.
func (e *Engine) loseSome(ctx context.Context, lost []homeless) error {
	var all sync.WaitGroup
	errs := make(chan error, len(lost))
	for _, l := range lost {
		all.Go(func() { // at once: they are committed together
			e.log.Warn("what a machine has is out of reach: another instance is its home", "ref", l.ref.String(), "home", l.home)
			_, err := e.Send(ctx, l.ref, core.HomeLost{Home: l.home})
			if err != nil && !refusedFor(err, effects.CodeConflict) && !refusedFor(err, effects.CodeNotFound) {
				errs <- err
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// homeless is a machine, and a home of something that it has and that is out of reach.
type homeless struct {
	ref  effects.Ref
	home string
}

// homeless lists those of a kind and status.
func (e *Engine) homeless(ctx context.Context, kind effects.Kind, status string) (out []homeless, err error) {
	err = e.store.View(ctx, func(tx store.ReadTx) error {
		for c, err := range withStatus(tx, kind, status) {
			if err != nil {
				return err
			}
			ref := effects.Ref{Kind: kind, ID: c.ID}
			rec, err := tx.Get(kind, c.ID)
			if err != nil {
				continue // set aside by the loop when it meets it
			}
			s, err := core.DecodeState(kind, rec.State)
			if err != nil {
				continue
			}
			known := map[string]bool{}
			for _, home := range core.Homes(s) {
				if e.o.isElsewhere(home) && !known[home] {
					known[home] = true
					out = append(out, homeless{ref, home})
				}
			}
		}
		return nil
	})
	return out, err
}
