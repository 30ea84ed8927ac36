package replay

import (
	"bytes"
	"hash/maphash"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// states are the machines as the replay has them so far. Those that were used last are
// decoded in memory; others are put aside. What was put aside is compared by a hash of 64
// bits, whose key is drawn anew each time, so that only what differs is read again.
type states struct {
	budget  int64
	used    int64
	byRef   map[effects.Ref]*held
	ring    held // from the one that was used last to the one that was used first
	index   index
	file    spill
	seed    maphash.Seed
	scratch []byte
	touched uint64 // machines that the journal touches
	alive   uint64 // those of them that exist
	ended   bool   // the replay is over: what is compared from now on was met
}

// held is a machine in memory. It does not exist if it has neither state nor stored.
type held struct {
	ref        effects.Ref
	state      core.State // nil also where nobody has decoded stored yet
	stored     []byte     // as it came from the store; nil once the replay has changed it
	size       int64
	touched    bool // the journal touches it: it counts in the comparison
	dirty      bool // what is put aside of it is not what it is
	aside      bool // something was put aside of it
	seen       bool // the comparison has met it
	prev, next *held
}

// sizeOf is about what a machine takes in memory whose stored form has so many bytes.
func sizeOf(stored int) int64 { return 300 + 2*int64(stored) }

func newStates(budget int64, folder string) *states {
	s := &states{
		budget: budget, byRef: make(map[effects.Ref]*held), seed: maphash.MakeSeed(),
		file: spill{folder: folder, most: int(min(budget/16, spillTail))},
	}
	s.ring.prev, s.ring.next = &s.ring, &s.ring
	return s
}

func (s *states) close() error { return s.file.close() }

func (s *states) hash(ref effects.Ref) uint64 { return maphash.Comparable(s.seed, ref) }

func (h *held) exists() bool { return h.state != nil || h.stored != nil }

// get gives the state of a machine; nil where it does not exist. known is false where
// nothing was said of it so far.
func (s *states) get(ref effects.Ref) (state core.State, known bool, err error) {
	h, err := s.hold(ref)
	if err != nil || h == nil {
		return nil, false, err
	}
	if h.state == nil && h.stored != nil {
		if h.state, err = core.DecodeState(ref.Kind, h.stored); err != nil {
			return nil, true, err
		}
	}
	return h.state, true, nil
}

// hold gives a machine in memory, whence it may have to be fetched; nil where nothing was
// said of it.
func (s *states) hold(ref effects.Ref) (*held, error) {
	if h := s.byRef[ref]; h != nil {
		h.unlink()
		s.link(h)
		return h, nil
	}
	at, err := s.aside(ref)
	if err != nil || at == nil {
		return nil, err
	}
	h := &held{ref: ref, touched: true, aside: true}
	if !at.has(flagGone) {
		_, stored, err := s.file.read(at.place())
		if err != nil {
			return nil, err
		}
		h.size = int64(len(stored))
		if h.state, err = core.DecodeState(ref.Kind, stored); err != nil {
			return nil, err
		}
	}
	s.insert(h, int(h.size))
	return h, nil
}

// aside gives the slot of a machine that was put aside.
func (s *states) aside(ref effects.Ref) (*slot, error) {
	return s.index.find(s.hash(ref), func(at *slot) (bool, error) { return s.isOf(at, ref) })
}

func (s *states) isOf(at *slot, ref effects.Ref) (bool, error) {
	is, _, err := s.file.read(at.place())
	return is == ref, err
}

func (s *states) insert(h *held, stored int) {
	h.size = sizeOf(stored)
	s.used += h.size
	s.byRef[h.ref] = h
	s.link(h)
}

func (s *states) link(h *held) {
	h.prev, h.next = &s.ring, s.ring.next
	h.prev.next, h.next.prev = h, h
}

func (h *held) unlink() { h.prev.next, h.next.prev = h.next, h.prev }

// knows reports whether anything was said of a machine that counts in the comparison.
func (s *states) knows(ref effects.Ref) (bool, error) {
	if h := s.byRef[ref]; h != nil && h.touched {
		return true, nil
	}
	at, err := s.aside(ref)
	return at != nil, err
}

// remember keeps for a while what the store has of a machine that the journal does not
// touch, or that there is none.
func (s *states) remember(ref effects.Ref, state core.State, stored int) {
	s.insert(&held{ref: ref, state: state}, stored)
}

// putStored takes a state from a base; the machine must not be known.
func (s *states) putStored(ref effects.Ref, stored []byte) {
	if h := s.byRef[ref]; h != nil { // remembered
		s.drop(h)
	}
	s.insert(&held{ref: ref, stored: bytes.Clone(stored), touched: true, dirty: true}, len(stored))
	s.touched++
	s.alive++
}

// put takes what a batch has left of a machine, which it has loaded; nil: nothing. It gives
// the stored form, which is valid until the next call.
func (s *states) put(ref effects.Ref, state core.State) (stored []byte, err error) {
	h, err := s.hold(ref)
	if err != nil {
		return nil, err
	}
	if h == nil {
		h = &held{ref: ref}
		s.insert(h, 0)
	}
	if h.touched && h.exists() {
		s.alive--
	} else if !h.touched {
		s.touched++
	}
	h.state, h.stored, h.touched, h.dirty = state, nil, true, true
	s.used -= h.size
	h.size = sizeOf(0)
	s.used += h.size
	if state == nil {
		return nil, nil
	}
	s.alive++
	stored = s.encode(state)
	held, shares := core.Held(state)
	if d := s.byRef[shares]; d != nil { // in memory as long as this one is
		d.unlink()
		s.link(d)
	}
	h.size += 2*int64(len(stored)) + int64(held)
	s.used += 2*int64(len(stored)) + int64(held)
	if s.index.n > 0 && !core.Cacheable(state) { // it would be put aside soon, and has its form now
		return stored, s.putAside(h, stored)
	}
	return stored, nil
}

// encode gives the stored form of a state; it is valid until the next call.
func (s *states) encode(state core.State) []byte {
	s.scratch = state.AppendJSON(s.scratch[:0])
	return s.scratch
}

// trim puts aside what was not used for the longest time, as far as there is too much.
func (s *states) trim() error {
	for s.used > max(s.budget-s.index.bytes(), s.budget/4) && s.ring.prev != &s.ring {
		h := s.ring.prev
		if h.dirty {
			stored := h.stored
			if stored == nil && h.state != nil {
				stored = s.encode(h.state)
			}
			if err := s.putAside(h, stored); err != nil {
				return err
			}
			continue
		}
		s.drop(h)
	}
	return nil
}

func (s *states) drop(h *held) {
	h.unlink()
	delete(s.byRef, h.ref)
	s.used -= h.size
}

// putAside takes a machine that has that stored form out of the memory.
func (s *states) putAside(h *held, stored []byte) error {
	flags := uint64(0)
	switch {
	case !h.exists():
		flags = flagGone | flagQuiet
	case h.state != nil && isQuiet(h.state):
		flags = flagQuiet
	}
	var at *slot
	var err error
	if h.aside {
		if at, err = s.aside(h.ref); err != nil {
			return err
		}
	}
	place, err := s.file.append(h.ref, stored)
	if err != nil {
		return err
	}
	if at == nil {
		at = s.index.add(s.hash(h.ref))
	}
	at.set(place, flags)
	at.sum = maphash.Bytes(s.seed, stored)
	s.drop(h)
	return nil
}

// isQuiet reports whether a machine waits for nothing.
func isQuiet(s core.State) bool { return s.Deadline().IsZero() && len(core.Outstanding(s)) == 0 }

// compared is how a machine of the replay stands against a stored form.
type compared struct {
	known bool // the journal touches it
	same  bool
	quiet bool   // it is the same, and certainly waits for nothing
	want  []byte // where it is not the same: its stored form in the replay; nil: it does not exist
}

// compare holds a machine against a stored form.
func (s *states) compare(ref effects.Ref, stored []byte) (is compared, err error) {
	if h := s.byRef[ref]; h != nil {
		if !h.touched {
			return is, nil
		}
		h.seen = s.ended
		if h.dirty {
			return s.compareHeld(h, stored), nil
		}
	}
	sum := maphash.Bytes(s.seed, stored)
	at, err := s.index.find(s.hash(ref), func(at *slot) (bool, error) {
		if at.sum == sum && !at.has(flagGone) {
			return true, nil
		}
		return s.isOf(at, ref)
	})
	if err != nil || at == nil {
		return is, err
	}
	if s.ended {
		at.meta |= flagSeen
	}
	is.known, is.same = true, at.sum == sum && !at.has(flagGone)
	is.quiet = is.same && at.has(flagQuiet)
	if !is.same && !at.has(flagGone) {
		_, want, err := s.file.read(at.place())
		is.want = bytes.Clone(want)
		return is, err
	}
	return is, nil
}

func (s *states) compareHeld(h *held, stored []byte) compared {
	is := compared{known: true}
	want := h.stored
	if want == nil && h.state != nil {
		want = s.encode(h.state)
		is.quiet = isQuiet(h.state)
	}
	if is.same = h.exists() && bytes.Equal(want, stored); !is.same {
		is.quiet = false
		is.want = bytes.Clone(want)
	}
	return is
}

// missed calls fn for each machine that exists and that the comparison has not met, in no
// order.
func (s *states) missed(fn func(ref effects.Ref, stored []byte)) error {
	for ref, h := range s.byRef {
		switch {
		case !h.touched || h.seen || !h.dirty || !h.exists(): // what is not dirty is in the index
		case h.stored != nil:
			fn(ref, h.stored)
		default:
			fn(ref, s.encode(h.state))
		}
	}
	return s.index.each(func(at *slot) error {
		if at.has(flagSeen | flagGone) {
			return nil
		}
		ref, stored, err := s.file.read(at.place())
		if h := s.byRef[ref]; err == nil && (h == nil || !h.dirty) {
			fn(ref, stored)
		}
		return err
	})
}
