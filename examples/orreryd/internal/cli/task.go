package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) taskCommand() *cobra.Command {
	m := machine[core.Task]{
		a: a, path: "/v1/tasks", arg: "ID", args: oneID, view: taskView,
		ids:   finder{path: "/v1/tasks", field: "tasks", what: "task"},
		id:    func(t core.Task) string { return t.ID.String() },
		ended: func(t core.Task) bool { return t.State.Type == core.TaskDone }, fails: taskError,
	}
	step := func(name core.RecoveryAction, short string) *cobra.Command {
		return m.verb(verb{use: string(name), short: short, path: "recover", fields: []field{constant("action", name)}})
	}
	return withMore(a.addClientFlags(m.ids.addFlags(group("task", "Create, watch and steer tasks",
		"A task is one unit of work, typically of an agent in a terminal session, that is\nwatched and recovered where it is stuck.",
		append(taskReports(m), taskCreate(m), a.taskList(), m.show("Show a task"), taskScreen(m),
			m.wait("Wait for a task's end, and end with 1 if it failed or was cancelled"),
			step("nudge", "Type something into a session that seems to sleep"),
			step("restart", "Kill a task's session and begin it again"),
			step("escalate", "Tell people that a task needs them"),
			m.reasoned("cancel", "End a task, and kill its session"))...))),
		a.cancelAll("tasks", "task", "tasks", "stuck", "running", "pending"))
}

// taskReports are the commands by which people and programs take part in a task's work.
func taskReports(m machine[core.Task]) []*cobra.Command {
	return m.verbs(
		verb{use: "input ID TEXT", short: "Type into a task's session", args: idAnd("TEXT"), path: "input", fields: []field{argument("text")}},
		verb{
			use: "heartbeat", short: "Give a sign of life of a task that has no session", path: "heartbeat",
			example: "  orreryd task heartbeat 0193f2a4-5b6c-7d8e-9f01-23456789abcd --progress \"page 3 of 9\"",
			fields: []field{textField("progress",
				"`text` that says how far it is, of which only a change counts: without one the task is idle in the end")},
		},
		verb{
			use: "complete", short: "Say that a task's work is done", path: "complete",
			fields: []field{jsonField("output", "`JSON` that came of it; @FILE or - for stdin")},
		},
		verb{
			use: "fail", short: "Say that a task's work cannot be done", path: "fail",
			fields: []field{textField("error", "`text` that says why")},
		},
	)
}

func (a *app) taskList() *cobra.Command {
	return listing[wire.TaskSummary]{
		path: "/v1/tasks", field: "tasks", none: "no tasks", timed: true, fails: true, short: "List tasks, newest first",
		filters: []filter{byStatus(core.Statuses(core.KindTask)...)},
		name:    func(t wire.TaskSummary) string { return t.ID.String() },
		header:  []string{"ID", "LABEL:32", "STATE", "SESSION:40", "HEARTBEAT (UTC)", "RECOVERIES", "CREATED (UTC)", "NOTE:48"},
		row: func(t wire.TaskSummary) []string {
			return []string{
				t.ID.String(), text.OrDash(t.Label), taskState(t.State), text.OrDash(t.SessionID), shortTime(t.LastHeartbeat),
				number(t.RecoveryAttempts), shortTime(t.CreatedAt), text.OrDash(cmp.Or(taskReason(t.State), t.Progress)),
			}
		},
	}.command(a)
}

func taskState(s core.TaskState) string {
	if s.Type == core.TaskDone {
		return string(s.Type) + ": " + string(s.Result.Type)
	}
	return string(s.Type)
}

// taskReason says why a task is stuck, or what came of it.
func taskReason(s core.TaskState) string {
	switch s.Type {
	case core.TaskStuck:
		return s.Reason.String()
	case core.TaskDone:
		return cmp.Or(cmp.Or(s.Result.Error, s.Result.Reason), jsonOr(s.Result.Output))
	case core.TaskPending, core.TaskRunning:
	}
	return ""
}

// taskReasonLabel says what taskReason gives.
func taskReasonLabel(s core.TaskState) string {
	if s.Type == core.TaskDone && s.Result.Type == core.TaskSuccess {
		return "output"
	}
	return "reason"
}

func taskView(t core.Task) view {
	command := ""
	if len(t.Command) > 0 {
		command = plain(t.Command)
	}
	return view{fields: [][2]string{
		{"id", t.ID.String()}, {"label", t.Label}, {"scope", t.Namespace + "/" + t.Tenant}, {"pipeline", idOr(t.PipelineID)},
		{"state", taskState(t.State)}, {taskReasonLabel(t.State) + ":400", taskReason(t.State)}, {"progress", t.Progress},
		{"session", t.SessionID}, {"home", t.Home}, {"workspace", t.Workspace}, {"command", command}, {"prompt:200", t.Prompt},
		{"heartbeat", timeText(t.LastHeartbeat)}, {"moved", timeText(t.LastProgress)},
		{"recoveries", fmt.Sprintf("%d of %d, %d restarts", t.RecoveryAttempts, recoveries(t.Config), t.Restarts)},
		{"next step", timeText(t.RecoverAt)},
		{"created", timeText(t.CreatedAt)}, {"started", timeText(t.State.StartedAt)}, {"finished", timeText(t.FinishedAt)},
	}}
}

func recoveries(c core.TaskConfig) uint32 {
	if c.MaxRecoveryAttempts == core.NoRecovery {
		return 0
	}
	return c.MaxRecoveryAttempts
}

func taskScreen(m machine[core.Task]) *cobra.Command {
	var flags *listFlags
	var cmd *cobra.Command
	cmd = m.sending(verb{
		use: "screen", short: "Show what a task's session shows", method: http.MethodGet, path: "screen",
		long: `Show what the terminal session of a task shows now. If it cannot be captured, a
line behind it says why, and what is printed is the end of it as the last heartbeat has
told it.`,
		example: "  orreryd task screen 0193f2a4-5b6c-7d8e-9f01-23456789abcd --watch",
	}, func(ctx context.Context, c *client, r request, _ []string) error {
		return flags.print(ctx, cmd, func(ctx context.Context) (answered, error) {
			var s wire.TaskScreen
			raw, err := c.json(ctx, r, &s)
			return answered{
				json:   func() error { return m.a.printJSON(raw) },
				people: func(screen) string { return screenText(s) },
			}, err
		})
	})
	flags = m.a.addListFlags(cmd, formJSON)
	return cmd
}

// colours are the escape sequences that set colours and the like.
var colours = regexp.MustCompile(`\x1b(\[[0-9;:]*m|\(.)`)

// screenText is a screen for people.
func screenText(s wire.TaskScreen) string {
	out := text.CleanLines(cmp.Or(colours.ReplaceAllString(s.Screen, ""), "(nothing was seen yet)")) + "\n"
	if !s.Live {
		out += "(not captured: " + text.Clean(s.Why) + ")\n"
	}
	return out
}

// taskError is the failure of a task that has ended; nil if its work is done.
func taskError(t core.Task) error {
	switch t.State.Result.Type {
	case core.TaskFailed:
		return fmt.Errorf("task %s failed: %s", t.ID, t.State.Result.Error)
	case core.TaskCancelled:
		return fmt.Errorf("task %s was cancelled: %s", t.ID, t.State.Result.Reason)
	case core.TaskSuccess:
	}
	return nil
}

func taskCreate(m machine[core.Task]) *cobra.Command {
	return m.creating(verb{
		use:   "create [-- PROGRAM ARG...]",
		short: "Create a task, which starts at once",
		long: `Create a task, which starts at once. What follows -- is a program with its arguments:
it runs in a terminal session in the workspace, and is watched, nudged and restarted
where it is stuck. With exit code 0 it has done its work. Without a program there is
no session: whoever does the work says so with complete or fail.`,
		example: `  orreryd task create --label review --workspace shop --prompt "Review the branch" --wait -- claude
  orreryd task create --label "call the customer" --heartbeat-timeout 24h`,
		args: programArgs,
		fields: []field{
			newIDField("task"), labelField(),
			textField("workspace", "`directory` of the session, within the daemon's workspace (default the workspace itself)"),
			nested("config",
				taskTime("heartbeat-timeout", "stuck after that long without a sign of life (default 1m)"),
				taskTime("idle-timeout", "stuck after that long without progress (default 5m)"),
				taskTime("recovery-interval", "time between two steps of the recovery (default 1m)"),
				taskTime("timeout", "time limit of the whole task, restarts included (default none)"),
				flagField((*pflag.FlagSet).Uint32Var, "max-recoveries", core.DefaultMaxRecoveryAttempts,
					"`number` of nudges and restarts together; 0: none", maxRecoveries).as("max_recovery_attempts"),
				textField("nudge", "`text` that is typed to nudge (default return alone)")),
			listField("env", "variable `NAME=VALUE` of the session; may be repeated", parsePairs),
			flagField((*pflag.FlagSet).StringVar, "prompt", "",
				"`text` that is typed into the session, and again after a restart; @FILE or - for stdin",
				func(a *app, v string) (any, error) {
					prompt, err := a.readArgument("prompt", v)
					return string(prompt), err
				}),
		},
	}, &scoped{}, "task %s is created\n", func(_ context.Context, _ *client, r request, args []string) error {
		if len(args) > 0 {
			r.fields["command"] = args
		}
		return nil
	})
}

// taskTime is a length of time; 0 has the default.
func taskTime(flag, usage string) field {
	return millisField(flag, usage, func(d time.Duration) error {
		if d < 0 || d > 0 && d < time.Millisecond {
			return usagef("--%s: %s is too short: want 1ms or more", flag, d)
		}
		return nil
	})
}

func maxRecoveries(_ *app, n uint32) (any, error) {
	if n == 0 {
		return uint32(core.NoRecovery), nil
	}
	return n, nil
}

// programArgs takes a program with its arguments, after -- alone: so that its
// flags are never taken for ours.
func programArgs(cmd *cobra.Command, args []string) error {
	if dash := cmd.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
		return usagef("%q: a program stands after --, as in: %s -- %s", text.Clip(args[0], 60), cmd.CommandPath(), text.Clip(args[0], 60))
	}
	return nil
}
