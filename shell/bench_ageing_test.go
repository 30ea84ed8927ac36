package shell_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

var (
	agedFlag = flag.Int("aged", 2_000, "BenchmarkAgeing: finished actions that the old database keeps; as many have been forgotten, a tenth as many wait")
	agedFile = flag.String("aged-file", "", "BenchmarkAgeing: the old database's `file`; one that is not there is made, and kept")
)

// agedClock is the system's clock, ahead by what it was moved on.
type agedClock struct {
	shell.SystemClock
	ahead atomic.Int64
}

func (c *agedClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *agedClock) Steady() time.Time { return c.Now() }

// longestCommit notes the longest time that a transaction's function took, of all since it was read.
type longestCommit struct {
	*bolt.Store
	took atomic.Int64
}

func (s *longestCommit) timed(fn func(store.Tx) error) func(store.Tx) error {
	return func(tx store.Tx) error {
		begin := time.Now()
		defer func() { s.took.Store(max(s.took.Load(), int64(time.Since(begin)))) }() // one writer at a time
		return fn(tx)
	}
}

func (s *longestCommit) Update(ctx context.Context, fn func(store.Tx) error) error {
	return s.Store.Update(ctx, s.timed(fn))
}

func (s *longestCommit) Stage(ctx context.Context, fn func(store.Tx) error) (func() error, error) {
	return s.Store.Stage(ctx, s.timed(fn))
}

// aged opens a database in which two weeks have passed: each saw -aged actions from create to
// completed; those of the first are forgotten again. It gives the clock at the end of them.
func aged(b *testing.B, path string) *agedClock {
	clock := &agedClock{}
	if text, err := os.ReadFile(path + aheadNote); err == nil {
		ahead, err := time.ParseDuration(string(text))
		require.NoError(b, err)
		clock.ahead.Store(int64(ahead))
		return clock
	}
	st, err := bolt.Open(path, bolt.Options{NoSync: true})
	require.NoError(b, err)
	e, stop := start(b, shell.Options{Store: st, Tools: tools(noop), Clock: clock, DefaultConcurrency: 1024})
	const steps = 14 * 24 // hours
	begun := time.Now()
	for hour := range steps {
		n := *agedFlag * 2 / steps
		each(256, n, func() error { return execute(e) }, b)
		var wait []core.ActionSpec
		for range n / 20 {
			spec := benchmarkSpec()
			spec.Trigger = core.Scheduled(effects.TimeOf(clock.Now().Add(1000 * time.Hour)))
			wait = append(wait, spec)
		}
		for part := range slices.Chunk(wait, 500) {
			_, err := e.Actions().CreateAll(bg(), part)
			require.NoError(b, err)
		}
		clock.ahead.Add(int64(time.Hour))
		if hour%24 == 23 && testing.Verbose() {
			b.Logf("day %d: %s", hour/24+1, time.Since(begun).Round(time.Second))
		}
	}
	untilForgotten(b, e)
	require.NoError(b, stop())
	require.NoError(b, st.Close())
	clock.note(b, path)
	return clock
}

// aheadNote is what is added to a database's name: how far its clock is ahead stands there.
const aheadNote = ".ahead"

func (c *agedClock) note(b *testing.B, path string) {
	require.NoError(b, os.WriteFile(path+aheadNote, []byte(time.Duration(c.ahead.Load()).String()), 0o600))
}

func execute(e *shell.Engine) error {
	a, err := e.Actions().Execute(bg(), benchmarkSpec())
	if err == nil && a.Status.Type != core.StatusCompleted {
		err = fmt.Errorf("action is %s: %s", a.Status.Type, a.Status.Reason)
	}
	return err
}

// untilForgotten waits until retention has nothing more to do, and gives how many it forgot,
// and how long it took. An action tells the engine that its clock was moved.
func untilForgotten(b *testing.B, e *shell.Engine) (n uint64, took time.Duration) {
	begin, last := time.Now(), time.Now()
	s, err := e.Stats(bg())
	require.NoError(b, err)
	first, was := s.Expired, s.Expired
	require.NoError(b, execute(e))
	for time.Since(last) < 2*time.Second {
		<-time.After(5 * time.Millisecond)
		s, err := e.Stats(bg())
		require.NoError(b, err)
		if s.Expired != was {
			was, last = s.Expired, time.Now()
		}
	}
	return was - first, last.Sub(begin)
}

// bytesOf gives the size of a database's file, and of the journal beside it.
func bytesOf(b *testing.B, path string) (file, journal int64) {
	info, err := os.Stat(path)
	require.NoError(b, err)
	err = filepath.WalkDir(path+".journal", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		journal += i.Size()
		return err
	})
	require.NoError(b, err)
	return info.Size(), journal
}

// BenchmarkAgeing compares an old database with a new one, in turn: the way of an action from
// create to completed, as in BenchmarkDurableActions. Of the old one it tells also how long
// it takes from opening it to the end of the first action, the slowest of its list pages, what
// a day's retention removes in a second, with the longest batch, and its bytes for each action.
func BenchmarkAgeing(b *testing.B) {
	path := *agedFile
	if path == "" {
		path = filepath.Join(b.TempDir(), "old.db")
	}
	clock := aged(b, path)
	file, journal := bytesOf(b, path)
	begin := time.Now()
	opened, err := bolt.Open(path, bolt.Options{})
	require.NoError(b, err)
	defer opened.Close()
	st := &longestCommit{Store: opened}
	old, stopOld := start(b, shell.Options{Store: st, Tools: tools(noop), Clock: clock, DefaultConcurrency: 1024})
	require.NoError(b, execute(old))
	cold := time.Since(begin)
	untilForgotten(b, old)

	freshStore, err := bolt.Open(filepath.Join(b.TempDir(), "new.db"), bolt.Options{})
	require.NoError(b, err)
	defer freshStore.Close()
	fresh, stopFresh := start(b, shell.Options{Store: freshStore, Tools: tools(noop), DefaultConcurrency: 1024})

	for _, callers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var took [2]time.Duration
			const turns = 4
			for turn := range turns {
				for i := range 2 {
					e := [2]*shell.Engine{old, fresh}[(turn+i)%2]
					begin := time.Now()
					each(callers, b.N, func() error { return execute(e) }, b)
					took[(turn+i)%2] += time.Since(begin)
				}
			}
			b.ReportMetric(float64(turns*b.N)/took[0].Seconds(), "old-actions/s")
			b.ReportMetric(float64(turns*b.N)/took[1].Seconds(), "new-actions/s")
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "of-new")
		})
	}
	b.Run("lists", func(b *testing.B) { slowestPage(b, old) })
	b.Run("retention", func(b *testing.B) {
		for range min(b.N, 1) { // a day each time
			st.took.Store(0)
			clock.ahead.Add(int64(24 * time.Hour))
			n, took := untilForgotten(b, old)
			b.ReportMetric(float64(n), "removed")
			b.ReportMetric(float64(n)/took.Seconds(), "removed/s")
			b.ReportMetric(float64(st.took.Load())/1e6, "longest-batch-ms")
		}
	})
	require.NoError(b, stopOld())
	clock.note(b, path)
	require.NoError(b, stopFresh())
	b.Run("file", func(b *testing.B) {
		b.ReportMetric(cold.Seconds()*1e3, "cold-start-ms")
		b.ReportMetric(float64(file)/float64(*agedFlag), "file-bytes/action")
		b.ReportMetric(float64(journal)/float64(*agedFlag), "journal-bytes/action")
	})
}

// slowestPage reads pages of 50 from several lists.
func slowestPage(b *testing.B, e *shell.Engine) {
	scope := &shell.Scope{Namespace: "bench", Tenant: "t"}
	filters := []shell.ActionFilter{
		{}, {Scope: scope}, {Scope: scope, Status: core.StatusPending}, {Scope: scope, Status: core.StatusFailed},
		{Scope: scope, Tool: "count"}, {Scope: scope, Tool: "none"}, {Scope: scope, Status: core.StatusPending, Tool: "count"},
	}
	for range min(b.N, 3) {
		var slowest time.Duration
		for _, f := range filters {
			token := ""
			for range 20 {
				begin := time.Now()
				_, next, err := e.Actions().List(bg(), f, shell.Page{Token: token})
				require.NoError(b, err)
				if slowest = max(slowest, time.Since(begin)); next == "" {
					break
				}
				token = next
			}
		}
		b.ReportMetric(slowest.Seconds()*1e3, "max-ms")
	}
}
