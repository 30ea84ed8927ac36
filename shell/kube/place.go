package kube

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
)

// place is the partition of a cluster that a runner works for.
type place struct {
	cluster               string
	partition, partitions int
}

var _ jobs.Placer = (*Runner)(nil)

// UsePlace puts cluster and partition on each Job and pod as [LabelCluster] and [LabelPartition], and has the runner leave alone what is of another
// cluster, or of a tenant of another partition: see [jobs.Placer]. The exact tenant, which is an annotation, says of which partition a Job or pod is.
func (r *Runner) UsePlace(cluster string, partition, partitions int) {
	r.place.Store(&place{cluster, partition, partitions})
}

// mark puts whose it is on what the runner creates.
func (r *Runner) mark(labels map[string]string) {
	if id := r.ownDatabase(); id != "" {
		labels[LabelDatabase] = id
	}
	if p := r.place.Load(); p != nil {
		labels[LabelCluster], labels[LabelPartition] = p.cluster, strconv.Itoa(p.partition)
	}
}

// has reports whether a Job or pod is of a tenant of the place's partition.
func (p *place) has(m *metav1.ObjectMeta) bool {
	namespace, inNamespace := m.Annotations[AnnotationNamespace]
	tenant, ofTenant := m.Annotations[AnnotationTenant]
	if inNamespace || ofTenant {
		return core.Partition(core.Scope{Namespace: namespace, Tenant: tenant}, p.partitions) == p.partition
	}
	return m.Labels[LabelPartition] == strconv.Itoa(p.partition)
}

// whose says of a Job or pod with the runner's instance whether it is this runner's.
type whose int

const (
	whoseOwn     whose = iota
	whoseSibling       // of a tenant of another partition: the runner of that looks after it, or tells of it
	whoseForeign       // of another database or cluster
)

// whoseIs says whose a Job or pod is. Builds before set no labels of clusters, or none of databases either.
func (r *Runner) whoseIs(m *metav1.ObjectMeta) whose {
	own, database := r.ownDatabase(), m.Labels[LabelDatabase]
	isForeign := own != "" && database != "" && database != own
	if p := r.place.Load(); p != nil {
		if !p.has(m) {
			return whoseSibling
		}
		if cluster := m.Labels[LabelCluster]; cluster != "" {
			isForeign = cluster != p.cluster
		}
	}
	if isForeign {
		return whoseForeign
	}
	return whoseOwn
}

// isOthers reports whether a Job or pod is not this runner's.
func (r *Runner) isOthers(m *metav1.ObjectMeta) bool { return r.whoseIs(m) != whoseOwn }

// hasMark reports whether a Job or pod that is the runner's says so itself: by the mark of its database, or of its cluster.
func (r *Runner) hasMark(m *metav1.ObjectMeta) bool {
	if p := r.place.Load(); p != nil && m.Labels[LabelCluster] == p.cluster {
		return true
	}
	own := r.ownDatabase()
	return own != "" && m.Labels[LabelDatabase] == own
}

// ownerIn says whose a Job of another one is, for people.
func ownerIn(labels map[string]string) string {
	if cluster := labels[LabelCluster]; cluster != "" {
		return "partition " + labels[LabelPartition] + " of cluster " + cluster
	}
	return "database " + labels[LabelDatabase]
}

// own says whose what the runner creates is, for people.
func (r *Runner) own() string {
	labels := map[string]string{}
	r.mark(labels)
	return ownerIn(labels)
}
