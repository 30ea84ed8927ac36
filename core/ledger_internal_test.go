package core

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/effects"
	_ "github.com/orrery-go/orrery/effects/seedtest"
)

// ledgerModel is what a ledger has led to: its entries by their ids, in the order in which they
// were recorded.
type ledgerModel struct {
	t       *rapid.T
	of      ledgerOwner
	entries map[uuid.UUID]Occurrence
	order   []uuid.UUID
}

// take applies the effects of a ledger as a batch would.
func (m *ledgerModel) take(effs []effects.Effect, c Clock) {
	for _, e := range effs {
		send, ok := e.(effects.Send)
		require.True(m.t, ok, "%T", e)
		require.Equal(m.t, KindOccurrence, send.To.Kind)
		event, ok := send.Event.(OccurrenceEvent)
		require.True(m.t, ok)
		was, there := m.entries[send.To.ID]
		is, refused := was.Apply(event, c)
		require.Empty(m.t, refused)
		if !there {
			m.order = append(m.order, send.To.ID)
		}
		m.entries[send.To.ID] = is
	}
}

// listed gives the entries in the order of their record.
func (m *ledgerModel) listed() (out []Occurrence) {
	for _, id := range m.order {
		out = append(out, m.entries[id])
	}
	return out
}

func TestALedgerCountsEachTimeOnceMergesEqualNeighboursAndKeepsItsLatestEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := ledgerModel{t: t, of: ledgerOwner{refOf(KindRecurring, uuid.Max), Scope{"ns", "t"}, "nightly"}, entries: map[uuid.UUID]Occurrence{}}
		var ledger Ledger
		var last, recorded uint64
		clock := Clock{Now: 1_770_732_000_000, Step: rapid.Uint64Range(1, 1<<40).Draw(t, "step")}
		last = rapid.SampledFrom([]uint64{0, 0, 7}).Draw(t, "sequence of an earlier build")
		var neighbour *Occurrence // that was recorded just before, as it was asked for
		for range rapid.IntRange(0, 150).Draw(t, "times") {
			clock.Now, clock.Step = clock.Now.Add(1000), clock.Step+1
			o := Occurrence{
				DueAt: clock.Now, LastDueAt: clock.Now, Verdict: rapid.SampledFrom(append(Verdicts(), VerdictDispatched, VerdictMissed)).Draw(t, "verdict"),
				Reason: rapid.SampledFrom([]string{"", "paused", "paused", "\xff"}).Draw(t, "reason"), Count: rapid.Uint64Range(1, 3).Draw(t, "count"),
				Manual: rapid.IntRange(0, 9).Draw(t, "manual") == 0,
			}
			if rapid.IntRange(0, 9).Draw(t, "backfill") == 0 {
				o.Backfill = uuid.UUID{1}
			}
			joined := neighbour != nil && neighbour.Verdict == o.Verdict && neighbour.Reason == o.Reason && joins(o.Verdict) && !o.Manual && !neighbour.Manual &&
				o.Backfill == uuid.Nil && neighbour.Backfill == uuid.Nil
			entries := len(m.order)
			var effs []effects.Effect
			var id uuid.UUID
			ledger, last, id, effs = ledger.record(m.of, last, o, clock)
			m.take(effs, clock)
			recorded += o.Count
			require.Equal(t, joined, len(m.order) == entries, "an equal neighbour, and only that, is the same entry")
			require.Equal(t, m.order[len(m.order)-1], id)
			got := m.entries[id]
			require.Equal(t, clock.Now, got.LastDueAt)
			require.Equal(t, last, got.Number)
			require.Equal(t, []any{KindRecurring, "ns", "t", "nightly"}, []any{got.Schedule, got.Namespace, got.Tenant, got.Name})
			neighbour = &o
		}
		var counted uint64
		all := m.listed()
		for i, o := range all {
			counted += o.Count
			require.Equal(t, i >= len(all)-KeptOccurrences, o.Latest, "entry %d of %d", i+1, len(all))
		}
		require.Equal(t, recorded, counted)

		m.take(ledger.close(m.of, last), clock)
		require.Len(t, m.order, len(all), "an entry that was never recorded was told something")
		for _, o := range m.listed() {
			require.False(t, o.Latest, "its schedule is gone")
		}
	})
}
