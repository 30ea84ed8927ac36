package storetest

import (
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

var recordCases = []testCase{
	{"a record reads as it was written, with version and batch", func(s *suite) {
		w := created(1, 0)
		s.write(w)
		s.write(changed(w, 1, 0))
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, store.Record{Kind: kind, ID: id(1), Version: 2, Seq: 2, State: []byte(`{"n":2}`)}, must(tx.Get(kind, id(1)))(s))
		})
	}},
	{"several records read in the order in which they are asked for, and what is not there is marked", func(s *suite) {
		other := created(2, 0)
		other.Kind = "zebra"
		s.write(created(1, 0), other, created(3, 0))
		refs := []effects.Ref{{Kind: kind, ID: id(3)}, {Kind: kind, ID: id(2)}, {Kind: "zebra", ID: id(2)}, {Kind: "none", ID: id(1)}, {Kind: kind, ID: id(3)}}
		read := func(tx store.ReadTx) {
			dst := []store.Record{{Version: 7}}
			got := must(tx.GetMany(dst, refs))(s)
			require.Len(s, got, 1+len(refs))
			assert.Equal(s, dst[0], got[0])
			for i, ref := range refs {
				want, err := tx.Get(ref.Kind, ref.ID)
				if err != nil {
					want = store.Record{Kind: ref.Kind, ID: ref.ID}
				}
				assert.Equal(s, want, got[1+i])
			}
			assert.NotZero(s, got[1].Version)
			assert.Zero(s, got[2].Version)
			assert.Empty(s, must(tx.GetMany(nil, nil))(s))
		}
		s.view(read)
		s.update(func(tx store.Tx) { read(tx) })
	}},
	{"records can be gone through a part at a time, if the store offers it", func(s *suite) {
		other := created(2, 0)
		other.Kind = "zebra"
		s.write(created(1, 0), created(2, 0), created(3, 0), other)
		s.view(func(tx store.ReadTx) {
			w, ok := tx.(store.Walker)
			if !ok {
				s.Skip("this store is no Walker")
			}
			var seen []effects.Ref
			for at, more := (effects.Ref{}), true; more; {
				var page []effects.Ref
				last, err := w.RecordPage(at, 2, func(r store.Record) error {
					page = append(page, effects.Ref{Kind: r.Kind, ID: r.ID})
					return nil
				})
				require.NoError(s, err)
				require.LessOrEqual(s, len(page), 2)
				if len(page) > 0 {
					assert.Equal(s, page[len(page)-1], last)
				}
				seen, at, more = append(seen, page...), last, len(page) == 2
			}
			var all []effects.Ref
			require.NoError(s, tx.Records(func(r store.Record) error {
				all = append(all, effects.Ref{Kind: r.Kind, ID: r.ID})
				return nil
			}))
			assert.Len(s, all, 4)
			assert.Equal(s, all, seen)
		})
	}},
	{"a transaction reads its own writes", func(s *suite) {
		s.update(func(tx store.Tx) {
			s.writeIn(tx, created(1, 5, counted("all", 1)))
			s.requireFirst(tx, 5, 1)
		})
	}},
	{"a record that is not there is not found, and the error names it", func(s *suite) {
		s.write(created(1, 0))
		s.view(func(tx store.ReadTx) {
			_, err := tx.Get(kind, id(2))
			require.ErrorIs(s, err, store.ErrNotFound)
			require.ErrorContains(s, err, "action/"+id(2).String())
			require.ErrorIs(s, errOf(tx.Get("other", id(1))), store.ErrNotFound)
		})
	}},
	{"a write with another version is a conflict that names the record", func(s *suite) {
		w := created(1, 0)
		s.write(w)
		wrong := changed(w, 1, 0)
		wrong.Prev.Version = 7
		gone := deleted(w, 1)
		gone.Prev.Version = 7
		missing := changed(created(2, 0), 1, 0)
		for _, w := range []store.Write{w, wrong, gone, missing} {
			err := s.refused(func(tx store.Tx) error { return tx.Put(2, []store.Write{w}) })
			require.ErrorIs(s, err, store.ErrConflict)
			require.ErrorContains(s, err, "action/"+w.ID.String())
		}
	}},
	{"deleting what is not there changes nothing", func(s *suite) {
		s.write(store.Write{Kind: kind, ID: id(1)})
		s.view(func(tx store.ReadTx) { require.ErrorIs(s, errOf(tx.Get(kind, id(1))), store.ErrNotFound) })
	}},
	{"a deleted record leaves nothing, and begins again at version 1", func(s *suite) {
		w := created(1, 5, counted("all", 1))
		s.write(w)
		s.write(deleted(w, 1))
		s.view(func(tx store.ReadTx) {
			require.ErrorIs(s, errOf(tx.Get(kind, id(1))), store.ErrNotFound)
			assert.Empty(s, must(tx.Due(nil, nil, effects.MaxTime, 9))(s))
			assert.Empty(s, must(tx.Scan(kind, "all", store.Cursor{}, false, 9))(s))
			assert.Zero(s, must(tx.Count(kind, "all"))(s))
		})
		s.write(w)
		s.view(func(tx store.ReadTx) { assert.Equal(s, uint64(1), must(tx.Get(kind, id(1)))(s).Version) })
	}},
	{"records are visited by kind, then id, until the visitor fails", func(s *suite) {
		a, b, c := created(2, 0), created(1, 0), created(3, 0)
		c.Kind = "a-kind-before"
		s.write(a, b, c)
		s.view(func(tx store.ReadTx) {
			var seen []uuid.UUID
			require.NoError(s, tx.Records(func(r store.Record) error {
				seen = append(seen, r.ID)
				return nil
			}))
			assert.Equal(s, []uuid.UUID{id(3), id(1), id(2)}, seen)
			require.ErrorIs(s, tx.Records(func(store.Record) error { return errAbort }), errAbort)
		})
	}},
	{"a write may be used again after Put", func(s *suite) {
		w := created(1, 0)
		s.update(func(tx store.Tx) {
			s.writeIn(tx, w)
			copy(w.State, "XXXXXXX")
		})
		s.view(func(tx store.ReadTx) { assert.JSONEq(s, `{"n":1}`, string(must(tx.Get(kind, id(1)))(s).State)) })
	}},
	{"a bad write is refused with its reason", func(s *suite) {
		for reason, spoil := range map[string]func(w *store.Write){
			"kind":             func(w *store.Write) { w.Kind = "" },
			"want 1 to 64":     func(w *store.Write) { w.Kind = effects.Kind(strings.Repeat("k", 65)) },
			"printable":        func(w *store.Write) { w.Kind = "a/b" },
			"id is zero":       func(w *store.Write) { w.ID = uuid.Nil },
			"state is empty":   func(w *store.Write) { w.State = []byte{} },
			"at most 1024":     func(w *store.Write) { w.Terms = []store.Term{term(strings.Repeat("x", store.MaxName+1), 1)} },
			"stands there twi": func(w *store.Write) { w.Terms = []store.Term{term("all", 1), term("all", 2)} },
		} {
			w := created(1, 0)
			spoil(&w)
			err := s.refused(func(tx store.Tx) error { return tx.Put(1, []store.Write{w}) })
			require.ErrorContains(s, err, reason)
		}
	}},
	{"a state of a megabyte is kept", func(s *suite) {
		w := created(1, 0)
		w.State = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
		s.write(w, created(2, 0))
		s.view(func(tx store.ReadTx) { assert.Equal(s, w.State, must(tx.Get(kind, id(1)))(s).State) })
	}},
}

// dueEntry is the entry of the record n.
func dueEntry(at effects.Time, n int, kind effects.Kind) store.DueEntry {
	return store.DueEntry{Key: store.NewDueKey(at, id(n)), Kind: kind}
}

// sharedEntry is the same with a share.
func sharedEntry(at effects.Time, n int, kind effects.Kind, share uint32) store.DueEntry {
	e := dueEntry(at, n, kind)
	e.Share = share
	return e
}

// shared gives the write with a share.
func shared(w store.Write, share uint32) store.Write {
	w.Share = share
	return w
}

// never is what nextDue gives if nothing is due.
const never = effects.Time(-1)

func nextDue(s *suite, tx store.ReadTx, after effects.Time) effects.Time {
	at, ok, err := tx.NextDue(after)
	require.NoError(s, err)
	if !ok {
		return never
	}
	return at
}

func dueIDs(found []store.DueEntry) []uuid.UUID {
	ids := []uuid.UUID{}
	for _, e := range found {
		ids = append(ids, e.Key.ID())
	}
	return ids
}

var dueCases = []testCase{
	{"where records of two kinds become due at one key nothing else is, whatever is due behind it", func(s *suite) {
		a, b, behind := created(1, 10), created(1, 10), created(2, 20)
		b.Kind, behind.Kind = "b", "c"
		s.write(behind)
		s.write(a, b)
		s.view(func(tx store.ReadTx) {
			assert.ElementsMatch(s, []store.DueEntry{dueEntry(10, 1, kind), dueEntry(10, 1, "b"), dueEntry(20, 2, "c")}, must(tx.Due(nil, nil, 100, 9))(s))
		})
	}},
	{"what is due comes in time order, then by id, up to and including now", func(s *suite) {
		s.write(created(1, 30), created(2, 10), created(4, 20), created(3, 20), created(5, 0))
		s.view(func(tx store.ReadTx) {
			want := []store.DueEntry{dueEntry(10, 2, kind), dueEntry(20, 3, kind), dueEntry(20, 4, kind)}
			assert.Equal(s, want, must(tx.Due(nil, nil, 20, 9))(s))
		})
	}},
	{"what is due is appended to what the caller has, and the limit counts only what is new", func(s *suite) {
		s.write(created(1, 10), created(2, 11))
		s.view(func(tx store.ReadTx) {
			had := dueEntry(5, 9, "other")
			assert.Equal(s, []store.DueEntry{had, dueEntry(10, 1, kind)}, must(tx.Due([]store.DueEntry{had}, nil, 20, 1))(s))
			assert.Equal(s, []store.DueEntry{had}, must(tx.Due([]store.DueEntry{had}, nil, 20, 0))(s))
		})
	}},
	{"a limit cuts, and the last key goes on from there", func(s *suite) {
		s.write(created(1, 10), created(2, 10), created(3, 11))
		s.view(func(tx store.ReadTx) {
			found := must(tx.Due(nil, nil, 20, 2))(s)
			require.Equal(s, []uuid.UUID{id(1), id(2)}, dueIDs(found))
			require.Equal(s, []uuid.UUID{id(3)}, dueIDs(must(tx.Due(nil, &found[1].Key, 20, 2))(s)))
			between := store.DueUpperBound(10)
			require.Equal(s, []uuid.UUID{id(3)}, dueIDs(must(tx.Due(nil, &between, 20, 2))(s)))
			require.Empty(s, must(tx.Due(nil, nil, 20, 0))(s))
		})
	}},
	{"the greatest id is due at its time", func(s *suite) {
		s.write(store.Write{Kind: kind, ID: uuid.Max, State: []byte(`1`), Due: 10})
		s.view(func(tx store.ReadTx) {
			assert.Empty(s, must(tx.Due(nil, nil, 9, 9))(s))
			assert.Len(s, must(tx.Due(nil, nil, 10, 9))(s), 1)
			assert.Equal(s, never, nextDue(s, tx, 10))
		})
	}},
	{"a negative time clamps to 0, also when it is taken away", func(s *suite) {
		w := created(1, -5)
		s.write(w)
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.DueEntry{dueEntry(0, 1, kind)}, must(tx.Due(nil, nil, -9, 9))(s))
			assert.Zero(s, nextDue(s, tx, -1))
		})
		s.write(changed(w, 1, 0))
		s.view(func(tx store.ReadTx) { assert.Empty(s, must(tx.Due(nil, nil, effects.MaxTime, 9))(s)) })
	}},
	{"a changed due time moves the entry, an equal one leaves it", func(s *suite) {
		a, b := created(1, 10), created(2, 10)
		s.write(a, b)
		s.write(changed(a, 1, 30), changed(b, 1, 10))
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.DueEntry{dueEntry(10, 2, kind), dueEntry(30, 1, kind)}, must(tx.Due(nil, nil, 100, 9))(s))
		})
	}},
	{"records of two kinds with one id that are due at one time are both woken, in the order of their kinds", func(s *suite) {
		writes := ofKinds(created(1, 10), "recurring", "action")
		s.write(writes[0])
		s.write(writes[1]) // of a later transaction: it must find the other there
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.DueEntry{dueEntry(10, 1, "action"), dueEntry(10, 1, "recurring")}, must(tx.Due(nil, nil, 10, 9))(s))
		})
	}},
	{"a record takes only its own entry out of the due index, whatever else happens in its batch", func(s *suite) {
		writes := ofKinds(created(1, 10), "a", "b", "c")
		s.write(writes...)
		later := changed(writes[0], 1, 20)
		s.write(later, deleted(writes[1], 1))
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.DueEntry{dueEntry(10, 1, "c"), dueEntry(20, 1, "a")}, must(tx.Due(nil, nil, 100, 9))(s))
		})
		s.write(changed(later, 2, 10), ofKinds(created(1, 10), "b")[0], deleted(writes[2], 1)) // one comes back as another goes
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.DueEntry{dueEntry(10, 1, "a"), dueEntry(10, 1, "b")}, must(tx.Due(nil, nil, 100, 9))(s))
		})
	}},
	{"an entry has the share that was written with it, each kind its own", func(s *suite) {
		var want []store.DueEntry
		var writes []store.Write
		for n, share := range []uint32{0, 1, 63, 64, 1<<31 - 1, math.MaxUint32, math.MaxUint32, 0} {
			writes = append(writes, shared(created(n+1, 10), share))
			want = append(want, sharedEntry(10, n+1, kind, share))
		}
		s.write(writes...)
		s.write(shared(ofKinds(created(1, 10), "zzz")[0], 5), shared(ofKinds(created(2, 10), "aaa")[0], 0)) // of a later transaction
		want = slices.Insert(want, 1, sharedEntry(10, 1, "zzz", 5), sharedEntry(10, 2, "aaa", 0))
		s.view(func(tx store.ReadTx) { assert.Equal(s, want, must(tx.Due(nil, nil, 10, 99))(s)) })
	}},
	{"an entry that moves takes its new share, and one that stays keeps the one that it has", func(s *suite) {
		a, b, c := shared(created(1, 10), 7), shared(created(2, 10), 8), created(3, 10)
		s.write(a, b, c)
		s.write(shared(changed(a, 1, 20), 9), shared(changed(b, 1, 10), 9), shared(changed(c, 1, 10), 9))
		s.view(func(tx store.ReadTx) {
			want := []store.DueEntry{sharedEntry(10, 2, kind, 8), dueEntry(10, 3, kind), sharedEntry(20, 1, kind, 9)}
			assert.Equal(s, want, must(tx.Due(nil, nil, 100, 9))(s))
		})
	}},
	{"an entry goes whatever its share, and those of other kinds keep theirs", func(s *suite) {
		writes := ofKinds(created(1, 10), "a", "b", "c", "d")
		for i := range writes {
			writes[i].Share = uint32(i + 7)
		}
		alone := shared(created(2, 10), 3)
		s.write(append(writes, alone, shared(created(3, 10), 4), shared(created(4, 10), 5))...)
		s.write(deleted(writes[0], 1), changed(writes[1], 1, 0), deleted(alone, 1))
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.RemoveDue(dueEntry(10, 1, "c")))
			require.NoError(s, tx.RemoveDue(sharedEntry(10, 3, kind, 99)))
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(4), At: 1}, 10))
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.DueEntry{sharedEntry(10, 1, "d", 10)}, must(tx.Due(nil, nil, 100, 9))(s))
		})
	}},
	{"a page of what is due never ends between the kinds of one key", func(s *suite) {
		writes := ofKinds(created(1, 10), "a", "b", "c")
		s.write(append(writes, created(2, 10))...)
		s.view(func(tx store.ReadTx) {
			found := must(tx.Due(nil, nil, 10, 1))(s)
			require.Equal(s, []uuid.UUID{id(1), id(1), id(1)}, dueIDs(found))
			assert.Equal(s, []uuid.UUID{id(2)}, dueIDs(must(tx.Due(nil, &found[2].Key, 10, 1))(s)))
		})
	}},
	{"new due times before, between and after those that are there are all kept", func(s *suite) {
		s.write(created(1, 20), created(2, 40))
		s.write(created(3, 10), created(4, 15), created(5, 30), created(6, 35), created(7, 50), created(8, 60))
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []uuid.UUID{id(3), id(4), id(1), id(5), id(6), id(2), id(7), id(8)}, dueIDs(must(tx.Due(nil, nil, 100, 9))(s)))
		})
	}},
	{"the next due time is the earliest after the given one", func(s *suite) {
		s.write(created(1, 10), created(2, 20), created(3, 20))
		s.view(func(tx store.ReadTx) {
			for after, want := range map[effects.Time]effects.Time{0: 10, 9: 10, 10: 20, 19: 20, 20: never, math.MaxInt64: never} {
				assert.Equal(s, want, nextDue(s, tx, after), "after %d", after)
			}
		})
	}},
	{"an empty index has nothing due", func(s *suite) {
		s.view(func(tx store.ReadTx) {
			assert.Empty(s, must(tx.Due(nil, nil, math.MaxInt64, 9))(s))
			assert.Equal(s, never, nextDue(s, tx, 0))
		})
	}},
}

func cursors(ns ...int) []store.Cursor {
	out := []store.Cursor{}
	for _, n := range ns {
		out = append(out, store.Cursor{At: effects.Time(n / 10), ID: id(n % 10)})
	}
	return out
}

var listCases = []testCase{
	{"a list reads oldest first or newest first, and goes on from a cursor", func(s *suite) {
		s.write(
			created(1, 0, term("all", 2)), created(2, 0, term("all", 1)), created(3, 0, term("all", 2)),
			created(4, 0, term("all2", 1)), created(5, 0, term("al", 9)),
		)
		s.view(func(tx store.ReadTx) {
			for _, c := range []struct {
				from  store.Cursor
				desc  bool
				limit int
				want  []store.Cursor
			}{
				{store.Cursor{}, false, 9, cursors(12, 21, 23)},
				{store.Cursor{}, true, 9, cursors(23, 21, 12)},
				{store.Cursor{}, false, 2, cursors(12, 21)},
				{store.Cursor{}, true, 2, cursors(23, 21)},
				{cursors(21)[0], false, 9, cursors(23)},
				{cursors(21)[0], true, 9, cursors(12)},
				{cursors(22)[0], false, 9, cursors(23)}, // between entries
				{cursors(22)[0], true, 9, cursors(21, 12)},
				{cursors(99)[0], false, 9, nil},
				{cursors(99)[0], true, 9, cursors(23, 21, 12)},
				{store.Cursor{}, false, 0, nil},
			} {
				assert.Equal(s, c.want, must(tx.Scan(kind, "all", c.from, c.desc, c.limit))(s), "%+v", c)
			}
			assert.Empty(s, must(tx.Scan("other", "all", store.Cursor{}, true, 9))(s))
		})
	}},
	{"names are opaque: neither bytes nor prefixes mix them up", func(s *suite) {
		names := []string{"", "\x00", "\x00\x00", "a", "a\x00", "a\xff", "\xff\xff", "scope:ns\x1ftenant", strings.Repeat("x", store.MaxName)}
		var terms []store.Term
		for i, name := range names {
			terms = append(terms, term(name, effects.Time(i+1)))
		}
		s.write(created(1, 0, terms...))
		s.view(func(tx store.ReadTx) {
			for i, name := range names {
				for _, desc := range []bool{false, true} {
					found := must(tx.Scan(kind, name, store.Cursor{}, desc, 9))(s)
					assert.Equal(s, []store.Cursor{{At: effects.Time(i + 1), ID: id(1)}}, found, "%q", name)
				}
			}
		})
	}},
	{"times before 1970 and the greatest ones keep their order", func(s *suite) {
		s.write(created(1, 0, term("all", math.MinInt64)), created(2, 0, term("all", -1)), created(3, 0, term("all", 0)), created(4, 0, term("all", math.MaxInt64)))
		s.view(func(tx store.ReadTx) {
			want := []store.Cursor{{At: math.MinInt64, ID: id(1)}, {At: -1, ID: id(2)}, {At: 0, ID: id(3)}, {At: math.MaxInt64, ID: id(4)}}
			assert.Equal(s, want, must(tx.Scan(kind, "all", store.Cursor{}, false, 9))(s))
		})
	}},
	{"a write moves a record from its old terms to its new ones", func(s *suite) {
		w := created(1, 0, counted("status:pending", 1), counted("all", 1), term("moved", 1), term("plain", 1))
		s.write(w, created(2, 0, counted("all", 2)))
		s.write(changed(w, 1, 0, counted("status:running", 1), counted("all", 1), term("moved", 5), counted("plain", 1)))
		s.view(func(tx store.ReadTx) {
			for name, want := range map[string][]store.Cursor{
				"status:pending": nil, "status:running": cursors(11), "all": cursors(11, 22), "moved": cursors(51), "plain": cursors(11),
			} {
				assert.Equal(s, want, must(tx.Scan(kind, name, store.Cursor{}, false, 9))(s), name)
			}
			for name, want := range map[string]uint64{"status:pending": 0, "status:running": 1, "all": 2, "plain": 1, "never": 0} {
				assert.Equal(s, want, must(tx.Count(kind, name))(s), name)
			}
		})
	}},
	{"a list reads backwards in the transaction that emptied a part of it", func(s *suite) {
		var writes, gone []store.Write
		for n := range 3000 {
			w := created(n, 0, term("all", effects.Time(n+1)))
			writes = append(writes, w)
			if n >= 500 && n < 2500 {
				gone = append(gone, deleted(w, 1))
			}
		}
		s.write(writes...)
		s.update(func(tx store.Tx) {
			s.writeIn(tx, gone...)
			found := must(tx.Scan(kind, "all", store.Cursor{}, true, 5000))(s)
			require.Len(s, found, 1000)
			assert.Equal(s, id(2999), found[0].ID)
			assert.Equal(s, id(0), found[999].ID)
			require.Len(s, must(tx.Scan(kind, "all", store.Cursor{At: 2400, ID: id(0)}, true, 5000))(s), 500)
		})
	}},
	{"a counted term of one kind does not count another kind", func(s *suite) {
		other := created(2, 0, counted("all", 1))
		other.Kind = "other"
		s.write(created(1, 0, counted("all", 1)), other)
		s.view(func(tx store.ReadTx) { assert.Equal(s, uint64(1), must(tx.Count("other", "all"))(s)) })
	}},
}
