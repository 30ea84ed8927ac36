package kube

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/core"
	_ "github.com/orrery-go/orrery/effects/seedtest"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

func runner(t *testing.T) *Runner {
	t.Helper()
	r, err := New(Options{Client: clientset{fake.NewClientset()}, Namespace: "jobs"})
	require.NoError(t, err)
	return r
}

func TestTheJobOfAnAttempt(t *testing.T) {
	in := run(jobs.Attempt{Run: runUUID, N: 2})
	in.Namespace, in.Tenant = "billing", "acme"
	in.Spec.Labels = map[string]string{"team": "ops"}
	job, err := runner(t).jobOf(in)
	require.NoError(t, err)
	assert.Equal(t, "nightly-6ba7b8109dad-2", job.Name)
	assert.Equal(t, "jobs", job.Namespace)
	labels := map[string]string{
		"job-id": "nightly", "run-id": "nightly_2026-11-21T18_00_00.000Z", "scheduled-at": "2026-11-21T18_00_00.000Z",
		"app.kubernetes.io/managed-by": "orrery", "orrery.dev/instance": "orrery", "orrery.dev/run": runUUID.String(), "orrery.dev/attempt": "2",
		"orrery.dev/namespace": "billing", "orrery.dev/tenant": "acme", "orrery.dev/job": "nightly",
		"team": "ops",
	}
	annotations := map[string]string{
		"orrery.dev/job-id": "nightly", "orrery.dev/run-id": "nightly:2026-11-21T18:00:00.000Z", "orrery.dev/scheduled-at": "2026-11-21T18:00:00.000Z",
		"orrery.dev/namespace": "billing", "orrery.dev/tenant": "acme",
	}
	assert.Equal(t, labels, job.Labels)
	assert.Equal(t, labels, job.Spec.Template.Labels)
	assert.Equal(t, annotations, job.Annotations)
	assert.Equal(t, annotations, job.Spec.Template.Annotations)
	assert.Equal(t, corev1.RestartPolicyNever, job.Spec.Template.Spec.RestartPolicy)
	assert.Zero(t, *job.Spec.BackoffLimit)
	assert.Equal(t, int32(1), *job.Spec.Parallelism)
	assert.Equal(t, int32(1), *job.Spec.Completions)
	assert.Equal(t, batchv1.Failed, *job.Spec.PodReplacementPolicy)
	assert.Equal(t, int32(86400), *job.Spec.TTLSecondsAfterFinished)
	assert.Nil(t, job.Spec.ActiveDeadlineSeconds)
	got, ok := attemptOfJob(job)
	assert.True(t, ok)
	assert.Equal(t, in.Attempt, got)
}

func TestTheDefaultNamespaceAndTenantNeedNoAnnotation(t *testing.T) {
	job, err := runner(t).jobOf(run(attempt))
	require.NoError(t, err)
	for _, annotations := range []map[string]string{job.Annotations, job.Spec.Template.Annotations} {
		assert.NotContains(t, annotations, AnnotationNamespace)
		assert.NotContains(t, annotations, AnnotationTenant)
	}
}

func TestTheClustersOwnLimitComesAfterOrrerys(t *testing.T) {
	in := run(attempt)
	in.MaxAllowedRunTimeMS = 90_500
	in.Spec.PodStartTimeoutMS = 10_000
	job, err := runner(t).jobOf(in)
	require.NoError(t, err)
	assert.Equal(t, int64(91+11+300), *job.Spec.ActiveDeadlineSeconds)
	in.Spec.PodStartTimeoutMS = 0
	job, err = runner(t).jobOf(in)
	require.NoError(t, err)
	assert.Equal(t, int64(91+core.DefaultPodStartTimeoutMS/1000+1+300), *job.Spec.ActiveDeadlineSeconds)
	in.MaxAllowedRunTimeMS = 1 << 62
	job, err = runner(t).jobOf(in)
	require.NoError(t, err)
	assert.Equal(t, int64(1<<31-1), *job.Spec.ActiveDeadlineSeconds)
}

func TestCheckNamesTheFieldThatCannotBe(t *testing.T) {
	r := runner(t)
	for _, row := range []struct{ name, pod, label, value, want string }{
		{"unknown field", `{"containers":[{"name":"a","imge":"b"}]}`, "", "", "pod_spec: containers[0].imge: unknown field"},
		{"our label", "", "run-id", "x", "labels.run-id: this label is Orrery's"},
		{"our prefix", "", "orrery.dev/attempt", "9", "labels.orrery.dev/attempt: this label is Orrery's"},
		{"the Job controller's", "", "batch.kubernetes.io/job-name", "x", "labels.batch.kubernetes.io/job-name: this label"},
		{"the job's id", "", "job-id", "x", "labels.job-id: this label"},
		{"the time", "", "scheduled-at", "x", "labels.scheduled-at: this label"},
		{"the manager", "", "app.kubernetes.io/managed-by", "x", "labels.app.kubernetes.io/managed-by: this label"},
		{"the Job controller's of old", "", "job-name", "x", "labels.job-name: this label"},
		{"the other one of old", "", "controller-uid", "x", "labels.controller-uid: this label"},
		{"no name", "", "a b", "x", `labels: "a b" is no name`},
		{"no value", "", "team", "a b", `labels.team: "a b" is no value`},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := run(attempt).Spec
			if row.pod != "" {
				spec.PodSpec = json.RawMessage(row.pod)
			}
			if row.label != "" {
				spec.Labels = map[string]string{row.label: row.value}
			}
			err := r.Check(spec)
			require.Error(t, err)
			assert.Contains(t, err.Error(), row.want)
			calls, err := r.Create(t.Context(), jobs.Run{Attempt: attempt, Spec: spec})
			assert.True(t, shell.IsPermanent(err), "such a run is not created")
			assert.Zero(t, calls)
		})
	}
	require.NoError(t, r.Check(run(attempt).Spec))
}

func TestALabelsValueIsLegibleValidAndTellsTextsApart(t *testing.T) {
	assert.Equal(t, "nightly", LabelValue("nightly"))
	assert.Empty(t, LabelValue(""))
	assert.Equal(t, "nightly_2026-11-21T18_00_00.000Z", LabelValue("nightly:2026-11-21T18:00:00.000Z"))
	assert.Equal(t, "a_b-c8687a08", LabelValue("a b"))
	assert.True(t, strings.HasPrefix(LabelValue("azAZ09-_. /:@[`{"), "azAZ09-_._______-"), "%s", LabelValue("azAZ09-_. /:@[`{"))
	assert.Regexp(t, `^[0-9a-f]{8}$`, LabelValue("---"), "nothing of it may begin a value")
	long := strings.Repeat("x", 80)
	assert.Len(t, LabelValue(long), 63)
	assert.NotEqual(t, LabelValue(long), LabelValue(long+"y"))
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-_. a-zA-Z:]{0,90}`)).Draw(t, "text")
		got := LabelValue(s)
		require.Empty(t, validation.IsValidLabelValue(got), "%q", got)
		require.Equal(t, got, LabelValue(s))
	})
}

func TestAnAttemptIsReadFromLabelsStrictly(t *testing.T) {
	for _, labels := range []map[string]string{
		nil, {LabelRun: runUUID.String()}, {LabelRun: "x", LabelAttempt: "0"}, {LabelRun: runUUID.String(), LabelAttempt: "-1"},
		{LabelRun: strings.ToUpper(runUUID.String()), LabelAttempt: "0"}, {LabelRun: runUUID.String(), LabelAttempt: "4294967296"},
	} {
		_, ok := attemptOf(labels)
		assert.False(t, ok, "%v", labels)
	}
}

func TestAJobOfAnotherNameIsNoneOfOurs(t *testing.T) {
	job, err := runner(t).jobOf(run(attempt))
	require.NoError(t, err)
	job.Name += "-copy"
	_, ok := attemptOfJob(job)
	assert.False(t, ok, "somebody has copied it with its labels")
}

func TestAnOptionThatCannotBeIsNamed(t *testing.T) {
	client := fake.NewClientset()
	for _, row := range []struct {
		o    Options
		want string
	}{
		{Options{Client: clientset{client}, Instance: "a b"}, "Instance"},
		{Options{Client: clientset{client}, Namespace: "A"}, "Namespace"},
		{Options{Client: clientset{client}, KeepFinished: time.Second}, "KeepFinished"},
		{Options{Client: clientset{client}, KeepFinished: 100 * 365 * 24 * time.Hour}, "KeepFinished"},
		{Options{Client: clientset{client}, QPS: -1}, "QPS"},
		{Options{Client: clientset{client}, Burst: -1}, "Burst -1"},
		{Options{Kubeconfig: t.TempDir() + "/none"}, "Kubeconfig"},
	} {
		_, err := New(row.o)
		require.ErrorContains(t, err, row.want)
	}
}

func TestAJobMayBeKeptForAMinuteOrForAsLongAsTheClusterCounts(t *testing.T) {
	for _, keep := range []time.Duration{time.Minute, (1<<31 - 1) * time.Second} {
		r, err := New(Options{Client: clientset{fake.NewClientset()}, KeepFinished: keep})
		require.NoError(t, err)
		job, err := r.jobOf(run(attempt))
		require.NoError(t, err)
		assert.Equal(t, int32(keep/time.Second), *job.Spec.TTLSecondsAfterFinished)
	}
}

func TestAsManyCallsAsBurstNeedNotWait(t *testing.T) {
	for _, row := range []struct {
		o    Options
		want int
	}{{Options{}, 40}, {Options{QPS: 100}, 100}, {Options{QPS: 0.01}, 40}, {Options{QPS: 1, Burst: 3}, 3}} {
		synctest.Test(t, func(t *testing.T) { // no time passes
			row.o.Client = clientset{fake.NewClientset()}
			r, err := New(row.o)
			require.NoError(t, err)
			n := 0
			for n < 1000 && r.limit.TryAccept() {
				n++
			}
			assert.Equal(t, row.want, n)
		})
	}
}
