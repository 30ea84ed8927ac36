//go:build unix

package clustertest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/kube"
)

func TestWhatClientsSeeOfRunsWhileDaemonsAreFrozenWithinCallsToKubernetesIsWhatOneDaemonThatNeverFailsCouldShow(t *testing.T) {
	histories(t, run{partitions: partitions, steps: stepsAsked(t, 1, 6), tenants: tenantsOf(partitions), pods: true})
}

// lateCall says within which call a daemon is frozen, and how the call goes on.
type lateCall struct {
	verb   string // create, delete
	before bool   // it is frozen right before it, and wakes when another daemon is done with what it was about
	answer bool   // it arrives, and its answer is late
	comes  moment
}

// moment is when a call that was held up goes on.
type moment int

const (
	whileFrozen moment = iota // the daemon reads the answer once it goes on
	whenAwake                 // the daemon has heard that it has lost its partitions
	afterDeath                // the daemon was killed meanwhile: the call was in the network
	moments
)

func (l lateCall) String() string {
	what, when := "is carried out", [moments]string{"while the daemon is frozen", "when it is awake", "after its death"}[l.comes]
	if l.answer {
		what = "is answered"
	}
	if l.before {
		return fmt.Sprintf("a call to %s is not made yet", l.verb)
	}
	return fmt.Sprintf("a call to %s %s %s", l.verb, what, when)
}

// planCalls draws a schedule in which each step has a daemon frozen within a call; while some of them last another fault happens.
func planCalls(rng *rand.Rand, n int) (all []step) {
	calls := []lateCall{{verb: "create", before: true}, {verb: "create"}, {verb: "create", comes: whenAwake}, {verb: "create", comes: afterDeath}, {verb: "create", answer: true}, {verb: "delete"}}
	others := []kind{killedBriefly, connectionsLost, frozen, cutFromDatabase, crashed}
	for len(all) < n {
		for _, k := range rng.Perm(len(calls)) {
			call := calls[k]
			if call.answer || call.verb == "delete" {
				call.comes, call.answer = moment(rng.IntN(int(moments))), call.answer || rng.IntN(2) == 0
			}
			s := step{first: fault{kind: frozenInCall, length: 2*lease + time.Duration(rng.IntN(2000))*time.Millisecond, call: call}}
			if rng.IntN(2) == 0 {
				s.second = &fault{kind: others[rng.IntN(len(others))], who: rng.IntN(daemons), length: time.Duration(rng.IntN(2000)) * time.Millisecond}
			}
			all = append(all, s)
		}
	}
	return all[:n]
}

// doneLimit is how long another daemon may take until it is done with what a call was about that is held up: another fault may be why it is not.
const doneLimit = 20 * time.Second

// beginInCall freezes the daemon that is the next to call Kubernetes, within that call, and gives what lets both go on.
func (c *cluster) beginInCall(t *testing.T, call lateCall) (heal func(), m *member) {
	t.Helper()
	if call.before {
		return c.beginBeforeCall(t)
	}
	h := c.pods.hold(call.verb, call.answer)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-h.caught:
	case <-limit.C:
		require.Fail(t, "no daemon calls Kubernetes")
	}
	m = c.members[slices.IndexFunc(c.members, func(m *member) bool { return m.name == h.caller })]
	m.signal(syscall.SIGSTOP)
	t.Logf("%s: %s", m.name, call)
	return func() {
		if call.verb == "create" && !call.answer {
			err := poll(doneLimit, func() error {
				if !c.pods.goneElsewhere(h.name, m.name) {
					return errLater
				}
				return nil
			})
			h.late = err == nil
			t.Logf("  it is of %s, with which another daemon is done: %t", h.name, h.late)
		}
		switch call.comes {
		case whileFrozen:
			h.release()
			m.signal(syscall.SIGCONT)
		case whenAwake:
			m.signal(syscall.SIGCONT)
			assert.NoError(t, poll(patience, m.answers), "%s, once it goes on", m.name)
			h.release()
		case afterDeath:
			m.kill()
			h.release()
			m.start()
		default:
			panic("no such end of a call")
		}
	}, m
}

// beginBeforeCall freezes the daemon that is the next to create a Job, right before it makes sure that it may, and gives what lets it go on.
func (c *cluster) beginBeforeCall(t *testing.T) (heal func(), m *member) {
	t.Helper()
	require.NoError(t, os.WriteFile(c.stopFile(), nil, 0o600))
	var caught []byte
	require.NoError(t, poll(patience, func() (err error) {
		caught, err = os.ReadFile(c.stopFile() + ".caught")
		return err
	}), "no daemon creates a Job")
	require.NoError(t, os.Remove(c.stopFile()+".caught"))
	job, pid, _ := strings.Cut(string(caught), " ")
	m = c.members[slices.IndexFunc(c.members, func(m *member) bool { return m.cmd != nil && strconv.Itoa(m.cmd.Process.Pid) == pid })]
	m.signal(syscall.SIGSTOP)
	t.Logf("%s: frozen before it creates %s", m.name, job)
	return func() {
		err := poll(doneLimit, func() error {
			if !c.pods.goneElsewhere(job, m.name) {
				return errLater
			}
			return nil
		})
		t.Logf("  another daemon is done with it: %t", err == nil)
		if err == nil {
			c.pods.notBy(job, m.name)
		}
		m.signal(syscall.SIGCONT)
	}, m
}

// stopFile is what the next daemon that is about to create a Job finds, and waits by.
func (c *cluster) stopFile() string { return filepath.Join(c.dir, "stop") }

// testJob is a job of each tenant: how its pods go on, and so how its runs end.
type testJob struct {
	id       string
	runFor   time.Duration
	fails    int // attempts
	retries  int
	ends     core.OrchestratorStatus
	attempts int
}

var testJobs = []testJob{
	{id: "quick", runFor: 200 * time.Millisecond, ends: core.OrchestratorCompleted, attempts: 1},
	{id: "slow", runFor: 3 * time.Second, ends: core.OrchestratorCompleted, attempts: 1},
	{id: "again", runFor: 200 * time.Millisecond, fails: 1, retries: 2, ends: core.OrchestratorCompleted, attempts: 2},
	{id: "bad", runFor: 100 * time.Millisecond, fails: 9, retries: 1, ends: core.OrchestratorFailed, attempts: 2},
}

// prepareJobs applies the jobs of each tenant.
func prepareJobs(ctx context.Context, t *testing.T, chief *client) {
	t.Helper()
	for _, of := range chief.h.tenants {
		for _, j := range testJobs {
			a := chief.do(ctx, http.MethodPut, "/v1/jobs/"+j.id+of.scope(), map[string]any{
				"pod_spec":     map[string]any{"containers": []map[string]any{{"name": "main", "image": "busybox"}}, "terminationGracePeriodSeconds": 0},
				"labels":       map[string]string{labelRunFor: j.runFor.String(), labelFails: fmt.Sprint(j.fails)},
				"retry_config": map[string]any{"max_retries": j.retries, "initial_delay_ms": 100},
			})
			require.True(t, a.ok(), "%d %s", a.status, a.body)
		}
	}
}

// askedRun is a run that a client has asked for.
type askedRun struct {
	tenant    string
	job       testJob
	id        uuid.UUID
	cancelled bool // acknowledged
	unsure    bool // its end was asked for, and nobody knows whether it was in time
}

// run asks for a run of a job, or for the end of one.
func (c *client) run(ctx context.Context, of *tenant) {
	if len(c.runs) > 0 && c.rng.IntN(4) == 0 {
		r := c.runs[len(c.runs)-1]
		c.runs = c.runs[:len(c.runs)-1]
		a := c.do(ctx, http.MethodPost, "/v1/runs/"+r.id.String()+"/cancel", map[string]string{"reason": "for a test"})
		c.h.mu.Lock()
		defer c.h.mu.Unlock()
		if r.cancelled = a.ok(); !r.cancelled {
			r.unsure = a.unsure
			if a.status != http.StatusConflict && a.status != 0 {
				c.h.plaints = append(c.h.plaints, fmt.Sprintf("cancel run %s: %d %s", r.id, a.status, a.body))
			}
		}
		return
	}
	r := &askedRun{tenant: of.name, job: testJobs[c.rng.IntN(len(testJobs))]}
	a := c.do(ctx, http.MethodPost, "/v1/jobs/"+r.job.id+"/trigger"+of.scope(), map[string]any{"dedup_key": fmt.Sprintf("%s-%d", c.name(), c.asked)})
	var made struct {
		Run uuid.UUID `json:"run"`
	}
	if !c.into(a, &made) {
		c.h.complain("a run of %s of %s: %d %s", r.job.id, of.name, a.status, a.body)
		return
	}
	r.id = made.Run
	c.h.mu.Lock()
	c.h.runs = append(c.h.runs, r)
	c.h.mu.Unlock()
	c.runs = append(c.runs, r)
}

// seedStrangers puts pods of others into the cluster, which look as much like the daemons' own as can be: runs of a tenant that
// one of their partitions has, of another cluster, of another database, of another instance; and one that says nothing.
func (a *podAPI) seedStrangers(tenant string) {
	scope := map[string]string{kube.AnnotationNamespace: scopeName, kube.AnnotationTenant: tenant}
	for n, more := range []map[string]string{
		{kube.LabelInstance: "orrery", kube.LabelCluster: "another", kube.LabelDatabase: "another", kube.LabelPartition: "0"},
		{kube.LabelInstance: "orrery", kube.LabelCluster: "another", kube.LabelPartition: "3"},
		{kube.LabelInstance: "orrery", kube.LabelDatabase: "another"},
		{kube.LabelInstance: "another"},
		nil,
	} {
		id := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, "a stranger ", n))
		is := map[string]string{kube.LabelRun: id.String(), kube.LabelAttempt: "0", kube.LabelManagedBy: "orrery"}
		maps.Copy(is, more)
		if more == nil {
			is, scope = nil, nil
		}
		a.seed(fmt.Sprintf("stranger-%x-0", id[:6]), is, scope)
	}
	a.strangers = a.names()
}

// shownRun is what is read of a run.
type shownRun struct {
	ID       uuid.UUID
	JobID    string `json:"job_id"`
	Tenant   string
	State    core.OrchestratorStatus
	Attempt  int  `json:"retry_attempt"`
	Held     bool `json:"in_cluster"`
	Error    string
	Previous core.OrchestratorStatus `json:"previous_state"`
}

func (r reader) runs(ctx context.Context) (map[uuid.UUID]shownRun, error) {
	all := make(map[uuid.UUID]shownRun)
	for token, more := "", true; more; more = token != "" {
		var p struct {
			page
			Runs []shownRun
		}
		if err := r.get(ctx, "/v1/runs?limit=1000&page_token="+token, &p); err != nil {
			return nil, err
		}
		for _, run := range p.Runs {
			all[run.ID] = run
		}
		token = p.Next
	}
	return all, nil
}

// checkPods waits until all runs have ended and the cluster holds nothing of them, and holds together what the clients, the daemons and the cluster know of them.
func (c *cluster) checkPods(ctx context.Context, t *testing.T, f *findings, h *history, r reader) {
	t.Helper()
	var runs map[uuid.UUID]shownRun
	assert.NoError(t, poll(patience, func() (err error) {
		if runs, err = r.runs(ctx); err != nil {
			return err
		}
		for _, is := range runs {
			if !is.State.Terminal() || is.Held {
				return fmt.Errorf("run %s of %s is %s, and has something in the cluster: %t: %w", is.ID, is.JobID, is.State, is.Held, errLater)
			}
		}
		return nil
	}))
	assert.NoError(t, poll(patience, func() error {
		if left := c.pods.left(); len(left) > 0 {
			return fmt.Errorf("the cluster still holds %v: %w", left, errLater)
		}
		return nil
	}), "what came late is deleted, too")
	checkStrangers(f, c.pods)
	c.pods.mu.Lock()
	defer c.pods.mu.Unlock()
	checkUnsent(f, c.pods.unsent, c.pods.made)
	late := checkRuns(f, h.runs, runs, c.pods.made, c.stalled)
	t.Logf("%d runs, %d pods, of which %d are of attempts that had one before", len(runs), len(c.pods.made), late)
	if late == 0 && slices.ContainsFunc(c.pods.holds, func(h *hold) bool { return h.late }) {
		f.add("a creation that came late has made no pod")
	}
}

// left gives the names of what is in the cluster besides the strangers.
func (a *podAPI) left() (names []string) {
	for name := range a.names() { // order-free: it is sorted below
		if _, strange := a.strangers[name]; !strange {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// checkStrangers: nobody has changed or deleted what is another's.
func checkStrangers(f *findings, a *podAPI) {
	is := a.names()
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, version := range a.strangers { // order-free: findings of a test that fails
		if is[name] != version {
			f.add("%s is of somebody else, and was changed or deleted: version %q, then %q", name, version, is[name])
		}
	}
	for _, call := range a.deleted {
		if strings.Contains(call, "/stranger-") {
			f.add("what is of somebody else was to be deleted: %s", call)
		}
	}
}

// unsentCall is a creation that a daemon must not send any more: it was frozen before the call until another one was done with the Job.
type unsentCall struct{ job, by string }

// checkUnsent: a daemon that was frozen before its call has not made it once it went on.
func checkUnsent(f *findings, unsent []unsentCall, made []*madePod) {
	for _, is := range made {
		if slices.Contains(unsent, unsentCall{is.job, is.by}) {
			f.add("%s has created %s when it went on, which another daemon was done with", is.by, is.job)
		}
	}
}

// checkRuns: each run that was acknowledged is there, once, and has ended as its pods did, or was cancelled; no pod that was wanted was
// deleted, and none of an attempt was made a second time but by a daemon that was held up. It gives how many were.
func checkRuns(f *findings, asked []*askedRun, runs map[uuid.UUID]shownRun, made []*madePod, stalled func(string, time.Time) bool) (late int) {
	pods := make(map[string]map[int][]*madePod)
	for _, is := range made {
		if pods[is.run] == nil {
			pods[is.run] = make(map[int][]*madePod)
		}
		pods[is.run][is.attempt] = append(pods[is.run][is.attempt], is)
	}
	known := make(map[uuid.UUID]bool)
	for _, o := range asked {
		is, there := runs[o.id]
		switch {
		case !there:
			f.add("run %s of %s was acknowledged, and is lost", o.id, o.job.id)
		case known[o.id]:
			f.add("run %s was given to two requests", o.id)
		case is.Tenant != o.tenant || is.JobID != o.job.id:
			f.add("run %s was asked for as one of %s of %s, and is of %s of %s", o.id, o.job.id, o.tenant, is.JobID, is.Tenant)
		case o.cancelled && is.State != core.OrchestratorCancelled:
			f.add("run %s of %s was cancelled, which was acknowledged, and is %s: %s", o.id, o.job.id, is.State, is.Error)
		case is.State == core.OrchestratorCancelled && !o.cancelled && !o.unsure:
			f.add("run %s of %s is cancelled, and nobody asked for that: %s", o.id, o.job.id, is.Error)
		case is.State != core.OrchestratorCancelled:
			checkRun(f, o.job, is, pods[o.id.String()])
		}
		known[o.id] = true
		late += checkAttempts(f, o.id, pods[o.id.String()], stalled)
	}
	for id, is := range runs { // order-free: findings of a test that fails
		if !known[id] {
			f.add("run %s of %s is there, and nobody has asked for it", id, is.JobID)
		}
	}
	return late
}

// checkRun: a run that nobody cancelled has ended as its job's pods do, after as many attempts as that takes, each of which had its whole time.
func checkRun(f *findings, j testJob, is shownRun, attempts map[int][]*madePod) {
	if is.State != j.ends || is.Attempt+1 != j.attempts || len(attempts) != j.attempts {
		f.add("run %s of %s is %s in attempt %d, with pods of %d attempts, instead of %s after %d: %s", is.ID, j.id, is.State, is.Attempt, len(attempts), j.ends, j.attempts, is.Error)
		return
	}
	for n := range j.attempts {
		want := 0
		if n < j.fails {
			want = failedExit
		}
		if first := attempts[n][0]; first.killed || first.exit != want {
			f.add("run %s of %s: the pod of attempt %d ended with %d, deleted before its end: %t; it was wanted, and ends with %d", is.ID, j.id, n, first.exit, first.killed, want)
		}
	}
}

// checkAttempts: an attempt has one pod, and begins when the one before is over. Only a call that was held up makes another, or a daemon that was: within the call, or before
// it made the call that it had been told to make.
func checkAttempts(f *findings, id uuid.UUID, attempts map[int][]*madePod, stalled func(string, time.Time) bool) (late int) {
	for n := range len(attempts) {
		for _, more := range attempts[n][min(1, len(attempts[n])):] {
			late++
			if !more.held && !stalled(more.by, more.created) {
				f.add("run %s: attempt %d has another pod, by %s, which nothing has held up", id, n, more.by)
			}
		}
		if n > 0 && len(attempts[n]) > 0 && len(attempts[n-1]) > 0 && attempts[n][0].created.Before(attempts[n-1][0].over) {
			f.add("run %s: the pod of attempt %d was made before that of attempt %d was over", id, n, n-1)
		}
	}
	return late
}
