package kube

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trim keeps of an object what is looked at: the caches hold thousands of them.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *batchv1.Job:
		return &batchv1.Job{ObjectMeta: trimMeta(&o.ObjectMeta, AnnotationKeep, AnnotationRunID, AnnotationNamespace, AnnotationTenant), Status: batchv1.JobStatus{Conditions: o.Status.Conditions}}, nil
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: trimMeta(&o.ObjectMeta, AnnotationKeep, AnnotationNamespace, AnnotationTenant),
			Spec: corev1.PodSpec{
				NodeName: o.Spec.NodeName, TerminationGracePeriodSeconds: o.Spec.TerminationGracePeriodSeconds,
				InitContainers: trimmed(o.Spec.InitContainers, trimContainer), Containers: trimmed(o.Spec.Containers, trimContainer),
			},
			Status: corev1.PodStatus{
				Phase: o.Status.Phase, Reason: o.Status.Reason, Message: o.Status.Message, Conditions: trimConditions(o.Status.Conditions),
				InitContainerStatuses: trimmed(o.Status.InitContainerStatuses, trimStatus),
				ContainerStatuses:     trimmed(o.Status.ContainerStatuses, trimStatus),
			},
		}, nil
	}
	return obj, nil // what a relist finds deleted, whose object is trimmed already
}

func trimMeta(m *metav1.ObjectMeta, annotations ...string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels: map[string]string{},
	}
	if m.DeletionTimestamp != nil {
		out.Finalizers = m.Finalizers
	}
	for _, k := range []string{LabelInstance, LabelDatabase, LabelCluster, LabelPartition, LabelRun, LabelAttempt} {
		if v, ok := m.Labels[k]; ok {
			out.Labels[k] = v
		}
	}
	for _, k := range annotations {
		if v, ok := m.Annotations[k]; ok {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[k] = v
		}
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return out
}

// trimmed keeps of each of a list what is looked at.
func trimmed[T any](list []T, keep func(*T) T) []T {
	out := make([]T, len(list))
	for i := range list {
		out[i] = keep(&list[i])
	}
	return out
}

func trimContainer(c *corev1.Container) corev1.Container {
	return corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy}
}

func trimStatus(s *corev1.ContainerStatus) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: s.Name, State: s.State}
}

func trimConditions(list []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for i := range list {
		if t := list[i].Type; t == corev1.PodScheduled || t == corev1.DisruptionTarget {
			out = append(out, list[i])
		}
	}
	return out
}
