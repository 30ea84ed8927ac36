package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// terminalNote ends what the help of a command says that prints what others have written.
const terminalNote = `

On a terminal what could steer it is shown as an escape: only colours are let through.
A pipe or a file gets each byte as it was written.`

// actionsLogs prints what an action has written.
func (a *app) actionsLogs(m machine[core.Action]) *cobra.Command {
	var attempt int
	var follow bool
	var cmd *cobra.Command
	cmd = m.sending(verb{
		use: "logs", path: "logs", method: http.MethodGet, short: "Print what an action has written",
		long: `Print what an action's tool has written, such as what a command has printed, also while it
runs: of the latest attempt, unless --attempt names another one. Where it was long its head
and its tail are kept, and a line says how much is missing between them.

With -f it goes on until the action has ended, also before it has begun, and prints the
attempts that follow too, each after a line such as "… attempt 2 …". It ends with 1 where the
action, or its cycle if it recurs, did not complete.` + terminalNote,
		example: "  orreryd actions logs 0193f2a4-5b6c-7d8e-9f01-23456789abcd\n  orreryd actions logs -f 0193f2a4",
	}, func(ctx context.Context, c *client, r request, args []string) error {
		if cmd.Flags().Changed("attempt") {
			if attempt < 1 {
				return usagef("--attempt: %d is no attempt: the first is 1", attempt)
			}
			r.query.Set("attempt", strconv.Itoa(attempt))
		}
		if !follow {
			return a.copyStream(ctx, c, r)
		}
		r.query.Set("follow", "true")
		err := a.copyStream(ctx, c, r)
		if _, none := errors.AsType[noLogsError](err); err != nil && !none || attempt != 0 {
			return err
		}
		return a.endOfFollowed(ctx, c, m.of(args[0]), err)
	})
	cmd.Flags().IntVar(&attempt, "attempt", 0, "`number` of the attempt; 1 is the first (default the latest)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the action has ended")
	return cmd
}

// endOfFollowed says why there was nothing to be read of an action that was followed to its end, and
// gives an error if it did not complete.
func (a *app) endOfFollowed(ctx context.Context, c *client, path string, none error) error {
	var ac core.Action
	if _, err := c.json(ctx, request{method: http.MethodGet, path: path}, &ac); err != nil {
		return err
	}
	st := ac.Status
	if ac.LastRun != nil && !st.Type.Terminal() {
		st = ac.LastRun.Status
	}
	if st.Type == core.StatusCompleted {
		a.sayNone(none)
		return nil
	}
	return fmt.Errorf("action %s %s: %s", ac.ID, st.Type, st.Reason)
}

// sayNone says why there was nothing to be read; nil: there was something.
func (a *app) sayNone(why error) {
	if why != nil {
		text.Sayf(a.err, "orreryd: %s\n", text.CleanLines(why.Error()))
	}
}

// pipelineLogs prints what the actions of a pipeline have written.
func (a *app) pipelineLogs(m machine[core.Pipeline]) *cobra.Command {
	var phase string
	var follow bool
	cmd := m.sending(verb{
		use: "logs", path: "logs", method: http.MethodGet, short: "Print what the phases of a pipeline have written",
		long: `Print what the tools have written that the phases of a pipeline have run, and those that
strategies of phases have tried, also while they run: each below a line such as
"==> build, attempt 2 <==". Where it was long its head and its tail are kept, and a line says
how much is missing between them. What has written nothing is left out.

With -f it goes on until the pipeline has ended, and ends with 1 where that was not done.` + terminalNote,
		example: "  orreryd pipeline logs 0193f2a4-5b6c-7d8e-9f01-23456789abcd\n  orreryd pipeline logs -f 0193f2a4 --phase build",
	}, func(ctx context.Context, c *client, r request, args []string) error {
		if phase != "" {
			r.query.Set("phase", phase)
		}
		if !follow {
			return a.copyStream(ctx, c, r)
		}
		r.query.Set("follow", "true")
		err := a.copyStream(ctx, c, r)
		if _, none := errors.AsType[noLogsError](err); err != nil && !none {
			return err
		}
		var p core.Pipeline
		if _, gone := c.json(ctx, request{method: http.MethodGet, path: m.of(args[0])}, &p); gone != nil {
			return gone
		}
		if failed := pipelineError(p); failed != nil {
			return failed
		}
		a.sayNone(err)
		return nil
	})
	cmd.Flags().StringVar(&phase, "phase", "", "only what that `phase` has written")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the pipeline has ended")
	return cmd
}

// noLogsError says that there is nothing to be read.
type noLogsError struct{ error }

func (e noLogsError) Unwrap() error { return e.error }

// copyStream copies what a request is answered with to stdout, as it comes.
func (a *app) copyStream(ctx context.Context, c *client, r request) error {
	resp, err := c.do(ctx, r)
	if coded, ok := errors.AsType[*exitError](err); ok && coded.code == exitNotFound {
		return noLogsError{err}
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if why := resp.Header.Get("X-Orrery-Logs-Stored-Only"); why != "" {
		text.Sayf(a.err, "orreryd: %s; this is what was stored before, and may not be all\n", text.CleanLines(why))
	}
	// Each line is shown as it comes.
	out, flush := a.logOutput()
	defer flush()
	for b := make([]byte, 32<<10); ; {
		n, err := resp.Body.Read(b)
		if _, werr := out.Write(b[:n]); werr != nil {
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

// logOutput is where logs go: as they are, but to a terminal without what steers it. flush
// writes the rest of what may have been a colour.
func (a *app) logOutput() (out io.Writer, flush func()) {
	f, ok := a.out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return a.out, func() {}
	}
	shown := text.NewTerminal(f)
	return shown, func() { _ = shown.Flush() }
}
