package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

// inText is a state as people read it.
func inText(s core.OrchestratorStatus) string { return strings.ReplaceAll(string(s), "_", " ") }

// runBadge shows the state of a run.
func runBadge(s core.OrchestratorStatus) cell {
	return state(inText(s), toneOfRun(s))
}

// toneOfRun says how a state of a run stands.
func toneOfRun(s core.OrchestratorStatus) tone {
	switch s {
	case core.OrchestratorCompleted:
		return toneGood
	case core.OrchestratorFailed, core.OrchestratorOrphaned:
		return toneBad
	case core.OrchestratorCancelled:
		return toneOff
	case core.OrchestratorPreRun, core.OrchestratorPending, core.OrchestratorRetrying:
		return toneWait
	default:
		return toneBusy
	}
}

var runFilters = append([]field{ // read-only: a table
	statusFilter(core.KindOrchestrator),
	{Name: "job", Label: "Job"}, {Name: "in_cluster", Label: "In a cluster", Type: fieldChoice, Options: yesNo()},
	{Name: "cleanup_failed", Label: "Cleanup fails", Type: fieldChoice, Options: yesNo()},
}, madeOrFailedFilters...)

// runs lists the runs of all jobs.
func (q *visit) runs() (view, error) {
	var got wire.RunList
	t, err := q.read(list{
		api: "/runs", path: "/runs", caption: "Runs, newest first",
		filters: runFilters, ordered: true,
		head:  []string{"Job", "Time", "Status", "Took", "Exit code", "Attempt", "Why", "Run", "Tenant"},
		empty: "There is no run. A job makes one at each time of its schedule, and when it is triggered.",
	}, &got)
	if err != nil {
		return view{}, err
	}
	for _, r := range got.Runs {
		job := textOf(clip(r.JobID, 120)).to(q.scoped(pathOf("jobs", r.JobID), r.Namespace, r.Tenant)).wide()
		t.Rows = append(t.Rows, append(append([]cell{job}, q.runCells(r)...), whose(r.Namespace, r.Tenant)))
	}
	q.next(t, got.NextPageToken)
	return view{Title: "Runs", Acts: q.actLinks("/runs", "retry-all", "cancel-all"), Body: []block{{Table: t}}}, nil
}

// runCells shows a run in a list: time, status, length, exit code, attempt, reason and id.
func (q *visit) runCells(r wire.RunSummary) []cell {
	at := q.at(r.ScheduledAt)
	if r.Manual {
		at.Hint = "by hand"
	}
	s := runBadge(r.State)
	if r.Cleanup.Failing() {
		s.More = append(s.More, state("cleanup fails", toneBad))
	}
	took := ""
	if !r.StartedAt.IsZero() {
		took = q.took(r.StartedAt, cmp.Or(r.Ran.EndedAt, r.CompletedAt))
	}
	attempt := strconv.FormatUint(uint64(r.RetryAttempt), 10)
	if r.MaxRetries > 0 {
		attempt += " of at most " + strconv.FormatUint(uint64(r.MaxRetries), 10)
	}
	why := textOf(clip(cmp.Or(r.Error, r.Note), 300)).wide()
	return []cell{
		at, s, textOf(took), runExitCode(r.Pod.ExitCode), textOf(attempt), why,
		codeOf(shortID(r.ID.String())).to(q.page(pathOf("runs", r.ID.String()))),
	}
}

func runExitCode(code *int32) cell {
	if code == nil {
		return cell{}
	}
	c := number(int(*code))
	if *code != 0 {
		c.Tone = toneBad
	}
	return c
}

// run shows one run.
func (q *visit) run() (view, error) {
	r, err := q.readRun()
	if err != nil {
		return view{}, err
	}
	s := runBadge(r.State)
	v := view{
		Kind: "Run", Title: clip(r.RunID, 200), State: &s,
		Crumbs: []link{{Text: "Runs", Href: q.page("/runs")}, {Text: clip(r.JobID, 60), Href: q.scoped(pathOf("jobs", r.JobID), r.Namespace, r.Tenant)}},
	}
	v.More = []link{q.changesLink(core.KindOrchestrator, r.ID.String())}
	v.Acts = append([]link{{Text: "Logs", Href: q.page(pathOf("runs", r.ID.String(), "logs"))}}, q.runLinks(r)...)
	v.Body = append(q.runNotices(r), block{Facts: q.runFacts(r)})
	v.Body = append(v.Body, q.runMap(r.Orchestrator)...)
	v.Body = append(v.Body, q.runChecks(r.Orchestrator)...)
	v.Body = append(v.Body, q.runAttempts(r.Orchestrator), q.runPhases(r.Orchestrator))
	v.Body = append(v.Body, jobConfiguration(r.Config)...)
	return v, nil
}

// readRun reads the run of the address: by its id, or by the name "job:time" within a tenant.
func (q *visit) readRun() (r wire.Run, err error) {
	return r, q.get(pathOf("runs", q.PathValue("id")), q.scopeQuery(), &r)
}

// runLinks gives the acts that the run's state allows.
func (q *visit) runLinks(r wire.Run) (out []link) {
	var names []string
	if r.State == core.OrchestratorRetrying {
		names = append(names, "retry")
	}
	if !r.State.Terminal() {
		names = append(names, "cancel")
	}
	if r.Cleanup.Failing() {
		names = append(names, "abandon")
	}
	out = q.actLinks("/runs/{id}", names...)
	if r.State.Terminal() { // a run that has ended stays as it is: its job makes another one
		for _, a := range q.p.acts {
			if a.on == "/jobs/{id}" && a.name == "trigger" {
				out = append(out, link{Text: "Run the job again", Main: true, Refused: a.refuses(q), Href: q.scoped(pathOf("jobs", r.JobID, "trigger"), r.Namespace, r.Tenant)})
			}
		}
	}
	return out
}

// runNotices say why the run stands as it does.
func (q *visit) runNotices(r wire.Run) (out []block) {
	say := func(text string, t tone) {
		if text != "" {
			out = append(out, block{Notice: &notice{Text: text, Tone: t}})
		}
	}
	bad := toneOff
	if r.State == core.OrchestratorFailed || r.State == core.OrchestratorOrphaned || r.State == core.OrchestratorRetrying {
		bad = toneBad
	}
	say(r.Error, bad)
	say(r.Note, toneWait)
	if r.Exit.To != "" && !r.State.Terminal() {
		text := "It is about to be " + inText(r.Exit.To)
		if r.Exit.Reason != "" {
			text += ": " + r.Exit.Reason
		}
		say(text, toneWait)
	}
	if c := r.Cleanup; !c.FailedSince.IsZero() {
		text := "What it has in the cluster could not be deleted since " + q.moment(c.FailedSince).Text + ", in " + howMany(uint64(c.Failures), "attempt") + ": " + c.Error
		if !c.AbandonedAt.IsZero() {
			text += "\nThe cleanup was given up: something of it may still be there."
		}
		say(text, toneBad)
	}
	if r.LastFailure != "" {
		say("The attempt before this one failed: "+r.LastFailure, toneWait)
	}
	return out
}

func (q *visit) runFacts(r wire.Run) []fact {
	ran := r.PodTimes()
	times := func(at cell, by core.TimeSource) cell {
		at.Hint = podSources[by]
		return at
	}
	backfill, occurrence := cell{}, cell{}
	if id := r.Backfill.String(); id != noID {
		backfill = codeOf(shortID(id)).to(q.page(pathOf("backfills", id)))
	}
	if id := r.Occurrence.String(); id != noID {
		occurrence = codeOf(shortID(id)).to(q.page("/find", "q", id))
	}
	at := q.at(r.ScheduledAt)
	if r.Manual {
		at.Hint = "by hand"
	}
	took := cell{}
	if !ran.StartedAt.IsZero() {
		took = q.lasted(ran.StartedAt, cmp.Or(ran.EndedAt, r.CompletedAt))
	}
	return facts(
		fact{"Job", textOf(clip(r.JobID, 200)).to(q.scoped(pathOf("jobs", r.JobID), r.Namespace, r.Tenant))}, fact{"Time", at}, fact{"Triggered by", textOf(r.By)},
		fact{"Exit code", runExitCode(r.Pod.ExitCode)}, fact{"Attempt", textOf(strconv.FormatUint(uint64(r.RetryAttempt), 10) + " (0 is the first) of at most " + strconv.FormatUint(uint64(r.Config.RetryConfig.MaxRetries), 10))},
		fact{"Next attempt", q.at(r.RetryAt)}, fact{"Pod began", times(q.at(ran.StartedAt), ran.StartedBy)}, fact{"Pod ended", times(q.at(ran.EndedAt), ran.EndedBy)}, fact{"Pod ran for", took},
		fact{"Pod", codeOf(r.Pod.Name)}, fact{"Node", codeOf(r.Pod.Node)}, fact{"Home", codeOf(r.Pod.Home)}, fact{"Pod's reason", textOf(r.Pod.Reason)}, fact{"In more words", textOf(r.Pod.Message)},
		fact{"In the cluster", textOf(map[bool]string{true: "a pod of it may be there"}[r.InCluster])}, fact{"Waits for room", textOf(map[bool]string{true: "its runner has no room for its pod"}[r.Pod.Queued])},
		fact{"Runner", codeOf(r.Config.Runner)}, fact{"Does", textOf(runDoes[r.Step])}, fact{"Logs", logsFact(r.Logs)}, fact{"Locks", cell{Lines: r.Locks}},
		fact{"Variables", pairs(r.Env)}, fact{"Backfill", backfill}, fact{"Occurrence", occurrence}, fact{"Whose", whose(r.Namespace, r.Tenant)},
		fact{"Created", q.at(r.CreatedAt)}, fact{"Ended", q.at(r.CompletedAt)}, fact{"Changed", q.at(r.UpdatedAt)}, fact{"Id", codeOf(r.ID.String())},
	)
}

// podSources say whose a time of a pod is.
var podSources = map[core.TimeSource]string{
	core.TimeCluster: "as its runner tells", core.TimeShifted: "about: the node's clock is off", core.TimeObserved: "when Orrery heard of it",
}

// runDoes says what a run does within its state.
var runDoes = map[core.RunStep]string{
	core.StepLogs: "it fetches what the pod has written", core.StepChecking: "it checks the constraints that count after the pod", core.StepActing: "it takes their actions",
	core.StepDeleting: "it deletes what it has in the cluster", core.StepAdopted: "its pod goes on, although the run is orphaned",
}

func logsFact(l core.RunLogs) cell {
	switch {
	case l.Error != "":
		return textOf(l.Error)
	case !l.Stored:
		return cell{}
	}
	c := textOf(strconv.FormatInt(l.Bytes, 10) + " bytes are stored")
	if l.Truncated {
		c.Hint = "of the middle " + strconv.FormatInt(l.Dropped, 10) + " bytes or more were dropped"
	}
	return c
}

// runChecks shows the constraints with their verdicts, and the actions that were taken.
func (q *visit) runChecks(r core.Orchestrator) []block {
	checks := &table{Caption: "Constraints", Head: []string{"Constraint", "When", "Attempt", "Verdict", "Message"}, Empty: "None was evaluated so far."}
	if len(r.Config.ConstraintConfig) == 0 {
		checks.Empty = "Its job has no constraints."
	}
	for _, c := range r.Checks {
		verdict := state("violated", toneBad)
		switch {
		case c.Error != "":
			verdict = state("not evaluated", toneBad)
		case c.Met:
			verdict = state("met", toneGood)
		}
		checks.Rows = append(checks.Rows, []cell{codeOf(c.Name), textOf(checkPhase(string(c.Phase))), number(uint64(c.Attempt)), verdict, textOf(cmp.Or(c.Error, c.Message)).wide()})
	}
	out := []block{{Title: "Constraints", Table: checks}}
	if d := r.Decision; d.Verdict != "" {
		out[0].Note = "Together: " + string(d.Verdict)
		if d.Reason != "" {
			out[0].Note += ", " + d.Reason
		}
	}
	taken := &table{Caption: "Actions", Head: []string{"Action", "Of the constraint", "When", "Attempt", "Taken", "Outcome"}}
	for _, a := range r.Actions {
		outcome := state("taken", toneGood)
		if a.Error != "" {
			outcome = state("failed", toneBad)
			outcome.Hint = a.Error
		}
		taken.Rows = append(taken.Rows, []cell{codeOf(a.Type), codeOf(a.Constraint), textOf(checkPhase(string(a.Phase))), number(uint64(a.Attempt)), q.at(a.At), outcome.wide()})
	}
	for _, a := range r.ToTake {
		taken.Rows = append(taken.Rows, []cell{codeOf(a.Type), codeOf(a.Constraint), {}, {}, {}, badge("waiting")})
	}
	if len(taken.Rows) > 0 {
		out = append(out, block{Title: "Actions taken", Table: taken})
	}
	return out
}

// checkPhase says when a constraint counts.
func checkPhase(phase string) string {
	return cmp.Or(map[string]string{"pre": "before the pod", "post": "after the pod"}[phase], phase)
}

// runAttempts lists the attempts of a run, the latest first.
func (q *visit) runAttempts(r core.Orchestrator) block {
	t := &table{Caption: "Attempts", Head: []string{"Attempt", "Began", "Took", "Exit code", "Pod", "Node", "Why it ended", "Logs"}, Empty: "No attempt has begun."}
	add := func(n uint32, ran core.PodTimes, code *int32, pod, node, why string) {
		began := q.at(ran.StartedAt)
		began.Hint = podSources[ran.StartedBy]
		took := cell{}
		if !ran.StartedAt.IsZero() {
			took = q.lasted(ran.StartedAt, cmp.Or(ran.EndedAt, r.CompletedAt))
		}
		attempt := strconv.FormatUint(uint64(n), 10)
		t.Rows = append(t.Rows, []cell{
			textOf(attempt), began, took, runExitCode(code), codeOf(pod), codeOf(node), textOf(why).wide(),
			textOf("logs").to(q.page(pathOf("runs", r.ID.String(), "logs"), "attempt", attempt)),
		})
	}
	if r.RetryAttempt > 0 || !r.CreationAskedAt.IsZero() {
		add(r.RetryAttempt, r.PodTimes(), r.Pod.ExitCode, r.Pod.Name, r.Pod.Node, cmp.Or(r.Error, r.Pod.Reason))
	}
	for _, a := range slices.Backward(r.PastAttempts) {
		ran := a.Ran
		if ran.StartedAt.IsZero() && !a.StartedAt.IsZero() {
			ran = core.PodTimes{StartedAt: a.StartedAt, StartedBy: core.TimeObserved}
		}
		add(a.Attempt, ran, a.ExitCode, a.Pod, a.Node, cmp.Or(a.Failure, a.Reason))
	}
	b := block{Title: "Attempts", Table: t, Note: "0 is the first."}
	if known := uint32(len(r.PastAttempts)); r.RetryAttempt > known {
		b.Note += " Of the first " + howMany(uint64(r.RetryAttempt-known), "attempt") + " the record keeps nothing but the logs."
	}
	return b
}

// runPhases tells how long the phases of a run took, of all attempts together.
func (q *visit) runPhases(r core.Orchestrator) block {
	m := r.Metrics
	some := func(v uint32) cell { return count(uint64(v)) }
	b := block{Title: "Durations", Note: "Of all attempts together; they are counted as an attempt ends.", Facts: facts(
		fact{"Waiting", millis(m.PreRunDurationMS)}, fact{"Until the pod ran", millis(m.ConstraintCheckDurationMS)}, fact{"Pod ran", millis(m.ExecutionDurationMS)}, fact{"Ending", millis(m.TerminationDurationMS)},
		fact{"In all", millis(m.TotalDurationMS)}, fact{"Pod's start", millis(m.PodStartLatencyMS)}, fact{"Constraints checked", some(m.ConstraintsChecked)}, fact{"Violated", some(m.ConstraintsViolated)},
		fact{"Actions taken", some(m.ActionsExecuted)}, fact{"Actions failed", some(m.ActionsFailed)}, fact{"Calls of the cluster", some(m.KubernetesAPICalls)},
	)}
	if len(b.Facts) == 0 {
		b.Note, b.Empty = "", "No attempt has ended."
	}
	return b
}
