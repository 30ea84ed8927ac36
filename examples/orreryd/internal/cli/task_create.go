package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// taskFlags are those of task create.
type taskFlags struct {
	scope                              scoped
	body                               wire.TaskRequest
	config                             core.TaskConfig
	id, label, prompt                  string
	env                                []string
	heartbeat, idle, recovery, timeout time.Duration
	recoveries                         uint32
	wait                               bool
}

func (f *taskFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.id, "id", "", "`id` of the task, a UUID (default a fresh one)")
	fl.StringVar(&f.label, "label", "", "`text` that says what it is")
	fl.StringVar(&f.body.Workspace, "workspace", "", "`directory` of the session, within the daemon's workspace (default the workspace itself)")
	fl.StringArrayVar(&f.env, "env", nil, "variable `NAME=VALUE` of the session; may be repeated")
	fl.StringVar(&f.prompt, "prompt", "", "`text` that is typed into the session, and again after a restart; @FILE or - for stdin")
	fl.DurationVar(&f.heartbeat, "heartbeat-timeout", 0, "stuck after that long without a sign of life (default 1m)")
	fl.DurationVar(&f.idle, "idle-timeout", 0, "stuck after that long without progress (default 5m)")
	fl.DurationVar(&f.recovery, "recovery-interval", 0, "time between two steps of the recovery (default 1m)")
	fl.Uint32Var(&f.recoveries, "max-recoveries", core.DefaultMaxRecoveryAttempts, "`number` of nudges and restarts together; 0: none")
	fl.StringVar(&f.config.Nudge, "nudge", "", "`text` that is typed to nudge (default return alone)")
	fl.DurationVar(&f.timeout, "timeout", 0, "time limit of the whole task, restarts included (default none)")
	fl.BoolVar(&f.wait, "wait", false, waitUsage)
}

// read completes the body by what the flags and the arguments say.
func (f *taskFlags) read(a *app, args []string) error {
	var err error
	if f.body.ID, err = newID(f.id); err != nil {
		return err
	}
	f.body.Namespace, f.body.Tenant, f.body.Label = &f.scope.namespace, &f.scope.tenant, given(f.label)
	for _, d := range []struct {
		flag string
		from time.Duration
		to   *int64
	}{
		{"heartbeat-timeout", f.heartbeat, &f.config.HeartbeatTimeoutMS},
		{"idle-timeout", f.idle, &f.config.IdleTimeoutMS},
		{"recovery-interval", f.recovery, &f.config.RecoveryIntervalMS},
		{"timeout", f.timeout, &f.config.TimeoutMS},
	} {
		if d.from < 0 || d.from > 0 && d.from < time.Millisecond {
			return usagef("--%s: %s is too short: want 1ms or more", d.flag, d.from)
		}
		*d.to = d.from.Milliseconds()
	}
	if f.config.MaxRecoveryAttempts = f.recoveries; f.recoveries == 0 {
		f.config.MaxRecoveryAttempts = core.NoRecovery
	}
	f.body.Command, f.body.Config = args, &f.config
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
		return m.create(ctx, c, f.body, f.wait, "task %s is created\n")
	})
	f.scope.addFlags(a, cmd)
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
