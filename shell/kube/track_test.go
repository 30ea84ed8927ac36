package kube

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell/jobs"
)

// happens is what a test does to an attempt with a pod, and what the tracker must report.
type happens struct {
	name string
	do   func(k *kit, pod *corev1.Pod)
	want []string
}

func TestAPodThatIsGoneIsLost(t *testing.T) {
	for _, row := range []happens{
		{"with its Job", func(k *kit, pod *corev1.Pod) {
			k.deleteJob(attempt)
			k.deletePod(pod)
		}, []string{"lost the pod and its Job were deleted"}},
		{"while its Job says nothing", func(k *kit, pod *corev1.Pod) { k.deletePod(pod) }, []string{"lost the pod was deleted"}},
		{"and its Job failed", func(k *kit, pod *corev1.Pod) {
			k.deletePod(pod)
			k.condition(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
		}, []string{"lost the pod was deleted"}},
		{"unless its Job is complete", func(k *kit, pod *corev1.Pod) {
			k.deletePod(pod)
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
		}, []string{"ended exit 0"}},
		{"unless the Job's deadline killed it", func(k *kit, pod *corev1.Pod) {
			k.deletePod(pod)
			k.condition(batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded)
		}, []string{"ended DeadlineExceeded"}},
		{"unless it ended before", func(k *kit, pod *corev1.Pod) {
			k.updatePod(exits(pod, 2))
			k.deletePod(pod)
			k.deleteJob(attempt)
		}, []string{"ended Error exit 2"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				pod := k.createPod(runs(podOf(k.create(attempt))))
				require.Equal(t, []string{"running"}, k.sink.take())
				row.do(k, pod)
				wait(lostFor + time.Second)
				assert.Equal(t, row.want, k.sink.take())
				_, err := k.runner.Delete(t.Context(), attempt)
				require.NoError(t, err)
				wait(time.Hour)
				assert.Empty(t, k.sink.take(), "that was the end")
				assert.Zero(t, k.tracked())
			})
		})
	}
}

// condition gives the Job a condition.
func (k *kit) condition(c batchv1.JobConditionType, reason string) {
	job := k.job(attempt)
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, Reason: reason})
	k.updateJob(job)
}

func TestAJobWhosePodNobodySawSaysHowItEnded(t *testing.T) {
	for _, row := range []struct {
		condition batchv1.JobConditionType
		reason    string
		want      []string
	}{
		{batchv1.JobComplete, "CompletionsReached", []string{"ended exit 0"}},
		{batchv1.JobFailed, "BackoffLimitExceeded", []string{"ended BackoffLimitExceeded"}},
	} {
		inBubble(t, func(t *testing.T, k *kit) {
			k.create(attempt)
			k.condition(row.condition, row.reason)
			wait(lateFor - time.Second)
			assert.Empty(t, k.sink.take(), "the watch of pods may be late")
			wait(2 * time.Second)
			assert.Equal(t, row.want, k.sink.take())
		})
	}
}

func TestAPodThatIsSeenAfterTheEndOfItsJobEndsAsItDid(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := exits(podOf(k.create(attempt)), 3)
		k.condition(batchv1.JobFailed, "BackoffLimitExceeded")
		wait(10 * time.Second)
		k.createPod(pod)
		assert.Equal(t, []string{"ended Error exit 3"}, k.sink.take())
	})
}

func TestAJobThatIsDeletedByHandIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.create(attempt)
		k.deleteJob(attempt)
		assert.Equal(t, []string{"lost its Job was deleted"}, k.sink.take())
	})
}

func TestTheJobsDeadlineIsTheReasonOfAPodThatItKilled(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.createPod(runs(podOf(k.create(attempt))))
		k.condition(batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded)
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		k.updatePod(exits(pod, 7))
		assert.Equal(t, []string{"running", "ended DeadlineExceeded exit 7"}, k.sink.take())
	})
}

func TestAPodThatNobodyConfirmsIsLostAfterItsGracePeriod(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		pod := k.running()
		grace, now := int64(20), metav1.Now()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: byTaintManager}}
		k.updatePod(pod)
		wait(20*time.Second + stuckFor - time.Second)
		assert.Empty(t, k.sink.take())
		wait(2 * time.Second)
		assert.Equal(t, []string{"lost NodeLost: the cluster has given up node n1, on which the pod ran"}, k.sink.take())
	})
}

// replaces has the Job controller make another pod, as it does where somebody takes
// the finalizer off the first.
func (k *kit) replaces(job *batchv1.Job) *corev1.Pod {
	k.t.Helper()
	pod := runs(podOf(job))
	pod.Name, pod.UID = job.Name+"-second", "second"
	pod.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Second))
	return k.createPod(pod)
}

func TestAnAttemptIsNeverRunByTwoPods(t *testing.T) {
	lost := "lost the pod was deleted, and the cluster has made another, " + nameOf("nightly", attempt) + "-second, which is not followed: an attempt has one pod"
	for _, row := range []happens{
		{"the first is gone, and the second runs", func(k *kit, first *corev1.Pod) {
			k.deletePod(first)
			k.replaces(k.job(attempt))
		}, []string{"running", lost}},
		{"the first is gone, and the second has ended well", func(k *kit, first *corev1.Pod) {
			k.deletePod(first)
			k.updatePod(exits(k.replaces(k.job(attempt)), 0))
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
		}, []string{"running", lost}},
		{"the second comes while the first is still there", func(k *kit, first *corev1.Pod) {
			k.updatePod(exits(k.replaces(k.job(attempt)), 0))
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
			k.deletePod(first)
		}, []string{"running", lost}},
		{"the first ends beside the second", func(k *kit, first *corev1.Pod) {
			k.updatePod(exits(k.replaces(k.job(attempt)), 0))
			k.updatePod(exits(first, 3))
		}, []string{"running", "ended Error exit 3"}},
		{"the first had ended, and is gone", func(k *kit, first *corev1.Pod) {
			k.updatePod(exits(first, 0))
			k.deletePod(first)
			k.updatePod(exits(k.replaces(k.job(attempt)), 3))
		}, []string{"running", "ended exit 0"}},
		{"a watch that begins finds both", func(k *kit, first *corev1.Pod) {
			k.replaces(k.job(attempt))
			k.stop()
			k.watch()
			synctest.Wait()
			k.updatePod(exits(first, 4))
		}, []string{"running", "running", "ended Error exit 4"}},
		{"a watch that begins finds both, and the first goes", func(k *kit, first *corev1.Pod) {
			k.replaces(k.job(attempt))
			k.stop()
			k.watch()
			synctest.Wait()
			k.deletePod(first)
		}, []string{"running", "running", lost}},
		{"a copy that somebody made by hand goes after the first", func(k *kit, first *corev1.Pod) {
			by := runs(podOf(k.job(attempt)))
			by.Name, by.UID, by.OwnerReferences = "by-hand", "by-hand", nil
			by = k.createPod(by)
			k.updatePod(exits(by, 9))
			k.deletePod(first)
			k.deletePod(by)
		}, []string{"running", "lost the pod was deleted"}},
		{"a copy that somebody made by hand", func(k *kit, first *corev1.Pod) {
			by := runs(podOf(k.job(attempt)))
			by.Name, by.UID, by.OwnerReferences = "by-hand", "by-hand", nil
			by = k.createPod(by)
			k.updatePod(exits(by, 9))
			k.deletePod(by)
			k.deletePod(first)
			k.condition(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
		}, []string{"running", "ended exit 0"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				first := runs(podOf(k.create(attempt)))
				first.Name = nameOf("nightly", attempt) + "-y" // by name it comes after the other
				row.do(k, k.createPod(first))
				wait(lostFor + time.Second)
				assert.Equal(t, row.want, k.sink.take())
				_, err := k.runner.Logs(t.Context(), attempt, jobs.LogOptions{}, io.Discard)
				if !k.hasPod(attempt) {
					require.ErrorIs(t, err, jobs.ErrNoPod, "the second one's logs are not the attempt's")
				}
				_, err = k.runner.Delete(t.Context(), attempt)
				require.NoError(t, err)
				pods, err := k.api.CoreV1().Pods("jobs").List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				assert.Empty(t, pods.Items, "nothing is left")
			})
		})
	}
}

func TestTheOldestOfThePodsThatAreFoundAtFirstCounts(t *testing.T) {
	pod := func(name string, age time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(begin.Add(-age))}}
	}
	for _, pods := range [][]*corev1.Pod{
		{pod("a", time.Hour), pod("b", 0)}, {pod("b", 0), pod("a", time.Hour)}, {pod("a", 0), pod("b", 0)}, {pod("b", 0), pod("a", 0)},
	} {
		tr := newTrack()
		tr.take(pods[0], false)
		tr.take(pods[1], false)
		assert.Equal(t, "a", tr.pod().Name)
		tr = newTrack()
		tr.take(pods[0], true)
		tr.take(pods[1], true)
		assert.Equal(t, pods[0].Name, tr.pod().Name, "later ones are none, whatever the clocks say")
	}
}

// deletedPod has been deleted at begin, with 30 s.
func deletedPod(pod *corev1.Pod) *corev1.Pod {
	at, grace := metav1.NewTime(begin.Add(30*time.Second)), int64(30)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace
	return pod
}

func jobWith(c batchv1.JobConditionType, reason string) *batchv1.Job {
	return &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
		{Type: c, Status: corev1.ConditionTrue, Reason: reason, Message: "it says so", LastTransitionTime: metav1.NewTime(begin)},
	}}}
}

func TestTheJobsDeadlineIsTheReasonOfNoOtherPod(t *testing.T) {
	oom := exits(&corev1.Pod{}, 137)
	oom.Status.ContainerStatuses[0].State.Terminated.Reason = reasonOOMKilled
	for _, row := range []struct {
		name string
		pod  *corev1.Pod
		job  *batchv1.Job
		want string
	}{
		{"it was killed by it", deletedPod(exits(&corev1.Pod{}, 137)), jobWith(batchv1.JobFailed, reasonDeadline), reasonDeadline},
		{"it failed before", oom, jobWith(batchv1.JobFailed, reasonDeadline), reasonOOMKilled},
		{"it went well all the same", deletedPod(exits(&corev1.Pod{}, 0)), jobWith(batchv1.JobFailed, reasonDeadline), ""},
		{"the Job failed of something else", deletedPod(exits(&corev1.Pod{}, 137)), jobWith(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded), reasonDeleted},
		{"the Job says nothing", deletedPod(exits(&corev1.Pod{}, 137)), &batchv1.Job{}, reasonDeleted},
		{"the Job is gone", deletedPod(exits(&corev1.Pod{}, 137)), nil, reasonDeleted},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.pod.UID = "u"
			tr := newTrack()
			tr.job = row.job
			tr.take(row.pod, true)
			there := tr.judge(begin)
			assert.Equal(t, row.want, there.pod.Reason)
			delete(tr.pods, "u")
			tr.gone = row.pod
			assert.Equal(t, there, tr.judge(begin), "nobody was told before it went")
		})
	}
}

func TestAPodThatWentBeforeItsJobSaidMoreIsLostAtOnceOnlyIfTheJobCannotSayMore(t *testing.T) {
	dying := &batchv1.Job{}
	now := metav1.NewTime(begin)
	dying.DeletionTimestamp = &now
	for _, job := range []*batchv1.Job{nil, dying, jobWith(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)} {
		tr := newTrack()
		tr.job, tr.gone = job, runs(&corev1.Pod{})
		assert.Equal(t, jobs.PhaseLost, tr.judge(begin).phase)
	}
	tr := newTrack()
	tr.job, tr.gone = &batchv1.Job{}, runs(&corev1.Pod{})
	assert.Equal(t, lostFor, tr.judge(begin).wait)
	assert.Equal(t, lostFor-4*time.Second, tr.judge(begin.Add(4*time.Second)).wait, "however often it is looked at")
	assert.Equal(t, jobs.PhaseLost, tr.judge(begin.Add(lostFor)).phase)
}

func TestTheEndOfAPodThatNobodySawIsThatOfItsJob(t *testing.T) {
	waits := &corev1.Pod{}
	waits.Name, waits.Spec.NodeName = "x", "n1"
	tr := newTrack()
	tr.job, tr.gone = jobWith(batchv1.JobComplete, batchv1.JobReasonCompletionsReached), waits
	got := tr.judge(begin).pod
	assert.Empty(t, got.Reason, "not what it waited for when it was last seen")
	assert.Zero(t, *got.ExitCode)
	assert.Equal(t, "the pod is gone; its Job says that it is complete", got.Message)
	assert.Equal(t, effects.TimeOf(begin), got.FinishedAt)
	assert.Equal(t, "x on n1", got.Name+" on "+got.Node)

	tr.job = jobWith(batchv1.JobFailed, reasonDeadline)
	got = tr.judge(begin).pod
	assert.Nil(t, got.ExitCode)
	assert.Equal(t, reasonDeadline+" the pod is gone; its Job says: it says so", got.Reason+" "+got.Message)
	assert.Equal(t, effects.TimeOf(begin), got.FinishedAt)
}

func TestTheGracePeriodOfAPodIsThatOfItsDeletionElseOfItsSpec(t *testing.T) {
	pod := &corev1.Pod{}
	assert.Equal(t, 30*time.Second, graceOf(pod))
	spec, own := int64(7), int64(0)
	pod.Spec.TerminationGracePeriodSeconds = &spec
	assert.Equal(t, 7*time.Second, graceOf(pod))
	pod.DeletionGracePeriodSeconds = &own
	assert.Zero(t, graceOf(pod))
	for seconds, want := range map[int64]time.Duration{-1: 0, 1 << 62: 24 * time.Hour} {
		own = seconds
		assert.Equal(t, want, graceOf(pod))
	}
}

func TestWhatIsNews(t *testing.T) {
	of := func(phase jobs.Phase, uid, node, reason string) verdict {
		return verdict{phase: phase, pod: core.Pod{UID: uid, Node: node, Reason: reason}}
	}
	created := of(jobs.PhaseCreated, "u", "", "Pending")
	for _, row := range []struct {
		name     string
		was, is  verdict
		deleting bool
		want     bool
	}{
		{"the first", verdict{}, created, false, true},
		{"nothing", verdict{}, verdict{}, false, false},
		{"nothing any more", created, verdict{}, false, false},
		{"the same", created, created, false, false},
		{"another reason", created, of(jobs.PhaseCreated, "u", "", "Unschedulable"), false, true},
		{"a node", created, of(jobs.PhaseCreated, "u", "n1", "Pending"), false, true},
		{"a pod", of(jobs.PhaseCreated, "", "", "Pending"), created, false, true},
		{"it runs", created, of(jobs.PhaseRunning, "u", "", ""), false, true},
		{"it waits after it ran", of(jobs.PhaseRunning, "u", "", ""), created, false, false},
		{"it ends after it ended", of(jobs.PhaseEnded, "u", "", "Error"), of(jobs.PhaseEnded, "u", "", "Evicted"), false, false},
		{"it is lost after it ended", of(jobs.PhaseEnded, "u", "", "Error"), lost("gone"), false, false},
		{"it is lost twice", lost("gone"), lost("gone with its Job"), false, false},
		{"it is lost", created, lost("gone"), false, true},
		{"it is lost to its deletion", created, lost("gone"), true, false},
		{"it ends while it is deleted", created, of(jobs.PhaseEnded, "u", "", "Error"), true, true},
		{"the image is tried again", of(jobs.PhaseCreated, "u", "", reasonImageBackOff), of(jobs.PhaseCreated, "u", "", reasonImagePull), false, false},
		{"the image cannot be had, after something else", created, of(jobs.PhaseCreated, "u", "", reasonImagePull), false, true},
		{"something else, after the image", of(jobs.PhaseCreated, "u", "", reasonImageBackOff), created, false, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			tr := newTrack()
			tr.told, tr.deleting = jobs.Observation{Phase: row.was.phase, Pod: row.was.pod}, row.deleting
			assert.Equal(t, row.want, tr.news(row.is))
		})
	}
}
