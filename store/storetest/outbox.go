package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

func outboxEntry(n int, seq uint64, lane string) store.OutboxEntry {
	return store.OutboxEntry{
		Key: store.EffectKey{ID: id(n), N: uint32(n)}, Seq: seq, Kind: kind, Lane: lane, Effect: []byte(`{"tool":"x"}`),
	}
}

func putOutbox(s *suite, tx store.Tx, entries ...store.OutboxEntry) {
	for _, e := range entries {
		require.NoError(s, tx.PutOutbox(e))
	}
}

func waitingKeys(s *suite, tx store.ReadTx, lane string, limit int) []int {
	out := []int{}
	for _, e := range must(tx.Waiting(lane, limit))(s) {
		out = append(out, int(e.Key.N))
	}
	return out
}

var outboxCases = []testCase{
	{"an entry reads as it was put, and is replaced under its key", func(s *suite) {
		e := outboxEntry(1, 3, "lane \"quoted\" \\ ü")
		s.update(func(tx store.Tx) { putOutbox(s, tx, e) })
		handed := e
		handed.Holder, handed.Token = "host\n1", 7
		s.view(func(tx store.ReadTx) {
			got := must(tx.OutboxEntry(e.Key))(s)
			assert.Equal(s, e, got)
			assert.True(s, got.Waiting())
		})
		s.update(func(tx store.Tx) { putOutbox(s, tx, handed) })
		s.view(func(tx store.ReadTx) {
			got := must(tx.OutboxEntry(e.Key))(s)
			assert.Equal(s, handed, got)
			assert.False(s, got.Waiting())
		})
	}},
	{"entries are visited by key", func(s *suite) {
		second := outboxEntry(1, 1, "l")
		second.Key.N = 0
		s.update(func(tx store.Tx) {
			putOutbox(s, tx, outboxEntry(3, 1, "l"), outboxEntry(1, 1, "l"), outboxEntry(2, 1, "l"), second)
		})
		s.view(func(tx store.ReadTx) {
			var seen []uint32
			require.NoError(s, tx.Outbox(func(e store.OutboxEntry) error {
				seen = append(seen, e.Key.N)
				return nil
			}))
			assert.Equal(s, []uint32{0, 1, 2, 3}, seen)
			require.ErrorIs(s, tx.Outbox(func(store.OutboxEntry) error { return errAbort }), errAbort)
		})
	}},
	{"a lane gives its waiting entries by batch, then key", func(s *suite) {
		s.update(func(tx store.Tx) {
			putOutbox(s, tx, outboxEntry(5, 1, "a"), outboxEntry(2, 9, "a"), outboxEntry(1, 9, "a"), outboxEntry(4, 300, "a"))
			putOutbox(s, tx, outboxEntry(6, 1, "ab"), outboxEntry(7, 1, "b"))
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []int{5, 1, 2, 4}, waitingKeys(s, tx, "a", 9))
			assert.Equal(s, []int{5, 1}, waitingKeys(s, tx, "a", 2))
			assert.Empty(s, waitingKeys(s, tx, "a", 0))
			assert.Equal(s, []int{6}, waitingKeys(s, tx, "ab", 9))
			assert.Empty(s, waitingKeys(s, tx, "", 9))
			assert.Empty(s, waitingKeys(s, tx, strings.Repeat("x", 999), 9))
			assert.Equal(s, []string{"a", "ab", "b"}, must(tx.WaitingLanes())(s))
		})
	}},
	{"lanes come in the order of their names, whatever their length", func(s *suite) {
		names := []string{"zz", "a", "bbb", "ü", "ab", "\x01"}
		s.update(func(tx store.Tx) {
			for n, name := range names {
				require.NoError(s, tx.PutOutbox(outboxEntry(n, 1, name)))
			}
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, slices.Sorted(slices.Values(names)), must(tx.WaitingLanes())(s))
		})
	}},
	{"an entry waits no more once it is handed out, and again once it is given back", func(s *suite) {
		e := outboxEntry(1, 1, "a")
		s.update(func(tx store.Tx) { putOutbox(s, tx, e) })
		e.Holder, e.Token = "h", 1
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.PutOutbox(e))
			assert.Empty(s, waitingKeys(s, tx, "a", 9))
			assert.Empty(s, must(tx.WaitingLanes())(s))
		})
		e.Holder, e.Token, e.Lane, e.Seq = "", 0, "b", 4
		s.update(func(tx store.Tx) { putOutbox(s, tx, e) })
		s.view(func(tx store.ReadTx) {
			assert.Empty(s, waitingKeys(s, tx, "a", 9))
			assert.Equal(s, []int{1}, waitingKeys(s, tx, "b", 9))
		})
		e.Lane = "c" // it changes lanes while it waits
		s.update(func(tx store.Tx) { putOutbox(s, tx, e, e) })
		s.view(func(tx store.ReadTx) {
			assert.Empty(s, waitingKeys(s, tx, "b", 9))
			assert.Equal(s, []int{1}, waitingKeys(s, tx, "c", 9))
		})
	}},
	{"an entry that waits anew for a later batch goes behind those of earlier ones", func(s *suite) {
		first, second := outboxEntry(1, 1, "a"), outboxEntry(2, 2, "a")
		s.update(func(tx store.Tx) { putOutbox(s, tx, first, second) })
		first.Seq = 3 // the lane stays the same
		s.update(func(tx store.Tx) { putOutbox(s, tx, first) })
		s.view(func(tx store.ReadTx) { assert.Equal(s, []int{2, 1}, waitingKeys(s, tx, "a", 9)) })
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.DeleteOutbox(first.Key))
			assert.Equal(s, []int{2}, waitingKeys(s, tx, "a", 9))
		})
	}},
	{"a deleted entry is gone, and is not found again", func(s *suite) {
		e := outboxEntry(1, 1, "a")
		s.update(func(tx store.Tx) { putOutbox(s, tx, e) })
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.DeleteOutbox(e.Key))
			assert.Empty(s, waitingKeys(s, tx, "a", 9))
		})
		s.view(func(tx store.ReadTx) {
			err := errOf(tx.OutboxEntry(e.Key))
			require.ErrorIs(s, err, store.ErrNotFound)
			require.ErrorContains(s, err, id(1).String())
		})
		require.ErrorIs(s, s.refused(func(tx store.Tx) error { return tx.DeleteOutbox(e.Key) }), store.ErrNotFound)
	}},
	{"an entry may be without its effect", func(s *suite) {
		first, second := outboxEntry(1, 1, "a"), outboxEntry(2, 1, "a")
		first.Effect, second.Effect, second.Holder = nil, nil, "h"
		s.update(func(tx store.Tx) { putOutbox(s, tx, first, second) })
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, first, must(tx.OutboxEntry(first.Key))(s))
			assert.Equal(s, second, must(tx.OutboxEntry(second.Key))(s))
			assert.Equal(s, []int{1}, waitingKeys(s, tx, "a", 9))
		})
		first.Effect = []byte(`{"tool":"x"}`)
		s.update(func(tx store.Tx) { putOutbox(s, tx, first) })
		s.view(func(tx store.ReadTx) { assert.Equal(s, first, must(tx.OutboxEntry(first.Key))(s)) })
	}},
	{"a bad entry is refused with its reason", func(s *suite) {
		for reason, spoil := range map[string]func(e *store.OutboxEntry){
			"key.id":    func(e *store.OutboxEntry) { e.Key.ID = uuid.Nil },
			"kind":      func(e *store.OutboxEntry) { e.Kind = "" },
			"lane":      func(e *store.OutboxEntry) { e.Lane = "" },
			"not UTF-8": func(e *store.OutboxEntry) { e.Lane = "\xff" },
			"holder":    func(e *store.OutboxEntry) { e.Holder = strings.Repeat("x", store.MaxName+1) },
		} {
			e := outboxEntry(1, 1, "a")
			spoil(&e)
			require.ErrorContains(s, s.refused(func(tx store.Tx) error { return tx.PutOutbox(e) }), reason)
		}
	}},
}

// acquired takes a claim that must be free or the holder's own.
func (s *suite) acquired(name, holder string, now effects.Time) (c store.Claim) {
	s.Helper()
	s.update(func(tx store.Tx) { c = must(tx.Acquire(name, holder, time.Minute, now))(s) })
	return c
}

func (s *suite) checkClaim(name string, token uint64) (err error) {
	s.update(func(tx store.Tx) { err = tx.CheckClaim(name, token) })
	return err
}

var claimCases = []testCase{
	{"a claim is exclusive until it lapses, and then another may take it over", func(s *suite) {
		a := s.acquired("c", "a", 1000)
		assert.Equal(s, store.Claim{Name: "c", Holder: "a", Token: a.Token, Session: s.store.Session(), Renewed: 1000, Until: 61000}, a)
		assert.NotZero(s, a.Token)
		err := s.refused(func(tx store.Tx) error { return errOf(tx.Acquire("c", "b", time.Minute, 60999)) })
		require.ErrorIs(s, err, store.ErrClaimed)
		require.ErrorContains(s, err, `"a"`)
		require.NoError(s, s.checkClaim("c", a.Token))
		b := s.acquired("c", "b", 61000)
		assert.Greater(s, b.Token, a.Token)
		require.ErrorIs(s, s.checkClaim("c", a.Token), store.ErrFenced)
		require.NoError(s, s.checkClaim("c", b.Token))
		require.ErrorIs(s, s.refused(func(tx store.Tx) error { return tx.Release("c", a.Token) }), store.ErrFenced)
	}},
	{"renewing keeps the token and moves the end, even after a lapse that nobody used", func(s *suite) {
		a := s.acquired("c", "a", 1000)
		again := s.acquired("c", "a", 2000)
		assert.Equal(s, a.Token, again.Token)
		assert.Equal(s, effects.Time(62000), again.Until)
		assert.Equal(s, effects.Time(2000), again.Renewed)
		late := s.acquired("c", "a", 900_000)
		assert.Equal(s, a.Token, late.Token)
	}},
	{"a claim that lapsed and was not taken over passes the check", func(s *suite) {
		a := s.acquired("c", "a", 1000)
		require.NoError(s, s.checkClaim("c", a.Token))
		s.view(func(tx store.ReadTx) { assert.Equal(s, a, must(tx.Claim("c"))(s)) })
	}},
	{"after a release the token is worth nothing, and the next is greater", func(s *suite) {
		a := s.acquired("c", "a", 1000)
		s.update(func(tx store.Tx) { require.NoError(s, tx.Release("c", a.Token)) })
		require.ErrorIs(s, s.checkClaim("c", a.Token), store.ErrFenced)
		s.view(func(tx store.ReadTx) {
			_, err := tx.Claim("c")
			require.ErrorIs(s, err, store.ErrNotFound)
			require.ErrorContains(s, err, `"c"`)
		})
		require.ErrorIs(s, s.refused(func(tx store.Tx) error { return tx.Release("c", a.Token) }), store.ErrFenced)
		again := s.acquired("c", "a", 1001)
		assert.Greater(s, again.Token, a.Token)
	}},
	{"a fenced holder is refused, and the claim is free at once", func(s *suite) {
		a := s.acquired("c", "a", 1000)
		s.update(func(tx store.Tx) { require.NoError(s, tx.Fence("c")) })
		require.ErrorIs(s, s.checkClaim("c", a.Token), store.ErrFenced)
		b := s.acquired("c", "b", 1001)
		assert.Greater(s, b.Token, a.Token)
		require.ErrorIs(s, s.checkClaim("c", a.Token), store.ErrFenced)
		require.ErrorIs(s, s.refused(func(tx store.Tx) error { return tx.Fence("nobody's") }), store.ErrNotFound)
	}},
	{"a token that a rolled back transaction saw never counted", func(s *suite) {
		a := s.acquired("c", "a", 1000)
		require.ErrorIs(s, s.refused(func(tx store.Tx) error {
			require.NoError(s, tx.Fence("c"))
			require.NoError(s, errOf(tx.Acquire("c", "b", time.Minute, 1000)))
			return errAbort
		}), errAbort)
		require.NoError(s, s.checkClaim("c", a.Token))
	}},
	{"claims are listed by prefix, in order", func(s *suite) {
		for _, name := range []string{"x:2", "x:1", "y", "x", "x\xc3\xbc"} {
			s.acquired(name, "a", 1000)
		}
		s.view(func(tx store.ReadTx) {
			for prefix, want := range map[string][]string{"x:": {"x:1", "x:2"}, "": {"x", "x:1", "x:2", "x\xc3\xbc", "y"}, "z": {}} {
				names := []string{}
				for _, c := range must(tx.Claims(prefix))(s) {
					names = append(names, c.Name)
				}
				assert.Equal(s, want, names, prefix)
			}
		})
	}},
	{"a claim needs a name, a holder and a time", func(s *suite) {
		for _, c := range []struct {
			name, holder string
			ttl          time.Duration
		}{{"", "a", time.Minute}, {"c", "", time.Minute}, {"c", "a", 0}, {"c", "a", -time.Second}} {
			err := s.refused(func(tx store.Tx) error { return errOf(tx.Acquire(c.name, c.holder, c.ttl, 1)) })
			assert.NotErrorIs(s, err, store.ErrFenced)
		}
	}},
}
