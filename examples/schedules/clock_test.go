package schedules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store"
	"github.com/orrery-go/orrery/store/memory"
)

// clock is a clock that an example sets by hand: the engine sees its time alone.
type clock struct {
	mu  sync.Mutex
	now time.Time
	set chan struct{} // closed, and made anew, when the time is set
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Steady() time.Time { return c.Now() }

func (c *clock) Timer(d time.Duration) (<-chan time.Time, func()) {
	fire, stopped := make(chan time.Time, 1), make(chan struct{})
	at := c.Now().Add(d)
	go func() {
		for {
			c.mu.Lock()
			now, set := c.now, c.set
			c.mu.Unlock()
			if !now.Before(at) {
				fire <- now
				return
			}
			select {
			case <-set:
			case <-stopped:
				return
			}
		}
	}()
	return fire, sync.OnceFunc(func() { close(stopped) })
}

func (c *clock) advanceTo(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
	close(c.set)
	c.set = make(chan struct{})
}

// day is the day of the examples, a Wednesday that begins for them at 08:30.
var day = time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)

func at(hour, minute int) time.Time {
	return day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

// world is an engine with one recurring action, whose tool "report" ends when it is told to.
type world struct {
	clock  *clock
	store  store.Store
	engine *shell.Engine
	halt   func()
	free   chan struct{} // closed: reports end
	id     uuid.UUID     // of the recurring action
}

// begin starts an engine at 08:30 with a report that is due at each full hour, and what the spec
// says beside that.
func begin(spec core.RecurringSpec) *world {
	w := &world{clock: &clock{now: at(8, 30), set: make(chan struct{})}, store: memory.New(), free: make(chan struct{})}
	w.start()
	spec.Namespace, spec.Tenant, spec.CronExpr, spec.Enabled = "default", "default", "0 * * * *", true
	spec.ActionTemplate = core.RecurringActionTemplate{Provider: "report", ActionType: "report"}
	r, err := w.engine.Recurring().Create(context.Background(), spec)
	must(err)
	w.id = r.ID
	return w
}

func (w *world) start() {
	report := shell.ToolFunc(func(ctx context.Context, _ shell.Call) (json.RawMessage, error) {
		select {
		case <-w.free:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	var err error
	w.engine, err = shell.New(shell.Options{
		Store: w.store, Clock: w.clock, Tools: map[string]shell.Tool{"report": report}, Logger: slog.New(slog.DiscardHandler),
	})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- w.engine.Run(ctx) }()
	w.halt = func() {
		cancel()
		must(<-stopped)
	}
}

func (w *world) end() {
	w.halt()
	must(w.store.Close())
}

// wait waits until the recurring action is as an example wants it. The engine sets its timer by the
// time that it has read before; if the clock was set between, the timer is late, and the question
// for its health lets the engine look at the clock again.
func (w *world) wait(is func(core.RecurringAction) bool) {
	for range 10_000 {
		must(w.engine.Health(context.Background()))
		r, err := w.engine.Recurring().Get(context.Background(), w.id)
		must(err)
		if is(r) {
			return
		}
		<-time.After(time.Millisecond)
	}
	panic("the schedule does not get on")
}

// hours lets the hours pass one by one: each is decided before the next one comes.
func (w *world) hours(from, to int) {
	for hour := from; hour <= to; hour++ {
		w.clock.advanceTo(at(hour, 0))
		w.wait(w.decided)
	}
}

// decided reports whether all times that have come are decided, and no time waits for one that is
// being cancelled.
func (w *world) decided(r core.RecurringAction) bool {
	now := effects.TimeOf(w.clock.Now())
	cancels := r.Overlap == core.OverlapCancelOther || r.Overlap == core.OverlapTerminateOther
	return (r.NextExecutionAt.After(now) || r.PausedUntil.After(now)) && (!cancels || len(r.Waiting) == 0)
}

// finish lets the reports end, those that wait for their turn included.
func (w *world) finish() {
	close(w.free)
	w.wait(func(r core.RecurringAction) bool { return w.decided(r) && len(r.Running)+len(r.Waiting) == 0 })
}

// tell prints what was decided about each time, oldest first.
func (w *world) tell() {
	list, _, err := w.engine.Recurring().History(context.Background(), w.id, shell.Page{})
	must(err)
	slices.SortFunc(list, func(a, b core.Occurrence) int { return int(a.DueAt - b.DueAt) })
	for _, o := range list {
		text := clockTime(o.DueAt)
		if o.LastDueAt != o.DueAt {
			text += " to " + clockTime(o.LastDueAt)
		}
		text += " " + string(o.Verdict)
		if o.StartedAt.After(o.DueAt) {
			text += " at " + clockTime(o.StartedAt)
		}
		if o.Outcome != "" {
			text += ", " + o.Outcome
		}
		if o.Reason != "" {
			text += ": " + anID.ReplaceAllString(o.Reason, "ID")
		}
		fmt.Println(text)
	}
}

var anID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`) // which differs from run to run

func clockTime(t effects.Time) string { return t.Std().UTC().Format("15:04") }

func must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(err)
	}
}
