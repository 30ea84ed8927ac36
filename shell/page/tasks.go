package page

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

var taskHead = []string{"Task", "Status", "Progress", "Last sign of life", "Recoveries", "Created", "Tenant", "Id"}

func (q *visit) tasks() (view, error) {
	var got wire.TaskList
	t, err := q.read(list{
		api: "/tasks", path: "/tasks", caption: "Tasks, newest first", head: taskHead,
		filters: append([]field{statusFilter(core.KindTask)}, madeOrFailedFilters...), ordered: true,
		empty: "There is no task. A task is work that is watched by its heartbeats, such as that of an agent in a terminal: the button above makes one, and so does a phase of a pipeline.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, k := range got.Tasks {
		t.Rows = append(t.Rows, q.taskRow(k))
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Tasks", Acts: q.actLinks("/tasks", "new", "cancel-all"), Body: []block{{Table: t}}}, nil
}

func (q *visit) taskRow(k wire.TaskSummary) []cell {
	href := q.page(pathOf("tasks", k.ID.String()))
	s := taskState(k.State)
	s.Hint = clip(whyTask(k.State), 160)
	return []cell{
		textOf(clip(cmp.Or(k.Label, k.SessionID, "task"), 120)).to(href).wide(), s, textOf(clip(k.Progress, 160)), q.at(k.LastHeartbeat),
		number(k.RecoveryAttempts), q.at(k.CreatedAt), whose(k.Namespace, k.Tenant), codeOf(shortID(k.ID.String())).to(href),
	}
}

// taskState says how far a task is, and how it has ended.
func taskState(s core.TaskState) cell {
	if s.Type == core.TaskDone {
		return badge(string(s.Result.Type))
	}
	return badge(string(s.Type))
}

func whyTask(s core.TaskState) string {
	switch s.Type {
	case core.TaskStuck:
		return s.Reason.String()
	case core.TaskDone:
		return cmp.Or(s.Result.Error, s.Result.Reason)
	case core.TaskPending, core.TaskRunning:
	}
	return ""
}

func (q *visit) task() (view, error) {
	var k core.Task
	if err := q.get(pathOf("tasks", q.PathValue("id")), nil, &k); err != nil {
		return view{}, err
	}
	s := taskState(k.State)
	v := view{Kind: "Task", Title: clip(cmp.Or(k.Label, k.SessionID, shortID(k.ID.String())), 200), State: &s, Crumbs: []link{{Text: "Tasks", Href: q.page("/tasks")}}}
	v.More = []link{q.changesLink(core.KindTask, k.ID.String())}
	const on = "/tasks/{id}"
	switch k.State.Type {
	case core.TaskPending:
		v.Acts = q.actLinks(on, "complete", "fail", "cancel")
	case core.TaskRunning, core.TaskStuck:
		if len(k.Command) > 0 {
			v.Acts = q.actLinks(on, "input")
		}
		v.Acts = append(v.Acts, q.actLinks(on, "recover", "complete", "fail", "cancel")...)
	case core.TaskDone:
	}
	v.Body = append(v.Body, whyNotice(whyTask(k.State), toneOfTask(k.State))...)
	v.Body = append(v.Body, block{Facts: q.taskFacts(k)})
	if len(k.Command) > 0 {
		shown, err := q.taskScreen(k)
		if err != nil {
			return view{}, err
		}
		v.Body = append(v.Body, shown...)
		if k.State.Type != core.TaskDone {
			v.Every = screenEvery
		}
	}
	v.Body = append(v.Body, result("Result", k.State.Result.Output)...)
	return withBlocks(v, block{Title: "Recovery", Facts: q.recoveryFacts(k)}), nil
}

func toneOfTask(s core.TaskState) tone {
	if s.Type == core.TaskStuck || s.Result.Type == core.TaskFailed {
		return toneBad
	}
	return toneOff
}

func (q *visit) taskFacts(k core.Task) []fact {
	var pipeline, owner cell
	if k.PipelineID != uuid.Nil {
		pipeline = q.machine(effects.Ref{Kind: core.KindPipeline, ID: k.PipelineID})
	}
	if !k.Owner.IsZero() && k.Owner.Ref.ID != k.PipelineID {
		owner = q.machine(k.Owner.Ref)
	}
	var env cell
	for name := range k.Env { // values may be secrets
		env.Lines = append(env.Lines, name)
	}
	return facts(
		fact{"Progress", textOf(clip(k.Progress, 1000))}, fact{"Last sign of life", q.at(k.LastHeartbeat)}, fact{"Last progress", q.at(k.LastProgress)},
		fact{"Started", q.at(k.State.StartedAt)}, fact{"Stuck since", q.at(k.State.DetectedAt)}, fact{"Finished", q.at(k.FinishedAt)},
		fact{"Took", q.lasted(k.CreatedAt, k.FinishedAt)}, fact{"Session", codeOf(k.SessionID)}, fact{"Home", codeOf(k.Home)}, fact{"Command", codeOf(clip(strings.Join(k.Command, " "), 500))},
		fact{"Workspace", codeOf(k.Workspace)}, fact{"Variables", sortedLines(env)}, fact{"Pipeline", pipeline}, fact{"Made by", owner}, fact{"Whose", whose(k.Namespace, k.Tenant)},
		fact{"Created", q.at(k.CreatedAt)}, fact{"Changed", q.at(k.UpdatedAt)}, fact{"Id", codeOf(k.ID.String())},
	)
}

// recoveryFacts say how the task is helped if it is stuck, and how often it was.
func (q *visit) recoveryFacts(k core.Task) []fact {
	most := "none"
	if n := k.Config.MaxRecoveryAttempts; n != core.NoRecovery {
		most = strconv.FormatUint(uint64(n), 10)
	}
	nudged := ""
	if k.Nudged {
		nudged = "yes: if it makes no progress, its session is started again"
	}
	return facts(
		fact{"Recoveries", textOf(fmt.Sprintf("%d of at most %s", k.RecoveryAttempts, most))}, fact{"Restarts", number(k.Restarts)}, fact{"Nudged", textOf(nudged)},
		fact{"Next step", q.at(k.RecoverAt)}, fact{"Stuck without heartbeat", millis(k.Config.HeartbeatTimeoutMS)}, fact{"Stuck without progress", millis(k.Config.IdleTimeoutMS)},
		fact{"Between steps", millis(k.Config.RecoveryIntervalMS)}, fact{"Time limit", millis(k.Config.TimeoutMS)},
	)
}

func taskActs() []act {
	const on = "/tasks/{id}"
	return []act{
		{
			on: "/tasks", name: "new", method: "POST", api: "/v1/tasks", label: "New task", done: "The task was created.",
			says: "Makes a task. With a command its session is started on the machine of the daemon, as the daemon's user.", load: (*visit).newTask, after: afterMade("/tasks/"),
		},
		{
			on: on, name: "input", method: "POST", api: "/v1/tasks/{id}/input", label: "Type into the session", main: true, done: "The text goes to the session.",
			says: "The text is typed into the session, at most once.", fields: []field{{Name: "text", Label: "Text", Type: fieldArea, Required: true}},
		},
		{
			on: on, name: "recover", method: "POST", api: "/v1/tasks/{id}/recover", label: "Recover", done: "The task is being recovered.",
			says: "nudge types a return, or the configured text. restart kills the session and starts a new one: what it was doing is lost. escalate tells a person. Each counts as a recovery but escalate.",
			fields: []field{
				{Name: "action", Label: "How", Type: fieldChoice, Options: []option{{"nudge", "nudge"}, {"restart", "restart"}, {"escalate", "escalate"}}},
				{Name: "message", Label: "Message", Help: "Of an escalation."},
			},
		},
		{
			on: on, name: "complete", method: "POST", api: "/v1/tasks/{id}/complete", label: "Complete", done: "The task is done.",
			says: "Its work is done. Its session is killed.", fields: []field{{Name: "output", Label: "Output", Type: fieldJSON, Help: "JSON; left out: none."}},
		},
		{
			on: on, name: "fail", method: "POST", api: "/v1/tasks/{id}/fail", label: "Fail", danger: true, done: "The task has failed.",
			says: "Its work cannot be done. Its session is killed.", fields: []field{{Name: "error", Label: "Why", Type: fieldArea}},
		},
		{
			on: on, name: "cancel", method: "POST", api: "/v1/tasks/{id}/cancel", label: "Cancel", danger: true, done: "The task was cancelled.",
			says: "It ends now. Its session is killed.", fields: []field{reasonField},
		},
	}
}

func (q *visit) newTask() ([]field, error) {
	return append(q.scopeFields(), []field{
		{Name: "label", Label: "Label", Help: "What people call it."},
		{Name: "command", Label: "Command", Type: fieldLines, Help: "The program and its arguments, one a line; left out: no session, and whoever does the work says so by the API."},
		{Name: "workspace", Label: "Workspace", Help: "The session's directory, below the workspace root."},
		{Name: "env", Label: "Variables", Type: fieldPairs, Help: "name=value, one a line."},
		{Name: "prompt", Label: "Prompt", Type: fieldArea, Help: "Typed into the session once it runs."},
		{Name: "config", Label: "Configuration", Type: fieldJSON, Help: `A JSON object such as {"idle_timeout_ms":30000}.`},
	}...), nil
}
