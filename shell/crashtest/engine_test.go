//go:build unix

package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/bolt"
)

// Names that the victims share.
const (
	dbFile      = "orrery.db"
	effectsFile = "effects.txt"
	toolName    = "line"
	routeName   = "hook"
	scopeName   = "crash"
)

// lineTool leaves its line with one write, as a program would.
type lineTool struct{ f *os.File }

func (t lineTool) Run(ctx context.Context, c shell.Call) (json.RawMessage, error) {
	var w work
	if err := json.Unmarshal(c.Input, &w); err != nil {
		return nil, err
	}
	idle(ctx, time.Duration(w.BeforeMS)*time.Millisecond)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, err := fmt.Fprintf(t.f, "%-*s\n", lineWidth, fmt.Sprint(c.IdempotencyKey, " ", c.Attempt)); err != nil {
		return nil, err
	}
	idle(ctx, time.Duration(w.AfterMS)*time.Millisecond)
	if w.Fails {
		return nil, errors.New("it was told to fail")
	}
	return json.RawMessage(`{"done":true}`), nil
}

// variant is what differs from one engine to the next on the same file.
type variant struct {
	Strict    bool   `json:"strict,omitempty"`
	MaxBatch  int    `json:"max_batch"`            // small, so that a sweep takes several
	JournalMS int64  `json:"journal_ms,omitempty"` // so short that epochs begin and go; 0: long
	Backend   string `json:"backend,omitempty"`    // of the sessions of runbooks
}

// engineOptions are those of the engine as a victim: everything comes soon.
func engineOptions(st store.Store, f *os.File, v variant) shell.Options {
	input, _ := json.Marshal(work{}) // it always encodes
	return shell.Options{
		Store: st, Tools: map[string]shell.Tool{toolName: lineTool{f}}, Concurrency: map[string]int{toolName: 24},
		Webhooks: map[string]shell.WebhookRoute{routeName: {Tool: toolName, ToolInput: input, Namespace: scopeName, Tenant: scopeName}},
		TickRate: 50 * time.Millisecond, LeaseTTL: time.Second, RecoverAfter: 10 * time.Millisecond, StopTimeout: 5 * time.Second,
		StrictTick: v.Strict, RecurringCheckInterval: 20 * time.Millisecond, JournalRetention: time.Duration(v.JournalMS) * time.Millisecond,
		MaxBatch: v.MaxBatch, Logger: slog.New(slog.DiscardHandler),
	}
}

// engineTarget is an engine in this process.
type engineTarget struct{ e *shell.Engine }

func (t engineTarget) fault(err error) error {
	var r *shell.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r) && r.Code == effects.CodeExists:
		return fmt.Errorf("%w: %w", errExists, err)
	case errors.As(err, &r), errors.Is(err, shell.ErrNotFound):
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

func (t engineTarget) createAction(ctx context.Context, o order) error {
	spec, err := specOf(o)
	if err == nil {
		_, err = t.e.Actions().Create(ctx, spec)
	}
	return t.fault(err)
}

func (t engineTarget) createAll(ctx context.Context, list []order) error {
	specs := make([]core.ActionSpec, len(list))
	for i, o := range list {
		var err error
		if specs[i], err = specOf(o); err != nil {
			return err
		}
	}
	_, err := t.e.Actions().CreateAll(ctx, specs)
	return t.fault(err)
}

// policyOf is the policy that an order asks for.
func policyOf(o order) core.RunPolicy {
	p := core.RunPolicy{OnInterrupt: retryOf(o.Retry), MaxAttempts: o.Attempts}
	if o.Again {
		p.OnFailure, p.Backoff = core.FailureRetry, &core.Backoff{InitialMS: 30, JitterPercent: 50}
	}
	return p
}

func specOf(o order) (core.ActionSpec, error) {
	input, err := json.Marshal(o.Work)
	spec := core.ActionSpec{
		ID: o.ID, Namespace: scopeName, Tenant: scopeName, Label: "order", ToolName: toolName, ToolInput: input,
		Policy: policyOf(o), DedupKey: o.Dedup,
	}
	if o.AtMS != 0 {
		spec.Trigger = core.Scheduled(core.Time(o.AtMS))
	}
	if o.Every {
		spec.Recurrence = core.Every(time.Second)
	}
	return spec, err
}

func (t engineTarget) action(ctx context.Context, id uuid.UUID) (core.Action, error) {
	a, err := t.e.Actions().Get(ctx, id)
	return a, t.fault(err)
}

func (t engineTarget) cancel(ctx context.Context, id uuid.UUID) error {
	_, err := t.e.Actions().Cancel(ctx, id, "for a test")
	return t.fault(err)
}

func (t engineTarget) trigger(ctx context.Context, id uuid.UUID) error {
	_, err := t.e.Actions().Trigger(ctx, id)
	return t.fault(err)
}

func (t engineTarget) webhook(ctx context.Context, body string) (uuid.UUID, error) {
	id, err := t.e.Webhooks().Receive(ctx, routeName, map[string]string{"content-type": "application/json"}, []byte(body))
	return id, t.fault(err)
}

func (t engineTarget) createRecurring(ctx context.Context, r recurringOrder) (uuid.UUID, error) {
	payload, err := json.Marshal(r.Work)
	if err != nil {
		return uuid.Nil, err
	}
	a, err := t.e.Recurring().Create(ctx, core.RecurringSpec{
		Namespace: scopeName, Tenant: scopeName, CronExpr: "* * * * * *", Enabled: true,
		ActionTemplate: core.RecurringActionTemplate{Provider: toolName, ActionType: "each", Payload: payload, DedupKey: r.Dedup},
		Policy:         core.RunPolicy{OnInterrupt: retryOf(r.Retry)},
	})
	return a.ID, t.fault(err)
}

func (t engineTarget) recurring(ctx context.Context, id uuid.UUID) (recState, error) {
	r, err := t.e.Recurring().Get(ctx, id)
	return recStateOf(r, err, shell.ErrNotFound)
}

func (t engineTarget) changeRecurring(ctx context.Context, id uuid.UUID, what op) (err error) {
	switch what {
	case opPause:
		_, err = t.e.Recurring().Pause(ctx, id, "for a test")
	case opResume:
		_, err = t.e.Recurring().Resume(ctx, id)
	case opFire:
		_, err = t.e.Recurring().Trigger(ctx, id)
	case opDelete:
		err = t.e.Recurring().Delete(ctx, id)
	default:
		err = fmt.Errorf("%q is nothing that is done to a recurring action", what)
	}
	return t.fault(err)
}

// death is where a child kills itself.
type death struct {
	Before int `json:"before,omitempty"` // right before its n-th commit; 0: nowhere
	After  int `json:"after,omitempty"`  // between its n-th commit and what follows from it
	During int `json:"during,omitempty"` // so many microseconds after Before, while it commits
}

// mortal is a store in which the process dies.
type mortal struct {
	store.Store
	mu      sync.Mutex
	at      death
	commits int
}

// strike kills the process: at once, or soon, while this thread goes on.
func (d death) strike() {
	if d.During == 0 {
		die()
	}
	at := time.Now().Add(time.Duration(d.During) * time.Microsecond)
	go func() {
		for time.Now().Before(at) { // a timer is not this exact
		}
		die()
	}()
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

func (m *mortal) Update(ctx context.Context, fn func(store.Tx) error) error {
	err := m.Store.Update(ctx, func(tx store.Tx) error {
		err := fn(tx)
		if err == nil {
			m.mu.Lock()
			m.commits++
			if m.commits == m.at.Before {
				m.at.strike()
			}
			m.mu.Unlock()
		}
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && m.commits == m.at.After {
		die()
	}
	return err
}

// childConfig is what a child is told.
type childConfig struct {
	Dir   string `json:"dir"`
	Seed  uint64 `json:"seed"`
	Death death  `json:"death"`
	// Runbooks: it carries runbooks out, instead of actions.
	Runbooks bool `json:"runbooks,omitempty"`
	// Jobs: it runs jobs, as processes of this machine.
	Jobs bool `json:"jobs,omitempty"`
	// Outages: its clock may be set, and its disk may be slow.
	Outages bool `json:"outages,omitempty"`
	// Backfills: it backfills schedules, beside others whose times wait for one another.
	Backfills bool `json:"backfills,omitempty"`
	variant
}

// childMain is the child process: an engine under load, until it is killed. It
// writes its notes to its standard output.
func childMain(raw string) int {
	err := child(raw)
	fmt.Fprintln(os.Stderr, "child:", err)
	return 1 // a child that ends by itself has failed
}

func child(raw string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		return err
	}
	st, err := bolt.Open(filepath.Join(c.Dir, dbFile), bolt.Options{LockTimeout: time.Minute})
	if err != nil {
		return err
	}
	f, err := openEffects(c.Dir)
	if err != nil {
		return err
	}
	o := engineOptions(&mortal{Store: st, at: c.Death}, f, c.variant)
	if c.Runbooks {
		if o, err = runbookOptions(c.Dir, o.Store, f, c.variant); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute) // were we forgotten
	defer stop()
	if c.Jobs {
		return jobsChild(ctx, c, o)
	}
	if c.Outages {
		o.Store, o.Clock = slowDisk{st, c.Dir}, setClock{dir: c.Dir}
		return outagesChild(ctx, o)
	}
	e, err := shell.New(o)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	if c.Backfills {
		return errors.Join(backfillsChild(ctx, e, rand.New(rand.NewPCG(c.Seed, 0))), <-ended)
	}
	if c.Runbooks {
		book := &pipeBook{w: os.Stdout}
		err = playRunbooks(ctx, e, c.Dir, f, rand.New(rand.NewPCG(c.Seed, 0)), func() { book.write(note{Op: opRunbooks, Phase: acked}) })
		if err == nil {
			<-ctx.Done() // all have ended: it waits to be killed
		}
	} else {
		err = loadChild(ctx, e, c.Seed)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("nobody killed it: %w", errors.Join(ctx.Err(), <-ended))
}

func openEffects(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, effectsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// reopened opens what killed engines have left in a directory: the store and the file of
// effects; done closes both.
func reopened(t *testing.T, dir string, o bolt.Options) (st *bolt.Store, f *os.File, done func()) {
	t.Helper()
	st, err := bolt.Open(filepath.Join(dir, dbFile), o)
	require.NoError(t, err)
	f, err = openEffects(dir)
	require.NoError(t, err)
	return st, f, func() {
		require.NoError(t, f.Close())
		require.NoError(t, st.Close())
	}
}

// loadChild lets callers work until ctx ends.
func loadChild(ctx context.Context, e *shell.Engine, seed uint64) error {
	const callers = 8
	book := &pipeBook{w: os.Stdout}
	list, err := recurringOf(ctx, e)
	if err != nil {
		return err
	}
	own := make([][]uuid.UUID, callers)
	for _, r := range list { // by id, so that each is always the same caller's
		state := recDisabled
		if r.Enabled {
			state = recEnabled
		}
		book.write(note{Op: opSeen, Phase: acked, ID: r.ID, State: state})
		n := int(r.ID[15]) % callers
		own[n] = append(own[n], r.ID)
	}
	var wg sync.WaitGroup
	for n := range callers {
		c := &caller{
			t: engineTarget{e}, book: book, rng: rand.New(rand.NewPCG(seed, uint64(n))),
			now: time.Now, pause: 2 * time.Millisecond, most: 3, slow: 40, own: own[n],
		}
		wg.Go(func() { c.run(ctx) })
	}
	wg.Wait()
	return nil
}

// recurringOf lists all recurring actions, oldest first.
func recurringOf(ctx context.Context, e *shell.Engine) ([]core.RecurringAction, error) {
	list, next, err := e.Recurring().List(ctx, shell.RecurringFilter{}, shell.Page{Limit: shell.MaxPage})
	if err == nil && next != "" {
		err = errors.New("there are more recurring actions than fit a page")
	}
	slices.Reverse(list)
	return list, err
}
