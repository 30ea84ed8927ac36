//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package local_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/internal/locked"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/local"
)

func TestAPodRunsToItsEndAndItsLogsAndExitCodeAreKept(t *testing.T) {
	w := watching(t, t.TempDir())
	run := script("echo hello; echo world >&2; exit 3")
	w.create(run)

	o := w.reaches(run.Attempt, jobs.PhaseEnded)
	require.NotNil(t, o.Pod.ExitCode)
	assert.EqualValues(t, 3, *o.Pod.ExitCode)
	assert.Equal(t, "Error", o.Pod.Reason)
	assert.Equal(t, run.Name(), o.Pod.Name)
	assert.NotEmpty(t, o.Pod.UID)
	assert.NotEmpty(t, o.Pod.Node)
	assert.False(t, o.Pod.StartedAt.IsZero())
	assert.False(t, o.Pod.FinishedAt.IsZero())
	assert.Equal(t, "hello\nworld\n", w.log(run.Attempt, ""))

	held, err := w.Held(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []jobs.Attempt{run.Attempt}, held)
	w.delete(run.Attempt)
	held, err = w.Held(t.Context())
	require.NoError(t, err)
	assert.Empty(t, held)
	_, err = w.Logs(t.Context(), run.Attempt, jobs.LogOptions{}, &bytes.Buffer{})
	require.ErrorIs(t, err, jobs.ErrNoPod)
	w.delete(run.Attempt) // what is gone already is no error
}

func TestThePodsOfARunnerRunAsTheUserThatTheOperatorNames(t *testing.T) {
	u := &confine.User{UID: 4242, GID: 4343, Name: "worker", Home: "/srv/worker"}
	if os.Geteuid() != 0 {
		_, err := local.New(local.Options{Dir: t.TempDir(), RunAs: u})
		require.ErrorContains(t, err, "local: RunAs: only root can start programs as another user (4242)")
		t.Skip("only root can start programs as another user")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	_, err := local.New(local.Options{Dir: filepath.Join(closed, "runs"), RunAs: u})
	require.ErrorContains(t, err, "RunAs: the user 4242 cannot enter "+closed)

	dir, err := os.MkdirTemp("/tmp", "runs") //nolint:usetesting // that every user can enter
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	r, err := local.New(local.Options{Dir: filepath.Join(dir, "runs"), RunAs: u})
	require.NoError(t, err)
	w := watch(t, r)
	run := script("id -u; id -G; echo $HOME $USER; echo mine > file && cat file; ls .. 2>&1 | grep -o denied; cat ../plan.json 2>&1 | grep -o denied; trap '' TERM; sleep 1000 & exit 3")
	w.create(run)
	o := w.reaches(run.Attempt, jobs.PhaseEnded)
	assert.EqualValues(t, 3, *o.Pod.ExitCode)
	assert.Equal(t, "4242\n4343\n/srv/worker worker\nmine\ndenied\ndenied\n", strings.ToLower(w.log(run.Attempt, "")))
	w.delete(run.Attempt)
}

func TestAPodThatRunsIsToldAsRunningAndBySystemsThatDoNotTellToo(t *testing.T) {
	for name, poll := range map[string]bool{"told": false, "polled": true} {
		t.Run(name, func(t *testing.T) {
			r, err := local.New(local.Options{Dir: t.TempDir()})
			require.NoError(t, err)
			if poll {
				r.PollOnly()
			}
			w := watch(t, r)
			gate := file(t)
			run := script("until [ -e " + gate + " ]; do sleep 0.05; done")
			w.create(run)
			o := w.reaches(run.Attempt, jobs.PhaseRunning)
			assert.Nil(t, o.Pod.ExitCode)
			assert.False(t, o.Pod.StartedAt.IsZero())
			require.NoError(t, os.WriteFile(gate, nil, 0o600))
			o = w.reaches(run.Attempt, jobs.PhaseEnded)
			require.NotNil(t, o.Pod.ExitCode)
			assert.EqualValues(t, 0, *o.Pod.ExitCode)
			assert.Equal(t, "Completed", o.Pod.Reason)
		})
	}
}

func TestCreatingTwiceStartsOnce(t *testing.T) {
	w := watching(t, t.TempDir())
	count := file(t)
	run := script("echo once >> " + count)
	for range 3 {
		w.create(run)
	}
	w.reaches(run.Attempt, jobs.PhaseEnded)
	w.create(run) // also when it has ended
	other := run
	other.RunID = "other:2023"
	_, err := w.Create(t.Context(), other)
	require.ErrorContains(t, err, "other:2023")
	assert.True(t, shell.IsPermanent(err), "%v", err)
	assert.Equal(t, "once\n", read(t, count))
}

func TestInitContainersRunInOrderAndThenAllOthersAtOnce(t *testing.T) {
	w := watching(t, t.TempDir())
	dir := t.TempDir()
	// The two main containers wait for one another: they must run at once.
	run := pod(`{"initContainers":[
		{"name":"one","command":["sh","-c","echo one >> ` + dir + `/order"]},
		{"name":"two","command":["sh","-c","echo two >> ` + dir + `/order"]}],
		"containers":[
		{"name":"a","command":["sh","-c","touch ` + dir + `/a; until [ -e ` + dir + `/b ]; do sleep 0.02; done; echo from a"]},
		{"name":"b","command":["sh","-c","touch ` + dir + `/b; until [ -e ` + dir + `/a ]; do sleep 0.02; done; echo from b; exit 4"]}]}`)
	w.create(run)
	o := w.reaches(run.Attempt, jobs.PhaseEnded)
	assert.EqualValues(t, 4, *o.Pod.ExitCode)
	assert.Contains(t, o.Pod.Message, `container "b"`)
	assert.Equal(t, "one\ntwo\n", read(t, dir+"/order"))
	assert.Equal(t, "==> a <==\nfrom a\n==> b <==\nfrom b\n", w.log(run.Attempt, ""))
	assert.Equal(t, "from b\n", w.log(run.Attempt, "b"))
	_, err := w.Logs(t.Context(), run.Attempt, jobs.LogOptions{Container: "c"}, &bytes.Buffer{})
	require.ErrorContains(t, err, `no container "c"`)
}

func TestTheFirstContainerThatFailsDecides(t *testing.T) {
	w := watching(t, t.TempDir())
	dir := t.TempDir()
	run := pod(`{"containers":[
		{"name":"later","command":["sh","-c","until [ -e ` + dir + `/go ]; do sleep 0.02; done; exit 5"]},
		{"name":"first","command":["sh","-c","exit 6"]}]}`)
	w.create(run)
	until(t, "the first has ended", func() bool {
		return strings.Contains(read(t, filepath.Join(w.dir(), run.Name(), "state.json")), `"exit_code":6`)
	})
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o600))
	assert.EqualValues(t, 6, *w.reaches(run.Attempt, jobs.PhaseEnded).Pod.ExitCode)
}

func TestAnInitContainerThatFailsIsTheEnd(t *testing.T) {
	w := watching(t, t.TempDir())
	mark := file(t)
	run := pod(`{"initContainers":[{"name":"i","command":["false"]}],"containers":[{"name":"m","command":["touch","` + mark + `"]}]}`)
	w.create(run)
	o := w.reaches(run.Attempt, jobs.PhaseEnded)
	assert.EqualValues(t, 1, *o.Pod.ExitCode)
	assert.Contains(t, o.Pod.Message, `container "i"`)
	assert.NoFileExists(t, mark)
	for _, o := range w.of(run.Attempt) {
		assert.NotEqual(t, jobs.PhaseRunning, o.Phase)
	}
}

func TestHowAPodEndsIsSaidAsKubernetesSaysIt(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		code       int32
		reason     string
		message    string
	}{
		{"by a signal", `{"containers":[{"name":"m","command":["sh","-c","kill -KILL $$$$"]}]}`, 137, "Error", "SIGKILL"},
		{"by another", `{"containers":[{"name":"m","command":["sh","-c","kill -SEGV $$$$"]}]}`, 139, "Error", "SIGSEGV"},
		{"not in PATH", `{"containers":[{"name":"m","command":["no-such-program-here"]}]}`, 127, "StartError", "no-such-program-here"},
		{"not there", `{"containers":[{"name":"m","command":["/nowhere/at/all"]}]}`, 127, "StartError", "/nowhere/at/all"},
		{"no program", `{"containers":[{"name":"m","command":["/"]}]}`, 126, "StartError", "permission denied"},
		{"no directory", `{"containers":[{"name":"m","command":["true"],"workingDir":"/nowhere"}]}`, 127, "StartError", "workingDir"},
		{"too long", `{"containers":[{"name":"m","command":["sleep","600"]}],"activeDeadlineSeconds":1,"terminationGracePeriodSeconds":0}`, 137, "DeadlineExceeded", "activeDeadlineSeconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watching(t, t.TempDir())
			run := pod(c.spec)
			w.create(run)
			o := w.reaches(run.Attempt, jobs.PhaseEnded)
			require.NotNil(t, o.Pod.ExitCode)
			assert.Equal(t, c.code, *o.Pod.ExitCode)
			assert.Equal(t, c.reason, o.Pod.Reason)
			assert.Contains(t, o.Pod.Message, c.message)
		})
	}
}

func TestAPodThatWasCutShortHasNotSucceeded(t *testing.T) {
	w := watching(t, t.TempDir())
	run := script("trap 'exit 0' TERM; while :; do sleep 0.05; done", `"activeDeadlineSeconds":1`)
	w.create(run)
	o := w.reaches(run.Attempt, jobs.PhaseEnded)
	assert.Nil(t, o.Pod.ExitCode)
	assert.Equal(t, "DeadlineExceeded", o.Pod.Reason)
}

func TestAContainerGetsItsEnvironmentAndNothingOfTheDaemonsSecrets(t *testing.T) {
	t.Setenv("ORRERY_TOKEN", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("LANG", "C.UTF-8")
	w := watching(t, t.TempDir())
	run := pod(`{"containers":[{"name":"m","command":["env"],"env":[
		{"name":"ORRERY_NAMESPACE","value":"its own"},{"name":"T","value":"$(ORRERY_TENANT)"},
		{"name":"A","value":"1"},{"name":"B","value":"$(A)2 $(NONE) $$(A)"},
		{"name":"TEAM","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['team']"}}},
		{"name":"POD","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}]}`)
	run.N, run.Namespace, run.Tenant, run.Occurrence = 2, "ns", "t1", run.Run
	run.Spec.Labels = map[string]string{"team": "blue", "x": "a\nORRERY_ATTEMPT=9"}
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseEnded)
	env := "\n" + w.log(run.Attempt, "")
	for _, want := range []string{
		"A=1", "B=12 $(NONE) $(A)", "TEAM=blue", "POD=" + run.Name(), "LANG=C.UTF-8",
		"ORRERY_RUN_ID=nightly:2023-11-14T22:13:20.000Z", "ORRERY_JOB_ID=nightly",
		"ORRERY_SCHEDULED_AT=2023-11-14T22:13:20.000Z", "ORRERY_ATTEMPT=2",
		"ORRERY_NAMESPACE=its own", "ORRERY_TENANT=t1", "T=t1", `ORRERY_LABELS={"team":"blue","x":"a\nORRERY_ATTEMPT=9"}`,
		"ORRERY_OCCURRENCE=" + run.Run.String(),
	} {
		assert.Contains(t, env, "\n"+want+"\n")
	}
	assert.Contains(t, env, "\nPATH=")
	assert.Equal(t, 1, strings.Count(env, "\nORRERY_ATTEMPT="), "no label sets a variable")
	assert.NotContains(t, env, "secret")
	supervisors := read(t, filepath.Join(w.dir(), run.Name(), "plan.json"))
	assert.NotContains(t, supervisors, "secret")
}

func TestArgumentsAreExpandedAndTheWorkingDirectoryIsThePods(t *testing.T) {
	w := watching(t, t.TempDir())
	run := pod(`{"containers":[{"name":"m","command":["sh","-c"],"args":["echo $(X)-'$$(X)'; pwd; cat"],"env":[{"name":"X","value":"y z"}]}]}`)
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseEnded) // cat has nothing to read
	assert.Equal(t, "y z-$(X)\n"+filepath.Join(w.dir(), run.Name(), "work")+"\n", w.log(run.Attempt, ""))
}

func TestLogsAreFollowedUntilThePodHasEnded(t *testing.T) {
	w := watching(t, t.TempDir())
	gate := file(t)
	run := script("echo before; until [ -e " + gate + " ]; do sleep 0.02; done; printf after")
	w.create(run)
	var b locked.Buffer
	done := make(chan error, 1)
	go func() {
		_, err := w.Logs(context.Background(), run.Attempt, jobs.LogOptions{Follow: true}, &b)
		done <- err
	}()
	until(t, "the first line is there", func() bool { return b.String() == "before\n" })
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.NoError(t, <-done)
	assert.Equal(t, "before\nafter", b.String())
}

func TestFollowingEndsWhenNobodyWantsItOrThePodIsDeleted(t *testing.T) {
	w := watching(t, t.TempDir())
	run := script("sleep 600", `"terminationGracePeriodSeconds":0`)
	w.create(run)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Logs(ctx, run.Attempt, jobs.LogOptions{Follow: true}, &locked.Buffer{})
	require.ErrorIs(t, err, context.Canceled)

	done := make(chan error, 1)
	go func() {
		_, err := w.Logs(context.Background(), run.Attempt, jobs.LogOptions{Follow: true}, &locked.Buffer{})
		done <- err
	}()
	w.delete(run.Attempt)
	if err := <-done; err != nil { // it may have seen the end, or nothing any more
		require.ErrorIs(t, err, jobs.ErrNoPod)
	}
}

func TestARunnerThatWatchesBeatsAndOneThatDoesNotIsSilent(t *testing.T) {
	w := watching(t, t.TempDir())
	require.NoError(t, w.Beat(t.Context()))
	w.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, w.Beat(ctx))
	_, err := w.Held(ctx)
	require.Error(t, err)
	// It can watch once more.
	again := watch(t, w.Runner)
	require.NoError(t, again.Beat(t.Context()))
}

func TestTwoRunnersDoNotShareADirectory(t *testing.T) {
	w := watching(t, t.TempDir())
	other, err := local.New(local.Options{Dir: w.dir()})
	require.NoError(t, err)
	require.ErrorContains(t, other.Watch(t.Context(), &seen{}), "another daemon")
	require.ErrorContains(t, w.Watch(t.Context(), &seen{}), "already")
}

func TestFilesThatAreRemovedByHandMeanThatThePodIsLost(t *testing.T) {
	w := watching(t, t.TempDir())
	run := script("sleep 600")
	w.create(run)
	w.reaches(run.Attempt, jobs.PhaseRunning)
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir(), run.Name())))
	assert.NotEmpty(t, w.reaches(run.Attempt, jobs.PhaseLost).Pod.Reason)
	w.delete(run.Attempt)
	assertNone(t, w, run)
}

func TestOptionsThatCannotBeRightAreNamed(t *testing.T) {
	_, err := local.New(local.Options{})
	require.ErrorContains(t, err, "Dir")
	_, err = local.New(local.Options{Dir: t.TempDir(), MaxLogBytes: 5})
	require.ErrorContains(t, err, "MaxLogBytes is 5")
}

func TestAProgramThatPrintsBeforeItsMainCanStartPods(t *testing.T) { // see export_test.go
	var log locked.Buffer
	w := watching(t, t.TempDir(), func(o *local.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	run := script("exit 3")
	w.create(run)
	assert.EqualValues(t, 3, *w.reaches(run.Attempt, jobs.PhaseEnded).Pod.ExitCode)
	assert.NotContains(t, log.String(), "trying again")
}

func TestTheEndOfAPodIsToldBeforeItsFilesGo(t *testing.T) {
	w := watching(t, t.TempDir())
	run := script("sleep 600", `"terminationGracePeriodSeconds":0`)
	w.create(run)
	until(t, "it runs", func() bool {
		all := w.of(run.Attempt)
		return len(all) > 0 && all[len(all)-1].Phase == jobs.PhaseRunning
	})
	var told []jobs.Observation
	w.AtStep(func(step string) {
		if step == "ended" {
			told = w.of(run.Attempt)
		}
	})
	w.delete(run.Attempt)
	require.NotEmpty(t, told)
	assert.Equal(t, jobs.PhaseEnded, told[len(told)-1].Phase)
}
