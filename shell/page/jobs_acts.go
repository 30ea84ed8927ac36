package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func actsOnJobs() []act {
	const on = "/jobs/{id}"
	return []act{
		{
			on: "/jobs", name: "new", at: "/new-job", method: http.MethodPut, api: "/v1/jobs/{id}", label: "New job", main: true, done: "The job was created.",
			says: "Makes a run at each time of a schedule: a pod in a cluster, or processes of the daemon's machine.",
			load: (*visit).newJob, amend: amendJob, after: afterJob, try: (*visit).planJob,
		},
		{
			on: on, name: "trigger", method: http.MethodPost, api: "/v1/jobs/{id}/trigger", label: "Run now", main: true, done: "A run was made by hand.",
			says: "Makes a run now, beside the times of the job, even while the job is paused. It waits for its turn like others.",
			fields: []field{
				{Name: "env", Label: "Variables", Type: fieldPairs, Help: "name=value, one a line: the containers of this run have them in their environment."},
				{Name: "dedup_key", Label: "Dedup key", Help: "A second trigger with the same key makes no second run, and leads to the first one."},
			},
			after: afterTrigger,
		},
		{
			on: on, name: "pause", method: http.MethodPost, api: "/v1/jobs/{id}/pause", label: "Pause", done: "The job is paused.",
			says: "It makes no run at its times until it is resumed. Runs that have begun go on; those that wait for their turn are cancelled.", fields: pauseFields,
		},
		{
			on: on, name: "resume", method: http.MethodPost, api: "/v1/jobs/{id}/resume", label: "Resume", main: true, done: "The job is resumed.",
			says: "It makes runs from now on. The times that have passed meanwhile stay skipped.",
		},
		{
			on: on, name: "skip-next", method: http.MethodPost, api: "/v1/jobs/{id}/skip-next", label: "Skip the next time", done: "The next time is to be skipped.",
			says: "The next time that is not to be skipped already is skipped.", fields: []field{reasonField},
		},
		{
			on: on, name: "apply", method: http.MethodPut, api: "/v1/jobs/{id}", label: "Edit", done: "The job has its new configuration.",
			says: "Gives the job the whole configuration below: what is left out has its default afterwards. Runs that have begun keep the old one; if the schedule changes, those that wait for their turn are cancelled.",
			load: (*visit).editJob, amend: amendJob, try: (*visit).planJob,
		},
		{
			on: on, name: "backfill", method: http.MethodPost, api: "/v1/backfills", label: "Backfill", done: "The backfill was created.",
			says: "Makes runs of times of the past that have none, a few at a time.",
			load: (*visit).backfillJob, after: afterMade("/backfills/"),
		},
		{
			on: on, name: "delete", method: http.MethodDelete, api: "/v1/jobs/{id}", label: "Delete", danger: true, done: "The job was deleted.",
			says:  "It makes no more runs, and cannot be brought back. Its runs that have not ended are cancelled; those that have stay as long as others' do.",
			after: func(q *visit, _ *answer) string { return q.page("/jobs") },
		},
	}
}

// firstPod is what the form of a new job begins with.
const firstPod = `{
  "containers": [
    {
      "name": "main",
      "image": "docker.io/library/busybox:1.37",
      "command": ["sh", "-c", "date -u"]
    }
  ]
}`

func (q *visit) newJob() ([]field, error) {
	return append([]field{
		{Name: "id", Label: "Id", Required: true, Help: "Unique within its tenant, such as nightly-report."},
		{Name: "name", Label: "Name", Help: "What people call it."},
		{Name: "schedule", Label: "Schedule", Help: "A cron expression such as 0 2 * * *; left out: it runs only when it is triggered."},
		{Name: "timezone", Label: "Time zone", Help: "Such as Europe/Berlin; left out: UTC."},
		{Name: "runner", Label: "Runner", List: q.runnerNames(), Help: "Who runs it; left out: the default one."},
		{Name: "pod_spec", Label: "Pod spec", Type: fieldJSON, Required: true, Value: firstPod, Help: "As Kubernetes has it, as JSON."},
		{Name: "rest", Label: "Further settings", Type: fieldJSON, Help: `A JSON object with what else the job is to have, such as {"overlap": "skip", "retry_config": {"max_retries": 2}}.`},
	}, q.homeFields()...), nil
}

// runnerNames lists the runners that the visitor may use, for suggestions.
func (q *visit) runnerNames() (names []string) {
	var got wire.RunnerList
	if err := q.get("/runners", nil, &got); err != nil {
		return nil
	}
	for _, r := range got.Runners {
		names = append(names, r.Name)
	}
	return names
}

// editJob fills the form with the job's whole configuration.
func (q *visit) editJob() ([]field, error) {
	var j wire.Job
	if err := q.get(pathOf("jobs", q.PathValue("id")), q.scopeQuery(), &j); err != nil {
		return nil, err
	}
	b, err := json.Marshal(requestOf(j.JobSpec))
	if err != nil {
		return nil, fmt.Errorf("the configuration of job %q: %w", j.ID, err)
	}
	return []field{{Name: "rest", Label: "Configuration", Type: fieldJSON, Required: true, Value: editableJSON(b), Help: "All of it, as JSON."}}, nil
}

// requestOf is the body that would give a job the configuration that it has.
func requestOf(s core.JobSpec) wire.JobRequest {
	return wire.JobRequest{
		Name: s.Name, Schedule: s.Schedule, Timezone: s.Timezone, PodSpec: s.PodSpec, ConstraintConfig: s.ConstraintConfig, ActionConfig: s.ActionConfig,
		RetryConfig: s.RetryConfig, Overlap: s.Overlap, StartDeadlineSeconds: s.StartDeadlineSeconds, MaxConcurrentRuns: s.MaxConcurrentRuns,
		OrphanPolicy: s.OrphanPolicy, PodStartTimeoutMS: s.PodStartTimeoutMS, CreateAheadMS: s.CreateAheadMS, TTLSecondsAfterFinished: s.TTLSecondsAfterFinished,
		ConstraintErrors: s.ConstraintErrors, Logs: s.Logs, Labels: s.Labels, Runner: s.Runner, EndsAt: s.EndsAt, ScheduleOptions: s.ScheduleOptions,
	}
}

// amendJob makes the body that the API takes of the fields, and of the object in the last one.
func amendJob(q *visit, body map[string]any, _ url.Values) error {
	if id, ok := body["id"].(string); ok { // of a new job
		q.SetPathValue("id", id) // it stands in the API's path
		delete(body, "id")
	}
	raw, ok := body["rest"].(json.RawMessage)
	if !ok {
		return nil
	}
	delete(body, "rest")
	var rest map[string]json.RawMessage
	if err := json.Unmarshal(raw, &rest); err != nil {
		return &apiError{Status: http.StatusBadRequest, Text: "the configuration is not a JSON object"}
	}
	for name, v := range rest {
		if _, twice := body[name]; twice {
			return &apiError{Status: http.StatusBadRequest, Text: name + ": stands in a field of its own, and among the further settings"}
		}
		body[name] = v
	}
	return nil
}

// planJob shows what the form of a job would do.
func (q *visit) planJob(body map[string]any) ([]block, error) {
	params := q.scopeQuery()
	params.Set("dry_run", "true")
	var p wire.JobPlanned
	taking := http.Header{}
	if q.PostForm.Get(takeOverField) != "" {
		taking.Set("Orrery-Take-Over", "true")
	}
	if _, err := q.callIf(taking, http.MethodPut, withQuery("/v1"+pathOf("jobs", q.PathValue("id")), params), body, &p); err != nil {
		return nil, err
	}
	if p.Would != "create" && q.PostForm.Has("id") { // of a new job: a dry run takes no condition
		return nil, &apiError{Status: http.StatusPreconditionFailed, Text: existsText}
	}
	text := map[string]string{
		"create": "It would make the job.", "update": "It would change the job.", "keep": "It would change nothing: the job has this configuration.",
	}[p.Would]
	if p.Job.Schedule != "" {
		text += "\nWhen: " + inWords(p.Job.Schedule, p.Job.Timezone, p.Job.DayMatch)
	}
	out := []block{{Notice: &notice{Text: strings.TrimSpace(text + "\nNothing was changed so far.")}}}
	for _, w := range p.Job.Warnings {
		out = append(out, block{Notice: &notice{Text: w, Tone: toneWait}})
	}
	t := &table{Caption: "Next times", Head: []string{"As it is", "As it would be"}, Empty: "It has no times, and would have none."}
	for i := range max(len(p.NextTimesBefore), len(p.Job.NextTimes)) {
		var before, after cell
		if i < len(p.NextTimesBefore) {
			before = q.at(p.NextTimesBefore[i])
		}
		if i < len(p.Job.NextTimes) {
			after = q.at(p.Job.NextTimes[i])
		}
		t.Rows = append(t.Rows, []cell{before, after})
	}
	return append(out, block{Title: "Next times", Table: t}), nil
}

// afterJob leads to the job that was made.
func afterJob(q *visit, a *answer) string {
	var made wire.Job
	if err := json.Unmarshal(a.body.Bytes(), &made); err != nil {
		return q.page("/jobs")
	}
	return q.scoped(pathOf("jobs", made.ID), made.Namespace, made.Tenant)
}

// afterTrigger leads to the run that was made.
func afterTrigger(q *visit, a *answer) string {
	var made core.JobTriggered
	if err := json.Unmarshal(a.body.Bytes(), &made); err != nil {
		return q.page("/runs")
	}
	return q.page(pathOf("runs", made.Run.String()))
}

func (q *visit) backfillJob() ([]field, error) {
	fields, err := q.backfillFields()
	if len(fields) > 0 {
		fields[0] = field{Name: "job", Type: fieldHidden, Value: q.PathValue("id")}
	}
	return fields, err
}
