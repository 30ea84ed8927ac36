package core_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
)

// shelf is a loader with ordered list indexes, of which entries go lazily.
type shelf struct {
	states map[effects.Ref]core.State
	lists  map[string][]core.Cursor
}

func (s *shelf) Load(ref effects.Ref) (core.State, error) { return s.states[ref], nil }

func (s *shelf) stands(kind effects.Kind, term string, p core.Cursor) bool {
	r, ok := s.states[effects.Ref{Kind: kind, ID: p.ID}]
	return ok && slices.ContainsFunc(r.Terms(), func(t effects.Term) bool { return t.Name == term && t.At == p.At })
}

func (s *shelf) Scan(kind effects.Kind, term string, after core.Cursor, limit int) ([]core.Cursor, error) {
	name := string(kind) + term
	list := s.lists[name]
	for len(list) > 0 && !s.stands(kind, term, list[0]) {
		list = list[1:]
	}
	s.lists[name] = list
	from, found := 0, make([]core.Cursor, 0, limit)
	if (after != core.Cursor{}) {
		from, _ = slices.BinarySearchFunc(list, after, comparePlaces)
		from++
	}
	for ; from < len(list) && len(found) < limit; from++ {
		if s.stands(kind, term, list[from]) {
			found = append(found, list[from])
		}
	}
	return found, nil
}

func (s *shelf) store(t *core.Batch) {
	for _, c := range t.Changes() {
		if c.After == nil {
			delete(s.states, c.Ref)
			continue
		}
		s.states[c.Ref] = c.After
		for _, term := range c.After.Terms() {
			name, p := string(c.Ref.Kind)+term.Name, core.Cursor{At: term.At, ID: c.Ref.ID}
			i, there := slices.BinarySearchFunc(s.lists[name], p, comparePlaces)
			if !there {
				s.lists[name] = slices.Insert(s.lists[name], i, p)
			}
		}
	}
}

// benchQueue is a queue under load.
type benchQueue struct {
	b     *testing.B
	shelf *shelf
	ref   effects.Ref
	seq   uint64
	key   func(n int) string
	n     int
}

// apply applies one batch, and gives what was answered.
func (q *benchQueue) apply(events []core.Event, timed bool) (items []core.QueueItem) {
	q.seq++
	if timed {
		q.b.StartTimer()
	}
	t := core.NewBatch(q.shelf, core.Clock{Now: start + core.Time(q.seq)}, q.seq)
	for _, e := range events {
		res, err := t.Apply(core.Input{To: q.ref, Event: e})
		if err != nil || !res.Changed {
			q.b.Fatal(err, res.Refused)
		}
		if taken, ok := res.Answer.(core.QueueItems); ok {
			items = append(items, taken...)
		}
	}
	if timed {
		q.b.StopTimer()
	}
	q.shelf.store(t)
	return items
}

func (q *benchQueue) push(n int, timed bool) {
	events := make([]core.Event, n)
	for i := range events {
		q.n++
		events[i] = core.QueuePush{Name: "q", Data: json.RawMessage(`{"to":"team@example.com"}`), Key: q.key(q.n)}
	}
	q.apply(events, timed)
}

func (q *benchQueue) take(n int, timed bool) []core.QueueItem {
	return q.apply(slices.Repeat([]core.Event{core.QueueTake{Holder: "w"}}, n), timed)
}

func (q *benchQueue) complete(items []core.QueueItem, timed bool) {
	events := make([]core.Event, len(items))
	for i, item := range items {
		events[i] = core.QueueComplete{Item: item.ID, Holder: "w", Attempt: 1}
	}
	q.apply(events, timed)
}

// BenchmarkQueue measures what an item costs in a batch of 256, with few and with
// many items stored: it must be the same (D4).
func BenchmarkQueue(b *testing.B) {
	const batch = 256
	keys := map[string]func(int) string{
		"":          func(int) string { return "" },
		", 64 keys": func(n int) string { return fmt.Sprint("k", n%64) },
	}
	for _, kind := range []string{"", ", 64 keys"} {
		for _, stored := range []int{1000, 1_000_000} {
			q := &benchQueue{b: b, shelf: &shelf{states: map[effects.Ref]core.State{}, lists: map[string][]core.Cursor{}}, ref: core.QueueRef("", "", "q"), key: keys[kind]}
			fill := func(b *testing.B) {
				b.StopTimer()
				for q.b = b; q.n < stored; {
					q.push(1000, false)
				}
				b.ReportAllocs()
				b.ResetTimer()
			}
			for _, op := range []string{"push", "take", "complete"} {
				b.Run(fmt.Sprintf("%s, %d stored%s", op, stored, kind), func(b *testing.B) {
					fill(b)
					for done := 0; done < b.N; done += batch {
						n := min(batch, b.N-done)
						q.push(n, op == "push")
						q.complete(q.take(n, op == "take"), op == "complete")
					}
				})
			}
		}
	}
}
