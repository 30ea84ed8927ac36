package shell_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
	"github.com/orrery-go/orrery/store/memory"
)

// endedAction gives an action of the benchmarks of lists and retention: of every hundred one has
// failed and one waits, of every thousand one used the tool rare.
func endedAction(n int, at effects.Time) core.Action {
	a := core.Action{
		ActionSpec: benchmarkSpec(), Status: core.Status{Type: core.StatusCompleted}, Run: 1, Attempt: 1,
		CreatedAt: at.Add(time.Duration(n) * time.Millisecond),
	}
	a.ID, a.Trigger, a.UpdatedAt = uuid.New(), core.Scheduled(a.CreatedAt), a.CreatedAt.Add(time.Second)
	a.Tenant = fmt.Sprint("t", n%100)
	switch n / 100 % 100 {
	case 0:
		a.Status.Type = core.StatusFailed
	case 1:
		a.Status.Type = core.StatusPending
	}
	if n/100%1000 == 7 {
		a.ToolName = "rare"
	}
	a.Labels = map[string]string{"team": fmt.Sprint(n / 100 % 7), "order": fmt.Sprint(n / 3)}
	return a
}

// former gives the list terms of an action of the version before.
func former(a core.Action) []store.Term {
	return append(core.FormerTerms(a), store.Term{Name: core.TermAll, At: a.CreatedAt, Counted: true})
}

// fillEnded stores n of them in the lists that terms says.
func fillEnded(b *testing.B, st store.Store, n int, at effects.Time, terms func(core.Action) []store.Term) {
	const most = 20_000
	for first, seq := 0, uint64(1); first < n; first, seq = first+most, seq+1 {
		require.NoError(b, st.Update(bg(), func(tx store.Tx) error {
			var writes []store.Write
			for i := first; i < min(first+most, n); i++ {
				a := endedAction(i, at)
				writes = append(writes, store.Write{Kind: core.KindAction, ID: a.ID, State: a.AppendJSON(nil), Terms: terms(a)})
			}
			if err := tx.Put(seq, writes); err != nil {
				return err
			}
			return tx.AppendJournal(seq, at, core.NewEntry(seq, at, "fill").AppendJSON(nil))
		}))
	}
}

// BenchmarkListsOfAMillion reads pages of 50 of lists of a million actions of a hundred tenants:
// the first one, and one far behind it. "max-ms" is the slowest page.
func BenchmarkListsOfAMillion(b *testing.B) {
	st, err := bolt.Open(filepath.Join(b.TempDir(), "orrery.db"), bolt.Options{NoSync: true})
	require.NoError(b, err)
	defer st.Close()
	e, err := shell.New(shell.Options{Store: st, Tools: tools(noop)})
	require.NoError(b, err)
	_, _, err = e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{}) // while it is empty: it need not be reindexed
	require.NoError(b, err)
	fillEnded(b, st, 1_000_000, effects.TimeOf(time.Now()), core.Action.Terms)

	scope := &shell.Scope{Namespace: "bench", Tenant: "t3"}
	for _, row := range []struct {
		name string
		f    shell.ActionFilter
	}{
		{"all", shell.ActionFilter{}},
		{"tenant", shell.ActionFilter{Scope: scope}},
		{"tenant+status", shell.ActionFilter{Scope: scope, Status: core.StatusFailed}},
		{"tenant+tool", shell.ActionFilter{Scope: scope, Tool: "rare"}},
		{"tenant+label", shell.ActionFilter{Scope: scope, Labels: map[string]string{"team": "5"}}},
		{"tenant+status+tool+label", shell.ActionFilter{Scope: scope, Status: core.StatusCompleted, Tool: "rare", Labels: map[string]string{"team": "0"}}},
		{"tenant+status+tool,_none", shell.ActionFilter{Scope: scope, Status: core.StatusFailed, Tool: "rare"}},
		{"status", shell.ActionFilter{Status: core.StatusFailed}},
		{"tool", shell.ActionFilter{Tool: "rare"}},
		{"label", shell.ActionFilter{Labels: map[string]string{"order": "99999"}}},
		{"status+tool,_none", shell.ActionFilter{Status: core.StatusFailed, Tool: "rare"}},
	} {
		b.Run(row.name, func(b *testing.B) {
			var took []time.Duration
			n, token := 0, ""
			for b.Loop() {
				begin := time.Now()
				list, next, err := e.Actions().List(bg(), row.f, shell.Page{Token: token})
				took = append(took, time.Since(begin))
				if err != nil || len(list) < shell.DefaultPage && next != "" {
					b.Fatal("a page is not full: ", len(list), err)
				}
				n, token = n+len(list), next
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)-1].Seconds()*1e3, "max-ms")
			b.ReportMetric(float64(n)/float64(len(took)), "actions/page")
		})
	}
}

// BenchmarkRetention forgets actions that ended long ago, in memory: what the deciding
// goroutine spends on it. Others wait that are as old, and cost nothing.
func BenchmarkRetention(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		const n = 100_000
		st := memory.New()
		_, stop := start(b, shell.Options{Store: st, Tools: tools(noop)}) // notes that it need not be reindexed
		<-time.After(50 * time.Millisecond)
		require.NoError(b, stop())
		fillEnded(b, st, n, effects.TimeOf(time.Now().Add(-1000*time.Hour)), core.Action.Terms)
		b.StartTimer()
		begin := time.Now()
		watched := &longest{Store: st}
		_, stop = start(b, shell.Options{Store: watched, Tools: tools(noop), ActionRetention: time.Hour})
		for left := uint64(n); left > n/100; <-time.After(5 * time.Millisecond) {
			require.NoError(b, st.View(bg(), func(tx store.ReadTx) (err error) {
				left, err = tx.Count(core.KindAction, core.TermAll)
				return err
			}))
		}
		b.ReportMetric(n*0.99/time.Since(begin).Seconds(), "removed/s")
		require.NoError(b, stop())
		b.ReportMetric(float64(watched.took)/1e6, "longest-batch-ms")
	}
}

// BenchmarkReindexing starts an engine on a database of a million actions that the version
// before has written, until they stand in the lists of this one.
func BenchmarkReindexing(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "orrery.db")
		st, err := bolt.Open(path, bolt.Options{NoSync: true})
		require.NoError(b, err)
		fillEnded(b, st, 1_000_000, effects.TimeOf(time.Now()), former)
		require.NoError(b, st.Close())
		st, err = bolt.Open(path, bolt.Options{})
		require.NoError(b, err)
		watched := &longest{Store: st}
		b.StartTimer()
		_, stop := start(b, shell.Options{Store: watched, Tools: tools(noop)})
		e, err := shell.New(shell.Options{Store: st, Tools: tools(noop)})
		require.NoError(b, err)
		for err = shell.ErrReindexing; errors.Is(err, shell.ErrReindexing); <-time.After(10 * time.Millisecond) {
			_, _, err = e.Actions().List(bg(), shell.ActionFilter{}, shell.Page{Limit: 1})
		}
		require.NoError(b, err)
		b.ReportMetric(float64(watched.took)/1e6, "longest-transaction-ms")
		b.StopTimer()
		require.NoError(b, stop())
		require.NoError(b, st.Close())
		b.StartTimer()
	}
}

// longest notes how long the longest transaction took.
type longest struct {
	store.Store
	took time.Duration
}

func (s *longest) Update(ctx context.Context, fn func(store.Tx) error) error {
	begin := time.Now()
	err := s.Store.Update(ctx, fn)
	s.took = max(s.took, time.Since(begin))
	return err
}
