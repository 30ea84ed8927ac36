package cli

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

// taskRequest is the body of POST /v1/tasks.
type taskRequest struct {
	ID        string            `json:"id,omitempty"`
	Namespace string            `json:"namespace"`
	Tenant    string            `json:"tenant"`
	Label     string            `json:"label,omitempty"`
	Workspace string            `json:"workspace,omitempty"`
	Command   []string          `json:"command,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Prompt    string            `json:"prompt,omitempty"`
	Config    core.TaskConfig   `json:"config"`
}

// taskFlags are those of task create.
type taskFlags struct {
	body                               taskRequest
	env                                []string
	prompt                             string
	heartbeat, idle, recovery, timeout time.Duration
	recoveries                         uint32
	wait                               bool
}

func (f *taskFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.body.ID, "id", "", "`id` of the task, a UUID (default a fresh one)")
	fl.StringVar(&f.body.Label, "label", "", "`text` that says what it is")
	fl.StringVar(&f.body.Workspace, "workspace", "", "`directory` of the session, within the daemon's workspace (default the workspace itself)")
	fl.StringArrayVar(&f.env, "env", nil, "variable `NAME=VALUE` of the session; may be repeated")
	fl.StringVar(&f.prompt, "prompt", "", "`text` that is typed into the session, and again after a restart; @FILE or - for stdin")
	fl.DurationVar(&f.heartbeat, "heartbeat-timeout", 0, "stuck after that long without a sign of life (default 1m)")
	fl.DurationVar(&f.idle, "idle-timeout", 0, "stuck after that long without progress (default 5m)")
	fl.DurationVar(&f.recovery, "recovery-interval", 0, "time between two steps of the recovery (default 1m)")
	fl.Uint32Var(&f.recoveries, "max-recoveries", core.DefaultMaxRecoveryAttempts, "`number` of nudges and restarts together; 0: none")
	fl.StringVar(&f.body.Config.Nudge, "nudge", "", "`text` that is typed to nudge (default return alone)")
	fl.DurationVar(&f.timeout, "timeout", 0, "time limit of the whole task, restarts included (default none)")
	fl.BoolVar(&f.wait, "wait", false, waitUsage)
}

// read completes the body by what the flags and the arguments say.
func (f *taskFlags) read(a *app, args []string) error {
	if err := checkNewID(f.body.ID); err != nil {
		return err
	}
	for _, d := range []struct {
		flag string
		from time.Duration
		to   *int64
	}{
		{"heartbeat-timeout", f.heartbeat, &f.body.Config.HeartbeatTimeoutMS},
		{"idle-timeout", f.idle, &f.body.Config.IdleTimeoutMS},
		{"recovery-interval", f.recovery, &f.body.Config.RecoveryIntervalMS},
		{"timeout", f.timeout, &f.body.Config.TimeoutMS},
	} {
		if d.from < 0 || d.from > 0 && d.from < time.Millisecond {
			return usagef("--%s: %s is too short: want 1ms or more", d.flag, d.from)
		}
		*d.to = d.from.Milliseconds()
	}
	if f.body.Config.MaxRecoveryAttempts = f.recoveries; f.recoveries == 0 {
		f.body.Config.MaxRecoveryAttempts = core.NoRecovery
	}
	f.body.Command = args
	var err error
	if f.body.Env, err = parsePairs("env", f.env); err != nil {
		return err
	}
	prompt, err := a.readArgument("prompt", f.prompt)
	f.body.Prompt = string(prompt)
	return err
}

func (a *app) taskCreate(m machine[core.Task]) *cobra.Command {
	var f taskFlags
	cmd := &cobra.Command{
		Use:   "create [-- PROGRAM ARG...]",
		Short: "Create a task, which starts at once",
		Long: `Create a task, which starts at once. What follows -- is a program with its arguments:
it runs in a terminal session in the workspace, and is watched, nudged and restarted
where it is stuck. With exit code 0 it has done its work. Without a program there is
no session: whoever does the work says so with complete or fail.`,
		Example: `  orreryd task create --label review --workspace shop --prompt "Review the branch" --wait -- claude
  orreryd task create --label "call the customer" --heartbeat-timeout 24h`,
		Args: programArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, args []string) error {
		if err := f.read(a, args); err != nil {
			return err
		}
		var t core.Task
		raw, err := c.json(ctx, request{method: http.MethodPost, path: m.path, body: f.body}, &t)
		switch {
		case err != nil:
			return err
		case f.wait:
			text.Sayf(a.err, "task %s is created\n", t.ID)
			return a.waitTask(ctx, c, m, t.ID.String(), true)
		}
		return a.printTask(raw, t)
	})
	a.addScopeFlags(cmd, &f.body.Namespace, &f.body.Tenant)
	f.add(cmd)
	return cmd
}

// programArgs takes a program with its arguments, after -- alone: so that its
// flags are never taken for ours.
func programArgs(cmd *cobra.Command, args []string) error {
	if dash := cmd.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
		return usagef("%q: a program stands after --, as in: %s -- %s", text.Clip(args[0], 60), cmd.CommandPath(), text.Clip(args[0], 60))
	}
	return nil
}

func (a *app) taskWait(m machine[core.Task]) *cobra.Command {
	return &cobra.Command{
		Use: "wait ID", Short: "Wait for a task's end, and end with 1 if it failed or was cancelled", Args: oneID,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			return a.waitTask(ctx, c, m, args[0], false)
		}),
	}
}

// waitTask prints a task once it has ended; a failure is one of this program too.
func (a *app) waitTask(ctx context.Context, c *client, m machine[core.Task], id string, known bool) error {
	raw, t, err := m.await(ctx, c, id, known, func(t core.Task) bool { return t.State.Type == core.TaskDone })
	if err != nil {
		return err
	}
	if err := a.printTask(raw, t); err != nil {
		return err
	}
	switch t.State.Result.Type {
	case core.TaskFailed:
		return fmt.Errorf("task %s failed: %s", t.ID, t.State.Result.Error)
	case core.TaskCancelled:
		return fmt.Errorf("task %s was cancelled: %s", t.ID, t.State.Result.Reason)
	case core.TaskSuccess:
	}
	return nil
}
