package shell_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/replay"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// scheduled runs one engine by stimuli that a seed picks: it is its [shell.Clock], its
// engine.Scheduler, its tool and its store, and knows when nothing of it runs.
type scheduled struct {
	store.Store
	mu     sync.Mutex
	quiet  *sync.Cond
	runs   int
	now    time.Time
	timers []*stimulus
	parked []*stimulus // tools and transactions that wait to go on
}

// stimulus is something that may happen next.
type stimulus struct {
	name  string
	at    time.Time // of a timer
	fire  func()
	fired bool
}

func newScheduled(st store.Store) *scheduled {
	s := &scheduled{Store: st, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.quiet = sync.NewCond(&s.mu)
	return s
}

func (s *scheduled) Add(delta int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs += delta; s.runs < 0 {
		panic("more has stopped than ran")
	}
	s.quiet.Broadcast()
}

func (s *scheduled) awaitQuiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.runs > 0 {
		s.quiet.Wait()
	}
}

func (s *scheduled) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *scheduled) Steady() time.Time { return s.Now() }

func (s *scheduled) set(name string, d time.Duration, fire func()) (t *stimulus, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = &stimulus{name: name, at: s.now.Add(d), fire: fire}
	s.timers = append(s.timers, t)
	return t, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timers = slices.DeleteFunc(s.timers, func(o *stimulus) bool { return o == t })
	}
}

func (s *scheduled) Timer(d time.Duration) (<-chan time.Time, func()) {
	c := make(chan time.Time, 1)
	t, stop := s.set("loop", d, func() { c <- time.Time{} })
	return c, func() {
		stop()
		if t.fired { // it was counted until now
			s.Add(-1)
		}
	}
}

func (s *scheduled) AfterFunc(name string, d time.Duration, f func()) func() {
	_, stop := s.set(name, d, func() {
		f()
		s.Add(-1)
	})
	return stop
}

func (*scheduled) Answered(context.Context) {}

func (*scheduled) Ahead(int) bool { return false }

// park waits until the stimulus of that name is picked.
func (s *scheduled) park(name string) {
	c := make(chan struct{})
	s.mu.Lock()
	s.parked = append(s.parked, &stimulus{name: name, fire: func() { close(c) }})
	s.mu.Unlock()
	s.Add(-1)
	<-c
}

func (s *scheduled) Update(ctx context.Context, fn func(store.Tx) error) error {
	s.park("begin a transaction")
	err := s.Store.Update(ctx, fn)
	s.park("answer a transaction")
	return err
}

func (s *scheduled) Run(ctx context.Context, c shell.Call) (json.RawMessage, error) {
	s.park("tool " + c.IdempotencyKey + " " + fmt.Sprint(c.Attempt))
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(c.Input) > 0 && c.Input[0] == '1' {
		return nil, errors.New("no luck")
	}
	return json.RawMessage(`"done"`), nil
}

func (s *scheduled) inTransaction() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.parked, func(p *stimulus) bool { return strings.HasSuffix(p.name, "transaction") })
}

// next has one thing happen that the seed picks, and waits until all is quiet. Timers come in
// the order of their times. It reports false if nothing can happen.
func (s *scheduled) next(r *rand.Rand, more []*stimulus) (string, bool) {
	s.mu.Lock()
	byName := func(a, b *stimulus) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name)) }
	slices.SortFunc(s.timers, byName)
	slices.SortFunc(s.parked, byName)
	possible := slices.Concat(s.parked, more)
	if len(s.timers) > 0 {
		possible = append(possible, s.timers[0])
	}
	if len(possible) == 0 {
		s.mu.Unlock()
		return "", false
	}
	p := possible[r.IntN(len(possible))]
	s.parked = slices.DeleteFunc(s.parked, func(o *stimulus) bool { return o == p })
	if !p.at.IsZero() {
		s.timers, p.fired = slices.DeleteFunc(s.timers, func(o *stimulus) bool { return o == p }), true
		if p.at.After(s.now) {
			s.now = p.at
		}
	}
	s.runs++
	line := s.now.Format(time.StampMilli) + " " + p.name
	s.mu.Unlock()
	p.fire()
	s.awaitQuiet()
	return line, true
}

// byScheduler runs actions of which some fail, some are cancelled, and some reach their time
// limit, and gives what happened: stimuli, answers and journal.
func byScheduler(t *testing.T, seed uint64) (trace string, st *memory.Store) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	var log strings.Builder
	st = memory.NewSession("one")
	s := newScheduled(st)
	e, err := shell.New(shell.Options{
		Store: s, Tools: map[string]shell.Tool{"work": s}, Clock: s, Scheduler: s, Instance: "first",
		TickRate: 10 * time.Second, AbandonAfter: 3 * time.Second, StopTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	stopped := make(chan error, 1)
	s.Add(1)
	go func() {
		stopped <- e.Run(ctx)
		s.Add(-1)
	}()
	s.awaitQuiet()
	const actions = 6
	answers := make([]string, 2*actions)
	asked := make([]bool, 2*actions)
	ask := func(i int) *stimulus {
		return &stimulus{name: fmt.Sprintf("ask %d", i), fire: func() {
			asked[i] = true
			go func() {
				id := uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(i % actions)})
				var err error
				if i < actions {
					spec := core.ActionSpec{ID: id, ToolName: "work", ToolInput: json.RawMessage(fmt.Sprint(i % 2))}
					spec.Policy = core.RunPolicy{TimeoutMS: int64(i/2) * 4000, OnFailure: core.FailureRetry, MaxAttempts: 2}
					_, err = e.Actions().Create(context.Background(), spec)
				} else {
					_, err = e.Actions().Cancel(context.Background(), id, "not wanted")
				}
				answers[i] = fmt.Sprint(err)
				s.Add(-1)
			}()
		}}
	}
	for range 200 {
		var requests []*stimulus
		for i, was := range asked {
			if !was {
				requests = append(requests, ask(i))
			}
		}
		line, ok := s.next(r, requests)
		require.True(t, ok, "nothing can happen any more after\n%s", log.String())
		log.WriteString(line + "\n")
	}
	for s.inTransaction() { // the loop is to wait when it is told to stop
		line, _ := s.next(r, nil)
		log.WriteString(line + "\n")
	}
	s.Add(1)
	stop()
	for s.awaitQuiet(); ; {
		line, ok := s.next(r, nil)
		if !ok {
			break
		}
		log.WriteString(line + "\n")
	}
	require.NoError(t, <-stopped)
	log.WriteString(strings.Join(answers, "\n"))
	require.NoError(t, st.View(context.Background(), func(tx store.ReadTx) error {
		return tx.Journal(1, func(seq uint64, entry []byte) error {
			fmt.Fprintf(&log, "\n%d %s", seq, entry)
			return nil
		})
	}))
	return log.String(), st
}

func TestUnderASchedulerASeedIsARunByteForByte(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	first := seedtest.Seed(t)
	var happened strings.Builder
	for seed := first; seed < first+50; seed++ {
		runtime.GOMAXPROCS(1)
		was, st := byScheduler(t, seed)
		runtime.GOMAXPROCS(4)
		is, _ := byScheduler(t, seed)
		require.Equal(t, was, is, "seed %d", seed)
		report, err := replay.Verify(context.Background(), st, replay.Options{})
		require.NoError(t, err)
		assert.Empty(t, report.Divergences, "seed %d", seed)
		happened.WriteString(was)
	}
	for _, what := range []string{"limit/", "abandon/", "time limit", "was left behind", `"not wanted"`, "no luck"} {
		assert.Contains(t, happened.String(), what, "or the seeds do not reach it")
	}
}
