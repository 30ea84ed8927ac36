package page

import (
	"net/http"
	"net/url"
	"slices"
)

// madeFilters choose by the time of creation.
var madeFilters = []field{ // read-only: a table
	{Name: "since", Label: "Created since", Type: fieldTime}, {Name: "until", Label: "Created before", Type: fieldTime},
}

// madeOrFailedFilters choose by the time of creation, or by that of the failure.
var madeOrFailedFilters = append(slices.Clone(madeFilters), field{Name: "failed_since", Label: "Failed since", Type: fieldTime}) // read-only: a table

// Fields of the forms.
var (
	manyReason = []field{reasonField}
	manyPause  = []field{
		reasonField,
		{Name: "until", Label: "Until", Type: fieldTime, Help: "From then on they go on by themselves; left out: until somebody resumes them."},
	}
)

// manyActs lists the acts on all that a list shows.
func manyActs() []act {
	actions := func(act, verb string, statuses ...string) *many {
		return &many{
			act: act, verb: verb, one: "action", all: "actions", statuses: statuses, filters: actionFilters[1:],
			kinds: []manyKind{{path: "actions", field: "actions"}},
		}
	}
	retry := actions("retry", "Retry", "failed", "cancelled")
	retry.always = map[string]any{"once": true}
	return append([]act{
		{
			on: "/actions", name: "retry-all", method: http.MethodPost, api: "/v1/actions/bulk", label: "Retry all that match", many: retry,
			says: "Makes a new action of each, with the same tool and input, due at once. The old ones stay as they are, and stay in this list. " +
				"Of one of which this has made a new one before no second one is made, so that it can be done again.",
			done: "They were retried.",
		},
		{
			on: "/actions", name: "cancel-all", method: http.MethodPost, api: "/v1/actions/bulk", label: "Cancel all that match", danger: true,
			many: actions("cancel", "Cancel", "pending", "running"), fields: actionCancelFields,
			says: "They do not run any more. Running ones are told to stop. It cannot be undone; what was cancelled can be retried.", done: "They were cancelled.",
		},
		{
			on: "/actions", name: "trigger-all", method: http.MethodPost, api: "/v1/actions/bulk", label: "Run all that match now",
			many: actions("trigger", "Run", "pending"),
			says: "Each runs now instead of at its time, as far as its tool and its tenant have room.", done: "They are due now.",
		},
	}, append(manyScheduleActs(), manyRunbookActs()...)...)
}

func manyRunbookActs() []act {
	of := func(path, act, verb, one, all string, filters []field, statuses ...string) *many {
		return &many{act: act, verb: verb, one: one, all: all, statuses: statuses, filters: filters, kinds: []manyKind{{path: path, field: path}}}
	}
	return []act{
		{
			on: "/runs", name: "cancel-all", method: http.MethodPost, api: "/v1/runs/bulk", label: "Cancel all that match", danger: true, fields: manyReason,
			many: of("runs", "cancel", "Cancel", "run", "runs", runFilters[1:], "pending", "running", "retrying", "pre_run", "condition_pending", "condition_running",
				"action_pending", "action_running", "container_creating"),
			says: "Those that wait do not begin. Pods that run are stopped and deleted. It cannot be undone.", done: "They are being cancelled.",
		},
		{
			on: "/runs", name: "retry-all", method: http.MethodPost, api: "/v1/runs/bulk", label: "Try all that match again now",
			many: of("runs", "retry", "Try again", "run", "runs", runFilters[1:], "retrying"),
			says: "Their next attempts begin now, instead of at their times.", done: "Their next attempts have begun.",
		},
		{
			on: "/pipelines", name: "retry-all", method: http.MethodPost, api: "/v1/pipelines/bulk", label: "Retry all that match",
			many: of("pipelines", "retry", "Retry", "pipeline", "pipelines", madeOrFailedFilters, "failed"),
			says: "Each goes on with the phase that failed. What was done before stays done.", done: "They go on.",
		},
		{
			on: "/pipelines", name: "cancel-all", method: http.MethodPost, api: "/v1/pipelines/bulk", label: "Cancel all that match", danger: true, fields: manyReason,
			many: of("pipelines", "cancel", "Cancel", "pipeline", "pipelines", madeOrFailedFilters, "running", "blocked", "init"),
			says: "They end now, with what they have started. It cannot be undone.", done: "They were cancelled.",
		},
		{
			on: "/tasks", name: "cancel-all", method: http.MethodPost, api: "/v1/tasks/bulk", label: "Cancel all that match", danger: true, fields: manyReason,
			many: of("tasks", "cancel", "Cancel", "task", "tasks", madeOrFailedFilters, "stuck", "running", "pending"),
			says: "They end now. Their sessions are killed. It cannot be undone.", done: "They were cancelled.",
		},
		{
			on: "/strategies", name: "cancel-all", method: http.MethodPost, api: "/v1/strategies/bulk", label: "Cancel all that match", danger: true, fields: manyReason,
			many: of("strategies", "cancel", "Cancel", "strategy", "strategies", madeOrFailedFilters, "running"),
			says: "They end now, with what they have started. It cannot be undone.", done: "They were cancelled.",
		},
	}
}

func manyScheduleActs() []act {
	recurring := func(state string) manyKind {
		return manyKind{kind: kindRecurring, path: "recurring", field: "recurring_actions", fixed: url.Values{"all": {"true"}, "state": {state}}}
	}
	jobs := func(state string) manyKind {
		return manyKind{kind: kindJob, path: "jobs", field: "jobs", fixed: url.Values{"state": {state}}, scoped: true}
	}
	of := func(act, verb string, filters []field, kinds ...manyKind) *many {
		m := &many{act: act, verb: verb, one: "schedule", all: "schedules", filters: filters, kinds: kinds}
		if len(kinds) == 1 {
			m.one, m.all = "job", "jobs"
		}
		return m
	}
	const pause, resume = "Takes those that are not paused: none of their times is dispatched until they are resumed. Actions and runs that run go on; times and runs that wait for their turn are cancelled.",
		"Takes those that are paused, and not what has ended: they go on with their next times. What passed meanwhile is not made up for."
	return []act{
		{
			on: "/schedules", name: "pause-all", method: http.MethodPost, api: "/v1/recurring/bulk", label: "Pause all that match", fields: manyPause,
			many: of("pause", "Pause", scheduleFilters, recurring(stateOn), jobs(stateOn)), says: pause + " Periodic actions are not paused: cancel them.", done: "They are paused.",
		},
		{
			on: "/schedules", name: "resume-all", method: http.MethodPost, api: "/v1/recurring/bulk", label: "Resume all that match",
			many: of("resume", "Resume", scheduleFilters, recurring(statePaused), jobs(statePaused)), says: resume, done: "They go on.",
		},
		{
			on: "/jobs", name: "pause-all", method: http.MethodPost, api: "/v1/jobs/bulk", label: "Pause all that match", fields: manyPause,
			many: of("pause", "Pause", scheduleFilters, jobs(stateOn)), says: pause, done: "They are paused.",
		},
		{
			on: "/jobs", name: "resume-all", method: http.MethodPost, api: "/v1/jobs/bulk", label: "Resume all that match",
			many: of("resume", "Resume", scheduleFilters, jobs(statePaused)), says: resume, done: "They go on.",
		},
	}
}
