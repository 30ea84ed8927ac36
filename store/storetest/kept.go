package storetest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
)

// keptCases are about what is kept beside the machines: webhooks, what was
// set aside, small values.
var keptCases = []testCase{
	{"a webhook reads as it arrived, byte for byte, in the order of the ids", func(s *suite) {
		second := store.Webhook{ID: id(2), Route: "r\"2", Header: []byte(`{"a": "<b>"}`), ReceivedAt: 1000, Body: []byte("\x00\xff raw <body>")}
		first := store.Webhook{ID: id(1), Route: "", ReceivedAt: 1}
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.PutWebhook(second))
			require.NoError(s, tx.PutWebhook(first))
		})
		s.view(func(tx store.ReadTx) {
			found := must(tx.Webhooks(9))(s)
			require.Len(s, found, 2)
			assert.Equal(s, first.ID, found[0].ID)
			assert.Empty(s, found[0].Body)
			assert.Equal(s, second, found[1])
			assert.Len(s, must(tx.Webhooks(1))(s), 1)
			assert.Empty(s, must(tx.Webhooks(0))(s))
		})
	}},
	{"a deleted webhook is gone, and is not found again", func(s *suite) {
		s.update(func(tx store.Tx) { require.NoError(s, tx.PutWebhook(store.Webhook{ID: id(1), Body: []byte("b")})) })
		s.view(func(tx store.ReadTx) {
			if f, ok := tx.(store.WebhookFinder); ok {
				assert.True(s, must(f.HasWebhook(id(1)))(s))
				assert.False(s, must(f.HasWebhook(id(3)))(s))
			}
		})
		s.update(func(tx store.Tx) { require.NoError(s, tx.DeleteWebhook(id(1))) })
		s.view(func(tx store.ReadTx) { assert.Empty(s, must(tx.Webhooks(9))(s)) })
		require.ErrorIs(s, s.refused(func(tx store.Tx) error { return tx.DeleteWebhook(id(1)) }), store.ErrNotFound)
		require.Error(s, s.refused(func(tx store.Tx) error { return tx.PutWebhook(store.Webhook{ID: uuid.Nil}) }))
	}},
	{"an answer reads as it was put, is replaced, and is forgotten by its time, the oldest first", func(s *suite) {
		key := func(b byte) (k store.AnswerKey) { k[0], k[31] = b, b; return k }
		body := []byte("\x00 first")
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.PutAnswer(key(3), store.Answer{At: 1000, Body: body}))
			body[1] = 'X' // it is the caller's again
			require.NoError(s, tx.PutAnswer(key(1), store.Answer{At: 3000, Body: []byte("third")}))
			require.NoError(s, tx.PutAnswer(key(2), store.Answer{At: 2000}))
			assert.Equal(s, "\x00 first", string(must(tx.Answer(key(3)))(s).Body))
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, store.Answer{At: 3000, Body: []byte("third")}, must(tx.Answer(key(1)))(s))
			empty := must(tx.Answer(key(2)))(s)
			assert.Equal(s, effects.Time(2000), empty.At)
			assert.Empty(s, empty.Body)
			require.ErrorIs(s, errOf(tx.Answer(key(4))), store.ErrNotFound)
		})
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.PutAnswer(key(3), store.Answer{At: 4000, Body: []byte("again")}))
			assert.Zero(s, must(tx.DropAnswers(2000, 9))(s), "given at that time is not before it")
			assert.Zero(s, must(tx.DropAnswers(9000, 0))(s))
			assert.Equal(s, 1, must(tx.DropAnswers(9000, 1))(s))
			require.ErrorIs(s, errOf(tx.Answer(key(2))), store.ErrNotFound)
		})
		s.update(func(tx store.Tx) { assert.Equal(s, 1, must(tx.DropAnswers(4000, 9))(s)) })
		s.view(func(tx store.ReadTx) {
			require.ErrorIs(s, errOf(tx.Answer(key(1))), store.ErrNotFound)
			assert.Equal(s, "again", string(must(tx.Answer(key(3)))(s).Body))
		})
		s.update(func(tx store.Tx) {
			assert.Equal(s, 1, must(tx.DropAnswers(9000, 9))(s))
			assert.Zero(s, must(tx.DropAnswers(9000, 9))(s))
		})
	}},
	{"what an attempt of a run has written reads byte for byte, and replaces what was kept of it", func(s *suite) {
		s.update(func(tx store.Tx) {
			text := []byte("first")
			require.NoError(s, tx.PutRunLog(id(1), 0, text))
			text[0] = 'X' // it is the caller's again
			require.NoError(s, tx.PutRunLog(id(1), 1, []byte("\x00\xff raw\n")))
			require.NoError(s, tx.PutRunLog(id(2), 0, nil))
			assert.Equal(s, "first", string(must(tx.RunLog(id(1), 0))(s)))
		})
		s.update(func(tx store.Tx) { require.NoError(s, tx.PutRunLog(id(1), 0, []byte("second"))) })
		s.view(func(tx store.ReadTx) {
			for attempt, want := range []string{"second", "\x00\xff raw\n"} {
				assert.Equal(s, want, string(must(tx.RunLog(id(1), uint32(attempt)))(s)))
			}
			assert.Empty(s, must(tx.RunLog(id(2), 0))(s), "an empty one is one")
			require.ErrorIs(s, errOf(tx.RunLog(id(2), 1)), store.ErrNotFound)
			require.ErrorIs(s, errOf(tx.RunLog(id(0), 0)), store.ErrNotFound)
		})
	}},
	{"the logs of a run go all at once, and those of its neighbours stay", func(s *suite) {
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.DeleteRunLogs(id(2)), "there is none yet")
			for n := range 3 {
				for _, attempt := range []uint32{0, 1, 1 << 31} {
					require.NoError(s, tx.PutRunLog(id(n), attempt, []byte("said")))
				}
			}
		})
		require.ErrorIs(s, s.refused(func(tx store.Tx) error {
			require.NoError(s, tx.DeleteRunLogs(id(0)))
			return errAbort
		}), errAbort)
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.DeleteRunLogs(id(1)))
			require.NoError(s, tx.DeleteRunLogs(id(1)))
			require.NoError(s, tx.DeleteRunLogs(id(9)))
		})
		s.view(func(tx store.ReadTx) {
			for n := range 3 {
				for _, attempt := range []uint32{0, 1, 1 << 31} {
					_, err := tx.RunLog(id(n), attempt)
					if n == 1 {
						require.ErrorIs(s, err, store.ErrNotFound)
					} else {
						require.NoError(s, err)
					}
				}
			}
		})
	}},
	{"a log of a run has a limit, and says it", func(s *suite) {
		text := make([]byte, store.MaxRunLog+1)
		s.update(func(tx store.Tx) { require.NoError(s, tx.PutRunLog(id(1), 0, text[:store.MaxRunLog])) })
		err := s.refused(func(tx store.Tx) error { return tx.PutRunLog(id(1), 0, text) })
		require.ErrorContains(s, err, "text has 4194305 bytes: at most 4194304")
		require.ErrorContains(s, err, id(1).String())
		require.Error(s, s.refused(func(tx store.Tx) error { return tx.PutRunLog(uuid.Nil, 0, nil) }))
		s.view(func(tx store.ReadTx) { assert.Len(s, must(tx.RunLog(id(1), 0))(s), store.MaxRunLog) })
	}},
	{"a record that is set aside leaves its indexes, and its bytes are kept", func(s *suite) {
		w := created(1, 5, counted("all", 1), term("other", 3))
		s.write(w, created(2, 5, counted("all", 1)))
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(1), At: 10, Reason: "why not"}, 5))
		})
		s.view(func(tx store.ReadTx) {
			require.ErrorIs(s, errOf(tx.Get(kind, id(1))), store.ErrNotFound)
			assert.Equal(s, []uuid.UUID{id(2)}, dueIDs(must(tx.Due(nil, nil, 100, 9))(s)))
			for name, want := range map[string]int{"all": 1, "other": 0} {
				assert.Len(s, must(tx.Scan(kind, name, store.Cursor{}, false, 9))(s), want, name)
			}
			assert.Equal(s, uint64(1), must(tx.Count(kind, "all"))(s))
			aside := store.Quarantined{Kind: kind, ID: id(1), At: 10, Reason: "why not", Raw: []byte(`{"n":1}`)}
			assert.Equal(s, []store.Quarantined{aside}, must(tx.Quarantine(9))(s))
		})
		s.write(created(1, 7))
	}},
	{"a webhook or an outbox entry that is set aside keeps its bytes, and stays until it is deleted", func(s *suite) {
		first, second := outboxEntry(1, 1, "a"), outboxEntry(1, 1, "a")
		second.Key.N, second.Effect = 2, []byte(`{"tool":"y"}`)
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.PutWebhook(store.Webhook{ID: id(1), Route: "r", Body: []byte("\x00body")}))
			putOutbox(s, tx, first, second)
		})
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: store.KindWebhook, ID: id(1), At: 1, Reason: "r"}, 0))
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: store.KindOutbox, ID: id(1), N: 1, At: 1}, 0))
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: store.KindOutbox, ID: id(1), N: 2, At: 1}, 0))
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: store.KindWebhook, ID: id(9), At: 2}, 0), "nothing is there")
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: store.KindOutbox, ID: id(9), At: 2, Raw: []byte("given")}, 0))
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: store.KindOutbox, ID: id(9), At: 2}, 0), "a second time, without its bytes")
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.Quarantined{
				{Kind: store.KindOutbox, ID: id(1), N: 1, At: 1, Raw: first.Effect},
				{Kind: store.KindOutbox, ID: id(1), N: 2, At: 1, Raw: second.Effect},
				{Kind: store.KindWebhook, ID: id(1), At: 1, Reason: "r", Raw: []byte("\x00body")},
				{Kind: store.KindOutbox, ID: id(9), At: 2, Raw: []byte("given")},
				{Kind: store.KindWebhook, ID: id(9), At: 2},
			}, must(tx.Quarantine(9))(s))
			require.NoError(s, errOf(tx.OutboxEntry(first.Key)))
			assert.Len(s, must(tx.Webhooks(9))(s), 1)
		})
	}},
	{"setting aside takes only the due entry of that kind", func(s *suite) {
		s.write(ofKinds(created(1, 5), kind, "other")...)
		s.update(func(tx store.Tx) { require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(1), At: 1}, 5)) })
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.DueEntry{dueEntry(5, 1, "other")}, must(tx.Due(nil, nil, 100, 9))(s))
		})
	}},
	{"a due entry is removed alone, and its record stays", func(s *suite) {
		s.write(ofKinds(created(1, 5), kind, "other")...)
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.RemoveDue(dueEntry(6, 1, kind)), "not there")
			require.NoError(s, tx.RemoveDue(dueEntry(5, 1, kind)))
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []store.DueEntry{dueEntry(5, 1, "other")}, must(tx.Due(nil, nil, 100, 9))(s))
			require.NoError(s, errOf(tx.Get(kind, id(1))))
		})
	}},
	{"a kind that no record can have is set aside with a due entry only", func(s *suite) {
		q := store.Quarantined{Kind: "acti/n", ID: id(1), At: 1}
		require.ErrorContains(s, s.refused(func(tx store.Tx) error { return tx.SetAside(q, 0) }), "without blank or slash")
		s.update(func(tx store.Tx) { require.NoError(s, tx.SetAside(q, 5)) })
		s.view(func(tx store.ReadTx) { assert.Equal(s, []store.Quarantined{q}, must(tx.Quarantine(9))(s)) })
	}},
	{"what is set aside is kept oldest first, with the bytes that the caller gives", func(s *suite) {
		s.update(func(tx store.Tx) {
			for n, at := range map[int]effects.Time{1: 30, 2: 10, 3: 20} {
				require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(n), At: at, Raw: []byte("\x00raw\xff")}, at))
			}
		})
		s.view(func(tx store.ReadTx) {
			aside := must(tx.Quarantine(2))(s)
			require.Len(s, aside, 2)
			assert.Equal(s, []uuid.UUID{id(2), id(3)}, []uuid.UUID{aside[0].ID, aside[1].ID})
			assert.Equal(s, []byte("\x00raw\xff"), aside[0].Raw)
		})
	}},
	{"setting aside removes a due entry without a record", func(s *suite) {
		w := created(1, 5)
		s.write(w)
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(1), At: 1}, 5))
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(1), At: 2}, 5))
		})
		s.view(func(tx store.ReadTx) { assert.Empty(s, must(tx.Due(nil, nil, 100, 9))(s)) })
	}},
	{"where a record stands is found by its id alone, until it is set aside", func(s *suite) {
		other := created(2, 5, term("ready:q", 1), counted("all", 7))
		s.write(created(1, 0, term("ready:q", -3), counted("all", 7)), other)
		want := []store.Term{counted("all", 7), term("ready:q", -3)}
		s.view(func(tx store.ReadTx) {
			assert.ElementsMatch(s, want, must(tx.TermsOf(kind, id(1)))(s))
			assert.Empty(s, must(tx.TermsOf("other", id(1)))(s))
		})
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(1), At: 1}, 0))
			assert.Empty(s, must(tx.TermsOf(kind, id(1)))(s))
		})
	}},
	{"a record that is set aside still counts for the epoch that changed it", func(s *suite) {
		s.write(created(1, 0))
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.BeginEpoch(1))
			require.NoError(s, tx.SetAside(store.Quarantined{Kind: kind, ID: id(1), At: 1}, 0))
		})
		s.view(func(tx store.ReadTx) { assert.Len(s, base(s, tx, 2), 1) })
	}},
	{"a small value is kept, empty or not, until nil removes it", func(s *suite) {
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.SetMeta("a", []byte("v\x00\xff")))
			require.NoError(s, tx.SetMeta("b", []byte{}))
		})
		s.view(func(tx store.ReadTx) {
			assert.Equal(s, []byte("v\x00\xff"), must(tx.Meta("a"))(s))
			v := must(tx.Meta("b"))(s)
			assert.NotNil(s, v)
			assert.Empty(s, v)
			assert.Nil(s, must(tx.Meta("c"))(s))
		})
		s.update(func(tx store.Tx) {
			require.NoError(s, tx.SetMeta("a", nil))
			require.NoError(s, tx.SetMeta("never", nil))
			assert.Nil(s, must(tx.Meta("a"))(s))
		})
		require.ErrorContains(s, s.refused(func(tx store.Tx) error { return tx.SetMeta("", []byte("v")) }), "meta")
	}},
}
