package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// logFlags are those of run logs.
type logFlags struct {
	follow    bool
	attempt   int // from 0; -1: the latest
	container string
}

func (j *jobCommands) logs() *cobra.Command {
	var f logFlags
	var cmd *cobra.Command
	cmd = j.runs.sending(verb{
		use:   "logs",
		short: "Print what a run's pod has written",
		long: `Print what the pod of a run has written: of the latest attempt, unless --attempt names
another one. While the pod runs it is read from there; afterwards what was kept of it
is printed, of which the middle may be missing where it was long.

With -f it goes on until the run has ended, also while there is no pod yet, and prints
the attempts that follow too. It ends with 1 where the run did not complete.`,
		example: "  orreryd run logs nightly-report:2026-03-01T02:00:00.000Z\n  orreryd run logs -f 0193f2a4-5b6c-7d8e-9f01-23456789abcd",
	}, func(ctx context.Context, c *client, _ request, args []string) error {
		if cmd.Flags().Changed("attempt") && (f.attempt < 0 || f.attempt > core.MaxRetries) {
			return usagef("--attempt: %d is not between 0, the first, and %d", f.attempt, core.MaxRetries)
		}
		return j.printLogs(ctx, c, args[0], f)
	})
	fl := cmd.Flags()
	fl.BoolVarP(&f.follow, "follow", "f", false, "go on until the run has ended")
	fl.IntVar(&f.attempt, "attempt", -1, "`number` of the attempt; 0 is the first (default the latest)")
	fl.Lookup("attempt").DefValue = "0" // the usage says it
	fl.StringVarP(&f.container, "container", "c", "", "only of that `container` (default all)")
	return cmd
}

// printLogs prints one attempt, and with follow those after it.
func (j *jobCommands) printLogs(ctx context.Context, c *client, id string, f logFlags) error {
	next, known := int64(-1), false // the attempt that is to be printed; at first the latest
	for {
		var r core.Orchestrator
		if _, err := j.runs.look(ctx, c, id, nil, &r, known); err != nil {
			return err
		}
		latest := int64(r.RetryAttempt)
		switch {
		case f.attempt >= 0:
			next = int64(f.attempt)
		case !known:
			next = latest
		}
		known = true
		if next <= latest || !f.follow {
			err := j.copyLogs(ctx, c, id, next, f)
			_, none := errors.AsType[noLogsError](err)
			passed := next < latest || r.State.Terminal()
			switch {
			case !f.follow || err != nil && !none:
				return err
			case none && passed:
				text.Sayf(j.a.err, "orreryd: %s\n", text.CleanLines(err.Error()))
			}
			if !none || passed {
				if f.attempt >= 0 {
					return nil
				}
				next++
			}
		} else if r.State.Terminal() {
			return runError(r)
		}
		if err := pause(ctx, watchEvery); err != nil {
			return fmt.Errorf("interrupted while following run %s: %w", r.RunID, err)
		}
	}
}

// noLogsError says that there is nothing to be read.
type noLogsError struct{ error }

func (e noLogsError) Unwrap() error { return e.error }

// copyLogs copies the logs of one attempt to stdout.
func (j *jobCommands) copyLogs(ctx context.Context, c *client, id string, attempt int64, f logFlags) error {
	q := j.scope.query()
	q.Set("attempt", strconv.FormatInt(attempt, 10))
	if f.follow {
		q.Set("follow", "true")
	}
	if f.container != "" {
		q.Set("container", f.container)
	}
	resp, err := c.do(ctx, request{method: http.MethodGet, path: j.runs.of(id, "logs"), query: q})
	if coded, ok := errors.AsType[*exitError](err); ok && coded.code == exitNotFound {
		return noLogsError{err}
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	// Each line is shown as it comes, and as the pod wrote it: kubectl logs does the same.
	w := bufio.NewWriter(j.a.out)
	for b := make([]byte, 32<<10); ; {
		n, err := resp.Body.Read(b)
		if _, werr := w.Write(b[:n]); werr != nil {
			return werr
		}
		if werr := w.Flush(); werr != nil {
			return werr
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted while reading logs: %w", context.Cause(ctx))
		case err != nil:
			return &exitError{code: exitNoDaemon, err: fmt.Errorf("the logs broke off: %w: is the daemon gone?", err)}
		}
	}
}
