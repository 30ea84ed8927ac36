package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// kept makes a closed file of n webhooks, and of outbox entries of as many
// machines with the numbers 0 and 1: of each machine the first waits, the second
// was handed out.
func kept(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orrery.db")
	if whole := keptFiles[n]; whole != nil {
		require.NoError(t, os.WriteFile(path, whole[:usedBytes(whole)], 0o600))
		require.NoError(t, os.Truncate(path, int64(len(whole)))) // bbolt waits for the disk where a file grows
		return path
	}
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		for i := range n {
			require.NoError(t, tx.PutWebhook(store.Webhook{ID: testID(i + 1), Route: "r", Header: []byte(`{"a":"b"}`), ReceivedAt: 1000, Body: fmt.Appendf(nil, "body %d", i+1)}))
			e := store.OutboxEntry{Key: store.EffectKey{ID: testID(i + 1)}, Seq: uint64(i + 1), Kind: "action", Lane: "http", Effect: []byte(`{"tool":"x"}`)}
			require.NoError(t, tx.PutOutbox(e))
			e.Key.N, e.Holder, e.Token = 1, "h", 1
			require.NoError(t, tx.PutOutbox(e))
		}
		return nil
	}))
	require.NoError(t, s.Close())
	keptFiles[n], err = os.ReadFile(path)
	require.NoError(t, err)
	return path
}

// keptFiles are what kept has made: a new file waits for the disk, and the tests
// need hundreds.
var keptFiles = map[int][]byte{}

// flipped changes a stored value, or the key that it stands under.
func flipped(t testing.TB, path, bucket string, key []byte, change func(k, v []byte) (key, value []byte)) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		v := b.Get(key)
		require.NotNil(t, v)
		k, v := change(bytes.Clone(key), bytes.Clone(v))
		require.NoError(t, b.Delete(key))
		return b.Put(k, v)
	}))
	require.NoError(t, db.Close())
}

func flip(b []byte, bit int) []byte {
	b[bit/8] ^= 1 << (bit % 8)
	return b
}

// listed is what the listings of a transaction give.
type listed struct {
	webhooks               []uuid.UUID
	outbox, waiting        []store.EffectKey
	lanes                  []string
	badWebhooks, badOutbox []store.Quarantined
}

// list calls each listing; an error that is about anything but unreadable
// entries fails the test.
func list(t testing.TB, tx store.ReadTx, limit int) (l listed) {
	t.Helper()
	hooks, err := tx.Webhooks(limit)
	l.badWebhooks, err = store.Unreadable(err)
	require.NoError(t, err)
	for _, h := range hooks {
		l.webhooks = append(l.webhooks, h.ID)
	}
	bad, err := store.Unreadable(tx.Outbox(func(e store.OutboxEntry) error {
		l.outbox = append(l.outbox, e.Key)
		return nil
	}))
	require.NoError(t, err)
	l.badOutbox = bad
	l.lanes, err = tx.WaitingLanes()
	bad, err = store.Unreadable(err)
	require.NoError(t, err)
	l.badOutbox = append(l.badOutbox, bad...)
	for _, lane := range l.lanes {
		found, err := tx.Waiting(lane, limit)
		bad, err = store.Unreadable(err)
		require.NoError(t, err)
		l.badOutbox = append(l.badOutbox, bad...)
		for _, e := range found {
			l.waiting = append(l.waiting, e.Key)
		}
	}
	return l
}

// clean sets aside all that the listings name, as the engine does.
func clean(t testing.TB, s *bolt.Store) (l listed) {
	t.Helper()
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		l = list(t, tx, 9)
		for _, q := range l.badWebhooks {
			q.At = 5
			require.NoError(t, tx.SetAside(q, 0))
			require.NoError(t, tx.DeleteWebhook(q.ID), "each is named once")
		}
		for _, q := range l.badOutbox {
			q.At = 5
			require.NoError(t, tx.SetAside(q, 0))
			if err := tx.DeleteOutbox(store.EffectKey{ID: q.ID, N: q.N}); !errors.Is(err, store.ErrNotFound) { // more than one listing may name it
				require.NoError(t, err)
			}
		}
		return nil
	}))
	return l
}

func quarantine(t testing.TB, s *bolt.Store) (aside []store.Quarantined) {
	t.Helper()
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) (err error) {
		aside, err = tx.Quarantine(9)
		for i := range aside {
			aside[i].Raw = bytes.Clone(aside[i].Raw)
		}
		return err
	}))
	return aside
}

// eachFlip opens a store for each byte of a value, with a bit of that byte flipped. test
// sets the value aside; then the store is sound.
func eachFlip(t *testing.T, bucket string, key []byte, test func(s *bolt.Store, at int, spoilt []byte)) {
	t.Helper()
	for at := 0; ; at++ {
		path, end := kept(t, 3), false
		var spoilt []byte
		flipped(t, path, bucket, key, func(k, v []byte) ([]byte, []byte) {
			if end = at == len(v); !end {
				v = flip(v, 8*at)
			}
			spoilt = v
			return k, v
		})
		if end {
			return
		}
		s, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		test(s, at, spoilt)
		if at%16 == 0 {
			sound, err := s.Check(ctx)
			require.NoError(t, err)
			require.Empty(t, sound)
		}
		require.NoError(t, s.Close())
	}
}

func TestAFlippedBitInAWebhookHidesNoOtherAndItsBytesAreKept(t *testing.T) {
	id := testID(2)
	for _, bucket := range []string{"webhooks", "webhooks-info"} {
		eachFlip(t, bucket, id[:], func(s *bolt.Store, at int, spoilt []byte) {
			require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
				found, err := tx.Webhooks(2)
				require.Len(t, found, 2, "%s byte %d", bucket, at)
				require.ErrorIs(t, err, store.ErrCorrupt)
				require.ErrorContains(t, err, "webhooks webhook/"+id.String())
				var re *store.RecordError
				require.ErrorAs(t, err, &re)
				require.Equal(t, []any{store.KindWebhook, id}, []any{re.Kind, re.ID})
				return nil
			}))
			require.Len(t, clean(t, s).badWebhooks, 1)
			aside := quarantine(t, s)
			require.Len(t, aside, 1)
			require.Contains(t, string(aside[0].Raw), string(spoilt))
			require.Contains(t, string(aside[0].Raw), "\n", "both parts are kept")
			l := clean(t, s)
			require.Empty(t, l.badWebhooks)
			require.Len(t, l.webhooks, 2)
		})
	}
}

func TestAFlippedBitInAnOutboxEntryHidesNoOtherAndItsPlaceInTheLaneGoesWithIt(t *testing.T) {
	for n := range uint32(2) { // one that waits, and one that was handed out
		key := store.EffectKey{ID: testID(2), N: n}
		raw := append(key.ID[:], 0, 0, 0, byte(n))
		eachFlip(t, "outbox", raw, func(s *bolt.Store, at int, spoilt []byte) {
			require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
				visited := 0
				errs := []error{tx.Outbox(func(store.OutboxEntry) error { visited++; return nil })}
				require.Equal(t, 5, visited)
				_, err := tx.OutboxEntry(key)
				errs = append(errs, err)
				found, err := tx.Waiting("http", 2)
				require.Len(t, found, 2)
				if n == 0 {
					errs = append(errs, err)
				}
				for _, err := range errs {
					require.ErrorIs(t, err, store.ErrCorrupt)
					var oe *store.OutboxError
					require.ErrorAs(t, err, &oe)
					require.Equal(t, key, oe.Key())
					var re *store.RecordError
					require.ErrorAs(t, err, &re)
					require.Equal(t, []any{store.KindOutbox, key.ID}, []any{re.Kind, re.ID})
				}
				require.ErrorContains(t, errs[0], "outbox outbox/"+key.String())
				return nil
			}))
			require.NotEmpty(t, clean(t, s).badOutbox)
			aside := quarantine(t, s)
			require.Len(t, aside, 1)
			require.Equal(t, []any{n, spoilt}, []any{aside[0].N, aside[0].Raw})
			l := clean(t, s)
			require.Empty(t, l.badOutbox)
			require.Len(t, l.outbox, 5)
			require.Len(t, l.waiting, int(2+n))
		})
	}
}

func TestADamagedOutboxEntryIsRemovedOrReplacedWithoutBeingListedFirst(t *testing.T) {
	key := store.EffectKey{ID: testID(2)}
	for name, do := range map[string]func(tx store.Tx) error{
		"deleted": func(tx store.Tx) error { return tx.DeleteOutbox(key) },
		"replaced": func(tx store.Tx) error {
			return tx.PutOutbox(store.OutboxEntry{Key: key, Seq: 9, Kind: "action", Lane: "other", Effect: []byte("{}")})
		},
	} {
		path := kept(t, 3)
		flipped(t, path, "outbox", append(key.ID[:], 0, 0, 0, 0), func(k, v []byte) ([]byte, []byte) { return k, flip(v, 100) })
		s := open(t, path, bolt.Options{NoSync: true})
		require.NoError(t, s.Update(ctx, do), name)
		assert.Empty(t, clean(t, s).badOutbox, name)
		found, err := s.Check(ctx)
		require.NoError(t, err)
		assert.Empty(t, found, name)
	}
}

// A key has no checksum of its own: what stands under a damaged one is named by
// what is left of it, once, and can be taken away by that name.
func TestADamagedKeyIsNamedOnceAndGoneAfterItWasSetAside(t *testing.T) {
	id := testID(2)
	effect := append(id[:], 0, 0, 0, 0)
	place := append([]byte{0, 4, 'h', 't', 't', 'p', 0, 0, 0, 0, 0, 0, 0, 2}, effect...)
	for bucket, key := range map[string][]byte{"webhooks": id[:], "webhooks-info": id[:], "outbox": effect, "waiting": place} {
		changes := map[string]func(k, v []byte) ([]byte, []byte){}
		for bit := range 8 * len(key) {
			changes[fmt.Sprintf("bit %d", bit)] = func(k, v []byte) ([]byte, []byte) { return flip(k, bit), v }
		}
		for n := 1; n < 64; n *= 2 { // a flipped bit of its length
			changes[fmt.Sprintf("length ^ %d", n)] = func(k, v []byte) ([]byte, []byte) {
				l := len(k) ^ n
				if l == 0 { // no file with an empty key is opened
					return flip(k, 0), v
				}
				return append(k, bytes.Repeat([]byte("{x"), 32)...)[:l], v
			}
		}
		for name, change := range changes {
			if k, _ := change(bytes.Clone(key), nil); bytes.Equal(k, append(id[:], 0, 0, 0, 1)) {
				continue // there is one already, and Open refuses a page with two
			}
			path := kept(t, 3)
			flipped(t, path, bucket, key, change)
			s, err := bolt.Open(path, bolt.Options{NoSync: true})
			require.NoError(t, err)
			clean(t, s)
			l := clean(t, s)
			what := bucket + " " + name
			require.Empty(t, append(l.badWebhooks, l.badOutbox...), what)
			require.Subset(t, l.webhooks, []uuid.UUID{testID(1), testID(3)}, what)
			for _, e := range []store.EffectKey{{ID: testID(1)}, {ID: testID(1), N: 1}, {ID: id, N: 1}, {ID: testID(3)}, {ID: testID(3), N: 1}} {
				require.Contains(t, l.outbox, e, what)
			}
			require.Subset(t, l.waiting, []store.EffectKey{{ID: testID(1)}, {ID: testID(3)}}, what)
			require.NoError(t, s.Close())
		}
	}
}

func TestAPlaceInAnotherLaneGivesItsEntryOutOnce(t *testing.T) {
	key := store.EffectKey{ID: testID(2)}
	place := append([]byte{0, 4, 'h', 't', 't', 'p', 0, 0, 0, 0, 0, 0, 0, 2}, append(key.ID[:], 0, 0, 0, 0)...)
	for _, holder := range []string{"", "h"} { // handed out before, and by what is found
		path := kept(t, 3)
		s, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		if holder != "" {
			require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
				e, err := tx.OutboxEntry(key)
				require.NoError(t, err)
				e.Holder = holder
				return tx.PutOutbox(e)
			}))
		}
		require.NoError(t, s.Close())
		makeBolt(t, path, func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("waiting"))
			return errors.Join(b.Delete(place), b.Put(flip(bytes.Clone(place), 8*5), []byte{}))
		})
		s = open(t, path, bolt.Options{NoSync: true})
		require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
			lanes, err := tx.WaitingLanes()
			require.NoError(t, err)
			require.Equal(t, []string{"http", "httq"}, lanes)
			found, err := tx.Waiting("httq", 9)
			require.NoError(t, err)
			if holder != "" {
				require.Empty(t, found)
				return nil
			}
			require.Len(t, found, 1)
			require.Equal(t, "http", found[0].Lane)
			found[0].Holder, found[0].Effect = "h", bytes.Clone(found[0].Effect)
			require.NoError(t, tx.PutOutbox(found[0]))
			lanes, err = tx.WaitingLanes()
			require.NoError(t, err)
			require.Equal(t, []string{"http"}, lanes)
			return nil
		}))
	}
}

func TestMoreDamageThanIsNamedAtOnceHidesNothingBehindIt(t *testing.T) {
	path := kept(t, 151)
	var last uuid.UUID
	makeBolt(t, path, func(tx *bbolt.Tx) error {
		for _, name := range []string{"webhooks-info", "outbox"} {
			b := tx.Bucket([]byte(name))
			c := b.Cursor()
			k, _ := c.Last()
			last = uuid.UUID(k[:16])
			var bad [][]byte
			for k, _ := c.First(); k != nil; k, _ = c.Next() {
				if !bytes.HasPrefix(k, last[:]) {
					bad = append(bad, bytes.Clone(k))
				}
			}
			for _, k := range bad {
				if err := b.Put(k, []byte("damaged")); err != nil {
					return err
				}
			}
		}
		return nil
	})
	s := open(t, path, bolt.Options{NoSync: true})
	for _, want := range []int{100, 50, 0} {
		require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
			l := list(t, tx, 1)
			require.Equal(t, []uuid.UUID{last}, l.webhooks)
			require.Equal(t, []store.EffectKey{{ID: last}}, l.waiting)
			return nil
		}))
		require.Len(t, clean(t, s).badWebhooks, want)
	}
	for rounds := 0; len(clean(t, s).badOutbox) > 0; rounds++ {
		require.Less(t, rounds, 4, "300 entries")
	}
}

func TestARecordUnderADamagedKeyIsSetAsideByWhatIsLeftOfIt(t *testing.T) {
	path := filled(t, 1)
	id := testID(3)
	flipped(t, path, "records/action", id[:], func(k, v []byte) ([]byte, []byte) { return append(k, '{'), v })
	s := open(t, path, bolt.Options{NoSync: true})
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		bad, err := store.Unreadable(tx.Records(func(store.Record) error { return nil }))
		require.NoError(t, err)
		require.Len(t, bad, 1)
		require.Equal(t, id, bad[0].ID)
		return tx.SetAside(bad[0], 1_000_003)
	}))
	found, err := s.Check(ctx)
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestADueEntryWithADamagedKindCanBeSetAside(t *testing.T) {
	at := effects.Time(1_000_003)
	key := store.NewDueKey(at, testID(3))
	for bit := range 8 * len("action") {
		path := filled(t, 1)
		flipped(t, path, "due", key[:], func(k, v []byte) ([]byte, []byte) { return k, flip(v, bit) })
		s, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(t, err)
		require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
			due, err := tx.Due(nil, nil, at, 99)
			require.NoError(t, err)
			require.Equal(t, key, due[3].Key)
			require.NotEqual(t, effects.Kind("action"), due[3].Kind)
			require.NoError(t, tx.SetAside(store.Quarantined{Kind: due[3].Kind, ID: testID(3), At: 1}, at), "bit %d", bit)
			due, err = tx.Due(nil, nil, at, 99)
			require.NoError(t, err)
			require.Len(t, due, 3)
			return nil
		}))
		require.NoError(t, s.Close())
	}
}

func TestCheckHoldsEachKindOfADueKeyToHaveItsRecord(t *testing.T) {
	path := filled(t, 1)
	key := store.NewDueKey(1_000_003, testID(3))
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		w := store.Write{Kind: "recurring", ID: testID(3), State: []byte(`{}`), Due: 1_000_003}
		return errors.Join(tx.Put(2, []store.Write{w}), tx.AppendJournal(2, 1, []byte(`{}`)))
	}))
	found, err := s.Check(ctx)
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, s.Close())
	makeBolt(t, path, func(tx *bbolt.Tx) error {
		assert.Equal(t, "action recurring", string(tx.Bucket([]byte("due")).Get(key[:])))
		id := testID(3)
		return tx.Bucket([]byte("records/recurring")).Delete(id[:])
	})
	found, err = bolt.Check(ctx, path)
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Contains(t, found[0].String(), "due: key")
	assert.Contains(t, found[0].String(), "recurring/"+testID(3).String())
}

func TestUnreadableTakesApartOnlyWhatAListingPassedOver(t *testing.T) {
	damaged := &store.RecordError{Op: "records", Kind: "action", ID: testID(1), Err: store.ErrCorrupt}
	entry := store.NewOutboxError("outbox", store.EffectKey{ID: testID(2), N: 3}, store.ErrCorrupt)
	missing := &store.RecordError{Op: "get", Kind: "action", ID: testID(1), Err: store.ErrNotFound}
	other := fmt.Errorf("scan: %w: bad page", store.ErrCorrupt)
	wrapped := fmt.Errorf("%w: %w", store.ErrClosed, missing)

	bad, rest := store.Unreadable(errors.Join(damaged, other, entry))
	require.ErrorIs(t, rest, store.ErrCorrupt)
	assert.EqualError(t, rest, other.Error())
	assert.Equal(t, []store.Quarantined{
		{Kind: "action", ID: testID(1), Reason: damaged.Error()}, {Kind: store.KindOutbox, ID: testID(2), N: 3, Reason: entry.Error()},
	}, bad)
	for _, err := range []error{nil, missing, other, wrapped} {
		bad, rest := store.Unreadable(err)
		assert.Empty(t, bad)
		assert.Equal(t, err, rest)
	}
	bad, rest = store.Unreadable(damaged)
	assert.Len(t, bad, 1)
	require.NoError(t, rest)
}
