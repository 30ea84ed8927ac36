package kubetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell/internal/pause"
	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

// What the storm is.
const (
	stormRuns = 200
	// Without a heartbeat a run is orphaned after the silence.
	stormHeartbeat = 2 * time.Second
	stormMissed    = 3
	stormSilence   = stormMissed * stormHeartbeat
)

// stormJob is a job of the storm, and how its pods end.
type stormJob struct {
	id      string
	runFor  time.Duration
	code    int32
	retries int
}

// stormJobs are of pods that end at once and of pods that outlive the daemon that
// asked for them.
func stormJobs() (jobs []stormJob) {
	for i, runFor := range []time.Duration{100 * time.Millisecond, time.Second, 4 * time.Second, 9 * time.Second, 16 * time.Second} {
		jobs = append(jobs,
			stormJob{id: fmt.Sprintf("well-%d", i), runFor: runFor},
			stormJob{id: fmt.Sprintf("badly-%d", i), runFor: runFor, code: 3 + int32(i), retries: i % 2})
	}
	return jobs
}

// ends is how a run of the job ends, whatever the storm does.
func (j stormJob) ends() core.OrchestratorStatus {
	if j.code == 0 {
		return core.OrchestratorCompleted
	}
	return core.OrchestratorFailed
}

func (j stormJob) yaml() string {
	return fmt.Sprintf(`id: %s
labels: {%s: %s, %s: "%d"}
podStartTimeout: 3m
retry: {maxRetries: %d, initialDelay: 100ms}
podSpec:
  nodeSelector: {%s: %s}
  automountServiceAccountToken: false
  containers: [{name: main, image: %q, imagePullPolicy: Never}]
`, j.id, kubetest.RunFor, j.runFor, kubetest.ExitCode, j.code, j.retries, kubetest.NodeLabel, kubetest.FakeNode, kubetest.Busybox)
}

// nobody listens there. The port of a daemon that was killed may be another's soon.
const nobody = "http://127.0.0.1:1"

// storm is a daemon in bad weather.
type storm struct {
	*world
	*program
	draw    *rand.Rand
	current atomic.Value // a string: the URL of the daemon that runs, else [nobody]
}

// newStorm has a daemon with that configuration besides its runner, which does not run
// yet, and a file of jobs.
func newStorm(t *testing.T, seed uint64, config string, jobs []stormJob) *storm {
	t.Helper()
	w := newWorld(t, kubetest.Shared(t))
	s := &storm{world: w, program: &program{t: t, path: orreryd(t), dir: t.TempDir()}, draw: rand.New(rand.NewPCG(seed, 12))}
	config += fmt.Sprintf("[runners.cluster]\ntype = \"kubernetes\"\nkubeconfig = %q\nqps = 200\nburst = 400\n", w.settings.Kubeconfig)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "orrery.toml"), []byte(config), 0o600))
	var files []string
	for _, j := range jobs {
		files = append(files, j.yaml())
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "jobs.yaml"), []byte(strings.Join(files, "---\n")), 0o600))
	return s
}

// up starts the daemon.
func (s *storm) up() (stop func(syscall.Signal) int) {
	stop = s.daemon()
	s.current.Store(s.url)
	return stop
}

// ask asks the daemon, and reports how it answers.
func (s *storm) ask(ctx context.Context, method, path, body string, into any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.current.Load().(string)+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	return answer.StatusCode, err
}

// trigger makes a run, once: a request whose answer is lost is repeated with the same
// key.
func (s *storm) trigger(ctx context.Context, job string, key int) error {
	path, body := fmt.Sprintf("/v1/jobs/%s/trigger", job), fmt.Sprintf(`{"dedup_key":"run-%d"}`, key)
	for {
		status, err := s.ask(ctx, http.MethodPost, path, body, nil)
		if err == nil && (status == http.StatusCreated || status == http.StatusOK) {
			return nil
		}
		if status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			return fmt.Errorf("%s: status %d", path, status)
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// triggerAll makes the runs of the storm.
func (s *storm) triggerAll(ctx context.Context, jobs []stormJob, draw *rand.Rand) error {
	for i := range stormRuns {
		if err := s.trigger(ctx, jobs[i%len(jobs)].id, i); err != nil {
			return err
		}
		if err := pause.For(ctx, between(draw, 0, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// between draws a length.
func between(draw *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(draw.Int64N(int64(high-low)))
}

// rest lets the storm go on.
func (s *storm) rest(d time.Duration) {
	s.world.t.Helper()
	require.NoError(s.world.t, pause.For(s.world.t.Context(), d))
}

// someCalls matches calls at random, but no watches: those go wrong otherwise.
func (s *storm) someCalls(share float64) func(kubetest.Call) bool {
	draw := rand.New(rand.NewPCG(s.draw.Uint64(), 0)) // the proxy asks about one call at a time
	return func(c kubetest.Call) bool { return !watching(c) && draw.Float64() < share }
}

// weathers are what goes wrong with the API; each returns what ends it.
var weathers = map[string]func(*storm) (over func()){
	"errors": func(s *storm) func() {
		for _, f := range []kubetest.Fault{
			{Status: http.StatusInternalServerError}, {Status: http.StatusServiceUnavailable},
			{Status: http.StatusTooManyRequests, RetryAfter: "1"}, {Status: http.StatusGatewayTimeout, Lose: true},
			{}, {Lose: true}, // the connection is broken before, or after
		} {
			f.Match = s.someCalls(0.08)
			s.proxy.Inject(f)
		}
		return s.proxy.Heal
	},
	"broken watches": func(s *storm) func() {
		s.proxy.Inject(kubetest.Fault{Match: watching, Times: 1 + s.draw.IntN(4)})
		s.proxy.BreakWatches(s.draw.IntN(2) == 0)
		return s.proxy.Heal
	},
	"held calls": func(s *storm) func() {
		hold := make(chan struct{})
		s.proxy.Inject(kubetest.Fault{Match: s.someCalls(0.3), Hold: hold, Pass: true})
		return sync.OnceFunc(func() {
			s.proxy.Heal()
			close(hold)
		})
	},
	"outage": func(s *storm) func() {
		s.proxy.Inject(kubetest.Fault{})
		s.proxy.BreakWatches(false)
		return s.proxy.Heal
	},
}

// blow is one gust: the weather turns bad, the daemon is killed, is away for a time,
// starts again, and the weather turns good.
func (s *storm) blow(weather string, stop func(syscall.Signal) int) func(syscall.Signal) int {
	t := s.world.t
	t.Helper()
	calm, bad, after := between(s.draw, 0, 2*time.Second), between(s.draw, 0, 3*time.Second), between(s.draw, 0, 3*time.Second)
	gap := between(s.draw, stormSilence-2*time.Second, stormSilence+4*time.Second)
	early := s.draw.IntN(2) == 0
	t.Logf("%s after %s, killed after %s more, away for %s, better %s after that (or before: %t)", weather, calm, bad, gap, after, early)
	s.rest(calm)
	over := weathers[weather](s)
	s.rest(bad)
	s.current.Store(nobody)
	stop(syscall.SIGKILL)
	if early {
		over()
	}
	s.rest(gap)
	stop = s.up()
	s.rest(after)
	over()
	return stop
}

// All of it at once, at random: see the seed in the log.
func TestTwoHundredRunsEndAsTheirPodsDoThroughKillsOutagesAndErrorsOfTheAPI(t *testing.T) {
	t.Parallel()
	seed, jobs := seedtest.Seed(t), stormJobs()
	s := newStorm(t, seed, fmt.Sprintf("[jobs]\nheartbeat_seconds = %g\nmax_missed = %d\n", stormHeartbeat.Seconds(), stormMissed), jobs)
	stop := s.up()
	s.ok("job", "apply", "-f", "jobs.yaml")
	triggered, own := make(chan error, 1), rand.New(rand.NewPCG(seed, 13))
	go func() { triggered <- s.triggerAll(t.Context(), jobs, own) }()

	gusts := []string{"errors", "broken watches", "held calls", "outage", "errors"}
	s.draw.Shuffle(len(gusts), func(i, j int) { gusts[i], gusts[j] = gusts[j], gusts[i] })
	for _, weather := range gusts {
		stop = s.blow(weather, stop)
	}
	require.NoError(t, <-triggered)

	s.endedAsTheyMust(s.ended(stormRuns), jobs)
	s.leavesNothing()
	assert.Zero(t, stop(syscall.SIGTERM))
	assert.Contains(t, s.ok("replay", "--verify", "--db", "orrery.db"), " 0 divergences")
}

// endedAsTheyMust asserts that each run has ended as the labels of its pods say, with
// one pod for each attempt.
func (s *storm) endedAsTheyMust(runs []shownRun, jobs []stormJob) {
	t := s.world.t
	t.Helper()
	by := map[string]stormJob{}
	for _, j := range jobs {
		by[j.id] = j
	}
	var wrong []string
	pods := map[string]int{}
	for _, attempt := range s.attempts() {
		pods[attempt]++
	}
	for _, r := range runs {
		job := by[r.JobID]
		if r.State != job.ends() || r.Pod.ExitCode == nil || *r.Pod.ExitCode != job.code {
			wrong = append(wrong, fmt.Sprintf("%s is %s (%s), and was to end with code %d", r.RunID, r.State, r.Error, job.code))
		}
		for n := range job.retries + 1 {
			attempt := fmt.Sprintf("%s/%d", r.ID, n)
			if pods[attempt] != 1 {
				wrong = append(wrong, fmt.Sprintf("attempt %d of %s had %d pods", n, r.RunID, pods[attempt]))
			}
			delete(pods, attempt)
		}
	}
	for attempt, n := range pods {
		wrong = append(wrong, fmt.Sprintf("attempt %s had %d pods, and was not to be", attempt, n))
	}
	assert.Empty(t, strings.Join(wrong[:min(len(wrong), 10)], "\n"), "%d are wrong", len(wrong))
}

// ended waits until so many runs have ended, and lists them.
func (s *storm) ended(n int) []shownRun {
	t := s.world.t
	t.Helper()
	var runs []shownRun
	eventually(t, func() (err error) {
		if runs, err = s.runs(""); err != nil {
			return err
		}
		open := map[string]int{}
		for _, r := range runs {
			if !r.State.Terminal() || r.InCluster {
				open[fmt.Sprintf("%s, in the cluster: %t: %s", r.State, r.InCluster, r.Error)]++
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("of %d runs there are %v", len(runs), open)
		}
		return nil
	})
	require.Len(t, runs, n)
	return runs
}

// runs lists the runs that a query filters, page by page.
func (s *storm) runs(query string) (all []shownRun, err error) {
	for token := ""; ; {
		var page struct {
			Runs []shownRun `json:"runs"`
			Next string     `json:"next_page_token"`
		}
		if _, err := s.ask(s.world.t.Context(), http.MethodGet, "/v1/runs?limit=1000"+query+"&page_token="+token, "", &page); err != nil {
			return nil, err
		}
		all = append(all, page.Runs...)
		if token = page.Next; token == "" {
			return all, nil
		}
	}
}
