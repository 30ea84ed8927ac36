package rewind_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/rewind"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// told rewinds, and gives what is told as left out.
func (k *kit) told(batch uint64) (told []store.Omission, back *memory.Store) {
	k.t.Helper()
	r := &tellsOmitted{Rewind: rewind.New(k.st, rewind.Options{Batch: batch})}
	back = memory.New()
	require.NoError(k.t, back.Import(k.t.Context(), r))
	return r.told, back
}

func (k *kit) setAside(n byte, seconds uint64) {
	k.t.Helper()
	k.update(func(tx store.Tx) error {
		return tx.SetAside(store.Quarantined{Kind: core.KindAction, ID: action(n).ID, At: at(seconds), Reason: "r"}, 0)
	})
	ref := action(n)
	delete(k.live, ref)
	delete(k.prev, ref)
}

func TestARecordThatWasMadeSinceIsNotMissedIfItWasSetAside(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(3)) // 1
	k.batch(create(5))            // 2
	k.setAside(3, 2)
	k.batch(create(2)) // 3
	k.batch(create(3)) // 4: another one
	k.setAside(2, 5)
	k.setAside(3, 5)
	k.batch(create(4)) // 5
	told, back := k.told(2)
	assert.Empty(t, told, "3 was set aside by then, 2 was not there")
	view(t, back, func(tx store.ReadTx) {
		n := 0
		require.NoError(t, tx.Records(func(store.Record) error { n++; return nil }))
		assert.Equal(t, 2, n)
	})
	k.setAside(1, 6)
	k.batch(create(1)) // 6: another one, which stays
	told, _ = k.told(5)
	require.Len(t, told, 1, "of 1 nobody knows what it was")
	assert.Equal(t, action(1).String(), told[0].Name)
	k.setAside(1, 7)
	k.batch(create(6)) // 7
	told, _ = k.told(6)
	require.Len(t, told, 1)
	told, _ = k.told(5)
	require.Len(t, told, 1, "it was set aside twice since")
}

// TestARecordThatABatchWroteWasSetAsideBehindIt: whatever the clock says.
func TestARecordThatABatchWroteWasSetAsideBehindIt(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2))
	k.setAside(1, 1)
	k.batch(create(3))
	told, _ := k.told(1)
	require.Len(t, told, 1)
	assert.Equal(t, action(1).String(), told[0].Name)
}

// TestNobodySaysOfARecordThatItWasSetAsideSinceIfThatIsNotKnown: the first batch that can be had has no time.
func TestNobodySaysOfARecordThatItWasSetAsideSinceIfThatIsNotKnown(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2))
	k.setAside(1, 1)
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(2)) })
	k.batch(create(3))
	k.setAside(2, 2)
	k.update(func(tx store.Tx) error {
		_, err := tx.DropEpochs(2, 100)
		return err
	})
	told, _ := k.told(1)
	require.Len(t, told, 1, "of 2 the epoch has what it was")
	assert.Equal(t, action(1).String(), told[0].Name)
	assert.Equal(t, "it was set aside before or since: r", told[0].Reason)
}

// damaged is a store that cannot read some of its records, and its outbox.
type damaged struct {
	rewind.Source
	records map[uuid.UUID]bool
}

func (d *damaged) Export(ctx context.Context, to store.Sink) error {
	return d.Source.Export(ctx, damagedSink{to, d})
}

type damagedSink struct {
	store.Sink
	d *damaged
}

func (s damagedSink) Record(r store.Record) error {
	if !s.d.records[r.ID] {
		return s.Sink.Record(r)
	}
	return errors.Join(
		s.Omitted(store.Omission{What: "record", Name: r.ID.String(), Reason: "the checksum is wrong"}),
		s.Quarantined(store.Quarantined{Kind: r.Kind, ID: r.ID, Reason: "the checksum is wrong", Raw: r.State}))
}

func (s damagedSink) Outbox(e store.OutboxEntry) error {
	return errors.Join(
		s.Omitted(store.Omission{What: "outbox entry", Name: e.Key.String(), Reason: "the checksum is wrong"}),
		s.Quarantined(store.Quarantined{Kind: store.KindOutbox, ID: e.Key.ID, N: e.Key.N, Reason: "the checksum is wrong"}))
}

func TestOfWhatTheSourceCannotReadOnlyThatIsToldWhichTheJournalDoesNotHave(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2), create(3), create(5)) // 1
	k.batch(to(5, core.ActionTrigger{}))                // 2
	k.update(func(tx store.Tx) error { return tx.BeginEpoch(at(3)) })
	k.batch(to(1, core.ActionTrigger{})) // 3: the epoch has 1 as it was
	k.batch(create(4))                   // 4
	k.st = &damaged{k.st, map[uuid.UUID]bool{action(1).ID: true, action(2).ID: true, action(4).ID: true}}
	names := func(batch uint64) (names []string, found []byte) {
		told, back := k.told(batch)
		for _, o := range told {
			assert.Equal(t, "the checksum is wrong", o.Reason)
			names = append(names, o.Name)
		}
		view(t, back, func(tx store.ReadTx) {
			require.NoError(t, tx.Records(func(r store.Record) error { found = append(found, r.ID[0]); return nil }))
			aside, err := tx.Quarantine(9)
			require.NoError(t, err)
			assert.Len(t, aside, 5, "what stood there is kept: three records, two entries of the outbox")
		})
		assert.False(t, entries(t, back)[key(5, 1)], "it may have begun")
		return names, found
	}
	told, found := names(2)
	assert.Equal(t, []string{action(2).ID.String()}, told)
	assert.Equal(t, []byte{1, 3, 5}, found)
	told, found = names(3)
	assert.Equal(t, []string{action(1).ID.String(), action(2).ID.String()}, told, "each once")
	assert.Equal(t, []byte{3, 5}, found)
}

// TestWhatWasSetAsideComesBehindTheRecords: also of a source that has none.
func TestWhatWasSetAsideComesBehindTheRecords(t *testing.T) {
	k := newKit(t)
	k.batch(create(1), create(2))
	k.batch(to(2, core.ActionCancel{}))
	k.batch(to(2, core.ActionExpire{}))
	k.setAside(1, 3)
	var order []string
	r := rewind.New(k.st, rewind.Options{Batch: 2})
	require.NoError(t, memory.New().Import(t.Context(), ordered{r, &order}))
	assert.Equal(t, []string{"record", "set aside"}, order)
}

// ordered notes in which order records and what was set aside come.
type ordered struct {
	store.Exporter
	order *[]string
}

func (o ordered) Export(ctx context.Context, to store.Sink) error {
	return o.Exporter.Export(ctx, orderedSink{to, o.order})
}

type orderedSink struct {
	store.Sink
	order *[]string
}

func (s orderedSink) Record(r store.Record) error {
	*s.order = append(*s.order, "record")
	return s.Sink.Record(r)
}

func (s orderedSink) Quarantined(q store.Quarantined) error {
	*s.order = append(*s.order, "set aside")
	return s.Sink.Quarantined(q)
}
