package shell_test

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// What one client asks of the queue. Items are numbered by who pushes them, so
// that one whose push was never answered can be told as well.
type queueAsk struct {
	op      string // push, take, complete, fail, extend, release, cancel, redrive, count, tick
	item    int
	prio    int32
	holder  int
	attempt uint32
	max     int
	ticks   int // how long the item is out of sight: take, extend
}

// How it was answered.
type queueSaid struct {
	unknown bool // the caller went away: it was done or not
	code    string
	taken   []takenItem
	count   uint64
}

type takenItem struct {
	item    int
	attempt uint32
}

const (
	saidOK       = "ok"
	saidConflict = "conflict"
	saidNotFound = "not_found"
)

// modelItem is an item of the model's queue.
type modelItem struct {
	item     int
	prio     int32
	dead     bool
	holder   int // 0: nobody
	until    int // of a held one: the tick at which it comes back
	attempts uint32
}

// modelQueue is the queue of 003 in the plainest form that there is: a list in
// the order of the turns. Its clock is a number that a client moves on.
type modelQueue struct {
	now   int
	items string // see pack: comparable
}

// queueRules are what the queue is configured to.
type queueRules struct {
	attempts    uint32
	concurrency int // 0: any
}

// pack makes a list comparable, and cheap to compare.
func pack(items []modelItem) string {
	b := make([]byte, 0, 16*len(items))
	for _, i := range items {
		b = fmt.Appendf(b, "%d %d %t %d %d %d\n", i.item, i.prio, i.dead, i.holder, i.until, i.attempts)
	}
	return string(b)
}

func unpack(s string) (items []modelItem) {
	for line := range strings.Lines(s) {
		var i modelItem
		if _, err := fmt.Sscanf(line, "%d %d %t %d %d %d", &i.item, &i.prio, &i.dead, &i.holder, &i.until, &i.attempts); err != nil {
			panic(err)
		}
		items = append(items, i)
	}
	return items
}

var hashSeed = maphash.MakeSeed()

// model gives the checker what the queue may do.
func (r queueRules) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{modelQueue{}} },
		Step:  func(s, in, out any) []any { return r.step(s.(modelQueue), in.(queueAsk), out.(queueSaid)) },
		Equal: func(a, b any) bool { return a.(modelQueue) == b.(modelQueue) },
		Hash:  func(s any) uint64 { return maphash.Comparable(hashSeed, s.(modelQueue)) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

// step gives all states to which the answer can have led. When an item that is
// past its time comes back is the engine's affair, as long as the next take finds
// it: so there are two worlds, before and after that. A take that is given nothing leaves
// no trace: what it has found comes back later, if it is not answered before.
func (r queueRules) step(s modelQueue, in queueAsk, out queueSaid) (next []any) {
	if in.op == "tick" {
		return []any{modelQueue{now: s.now + 1, items: s.items}}
	}
	before := unpack(s.items)
	worlds := [][]modelItem{r.swept(before, s.now)}
	if in.op != "take" && !slices.Equal(worlds[0], before) {
		worlds = append(worlds, before)
	}
	for _, w := range worlds {
		after, said := r.apply(w, s.now, in)
		if !out.unknown && !said.equal(out) {
			continue
		}
		next = append(next, modelQueue{now: s.now, items: pack(after)})
		if in.op == "take" && len(said.taken) == 0 {
			next = append(next, s)
		}
	}
	if out.unknown {
		next = append(next, s)
	}
	return next
}

func (a queueSaid) equal(b queueSaid) bool {
	return a.code == b.code && a.count == b.count && slices.Equal(a.taken, b.taken)
}

// swept lets items come back whose time is over.
func (r queueRules) swept(items []modelItem, now int) []modelItem {
	items = slices.Clone(items)
	for n, i := range items {
		if i.holder != 0 && i.until <= now {
			items[n] = r.again(i)
		}
	}
	return items
}

// again is an item after an attempt that came to nothing.
func (r queueRules) again(i modelItem) modelItem {
	i.holder, i.until = 0, 0
	i.dead = i.attempts >= r.attempts
	return i
}

func (r queueRules) apply(items []modelItem, now int, in queueAsk) ([]modelItem, queueSaid) {
	items = slices.Clone(items)
	switch in.op {
	case "push":
		return inTurn(items, modelItem{item: in.item, prio: in.prio}), queueSaid{code: saidOK}
	case "take":
		return r.take(items, now, in)
	case "count":
		return items, queueSaid{code: saidOK, count: uint64(len(items))}
	}
	at := slices.IndexFunc(items, func(i modelItem) bool { return i.item == in.item })
	if at < 0 {
		return items, queueSaid{code: saidNotFound}
	}
	i := items[at]
	switch in.op {
	case "cancel":
		if i.holder != 0 {
			return items, queueSaid{code: saidConflict}
		}
		return slices.Delete(items, at, at+1), queueSaid{code: saidOK}
	case "redrive":
		if !i.dead {
			return items, queueSaid{code: saidConflict}
		}
		return inTurn(slices.Delete(items, at, at+1), modelItem{item: i.item, prio: i.prio}), queueSaid{code: saidOK, count: 1}
	}
	if i.holder != in.holder || i.attempts != in.attempt {
		return items, queueSaid{code: saidConflict}
	}
	switch in.op {
	case "complete":
		return slices.Delete(items, at, at+1), queueSaid{code: saidOK}
	case "fail":
		items[at] = r.again(i)
	case "extend":
		items[at].until = now + in.ticks
	case "release":
		i.holder, i.until = 0, 0
		i.attempts--
		items[at] = i
	default:
		panic("no such operation: " + in.op)
	}
	return items, queueSaid{code: saidOK}
}

func (r queueRules) take(items []modelItem, now int, in queueAsk) ([]modelItem, queueSaid) {
	said, held := queueSaid{code: saidOK}, 0
	for _, i := range items {
		if i.holder != 0 {
			held++
		}
	}
	for n, i := range items {
		if len(said.taken) == in.max || r.concurrency > 0 && held >= r.concurrency {
			break
		}
		if i.dead || i.holder != 0 {
			continue
		}
		items[n].holder, items[n].until = in.holder, now+in.ticks
		items[n].attempts++
		held++
		said.taken = append(said.taken, takenItem{i.item, items[n].attempts})
	}
	return items, said
}

// inTurn puts an item behind all of its priority.
func inTurn(items []modelItem, i modelItem) []modelItem {
	at, _ := slices.BinarySearchFunc(items, i, func(have, want modelItem) int {
		if have.prio >= want.prio {
			return -1
		}
		return 1
	})
	return slices.Insert(items, at, i)
}
