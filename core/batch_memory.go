package core

// maxKept is how many things of a kind a batch may have room for if its memory is to serve
// another one.
const (
	maxKept        = 1024
	maxKeptOfInput = 128 // deliveries of one input, and what they changed
)

// Reset starts another batch in the memory of this one, as [NewBatch] does. Of what the one
// before has given, nothing may be used any more but states, events of the bus and results, as
// values.
func (t *Batch) Reset(l Loader, c Clock, seq uint64) {
	if len(t.slots) > maxKept {
		program, part := t.program, t.part
		*t = *NewBatch(l, c, seq)
		t.program, t.part = program, part
		return
	}
	if cap(t.queue)+cap(t.undo) > maxKeptOfInput {
		t.queue, t.undo = nil, nil
	}
	clear(t.queue[:cap(t.queue)]) // what the inputs before the last one had there, too
	clear(t.undo[:cap(t.undo)])
	clear(t.slots)
	clear(t.lists)
	*t = Batch{
		loader: l, clock: c, seq: seq, part: t.part, parts: t.parts,
		slots: t.slots, room: emptied(t.room), order: emptied(t.order),
		outer: emptied(t.outer), withdraw: emptied(t.withdraw), stop: emptied(t.stop), events: emptied(t.events),
		queue: t.queue[:0], undo: t.undo[:0], waking: t.waking, lists: t.lists,
		bounds: t.bounds.emptied(), program: t.program,
	}
}

// emptied gives the memory of a slice, without what is in it.
func emptied[T any](s []T) []T {
	if cap(s) > maxKept {
		return nil
	}
	clear(s)
	return s[:0]
}
