//go:build unix

package clustertest

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Names of what a client asks of a queue or a lock.
const (
	opPush     = "push"
	opTake     = "take"
	opComplete = "complete"
	opFail     = "fail"
	opRelease  = "release"
	opCount    = "count"
	opAcquire  = "acquire"
	opRenew    = "renew"
	opLook     = "look"
)

// Names of how a client is answered.
const (
	saidOK       = "ok"
	saidConflict = "conflict"
	saidNotFound = "not found"
)

// queueAsk is what one client asks of a queue. Items have the numbers that their pushers give them.
type queueAsk struct {
	op      string
	item    int
	prio    int
	holder  int
	attempt int
	max     int
}

// queueSaid is how it was answered.
type queueSaid struct {
	unknown bool // nobody knows: it was carried out, or will be, or not
	code    string
	taken   []takenItem
	count   int
}

type takenItem struct{ item, attempt int }

func (s queueSaid) equal(o queueSaid) bool {
	return s.code == o.code && s.count == o.count && slices.Equal(s.taken, o.taken)
}

// modelItem is an item of the model's queue.
type modelItem struct {
	item, prio int
	holder     int // 0: nobody
	attempts   int
	dead       bool
}

// queueState is a queue in the plainest form that there is: a list in the order in which items are taken. No hold lapses within a
// test, so the model has no time.
type queueState []modelItem

// maxAttempts is what the queues of the tests are declared with.
const maxAttempts = 3

var hashSeed = maphash.MakeSeed()

// queueModel gives the checker what a queue may do.
func queueModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{queueState(nil)} },
		Step: func(s, in, out any) []any {
			before, said := s.(queueState), out.(queueSaid)
			after, would := before.apply(in.(queueAsk))
			switch {
			case said.unknown:
				return []any{after, before}
			case would.equal(said):
				return []any{after}
			}
			return nil
		},
		Equal: func(a, b any) bool { return slices.Equal(a.(queueState), b.(queueState)) },
		Hash: func(s any) uint64 {
			var h maphash.Hash
			h.SetSeed(hashSeed)
			for _, i := range s.(queueState) {
				maphash.WriteComparable(&h, i)
			}
			return h.Sum64()
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

// apply carries an operation out, and says how it is answered.
func (s queueState) apply(in queueAsk) (queueState, queueSaid) {
	items := slices.Clone(s)
	switch in.op {
	case opPush:
		at, _ := slices.BinarySearchFunc(items, in.prio, func(have modelItem, prio int) int {
			if have.prio >= prio {
				return -1
			}
			return 1
		})
		return slices.Insert(items, at, modelItem{item: in.item, prio: in.prio}), queueSaid{code: saidOK}
	case opTake:
		said := queueSaid{code: saidOK}
		for n := range items {
			if i := &items[n]; !i.dead && i.holder == 0 && len(said.taken) < in.max {
				i.holder = in.holder
				i.attempts++
				said.taken = append(said.taken, takenItem{i.item, i.attempts})
			}
		}
		return items, said
	case opCount:
		return items, queueSaid{code: saidOK, count: len(items)}
	}
	at := slices.IndexFunc(items, func(i modelItem) bool { return i.item == in.item })
	if at < 0 {
		return items, queueSaid{code: saidNotFound}
	}
	i := &items[at]
	if i.holder != in.holder || i.attempts != in.attempt {
		return items, queueSaid{code: saidConflict}
	}
	switch in.op {
	case opComplete:
		return slices.Delete(items, at, at+1), queueSaid{code: saidOK}
	case opFail:
		i.holder, i.dead = 0, i.attempts >= maxAttempts
	case opRelease:
		i.holder = 0
		i.attempts--
	default:
		panic("no such operation of a queue: " + in.op)
	}
	return items, queueSaid{code: saidOK}
}

// lockAsk is what one client asks of a lock.
type lockAsk struct {
	op     string
	holder string
	token  uint64 // renew, release
}

// lockSaid is how it was answered.
type lockSaid struct {
	unknown bool
	code    string
	token   uint64 // acquire
	holder  string // look; empty: nobody
}

// lockState is a lock: who has it, by which token, and the greatest token that anybody was told. A token of 0 is one that was never
// told.
type lockState struct {
	holder      string
	token, last uint64
}

// lockModel gives the checker what a lock may do. No lease lapses within a test.
func lockModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init:              func() []any { return []any{lockState{}} },
		Step:              func(s, in, out any) []any { return s.(lockState).step(in.(lockAsk), out.(lockSaid)) },
		Equal:             func(a, b any) bool { return a.(lockState) == b.(lockState) },
		Hash:              func(s any) uint64 { return maphash.Comparable(hashSeed, s.(lockState)) },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

// step gives the states to which an answer can have led.
func (s lockState) step(in lockAsk, out lockSaid) []any {
	mine := in.holder == s.holder && in.holder != ""
	switch in.op {
	case opAcquire:
		return s.acquire(in, out, mine)
	case opLook:
		if out.holder != s.holder {
			return nil
		}
		return []any{s}
	case opRenew, opRelease:
		// A token that nobody was told nobody can name.
		may, after := mine && s.token == in.token && s.token != 0, s
		if in.op == opRelease {
			after = lockState{last: s.last}
		}
		switch {
		case out.unknown && may:
			return []any{after, s}
		case out.unknown, !may && out.code != saidOK:
			return []any{s}
		case may && out.code == saidOK:
			return []any{after}
		}
		return nil
	}
	panic("no such operation of a lock: " + in.op)
}

func (s lockState) acquire(in lockAsk, out lockSaid, mine bool) []any {
	free := s.holder == ""
	switch {
	case out.unknown && free:
		return []any{s, lockState{holder: in.holder, last: s.last}}
	case out.unknown:
		return []any{s}
	case out.code != saidOK && !free && !mine:
		return []any{s}
	case out.code == saidOK && free && out.token > s.last:
		return []any{lockState{in.holder, out.token, out.token}}
	case out.code == saidOK && mine && s.token == out.token:
		return []any{s}
	case out.code == saidOK && mine && s.token == 0 && out.token > s.last: // the grant that nobody was told of
		return []any{lockState{in.holder, out.token, out.token}}
	}
	return nil
}
