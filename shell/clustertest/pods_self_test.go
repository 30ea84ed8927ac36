//go:build unix

package clustertest

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/orrery-go/orrery/core"
)

func TestTheCheckerKnowsWhatBecomesOfRunsAndTheirPods(t *testing.T) {
	id, at := uuid.NewSHA1(uuid.Nil, []byte("a run")), time.Unix(1000, 0)
	again := testJobs[2]
	pod := func(attempt int, from, to time.Duration, exit int) *madePod {
		return &madePod{run: id.String(), attempt: attempt, by: "daemon-1", created: at.Add(from), over: at.Add(to), exit: exit}
	}
	with := func(p *madePod, change func(*madePod)) *madePod { change(p); return p }
	first, second := pod(0, 0, time.Second, failedExit), pod(1, 2*time.Second, 3*time.Second, 0)
	killed := func(p *madePod) { p.killed, p.exit = true, 0 }
	held := func(p *madePod) { p.held = true }
	asked := askedRun{tenant: "t", job: again, id: id}
	done := shownRun{ID: id, JobID: again.id, Tenant: "t", State: core.OrchestratorCompleted, Attempt: 1}
	for name, test := range map[string]struct {
		asked   func(*askedRun)
		is      func(*shownRun)
		pods    []*madePod
		stalled bool
		want    string // of the finding; empty: there is none
	}{
		"it ended as its pods did":                     {pods: []*madePod{first, second}},
		"a pod that came late was deleted":             {pods: []*madePod{first, with(pod(0, 4*time.Second, 5*time.Second, 0), func(p *madePod) { held(p); killed(p) }), second}},
		"one of a daemon that was held up":             {pods: []*madePod{first, with(pod(0, 4*time.Second, 5*time.Second, 0), killed), second}, stalled: true},
		"one of a daemon that was not":                 {pods: []*madePod{first, with(pod(0, 4*time.Second, 5*time.Second, 0), killed), second}, want: "attempt 0 has another pod, by daemon-1, which nothing has held up"},
		"a pod that was wanted was deleted":            {pods: []*madePod{first, with(pod(1, 2*time.Second, 3*time.Second, 0), killed)}, want: "the pod of attempt 1 ended with 0, deleted before its end: true"},
		"an attempt more":                              {is: func(r *shownRun) { r.Attempt = 2 }, pods: []*madePod{first, second, pod(2, 4*time.Second, 5*time.Second, 0)}, want: "completed in attempt 2, with pods of 3 attempts"},
		"an attempt without a pod":                     {pods: []*madePod{first}, want: "with pods of 1 attempts"},
		"another verdict than that of its pods":        {is: func(r *shownRun) { r.State = core.OrchestratorFailed }, pods: []*madePod{first, second}, want: "is failed in attempt 1"},
		"two attempts at once":                         {pods: []*madePod{first, pod(1, time.Second/2, 3*time.Second, 0)}, want: "the pod of attempt 1 was made before that of attempt 0 was over"},
		"its cancellation was forgotten":               {asked: func(r *askedRun) { r.cancelled = true }, pods: []*madePod{first, second}, want: "was cancelled, which was acknowledged, and is completed"},
		"it was cancelled":                             {asked: func(r *askedRun) { r.cancelled = true }, is: func(r *shownRun) { r.State = core.OrchestratorCancelled }, pods: []*madePod{with(pod(0, 0, 1, 0), killed)}},
		"nobody cancelled it":                          {is: func(r *shownRun) { r.State = core.OrchestratorCancelled }, want: "is cancelled, and nobody asked for that"},
		"it is lost":                                   {is: func(r *shownRun) { r.ID = uuid.Nil }, want: "was acknowledged, and is lost"},
		"another tenant has it":                        {is: func(r *shownRun) { r.Tenant = "u" }, want: "is of again of u"},
		"a cancellation that was perhaps carried out":  {asked: func(r *askedRun) { r.unsure = true }, is: func(r *shownRun) { r.State = core.OrchestratorCancelled }},
		"a cancellation that was perhaps not, and pod": {asked: func(r *askedRun) { r.unsure = true }, pods: []*madePod{first, second}},
	} {
		t.Run(name, func(t *testing.T) {
			o, is, f := asked, done, &findings{}
			if test.asked != nil {
				test.asked(&o)
			}
			if test.is != nil {
				test.is(&is)
			}
			checkRuns(f, []*askedRun{&o}, map[uuid.UUID]shownRun{is.ID: is}, test.pods, func(string, time.Time) bool { return test.stalled })
			if test.want == "" {
				assert.Empty(t, f.list)
				return
			}
			if assert.NotEmpty(t, f.list) {
				assert.Contains(t, f.list[0], test.want)
			}
		})
	}
}

func TestTheCheckerKnowsWhetherADaemonWasHeldUp(t *testing.T) {
	one, at := &member{name: "daemon-1"}, time.Unix(1000, 0)
	c := &cluster{stalls: []stall{{who: one, from: at, to: at.Add(time.Second)}}}
	assert.True(t, c.stalled("daemon-1", at.Add(2*time.Second)))
	assert.False(t, c.stalled("daemon-1", at.Add(-time.Second)), "before")
	assert.False(t, c.stalled("daemon-1", at.Add(time.Minute)), "long afterwards")
	assert.False(t, c.stalled("daemon-2", at.Add(time.Second)), "another one")
	c.stalls[0].who = nil
	assert.True(t, c.stalled("daemon-2", at.Add(time.Second)), "all were")
}

func TestTheCheckerKnowsWhatADaemonMustNotSendAnyMore(t *testing.T) {
	unsent := []unsentCall{{"job", "daemon-1"}}
	for made, want := range map[madePod]int{{job: "job", by: "daemon-1"}: 1, {job: "job", by: "daemon-2"}: 0, {job: "another", by: "daemon-1"}: 0} {
		f := &findings{}
		checkUnsent(f, unsent, []*madePod{&made})
		assert.Len(t, f.list, want, "%s by %s", made.job, made.by)
	}
}
