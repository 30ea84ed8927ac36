package shell

import (
	"context"
	"fmt"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/engine"
)

// MaxEntries bounds the actions, or items, of one call that makes many: they are decided and
// stored in one transaction, which others wait for.
const MaxEntries = 1000

// EntryError is the error of a call about many things, which names the one that is wrong by
// its index, from 0.
type EntryError = engine.EntryError

// ActionAnswer is the answer for one of many actions.
type ActionAnswer struct {
	Action core.Action // zero if there is an error
	Err    error       // what [Actions.Create] would have said
}

// CreateAll stores all of the actions, or none of them, in one transaction: see
// [Actions.Create] for each, and [MaxEntries]. They are to be of one namespace and tenant. The
// error is an [*EntryError] where one of them is refused. The answers are in the order of the
// specs. No specs are no error.
func (a Actions) CreateAll(ctx context.Context, specs []core.ActionSpec) ([]core.Action, error) {
	req := engine.Request{Many: &engine.Many{All: true}}
	for i, spec := range specs {
		in, ref, err := a.creation(ctx, spec)
		if err == nil && (spec.Namespace != specs[0].Namespace || spec.Tenant != specs[0].Tenant) {
			err = invalid(ref, "create", "tenant: %q of namespace %q is not that of the first action, %q of %q: what is made together is of one tenant",
				spec.Tenant, spec.Namespace, specs[0].Tenant, specs[0].Namespace)
		}
		if err != nil {
			return nil, &EntryError{Index: i, Err: err}
		}
		req.Inputs, req.Many.Want = append(req.Inputs, in), append(req.Many.Want, ref)
	}
	each, err := a.e.many(ctx, req, len(specs))
	if err != nil {
		return nil, err
	}
	out := make([]core.Action, len(each))
	for i, of := range each {
		if out[i], err = as[core.Action](of.State, of.Err); err != nil {
			return nil, &EntryError{Index: i, Err: err}
		}
	}
	return out, nil
}

// CreateEach stores each of the actions that is not refused, in one transaction, and answers
// for each of them, in the order of the specs: as if [Actions.Create] were called for one
// after the other. At most [MaxEntries]. The error says that nothing was stored, or that it
// is not known.
func (a Actions) CreateEach(ctx context.Context, specs []core.ActionSpec) ([]ActionAnswer, error) {
	out := make([]ActionAnswer, len(specs))
	req := engine.Request{Many: &engine.Many{}}
	var at []int // of each input
	for i, spec := range specs {
		in, ref, err := a.creation(ctx, spec)
		if err != nil {
			out[i].Err = err
			continue
		}
		req.Inputs, req.Many.Want, at = append(req.Inputs, in), append(req.Many.Want, ref), append(at, i)
	}
	each, err := a.e.many(ctx, req, len(specs))
	if err != nil {
		return nil, err
	}
	for j, of := range each {
		i := at[j]
		if of.Err == nil {
			out[i].Action, out[i].Err = as[core.Action](of.State, nil)
		} else {
			out[i].Err = notFound(of.Err)
		}
	}
	return out, nil
}

// many asks the loop for many inputs. entries is how many things the caller has given.
func (e *Engine) many(ctx context.Context, req engine.Request, entries int) ([]engine.Answered, error) {
	if entries > MaxEntries {
		return nil, fmt.Errorf("%d entries: at most %d are taken at a time", entries, MaxEntries)
	}
	if len(req.Inputs) == 0 {
		return nil, nil
	}
	rep, err := e.loop.Ask(ctx, req)
	if err != nil {
		return nil, err
	}
	return rep.Each, rep.Err
}

// PushAnswer is the answer for one of many items.
type PushAnswer struct {
	Item      core.QueueItem // zero if there is an error
	Duplicate bool           // Item holds the dedup key already; only its id if it has ended
	Err       error          // what [Queues.Push] would have said
}

// PushAll adds all of the items to a queue, or none of them, in one transaction: see
// [Queues.Push] for each, and [MaxEntries]. An item whose dedup key is held keeps none of the
// others out: its answer is the item that holds it. The error is an [*EntryError] where one is
// refused. The answers are in the order of the items. No items are no error.
func (q Queues) PushAll(ctx context.Context, namespace, tenant, queue string, items []PushOptions) ([]PushAnswer, error) {
	out, err := q.pushMany(ctx, namespace, tenant, queue, &engine.Many{
		All:     true,
		MayPass: func(i int, r *effects.Refused) bool { return r.Code == effects.CodeExists && items[i].DedupKey != "" },
	}, items)
	for i := range out {
		if out[i].Err != nil {
			return nil, &EntryError{Index: i, Err: out[i].Err}
		}
	}
	return out, err
}

// PushEach adds each of the items that is not refused to a queue, in one transaction, and
// answers for each of them, in their order: as if [Queues.Push] were called for one after the
// other. At most [MaxEntries]. The error says that nothing was stored, or that it is not known.
func (q Queues) PushEach(ctx context.Context, namespace, tenant, queue string, items []PushOptions) ([]PushAnswer, error) {
	return q.pushMany(ctx, namespace, tenant, queue, &engine.Many{}, items)
}

func (q Queues) pushMany(ctx context.Context, namespace, tenant, queue string, many *engine.Many, items []PushOptions) ([]PushAnswer, error) {
	to := core.QueueRef(namespace, tenant, queue)
	req := engine.Request{Many: many}
	for _, o := range items {
		var key effects.Ref
		if o.DedupKey != "" {
			key = core.QueueDedupRef(to.ID, o.DedupKey)
		}
		req.Inputs = append(req.Inputs, inputOf(ctx, to, o.event(namespace, tenant, queue)))
		many.Want = append(many.Want, key)
	}
	each, err := q.e.many(ctx, req, len(items))
	if err != nil {
		return nil, err
	}
	out := make([]PushAnswer, len(each))
	for i, of := range each {
		out[i] = q.pushed(ctx, to, of)
	}
	return out, nil
}

// pushed reads the answer to a push. Of a dedup key that is held it knows who held it when the
// push was decided.
func (q Queues) pushed(ctx context.Context, to effects.Ref, of engine.Answered) PushAnswer {
	key, ok := of.State.(core.QueueDedup)
	if !ok || !refusedFor(of.Err, effects.CodeExists) {
		item, _ := of.Result.Answer.(core.QueueItem)
		return PushAnswer{Item: item, Err: notFound(of.Err)}
	}
	item, err := q.itemOrID(ctx, to, key)
	return PushAnswer{Item: item, Duplicate: err == nil, Err: err}
}
