package kube

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// madeBy puts a Job of an attempt into the cluster as the runner of that database would, and a
// pod of it that runs.
func (k *kit) madeBy(database string, a jobs.Attempt) *batchv1.Job {
	k.t.Helper()
	made, err := k.runner.jobOf(run(a))
	require.NoError(k.t, err)
	for _, labels := range []map[string]string{made.Labels, made.Spec.Template.Labels} {
		maps.DeleteFunc(labels, func(key, _ string) bool { return key == LabelDatabase })
		if database != "" {
			labels[LabelDatabase] = database
		}
	}
	made.UID = types.UID("job-" + made.Name)
	made, err = k.api.BatchV1().Jobs("jobs").Create(k.t.Context(), made, metav1.CreateOptions{})
	require.NoError(k.t, err)
	k.createPod(runs(podOf(made)))
	return made
}

// sharing is inBubble for a runner that knows which database it is of.
func sharing(t *testing.T, test func(t *testing.T, k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.runner.UseDatabase("ours")
		k.watch()
		defer func() { k.stop() }()
		synctest.Wait()
		test(t, k)
	})
}

func TestJobAndPodSayWhichDatabaseTheyAreOf(t *testing.T) {
	r := runner(t)
	job, err := r.jobOf(run(attempt))
	require.NoError(t, err)
	assert.NotContains(t, job.Labels, LabelDatabase, "nobody has said")
	r.UseDatabase("abc")
	job, err = r.jobOf(run(attempt))
	require.NoError(t, err)
	assert.Equal(t, "abc", job.Labels["orrery.dev/database"])
	assert.Equal(t, "abc", job.Spec.Template.Labels["orrery.dev/database"])
}

func TestWhatAnotherDatabaseHasMadeIsNeitherHeldNorToldNorDeleted(t *testing.T) {
	sharing(t, func(t *testing.T, k *kit) {
		theirs, unmarked := jobs.Attempt{Run: uuid.Max}, jobs.Attempt{Run: uuid.Max, N: 1}
		job := k.madeBy("theirs", theirs)
		k.madeBy("", unmarked)
		k.create(attempt)
		wait(time.Minute)
		assert.ElementsMatch(t, []jobs.Attempt{attempt, unmarked}, k.held(), "what has no mark is of a build before")
		assert.NotContains(t, k.sink.messages(), theirs.Name())
		_, err := k.runner.Delete(t.Context(), theirs)
		require.NoError(t, err)
		k.job(theirs)
		there, remedy := k.runner.Foreign()
		assert.Equal(t, []jobs.Foreign{{Name: job.Name, Database: "theirs"}}, there, "a Job and its pod are one")
		assert.Equal(t, "give one of the two daemons another instance or namespace", remedy)

		k.deletePod(podOf(job))
		there, _ = k.runner.Foreign()
		assert.Len(t, there, 1)
		k.deleteJob(theirs)
		there, _ = k.runner.Foreign()
		assert.Empty(t, there)
	})
}

func TestWhatAnotherDatabaseHasMadeBeforeTheWatchIsLeftAloneToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.madeBy("theirs", attempt)
		k.runner.UseDatabase("ours")
		k.watch()
		defer k.stop()
		assert.Empty(t, k.held())
		there, _ := k.runner.Foreign()
		assert.Len(t, there, 1)
	})
}

// Two databases that have the same job have runs of the same name.
func TestTheJobOfAnotherDatabaseIsNotTakenForTheOneThatIsToBeCreated(t *testing.T) {
	watchingOrNot(t, func(t *testing.T, k *kit) {
		k.madeBy("theirs", attempt)
		_, err := k.runner.Create(t.Context(), run(attempt))
		assert.True(t, shell.IsPermanent(err))
		require.ErrorContains(t, err, `there is one of that name in namespace "jobs" that is of database theirs, and this one is database ours: give one of the two daemons another instance or namespace`)
	})
}

func TestAnAttemptLivesWhileAPodWithTheMarkOfItsDatabaseHasNotEnded(t *testing.T) {
	sharing(t, func(t *testing.T, k *kit) {
		second, unmarked := jobs.Attempt{Run: runUUID, N: 1}, jobs.Attempt{Run: runUUID, N: 2}
		assert.False(t, k.runner.Lives(attempt), "it is not there")
		job := k.create(attempt)
		assert.True(t, k.runner.Lives(attempt), "it has no pod yet")
		pod := k.createPod(runs(podOf(job)))
		assert.True(t, k.runner.Lives(attempt))
		k.updatePod(exits(pod, 0))
		assert.False(t, k.runner.Lives(attempt))
		k.madeBy("", unmarked)
		assert.False(t, k.runner.Lives(unmarked))

		ended := k.create(second)
		ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True"}}
		k.updateJob(ended)
		assert.False(t, k.runner.Lives(second), "its Job says that it has ended")
	})
}

func TestAnAttemptIsCalledWhatItsJobIs(t *testing.T) {
	sharing(t, func(t *testing.T, k *kit) {
		assert.Equal(t, "orrery-6ba7b8109dad41d180b400c04fd430c8-0", k.runner.NameOf("", attempt), "nothing is known of it")
		assert.Equal(t, "nightly-6ba7b8109dad-0", k.runner.NameOf("nightly", attempt))
		k.create(attempt)
		assert.Equal(t, "nightly-6ba7b8109dad-0", k.runner.NameOf("", attempt))
	})
}

// A database that was restored from an old backup gives a run the id of one that began after it.
func TestTheJobOfAnotherRunIsNotTakenForTheOneThatIsToBeCreated(t *testing.T) {
	watchingOrNot(t, func(t *testing.T, k *kit) {
		k.madeBy("ours", attempt)
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err, "it is its own")
		later := run(attempt)
		later.RunID = "nightly:later"
		_, err = k.runner.Create(t.Context(), later)
		assert.True(t, shell.IsPermanent(err))
		require.ErrorContains(t, err, `create Job nightly-6ba7b8109dad-0: it is there, and of run "nightly:2026-11-21T18:00:00.000Z", which the database does not know any more, not of "nightly:later"`)
	})
}

// watchingOrNot tests a runner of the database "ours" that watches, and one that does not yet.
func watchingOrNot(t *testing.T, test func(*testing.T, *kit)) {
	for name, watches := range map[string]bool{"while it watches": true, "before it watches": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKit(t, &sinkOf{})
				k.runner.UseDatabase("ours")
				if watches {
					k.watch()
					defer k.stop()
				}
				test(t, k)
			})
		})
	}
}
