package kube

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/orrery-go/orrery/shell/jobfile"
	"github.com/orrery-go/orrery/shell/jobs"
)

func TestTheNameOfAJobBeginsWithTheIDOfItsJob(t *testing.T) {
	for id, want := range map[string]string{
		"nightly-report":            "nightly-report-6ba7b8109dad-3",
		"Nightly Report!":           "nightly-report-6ba7b8109dad-3",
		"-x-":                       "x-6ba7b8109dad-3",
		"…":                         "run-6ba7b8109dad-3",
		"":                          "run-6ba7b8109dad-3",
		"7":                         "7-6ba7b8109dad-3",
		strings.Repeat("long.", 20): "long-long-long-long-long-long-long-long-lo-6ba7b8109dad-3",
	} {
		assert.Equal(t, want, nameOf(id, jobs.Attempt{Run: runUUID, N: 3}), "%q", id)
	}
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-a-z0-9A-Z._]{0,90}`)).Draw(t, "id")
		a := jobs.Attempt{Run: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "run")), N: rapid.Uint32().Draw(t, "n")}
		name := nameOf(id, a)
		require.Empty(t, validation.IsDNS1123Label(name+"-abcde"), "the name of its pod: %q", name)
		require.True(t, namesJob(a, name))
		require.False(t, namesJob(jobs.Attempt{Run: a.Run, N: a.N + 1}, name), "another attempt has another name")
	})
}

func TestTenantNamespaceAndJobAreLabelsAndTheirExactValuesAnnotations(t *testing.T) {
	in := run(attempt)
	in.JobID, in.Namespace, in.Tenant = "the nightly one", "team:a", "acme"
	job, err := runner(t).jobOf(in)
	require.NoError(t, err)
	for _, m := range []metav1.ObjectMeta{job.ObjectMeta, job.Spec.Template.ObjectMeta} {
		assert.Equal(t, "acme", m.Labels["orrery.dev/tenant"])
		assert.Regexp(t, `^team_a-[0-9a-f]{8}$`, m.Labels["orrery.dev/namespace"], "team_a is another's")
		assert.Regexp(t, `^the_nightly_one-[0-9a-f]{8}$`, m.Labels["orrery.dev/job"])
		assert.Equal(t, []string{"team:a", "acme", "the nightly one"}, []string{m.Annotations[AnnotationNamespace], m.Annotations[AnnotationTenant], m.Annotations[AnnotationJobID]})
	}
}

// asBefore is the Job that an earlier build would have made of the attempt.
func asBefore(t *testing.T, r *Runner) *batchv1.Job {
	t.Helper()
	job, err := r.jobOf(run(attempt))
	require.NoError(t, err)
	job.Name, job.UID = attempt.Name(), "before"
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		maps.DeleteFunc(labels, func(k, _ string) bool { return k == LabelNamespace || k == LabelTenant || k == LabelJob })
	}
	return job
}

func TestTheJobOfAnEarlierBuildIsFoundWatchedAndDeleted(t *testing.T) {
	for _, watching := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			k := newKit(t, &sinkOf{})
			job, err := k.api.BatchV1().Jobs("jobs").Create(t.Context(), asBefore(t, k.runner), metav1.CreateOptions{})
			require.NoError(t, err)
			if watching {
				k.watch()
				synctest.Wait()
			}
			_, err = k.runner.Create(t.Context(), run(attempt))
			require.NoError(t, err)
			list, err := k.api.BatchV1().Jobs("jobs").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, list.Items, 1, "an attempt has one Job, whatever its name")
			if !watching {
				k.watch()
				synctest.Wait()
			}
			defer k.stop()
			k.createPod(runs(podOf(job)))
			assert.Equal(t, []string{"running"}, k.sink.take())
			assert.Equal(t, []jobs.Attempt{attempt}, k.held())
			_, err = k.runner.Delete(t.Context(), attempt)
			require.NoError(t, err)
			list, err = k.api.BatchV1().Jobs("jobs").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Empty(t, list.Items)
		})
	}
}

func TestAJobThatOnlyTheAPIKnowsIsDeletedByItsLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.deaf()
		k.watch()
		defer k.stop()
		synctest.Wait()
		_, err := k.api.BatchV1().Jobs("jobs").Create(t.Context(), asBefore(t, k.runner), metav1.CreateOptions{})
		require.NoError(t, err)
		other := run(jobs.Attempt{Run: runUUID, N: 1})
		_, err = k.runner.Create(t.Context(), other)
		require.NoError(t, err)
		done := k.deleting(t.Context())
		wait(2 * askEvery)
		require.NoError(t, (<-done).err)
		list, err := k.api.BatchV1().Jobs("jobs").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		assert.Equal(t, nameOf("nightly", other.Attempt), list.Items[0].Name, "another attempt's stays")
	})
}

func TestEachContainerOfAClusterHasTheVariablesOfALocalPod(t *testing.T) {
	in := run(jobs.Attempt{Run: runUUID, N: 2})
	in.JobID, in.RunID, in.Namespace, in.Tenant, in.Occurrence = "a$(HOME)", "a$(HOME):2026", "ns", "t1", runUUID
	in.Spec.Labels = map[string]string{"team": "blue"}
	in.Spec.PodSpec = json.RawMessage(`{"initContainers":[{"name":"i","image":"i"}],"containers":[{"name":"a","image":"i","env":[{"name":"X","value":"$(ORRERY_JOB_ID)"}]},{"name":"b","image":"i"}]}`)
	job, err := runner(t).jobOf(in)
	require.NoError(t, err)
	own := []corev1.EnvVar{
		{Name: "ORRERY_RUN_ID", Value: "a$$(HOME):2026"}, {Name: "ORRERY_JOB_ID", Value: "a$$(HOME)"},
		{Name: "ORRERY_SCHEDULED_AT", Value: "2026-11-21T18:00:00.000Z"}, {Name: "ORRERY_ATTEMPT", Value: "2"},
		{Name: "ORRERY_NAMESPACE", Value: "ns"}, {Name: "ORRERY_TENANT", Value: "t1"}, {Name: "ORRERY_LABELS", Value: `{"team":"blue"}`},
		{Name: "ORRERY_OCCURRENCE", Value: runUUID.String()},
	}
	pod := job.Spec.Template.Spec
	assert.Equal(t, own, pod.InitContainers[0].Env)
	assert.Equal(t, append(slices.Clone(own), corev1.EnvVar{Name: "X", Value: "$(ORRERY_JOB_ID)"}), pod.Containers[0].Env, "its own may refer to them")
	assert.Equal(t, own, pod.Containers[1].Env)
}

func TestAVariableOfOrrerysIsRefusedWhenAJobIsAppliedAndStaysWhereItWasStored(t *testing.T) {
	in, r := run(attempt), runner(t)
	in.Spec.PodSpec = json.RawMessage(`{"initContainers":[{"name":"i","image":"i","env":[{"name":"A","value":"1"},{"name":"ORRERY_ATTEMPT","value":"x"}]}],
		"containers":[{"name":"a","image":"i","env":[{"name":"ORRERY_RUN_ID","value":"mine"},{"name":"ORRERY_TENANT","value":"other"}]}]}`)
	require.EqualError(t, r.Check(in.Spec), "pod_spec.initContainers[0].env[1].name: \"ORRERY_ATTEMPT\" is set by Orrery\n"+
		"pod_spec.containers[0].env[0].name: \"ORRERY_RUN_ID\" is set by Orrery")
	job, err := r.jobOf(in)
	require.NoError(t, err)
	env := map[string]string{}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		require.NotContains(t, env, e.Name)
		env[e.Name] = e.Value
	}
	assert.Equal(t, "mine", env["ORRERY_RUN_ID"])
	assert.Equal(t, "nightly", env["ORRERY_JOB_ID"])
	assert.Equal(t, "other", env["ORRERY_TENANT"], "it may say so, and wins")
}

func TestCreatingAgainAfterACrashFindsTheSameJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		_, err := k.runner.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		again, err := New(Options{Client: clientset{k.api}, Namespace: "jobs"})
		require.NoError(t, err)
		_, err = again.Create(t.Context(), run(attempt))
		require.NoError(t, err)
		list, err := k.api.BatchV1().Jobs("jobs").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, list.Items, 1)
	})
}

func TestTheExampleOfAReportPrintsItsRunInACluster(t *testing.T) {
	specs, err := jobfile.Load("../../examples/jobs/nightly-report.yaml", jobfile.Options{})
	require.NoError(t, err)
	in := run(attempt)
	in.Spec = specs[0]
	job, err := runner(t).jobOf(in)
	require.NoError(t, err)
	c := job.Spec.Template.Spec.Containers[0]
	for _, name := range []string{"ORRERY_RUN_ID", "ORRERY_ATTEMPT"} {
		require.Contains(t, c.Args[0], "$"+name)
		require.True(t, slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name && e.Value != "" }), name)
	}
}
