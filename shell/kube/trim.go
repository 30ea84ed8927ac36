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
		return &batchv1.Job{ObjectMeta: trimMeta(&o.ObjectMeta), Status: batchv1.JobStatus{Conditions: o.Status.Conditions}}, nil
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: trimMeta(&o.ObjectMeta),
			Spec: corev1.PodSpec{
				NodeName: o.Spec.NodeName, TerminationGracePeriodSeconds: o.Spec.TerminationGracePeriodSeconds,
				InitContainers: trimContainers(o.Spec.InitContainers), Containers: trimContainers(o.Spec.Containers),
			},
			Status: corev1.PodStatus{
				Phase: o.Status.Phase, Reason: o.Status.Reason, Message: o.Status.Message,
				Conditions:            trimConditions(o.Status.Conditions),
				InitContainerStatuses: trimStatuses(o.Status.InitContainerStatuses), ContainerStatuses: trimStatuses(o.Status.ContainerStatuses),
			},
		}, nil
	}
	return obj, nil // what a relist finds deleted, whose object is trimmed already
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels: map[string]string{},
	}
	for _, k := range []string{LabelInstance, LabelRun, LabelAttempt} {
		if v, ok := m.Labels[k]; ok {
			out.Labels[k] = v
		}
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return out
}

func trimContainers(list []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(list))
	for i := range list {
		out[i] = corev1.Container{Name: list[i].Name, RestartPolicy: list[i].RestartPolicy}
	}
	return out
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

func trimStatuses(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, len(list))
	for i := range list {
		out[i] = corev1.ContainerStatus{Name: list[i].Name, State: list[i].State}
	}
	return out
}
