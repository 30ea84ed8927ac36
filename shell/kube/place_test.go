package kube

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
)

// in gives a tenant of a partition.
func in(partition, partitions int) (tenant string) {
	for i := 0; ; i++ {
		tenant = fmt.Sprintf("tenant-%d", i)
		if core.Partition(core.Scope{Namespace: "default", Tenant: tenant}, partitions) == partition {
			return tenant
		}
	}
}

// of gives the n-th attempt of a run of a tenant.
func of(tenant string, n uint32) jobs.Run {
	r := run(jobs.Attempt{Run: uuid.NewSHA1(runUUID, []byte(tenant)), N: n})
	r.Namespace, r.Tenant = "default", tenant
	return r
}

// placed is inBubble for the runner of a partition of the cluster "cluster".
func placed(t *testing.T, partition, partitions int, test func(t *testing.T, k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, &sinkOf{})
		k.runner.UseDatabase(fmt.Sprintf("database-%d", partition))
		k.runner.UsePlace("cluster", partition, partitions)
		k.watch()
		defer func() { k.stop() }()
		synctest.Wait()
		test(t, k)
	})
}

// put puts a Job of a run into the cluster, with a pod that runs and with these labels; one that is empty is left out.
func (k *kit) put(r jobs.Run, marks map[string]string) *batchv1.Job {
	k.t.Helper()
	made, err := k.runner.jobOf(r)
	require.NoError(k.t, err)
	for _, labels := range []map[string]string{made.Labels, made.Spec.Template.Labels} {
		for _, key := range []string{LabelDatabase, LabelCluster, LabelPartition} {
			if delete(labels, key); marks[key] != "" {
				labels[key] = marks[key]
			}
		}
	}
	made.UID = types.UID("job-" + made.Name)
	made, err = k.api.BatchV1().Jobs("jobs").Create(k.t.Context(), made, metav1.CreateOptions{})
	require.NoError(k.t, err)
	k.createPod(runs(podOf(made)))
	return made
}

func TestJobAndPodSayOfWhichClusterAndPartitionTheyAre(t *testing.T) {
	r := runner(t)
	r.UseDatabase("abc")
	r.UsePlace("xyz", 3, 16)
	job, err := r.jobOf(run(attempt))
	require.NoError(t, err)
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		assert.Equal(t, "abc", labels["orrery.dev/database"])
		assert.Equal(t, "xyz", labels["orrery.dev/cluster"])
		assert.Equal(t, "3", labels["orrery.dev/partition"])
	}
}

func TestARunnerOfAPartitionTouchesItsOwnOnly(t *testing.T) {
	placed(t, 1, 4, func(t *testing.T, k *kit) {
		mine, theirs := in(1, 4), in(2, 4)
		marks := func(database, cluster, partition string) map[string]string {
			return map[string]string{LabelDatabase: database, LabelCluster: cluster, LabelPartition: partition}
		}
		var held []jobs.Attempt
		for i, c := range []struct {
			what    string
			of      string // its tenant
			marks   map[string]string
			is      bool
			foreign bool
		}{
			{what: "its own", of: mine, marks: marks("database-1", "cluster", "1"), is: true},
			{what: "of a build that set no label of a cluster", of: mine, marks: marks("database-1", "", ""), is: true},
			{what: "of a build that set no label of a database either", of: mine, marks: marks("", "", ""), is: true},
			{what: "of the cluster when it had another number of partitions", of: mine, marks: marks("database-9", "cluster", "3"), is: true},
			{what: "another partition's", of: theirs, marks: marks("database-2", "cluster", "2")},
			{what: "another partition's, by a build that set no label of a cluster", of: theirs, marks: marks("database-2", "", "")},
			{what: "another partition's, by a build that set no label of a database either", of: theirs, marks: marks("", "", "")},
			{what: "another cluster's", of: mine, marks: marks("other-1", "other", "1"), foreign: true},
			{what: "another cluster's, of which another partition tells", of: theirs, marks: marks("other-1", "other", "1")},
			{what: "another database's", of: mine, marks: marks("other", "", ""), foreign: true},
		} {
			r := of(c.of, uint32(i))
			job := k.put(r, c.marks)
			if c.is {
				held = append(held, r.Attempt)
			}
			assert.ElementsMatch(t, held, k.held(), c.what)
			there, _ := k.runner.Foreign()
			assert.Equal(t, c.foreign, len(there) > 0, "%s: %v", c.what, there)
			if !c.is {
				assert.NotContains(t, k.sink.messages(), r.Name(), c.what)
				_, err := k.runner.Delete(t.Context(), r.Attempt)
				require.NoError(t, err)
				_, err = k.api.BatchV1().Jobs("jobs").Get(t.Context(), job.Name, metav1.GetOptions{})
				require.NoError(t, err, c.what)
			}
			require.NoError(t, k.api.CoreV1().Pods("jobs").Delete(t.Context(), job.Name+"-x", metav1.DeleteOptions{}))
			require.NoError(t, k.api.BatchV1().Jobs("jobs").Delete(t.Context(), job.Name, metav1.DeleteOptions{}))
			synctest.Wait()
			held = nil
		}
	})
}

func TestTheJobOfAnotherPartitionIsNotTakenForTheOneThatIsToBeCreated(t *testing.T) {
	placed(t, 1, 4, func(t *testing.T, k *kit) {
		r := of(in(1, 4), 0)
		k.put(r, map[string]string{LabelDatabase: "other-3", LabelCluster: "other", LabelPartition: "3"})
		_, err := k.runner.Create(t.Context(), r)
		assert.True(t, shell.IsPermanent(err))
		require.ErrorContains(t, err, `that is of partition 3 of cluster other, and this one is partition 1 of cluster cluster: give one of the two daemons`)
	})
}

func TestAnAttemptOfTheClusterLivesWhateverDatabaseMadeIt(t *testing.T) {
	placed(t, 1, 4, func(t *testing.T, k *kit) {
		r := of(in(1, 4), 0)
		k.put(r, map[string]string{LabelDatabase: "database-9", LabelCluster: "cluster", LabelPartition: "3"})
		assert.True(t, k.runner.Lives(r.Attempt))
		unmarked := of(in(1, 4), 1)
		k.put(unmarked, nil)
		assert.False(t, k.runner.Lives(unmarked.Attempt))
	})
}

func TestAPodWhoseTenantIsChangedByHandIsAnotherPartitions(t *testing.T) {
	placed(t, 1, 4, func(t *testing.T, k *kit) {
		r := of(in(1, 4), 0)
		job := k.put(r, map[string]string{LabelDatabase: "database-1", LabelCluster: "cluster", LabelPartition: "1"})
		assert.Len(t, k.held(), 1)
		pod := podOf(job)
		pod.Annotations = map[string]string{AnnotationNamespace: "default", AnnotationTenant: in(2, 4)}
		k.updatePod(pod)
		job.Annotations[AnnotationTenant] = in(2, 4)
		k.updateJob(job)
		wait(time.Minute)
		assert.Empty(t, k.held())
	})
}
