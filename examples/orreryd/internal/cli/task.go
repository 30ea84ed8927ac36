package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
)

func (a *app) taskCommand() *cobra.Command {
	m := machine[core.Task]{a: a, path: "/v1/tasks", show: a.printTask, args: oneID, arg: "ID"}
	step := func(name, short string) *cobra.Command {
		return m.verb(name, short, http.MethodPost, "recover", func() (any, error) { return map[string]string{"action": name}, nil })
	}
	return a.addClientFlags(group("task", "Create, watch and steer tasks",
		"A task is one unit of work, typically of an agent in a terminal session, that is\nwatched and recovered where it is stuck.",
		a.taskCreate(m), a.taskList(), m.verb("show", "Show a task", http.MethodGet, "", nil), a.taskWait(m), a.taskScreen(m), a.taskInput(m), a.taskHeartbeat(m),
		step("nudge", "Type something into a session that seems to sleep"),
		step("restart", "Kill a task's session and begin it again"),
		step("escalate", "Tell people that a task needs them"),
		m.cancel("End a task, and kill its session"), a.taskComplete(m), a.taskFail(m)))
}

// taskSummary is a task as lists show it.
type taskSummary struct {
	ID               uuid.UUID      `json:"id"`
	Label            string         `json:"label"`
	SessionID        string         `json:"session_id"`
	State            core.TaskState `json:"state"`
	Progress         string         `json:"progress"`
	LastHeartbeat    core.Time      `json:"last_heartbeat"`
	RecoveryAttempts uint32         `json:"recovery_attempts"`
	CreatedAt        core.Time      `json:"created_at"`
}

func (a *app) taskList() *cobra.Command {
	return listing[taskSummary]{
		path: "/v1/tasks", field: "tasks", none: "no tasks", short: "List tasks, newest first",
		statuses: []string{"pending", "running", "stuck", "done"},
		header:   []string{"ID", "LABEL", "STATE", "SESSION", "HEARTBEAT (UTC)", "RECOVERIES", "CREATED (UTC)", "NOTE"},
		row: func(t taskSummary) []string {
			return []string{
				t.ID.String(), text.OrDash(text.Clip(t.Label, 32)), taskState(t.State), text.OrDash(text.Clip(t.SessionID, 40)), shortTime(t.LastHeartbeat),
				attempts(t.RecoveryAttempts), shortTime(t.CreatedAt), text.OrDash(text.Clip(cmp.Or(taskReason(t.State), t.Progress), 48)),
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

func (a *app) printTask(raw json.RawMessage, t core.Task) error {
	if a.json {
		return a.printJSON(raw)
	}
	command := ""
	if len(t.Command) > 0 {
		b, err := text.PlainJSON(t.Command)
		if err != nil {
			return err
		}
		command = string(b)
	}
	return a.printFields([][2]string{
		{"id", t.ID.String()}, {"label", t.Label}, {"scope", t.Namespace + "/" + t.Tenant}, {"pipeline", idOr(t.PipelineID)},
		{"state", taskState(t.State)}, {taskReasonLabel(t.State), text.Clip(taskReason(t.State), 400)}, {"progress", t.Progress},
		{"session", t.SessionID}, {"workspace", t.Workspace}, {"command", command}, {"prompt", text.Clip(t.Prompt, 200)},
		{"heartbeat", timeText(t.LastHeartbeat)}, {"moved", timeText(t.LastProgress)},
		{"recoveries", fmt.Sprintf("%d of %d, %d restarts", t.RecoveryAttempts, recoveries(t.Config), t.Restarts)},
		{"next step", timeText(t.RecoverAt)},
		{"created", timeText(t.CreatedAt)}, {"started", timeText(t.State.StartedAt)}, {"finished", timeText(t.FinishedAt)},
	})
}

func recoveries(c core.TaskConfig) uint32 {
	if c.MaxRecoveryAttempts == core.NoRecovery {
		return 0
	}
	return c.MaxRecoveryAttempts
}

func (a *app) taskScreen(m machine[core.Task]) *cobra.Command {
	return &cobra.Command{
		Use: "screen ID", Short: "Show the end of a session's screen, as last seen", Args: oneID,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			var t core.Task
			if _, err := c.json(ctx, request{method: http.MethodGet, path: m.of(args[0])}, &t); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]string{"session_id": t.SessionID, "screen": t.Screen})
			}
			_, err := fmt.Fprintln(a.out, text.CleanLines(cmp.Or(t.Screen, "(nothing was seen yet)")))
			return err
		}),
	}
}

func (a *app) taskInput(m machine[core.Task]) *cobra.Command {
	return &cobra.Command{
		Use: "input ID TEXT", Short: "Type into a task's session", Args: idAnd("TEXT"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			return m.tell(ctx, c, http.MethodPost, m.of(args[0], "input"), map[string]string{"text": args[1]})
		}),
	}
}

func (a *app) taskHeartbeat(m machine[core.Task]) *cobra.Command {
	var progress string
	cmd := m.verb("heartbeat", "Give a sign of life of a task that has no session", http.MethodPost, "heartbeat", func() (any, error) {
		return map[string]string{"progress": progress}, nil
	})
	cmd.Example = "  orreryd task heartbeat 0193f2a4-5b6c-7d8e-9f01-23456789abcd --progress \"page 3 of 9\""
	cmd.Flags().StringVar(&progress, "progress", "", "`text` that says how far it is, of which only a change counts: without one the task is idle in the end")
	return cmd
}

func (a *app) taskComplete(m machine[core.Task]) *cobra.Command {
	var output string
	cmd := m.verb("complete", "Say that a task's work is done", http.MethodPost, "complete", func() (any, error) {
		v, err := a.jsonArgument("output", output)
		if v == nil {
			return map[string]any{}, err
		}
		return map[string]any{"output": v}, err
	})
	cmd.Flags().StringVar(&output, "output", "", "`JSON` that came of it; @FILE or - for stdin")
	return cmd
}

func (a *app) taskFail(m machine[core.Task]) *cobra.Command {
	var reason string
	cmd := m.verb("fail", "Say that a task's work cannot be done", http.MethodPost, "fail", func() (any, error) {
		return map[string]string{"error": reason}, nil
	})
	cmd.Flags().StringVar(&reason, "error", "", "`text` that says why")
	return cmd
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }
