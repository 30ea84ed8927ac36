package kube

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// anyOf in a list of labels or tolerations stands for all.
const anyOf = "*"

// checkPlacement finds what decides over the place of a restricted pod, and before whom it
// comes, beyond what the runner lists.
func (p *profile) checkPlacement(f *refusals, pod *corev1.PodSpec) {
	if pod.NodeName != "" {
		f.add("nodeName", "must be absent: the scheduler chooses the node")
	}
	if pod.SchedulerName != "" && pod.SchedulerName != corev1.DefaultSchedulerName {
		f.add("schedulerName", "must be absent: the cluster's own scheduler chooses the node")
	}
	if pod.SchedulingGroup != nil {
		f.add("schedulingGroup", "must be absent: a run is one pod")
	}
	switch class := pod.PriorityClassName; {
	case class != "":
		f.named("priorityClassName", "priority class", class, "priority_classes", p.priorityClasses)
	case pod.Priority != nil || pod.PreemptionPolicy != nil:
		f.add("priority", "must be absent, as must preemptionPolicy: pods of others would have to go")
	}
	if class := pod.RuntimeClassName; class != nil {
		f.named("runtimeClassName", "runtime class", *class, "runtime_classes", p.runtimeClasses)
	}
	for _, k := range slices.Sorted(maps.Keys(pod.NodeSelector)) {
		p.nodeLabel(f, "nodeSelector", k, pod.NodeSelector[k])
	}
	for i, t := range pod.Tolerations {
		p.toleration(f, fmt.Sprintf("tolerations[%d]", i), t)
	}
	if pod.Affinity != nil {
		p.checkAffinity(f, pod.Affinity)
	}
}

// nodeLabel refuses a label of nodes, with these values of it or, if none is given, with
// whatever value.
func (p *profile) nodeLabel(f *refusals, field, key string, values ...string) {
	if slices.Contains(p.nodeLabels, anyOf) || slices.Contains(p.nodeLabels, key) {
		return
	}
	if len(values) == 0 {
		f.named(field, "node label", key, "node_labels", p.nodeLabels)
	}
	for _, v := range values {
		f.named(field, "node label", key+"="+v, "node_labels", p.nodeLabels)
	}
}

func (p *profile) toleration(f *refusals, field string, t corev1.Toleration) {
	switch {
	case slices.Contains(p.tolerations, anyOf), t.Key != "" && slices.Contains(p.tolerations, t.Key):
	case t.Key == "":
		f.add(field, "a toleration without a key tolerates every taint: name the key")
	case t.Operator == "" || t.Operator == corev1.TolerationOpEqual:
		f.named(field, "taint", t.Key+"="+t.Value, "tolerations", p.tolerations)
	default:
		f.named(field, "taint", t.Key, "tolerations", p.tolerations)
	}
}

func (p *profile) checkAffinity(f *refusals, a *corev1.Affinity) {
	if a.PodAffinity != nil {
		f.add("affinity.podAffinity", "must be absent: it is about pods of others")
	}
	if a.PodAntiAffinity != nil {
		f.add("affinity.podAntiAffinity", "must be absent: it keeps pods of others from nodes")
	}
	n := a.NodeAffinity
	if n == nil {
		return
	}
	if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		for i, t := range r.NodeSelectorTerms {
			p.checkTerm(f, fmt.Sprintf("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d].", i), t)
		}
	}
	for i, t := range n.PreferredDuringSchedulingIgnoredDuringExecution {
		p.checkTerm(f, fmt.Sprintf("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[%d].preference.", i), t.Preference)
	}
}

func (p *profile) checkTerm(f *refusals, at string, t corev1.NodeSelectorTerm) {
	if len(t.MatchFields) > 0 {
		f.add(at+"matchFields", "must be absent: the scheduler chooses the node")
	}
	for i, e := range t.MatchExpressions {
		values := e.Values
		if e.Operator != corev1.NodeSelectorOpIn {
			values = nil
		}
		p.nodeLabel(f, fmt.Sprintf("%smatchExpressions[%d]", at, i), e.Key, values...)
	}
}
