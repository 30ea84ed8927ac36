package shell

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// ledgerTenants own the entries of the tests.
var ledgerTenants = []Scope{{Namespace: "a", Tenant: "x"}, {Namespace: "a", Tenant: "y"}, {Namespace: "b", Tenant: "x"}}

// aYear is when the times of the tests are, in milliseconds.
const aYear = 365 * 24 * 3600 * 1000

func drawEntry(t *rapid.T, id uuid.UUID) core.Occurrence {
	of := rapid.SampledFrom(ledgerTenants).Draw(t, "tenant")
	o := core.Occurrence{
		ID: id, DueAt: effects.Time(rapid.Int64Range(1, 20).Draw(t, "due")), Count: 1,
		Verdict: rapid.SampledFrom(core.Verdicts()).Draw(t, "verdict"), Namespace: of.Namespace, Tenant: of.Tenant,
		Schedule: rapid.SampledFrom(core.OccurrenceSchedules()).Draw(t, "schedule"), Manual: rapid.Bool().Draw(t, "manual"),
		Name: rapid.SampledFrom([]string{"nightly", "hourly"}).Draw(t, "name"), Latest: rapid.Bool().Draw(t, "latest"),
	}
	span := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 8 * time.Millisecond, time.Hour, 5 * time.Hour, 5000 * time.Hour}).Draw(t, "span")
	if rapid.Bool().Draw(t, "long ago") { // it may reach the times that filters are about
		o.DueAt -= effects.Time(rapid.SampledFrom([]time.Duration{time.Hour, 4 * time.Hour, 5000 * time.Hour}).Draw(t, "how long ago").Milliseconds())
	}
	o.DueAt += aYear
	o.LastDueAt, o.DecidedAt = o.DueAt.Add(span), o.DueAt+100
	o.RecurringID = uuid.UUID{0: byte(slices.Index(ledgerTenants, of)), 15: o.Name[0]}
	if o.Schedule == core.KindJob {
		o.RecurringID = core.JobRef(of.Namespace, of.Tenant, o.Name).ID
	}
	if o.Verdict == core.VerdictDispatched {
		o.Outcome = string(rapid.SampledFrom(append(core.OccurrenceOutcomes(o.Schedule), "")).Draw(t, "outcome"))
	}
	if rapid.Bool().Draw(t, "backfilled") {
		o.Backfill = uuid.UUID{15: 7}
	}
	if rapid.IntRange(0, 9).Draw(t, "of an earlier build") == 0 {
		o.Schedule, o.Namespace, o.Tenant, o.Name = "", "", "", ""
	}
	return o
}

func drawOccurrenceFilter(t *rapid.T, entries []core.Occurrence) (f OccurrenceFilter, p Page) {
	some := func(label string) bool { return rapid.IntRange(0, 3).Draw(t, label) == 0 }
	switch rapid.IntRange(0, 3).Draw(t, "tenants") {
	case 0:
		f.Scope = &ledgerTenants[0]
	case 1:
		p.Scopes = ledgerTenants[1:]
	case 2:
		p.Among = func(s Scope) bool { return s.Tenant == "x" }
		p.Visible = func(s core.State) bool { return core.ScopeOf(s).Tenant == "x" }
	}
	if some("by schedule") {
		f.Schedule = rapid.SampledFrom(core.OccurrenceSchedules()).Draw(t, "of kind")
	}
	if some("by id") && len(entries) > 0 {
		f.ScheduleID = rapid.SampledFrom(entries).Draw(t, "of schedule").RecurringID
	}
	if some("by name") {
		f.Name = rapid.SampledFrom([]string{"nightly", "hourly", "never"}).Draw(t, "named")
	}
	if some("by verdict") {
		f.Verdict = rapid.SampledFrom(core.Verdicts()).Draw(t, "of verdict")
	}
	if some("by outcome") {
		f.Outcome = rapid.SampledFrom(core.OccurrenceOutcomes("")).Draw(t, "of outcome")
	}
	if some("by hand") {
		manual := rapid.Bool().Draw(t, "is manual")
		f.Manual = &manual
	}
	if some("by backfill") {
		f.Backfill = uuid.UUID{15: 7}
	}
	if some("from") {
		f.From = aYear + effects.Time(rapid.Int64Range(1, 20).Draw(t, "from when"))
		f.Spanning = rapid.Bool().Draw(t, "spanning")
	}
	if some("to") {
		f.To = aYear + effects.Time(rapid.Int64Range(1, 20).Draw(t, "to when"))
	}
	p.OldestFirst = rapid.Bool().Draw(t, "oldest first")
	return f, p
}

func TestTheListOfOccurrencesGivesWhatItsFilterChoosesInFullPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := memory.New()
		defer func() { require.NoError(t, st.Close()) }()
		var entries []core.Occurrence
		for n := range rapid.IntRange(0, 40).Draw(t, "entries") {
			entries = append(entries, drawEntry(t, uuid.UUID{14: 1, 15: byte(n)}))
		}
		require.NoError(t, st.Update(context.Background(), func(tx store.Tx) error {
			var writes []store.Write
			for _, o := range entries {
				writes = append(writes, store.Write{Kind: core.KindOccurrence, ID: o.ID, State: o.AppendJSON(nil), Terms: o.Terms()})
			}
			require.NoError(t, tx.AppendJournal(1, 1, []byte(`{}`)))
			return tx.Put(1, writes)
		}))
		f, p := drawOccurrenceFilter(t, entries)
		var want []uuid.UUID
		slices.SortFunc(entries, func(a, b core.Occurrence) int {
			return cmp.Or(cmp.Compare(b.DueAt, a.DueAt), slices.Compare(b.ID[:], a.ID[:]))
		})
		if p.OldestFirst {
			slices.Reverse(entries)
		}
		for _, o := range entries {
			of := Scope{Namespace: o.Namespace, Tenant: o.Tenant}
			if f.keeps(o) && (f.Scope != nil || len(p.Scopes) == 0 || slices.Contains(p.Scopes, of)) && (p.Visible == nil || p.Visible(o)) {
				want = append(want, o.ID)
			}
		}
		p.Limit = rapid.IntRange(1, 5).Draw(t, "limit")
		var got []uuid.UUID
		for {
			list, next, err := f.read(context.Background(), st, p)
			require.NoError(t, err)
			for _, o := range list {
				got = append(got, o.ID)
			}
			if next == "" {
				break
			}
			require.Len(t, list, p.Limit, "a page before the last one is full")
			p.Token = next
		}
		require.Equal(t, want, got, "%+v", f)

		other := f
		other.Verdict, other.Outcome = core.VerdictExpired, core.StatusFailed
		if p.Token != "" && (f.Verdict != other.Verdict || f.Outcome != other.Outcome) {
			_, _, err := other.read(context.Background(), st, p)
			require.ErrorIs(t, err, ErrPageToken, "a token of another list")
		}
	})
}

// What reaches into a day is found without reading what ended before it, however much that is.
func TestWhatReachesIntoADayIsFoundWithoutReadingAllThatWasBefore(t *testing.T) {
	st := memory.New()
	defer func() { require.NoError(t, st.Close()) }()
	hour := effects.Time(time.Hour.Milliseconds())
	day := effects.Time(aYear)
	require.NoError(t, st.Update(context.Background(), func(tx store.Tx) error {
		var writes []store.Write
		for n := range 3000 { // one an hour, of half an hour; each hundredth of three days
			o := core.Occurrence{
				ID: uuid.UUID{13: 1, 14: byte(n >> 8), 15: byte(n)}, DueAt: day - effects.Time(n+2)*hour, Verdict: core.VerdictSkipped, Count: 30,
				Schedule: core.KindRecurring, Namespace: "a", Tenant: "x",
			}
			if o.LastDueAt = o.DueAt + hour/2; n%100 == 50 {
				o.LastDueAt = o.DueAt + 72*hour
			}
			writes = append(writes, store.Write{Kind: core.KindOccurrence, ID: o.ID, State: o.AppendJSON(nil), Terms: o.Terms()})
		}
		require.NoError(t, tx.AppendJournal(1, 1, []byte(`{}`)))
		return tx.Put(1, writes)
	}))
	f, p := OccurrenceFilter{From: day, To: day + 24*hour, Spanning: true}, Page{}
	list, next, err := f.read(context.Background(), st, p)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, list, 1)
	require.Equal(t, day-52*hour, list[0].DueAt)
	read := 0
	p.Visible = func(core.State) bool { read++; return true }
	_, _, err = f.read(context.Background(), st, p)
	require.NoError(t, err)
	require.LessOrEqual(t, read, 4, "it looks back as far as entries of that class reach")
}

// A filter that has lists reads no entry in vain.
func TestAFilterOfOccurrencesThatHasListsReadsNoOther(t *testing.T) {
	st := memory.New()
	defer func() { require.NoError(t, st.Close()) }()
	require.NoError(t, st.Update(context.Background(), func(tx store.Tx) error {
		var writes []store.Write
		for n := range 2000 {
			o := core.Occurrence{
				ID: uuid.UUID{13: 1, 14: byte(n >> 8), 15: byte(n)}, RecurringID: uuid.UUID{15: 1}, DueAt: effects.Time(n + 1), Verdict: core.VerdictDispatched, Count: 1,
				Outcome: "completed", Schedule: core.KindAction, Namespace: "a", Tenant: "x", Name: "often",
			}
			if n == 1 {
				o.Outcome, o.Name, o.Manual, o.Backfill = "failed", "rare", true, uuid.UUID{15: 7}
			}
			writes = append(writes, store.Write{Kind: core.KindOccurrence, ID: o.ID, State: o.AppendJSON(nil), Terms: o.Terms()})
		}
		require.NoError(t, tx.AppendJournal(1, 1, []byte(`{}`)))
		return tx.Put(1, writes)
	}))
	manual := true
	for name, f := range map[string]OccurrenceFilter{
		"outcome": {Outcome: core.StatusFailed}, "name": {Name: "rare"}, "by hand": {Manual: &manual}, "backfill": {Backfill: uuid.UUID{15: 7}},
		"time": {From: 2, To: 3}, "schedule and time": {ScheduleID: uuid.UUID{15: 1}, To: 3, From: 2},
	} {
		read := 0
		list, next, err := page(context.Background(), st, f.index(Page{}), Page{}, func(o core.Occurrence) bool { read++; return f.keeps(o) })
		require.NoError(t, err)
		require.Empty(t, next, name)
		require.Len(t, list, 1, name)
		require.Equal(t, 1, read, name)
	}
}
