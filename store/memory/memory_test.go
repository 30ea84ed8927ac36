package memory_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
	"github.com/orrery-go/orrery/store/storetest"
	"github.com/orrery-go/orrery/store/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheStoreKeepsWhatTheInterfacePromises(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memory.New() })
}

var ctx = context.Background()

func write(w ...store.Write) func(tx store.Tx) error {
	return func(tx store.Tx) error {
		seq, err := tx.Seq()
		if err != nil {
			return err
		}
		return errors.Join(tx.Put(seq+1, w), tx.AppendJournal(seq+1, 1, []byte(`{}`)))
	}
}

func TestARefusedCommitChangesNothingAndTheNextSucceeds(t *testing.T) {
	s := memory.New()
	full := errors.New("disk full")
	s.FailNextCommit(full)
	w := store.Write{Kind: "action", ID: uuid.New(), State: []byte(`{}`)}
	require.ErrorIs(t, s.Update(ctx, write(w)), full)
	require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
		seq, err := tx.Seq()
		assert.Zero(t, seq)
		return err
	}))
	require.NoError(t, s.Update(ctx, write(w)))
	s.FailNextCommit(full)
	s.FailNextCommit(nil)
	require.NoError(t, s.Update(ctx, write()))
}

func TestACopyGoesItsOwnWay(t *testing.T) {
	seqs := func(stores ...*memory.Store) (list []uint64) {
		for _, s := range stores {
			require.NoError(t, s.View(ctx, func(tx store.ReadTx) error {
				seq, err := tx.Seq()
				list = append(list, seq)
				return err
			}))
		}
		return list
	}
	s := memory.New()
	require.NoError(t, s.Update(ctx, write()))
	c := s.Copy("of it")
	assert.Equal(t, "of it", c.Session())
	assert.Equal(t, []uint64{1, 1}, seqs(s, c))
	require.NoError(t, s.Update(ctx, write()))
	require.NoError(t, s.Update(ctx, write()))
	assert.Equal(t, []uint64{3, 1}, seqs(s, c))
	require.NoError(t, c.Update(ctx, write()))
	require.NoError(t, s.Close())
	assert.Equal(t, []uint64{2}, seqs(c))
}

func TestAPrevThatIsNotTrueIsRefused(t *testing.T) {
	first := store.Write{Kind: "action", ID: uuid.New(), State: []byte(`{}`), Due: 5, Terms: []store.Term{{Name: "all", At: 1}}}
	for reason, spoil := range map[string]func(p *store.Prev){
		"prev.seq":           func(p *store.Prev) { p.Seq = 9 },
		"prev.due":           func(p *store.Prev) { p.Due = 6 },
		"prev.terms has 0":   func(p *store.Prev) { p.Terms = nil },
		"prev.terms[0] is {": func(p *store.Prev) { p.Terms = []store.Term{{Name: "all", At: 2}} },
	} {
		s := memory.New()
		require.NoError(t, s.Update(ctx, write(first)))
		next := first
		next.Prev = store.Prev{Version: 1, Seq: 1, Due: 5, Terms: first.Terms}
		spoil(&next.Prev)
		require.ErrorContains(t, s.Update(ctx, write(next)), reason)
	}
}

func TestAReopenedStoreHasTheSameDataAndAnotherSession(t *testing.T) {
	s := memory.NewSession("one")
	require.NoError(t, s.Update(ctx, write(store.Write{Kind: "action", ID: uuid.New(), State: []byte(`{}`)})))
	var before store.Claim
	require.NoError(t, s.Update(ctx, func(tx store.Tx) (err error) {
		before, err = tx.Acquire("c", "holder", 1e9, 1)
		return err
	}))
	again := s.Reopen("two")
	assert.Equal(t, "one", s.Session())
	assert.Equal(t, "two", again.Session())
	require.ErrorIs(t, s.View(ctx, func(store.ReadTx) error { return nil }), store.ErrClosed)
	require.NoError(t, again.Update(ctx, func(tx store.Tx) error {
		seq, err := tx.Seq()
		require.NoError(t, err)
		assert.Equal(t, uint64(1), seq)
		after, err := tx.Acquire("c", "holder", 1e9, 1)
		require.NoError(t, err)
		assert.Greater(t, after.Token, before.Token, "the same name in another session is another holder")
		return nil
	}))
}

func TestABackupRestoresEverything(t *testing.T) {
	s := memory.New()
	id := uuid.New()
	w := store.Write{Kind: "action", ID: id, State: []byte(`{}`), Due: 5, Terms: []store.Term{{Name: "\xffall", At: -1, Counted: true}}}
	require.NoError(t, s.Update(ctx, write(w)))
	require.NoError(t, s.Update(ctx, func(tx store.Tx) error {
		require.NoError(t, tx.BeginEpoch(7))
		require.NoError(t, tx.PutOutbox(store.OutboxEntry{Key: store.EffectKey{ID: id}, Kind: "action", Lane: "l", Effect: []byte(`1`)}))
		require.NoError(t, tx.PutWebhook(store.Webhook{ID: id, Body: []byte("b")}))
		require.NoError(t, tx.SetMeta("m", []byte{}))
		require.NoError(t, tx.PutRunLog(id, 1, []byte("said")))
		require.NoError(t, tx.PutRunLog(id, 2, nil))
		require.NoError(t, tx.SetAside(store.Quarantined{Kind: "action", ID: uuid.New(), At: 1, Raw: []byte("q")}, 0))
		_, err := tx.Acquire("c", "h", 1e9, 1)
		return err
	}))
	w.Prev = store.Prev{Version: 1, Seq: 1, Due: 5, Terms: w.Terms}
	require.NoError(t, s.Update(ctx, write(w)))
	var first, second bytes.Buffer
	_, err := s.Backup(ctx, &first)
	require.NoError(t, err)
	restored, err := memory.Restore(bytes.NewReader(first.Bytes()), "s")
	require.NoError(t, err)
	_, err = restored.Backup(ctx, &second)
	require.NoError(t, err)
	assert.Equal(t, first.Bytes(), second.Bytes())
	require.NoError(t, restored.View(ctx, func(tx store.ReadTx) error {
		n, err := tx.Count("action", "\xffall")
		require.NoError(t, err)
		assert.Equal(t, uint64(1), n)
		waiting, err := tx.Waiting("l", 9)
		require.NoError(t, err)
		assert.Len(t, waiting, 1)
		text, err := tx.RunLog(id, 1)
		require.NoError(t, err)
		assert.Equal(t, "said", string(text))
		_, err = tx.RunLog(id, 2)
		require.NoError(t, err)
		v, err := tx.Meta("m")
		assert.NotNil(t, v)
		return err
	}))
	_, err = memory.Restore(strings.NewReader("something else"), "s")
	require.ErrorIs(t, err, stream.ErrForeign)
}
