// Command reports is Orrery in a service: a recurring action whose work is a Go
// function, a subscription that hears how each run ended, and a clean stop.
//
//	go run ./examples/reports            until Ctrl-C
//	go run ./examples/reports -runs 3    until three reports are written
//
// Stop it, kill it, start it again: the schedule is in reports.db and goes on.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/store/bolt"
)

func main() {
	db := flag.String("db", "reports.db", "database `file`")
	runs := flag.Int("runs", 0, "stop after that many reports; 0: go on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *db, *runs, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reports:", err)
		os.Exit(1)
	}
}

// scheduleID is fixed, so that a second start finds the schedule of the first.
var scheduleID = uuid.MustParse("5b0c1f5e-6a54-4a3c-9d2b-0c6f1b9f7a10")

// report is the payload: what the tool is told to do.
type report struct {
	Team string `json:"team"`
}

// write is the tool. Its error would fail the run, and be kept as the reason.
func write(_ context.Context, c shell.Call) (json.RawMessage, error) {
	var r report
	if err := json.Unmarshal(c.Input, &r); err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return json.Marshal(fmt.Sprintf("report for %s, due %s", r.Team, c.DueAt))
}

func run(ctx context.Context, db string, runs int, out io.Writer) (err error) {
	st, err := bolt.Open(db, bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	engine, err := shell.New(shell.Options{
		Store: st,
		Tools: map[string]shell.Tool{"report": shell.ToolFunc(write)},
	})
	if err != nil {
		return err
	}
	// Subscribed before the engine runs, so that no run is missed.
	ended := engine.Subscribe(func(ev effects.Event) bool { return ev.Kind.Category == "action" }, 64)
	defer ended.Close()

	ctx, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- engine.Run(ctx) }()
	if err := schedule(ctx, engine); err != nil {
		stop()
		return errors.Join(err, <-stopped)
	}
	err = follow(ctx, engine, ended, runs, out)
	stop() // Run waits for what is under way
	err = errors.Join(err, <-stopped)
	if err == nil {
		_, err = fmt.Fprintln(out, "stopped cleanly")
	}
	return err
}

// schedule makes the recurring action, unless it is there already.
func schedule(ctx context.Context, e *shell.Engine) error {
	payload, err := json.Marshal(report{Team: "astronomy"})
	if err != nil {
		return err
	}
	_, err = e.Recurring().Create(ctx, core.RecurringSpec{
		ID: scheduleID, Enabled: true, CronExpr: "* * * * * *", Description: "report every second",
		ActionTemplate: core.RecurringActionTemplate{Provider: "report", ActionType: "daily", Payload: payload},
	})
	var refusal *shell.Refusal
	if errors.As(err, &refusal) && refusal.Code == effects.CodeExists {
		return nil
	}
	return err
}

// follow prints how each run ended, until ctx ends or there were enough.
func follow(ctx context.Context, e *shell.Engine, ended *shell.Subscription, runs int, out io.Writer) error {
	for n := 0; runs == 0 || n < runs; n++ {
		select {
		case <-ctx.Done():
			return nil
		case ev := <-ended.C:
			a, err := e.Actions().Get(ctx, ev.Source.ID)
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			if _, err := fmt.Fprintf(out, "%s: %s%s\n", a.Status.Type, a.Status.Result, a.Status.Reason); err != nil {
				return err
			}
		}
	}
	return nil
}
