package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// mendPipelines makes what stands beside pipelines fit to them. What does no harm is not worth the
// journal, which would begin anew.
func mendPipelines(m *bolt.Mending) error {
	unread := false // a pipeline: what it refers to is to stay
	each := func(visit func(core.State) error) error {
		for _, kind := range core.AuditedKinds() {
			err := m.Each(kind, func(_ uuid.UUID, stored []byte) error {
				s, err := core.DecodeState(kind, stored)
				if err != nil {
					unread = unread || kind == core.KindPipeline
					return nil //nolint:nilerr // whoever meets it sets it aside
				}
				return visit(s)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	load := func(ref effects.Ref) ([]byte, error) { return m.Load(ref.Kind, ref.ID) }
	return core.AuditPipelines(each, load, func(found core.Misfit) error {
		if !found.Harmful && (!m.Anew || unread) {
			return nil
		}
		var state []byte
		if found.Should != nil {
			state = found.Should.AppendJSON(nil)
		}
		return m.Replace(found.Ref.Kind, found.Ref.ID, state, found.Why)
	})
}

// auditPipelines gives what does not fit to the pipelines of a store: what takes something from them, and what is
// left of others; nothing if a record cannot be read, as nobody knows then who refers to what.
func auditPipelines(ctx context.Context, st store.Store) (wrong, left []string, err error) {
	damaged := false
	err = st.View(ctx, func(tx store.ReadTx) error {
		each := func(visit func(core.State) error) error { // by kind, and in the order of their names
			err := tx.Records(func(r store.Record) error {
				if !slices.Contains(core.AuditedKinds(), r.Kind) {
					return nil
				}
				s, err := core.DecodeState(r.Kind, r.State)
				if err != nil {
					return nil //nolint:nilerr // replay --verify tells
				}
				return visit(s)
			})
			if damaged = errors.Is(err, store.ErrCorrupt); damaged { // check has told of it
				return nil
			}
			return err
		}
		load := func(ref effects.Ref) ([]byte, error) {
			r, err := tx.Get(ref.Kind, ref.ID)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				return nil, nil
			}
			return r.State, err
		}
		return core.AuditPipelines(each, load, func(found core.Misfit) error {
			what := fmt.Sprintf("%s/%s: %s", found.Ref.Kind, found.Ref.ID, found.Why)
			if found.Harmful {
				wrong = append(wrong, what)
			} else {
				left = append(left, what)
			}
			return nil
		})
	})
	if damaged {
		return nil, nil, err
	}
	return wrong, left, err
}
