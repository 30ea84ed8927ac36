package kube

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/podspec"
)

// Labels of each Job and pod (004 Job Creation). The first three, and those of namespace,
// tenant and job, are for people and bounded, see [LabelValue]; the exact values are the
// annotations below. A namespace or tenant with a colon is none of a label's values and
// ends in digits, too: no two have the same label.
const (
	LabelJobID       = "job-id"
	LabelRunID       = "run-id"
	LabelScheduledAt = "scheduled-at"

	LabelManagedBy = "app.kubernetes.io/managed-by" // "orrery"
	LabelInstance  = "orrery.dev/instance"          // Options.Instance
	LabelDatabase  = "orrery.dev/database"          // that the run is of, see [Runner.UseDatabase]
	LabelCluster   = "orrery.dev/cluster"           // that the database is a partition of, see [Runner.UsePlace]
	LabelPartition = "orrery.dev/partition"         // its number, when the Job was created
	LabelRun       = "orrery.dev/run"               // the run's UUID
	LabelAttempt   = "orrery.dev/attempt"           // 0 for the first
	LabelNamespace = "orrery.dev/namespace"         // Orrery's, not the cluster's
	LabelTenant    = "orrery.dev/tenant"
	LabelJob       = "orrery.dev/job" // as LabelJobID, beside the other two

	AnnotationJobID       = "orrery.dev/job-id"
	AnnotationRunID       = "orrery.dev/run-id"
	AnnotationScheduledAt = "orrery.dev/scheduled-at"
	AnnotationNamespace   = LabelNamespace
	AnnotationTenant      = LabelTenant
)

// LabelValue makes a value of a label of any text, the same for the same text. Colons
// become underscores, so that a run's "jobID:timestamp" stays legible; a text that
// cannot be a label's value even so has each character that is not allowed replaced
// by one too, is cut to 54 bytes and ends in 8 digits of its SHA-256, so that
// different texts stay different.
func LabelValue(s string) string { return labelValue(strings.ReplaceAll(s, ":", "_"), s) }

// labelValue is plain if that can be a label's value, else what is made of it and ends in
// digits of the hash of s.
func labelValue(plain, s string) string {
	if len(validation.IsValidLabelValue(plain)) == 0 {
		return plain
	}
	const kept = validation.LabelValueMaxLength - 9
	b := []byte(plain)
	for i, c := range b {
		if !isAlnum(c) && c != '-' && c != '_' && c != '.' {
			b[i] = '_'
		}
	}
	sum := sha256.Sum256([]byte(s))
	tail := hex.EncodeToString(sum[:4])
	head := strings.TrimLeft(string(b[:min(len(b), kept)]), "-_.")
	if head == "" {
		return tail
	}
	return head + "-" + tail
}

// maxJobName leaves room for what the Job controller adds to the name of a pod.
const maxJobName = validation.DNS1123LabelMaxLength - len("-abcde")

// nameOf is the name of an attempt's Job: the job's id as a DNS label has it, 12 digits of the
// run's id, and the attempt. It is always the same for the same attempt, so that creating it
// again finds it.
func nameOf(jobID string, a jobs.Attempt) string {
	tail := nameTail(a)
	b := []byte(strings.ToLower(jobID))
	for i, c := range b {
		if !isAlnum(c) {
			b[i] = '-'
		}
	}
	head := strings.Trim(string(b[:min(len(b), maxJobName-len(tail))]), "-")
	return cmp.Or(head, "run") + tail
}

func nameTail(a jobs.Attempt) string { return fmt.Sprintf("-%x-%d", a.Run[:6], a.N) }

// namesJob reports whether the Job of an attempt has such a name: by [nameOf], whatever the
// job's id, or as builds before that called it.
func namesJob(a jobs.Attempt, name string) bool {
	return name == a.Name() || len(name) <= maxJobName && strings.HasSuffix(name, nameTail(a))
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isOwnLabel reports whether a label is Orrery's or the Job controller's, not the user's.
func isOwnLabel(key string) bool {
	switch key {
	case LabelJobID, LabelRunID, LabelScheduledAt, LabelManagedBy, "job-name", "controller-uid":
		return true
	}
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "orrery.dev" || prefix == "batch.kubernetes.io"
}

func checkLabels(labels map[string]string) error {
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case isOwnLabel(k):
			errs = append(errs, fmt.Errorf("labels.%s: this label is Orrery's or Kubernetes' own; use another name", k))
		case len(validation.IsQualifiedName(k)) > 0:
			errs = append(errs, fmt.Errorf("labels: %q is no name of a Kubernetes label: %s", k, validation.IsQualifiedName(k)[0]))
		case len(validation.IsValidLabelValue(labels[k])) > 0:
			errs = append(errs, fmt.Errorf("labels.%s: %q is no value of a Kubernetes label: %s", k, labels[k], validation.IsValidLabelValue(labels[k])[0]))
		}
	}
	return errors.Join(errs...)
}

// ownEnv gives each container [jobs.Run.Env], before its own variables, which may refer to it. A
// container of a job that was stored before they existed keeps those that it sets itself.
func ownEnv(pod *corev1.PodSpec, run jobs.Run) {
	var own []corev1.EnvVar
	for _, v := range run.Env() {
		own = append(own, corev1.EnvVar{Name: v.Name, Value: strings.ReplaceAll(v.Value, "$", "$$")}) // else $(X) would refer to X
	}
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			list[i].Env = slices.Concat(slices.DeleteFunc(slices.Clone(own), func(v corev1.EnvVar) bool {
				return slices.ContainsFunc(list[i].Env, func(e corev1.EnvVar) bool { return e.Name == v.Name })
			}), list[i].Env)
		}
	}
}

// checkEnv refuses variables that [ownEnv] sets.
func checkEnv(pod *corev1.PodSpec) error {
	var errs []error
	for _, list := range []struct {
		name string
		of   []corev1.Container
	}{{"initContainers", pod.InitContainers}, {"containers", pod.Containers}} {
		for i, c := range list.of {
			for j, e := range c.Env {
				if jobs.SetsEnv(e.Name) {
					errs = append(errs, fmt.Errorf("pod_spec.%s[%d].env[%d].name: %q is set by Orrery", list.name, i, j, e.Name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// checked reads what a job asks of the cluster, with what the profile fills in; errors
// begin with the field's path.
func (r *Runner) checked(spec core.JobSpec) (*corev1.PodSpec, error) {
	pod, _, err := podspec.Parse(spec.PodSpec)
	if err != nil {
		err = errors.New("pod_spec: " + strings.ReplaceAll(err.Error(), "\n", "\npod_spec: "))
	} else {
		err = r.profile.apply(pod)
	}
	return pod, errors.Join(err, checkLabels(spec.Labels), r.profile.checkLabels(spec.Labels))
}

// Check reports what of a job's pod spec and labels this runner cannot run, or may not by
// its profile; each line
// of the error names a field. It makes no call of the API.
func (r *Runner) Check(spec core.JobSpec) error {
	pod, err := r.checked(spec)
	if pod != nil {
		err = errors.Join(err, checkEnv(pod))
	}
	return err
}

// jobOf builds the Job of an attempt.
func (r *Runner) jobOf(run jobs.Run) (*batchv1.Job, error) {
	pod, err := r.checked(run.Spec)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	maps.Copy(labels, run.Spec.Labels)
	maps.Copy(labels, map[string]string{
		LabelJobID: LabelValue(run.JobID), LabelRunID: LabelValue(run.RunID), LabelScheduledAt: LabelValue(run.ScheduledAt.String()),
		LabelJob: LabelValue(run.JobID), LabelManagedBy: managedBy, LabelInstance: r.instance, LabelRun: run.Run.String(), LabelAttempt: strconv.FormatUint(uint64(run.N), 10),
	})
	r.mark(labels)
	annotations := map[string]string{AnnotationJobID: run.JobID, AnnotationRunID: run.RunID, AnnotationScheduledAt: run.ScheduledAt.String()}
	if run.Namespace != "" {
		annotations[AnnotationNamespace], labels[LabelNamespace] = run.Namespace, labelValue(run.Namespace, run.Namespace)
	}
	if run.Tenant != "" {
		annotations[AnnotationTenant], labels[LabelTenant] = run.Tenant, labelValue(run.Tenant, run.Tenant)
	}
	ownEnv(pod, run)
	made := maps.Clone(annotations)
	ttl := r.keepBy(made, run.Spec)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(run.JobID, run.Attempt), Namespace: r.namespace, Labels: labels, Annotations: made},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)), Completions: new(int32(1)),
			BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed), // Orrery alone tries again
			ActiveDeadlineSeconds:   deadlineOf(run),
			TTLSecondsAfterFinished: new(ttl),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels), Annotations: maps.Clone(annotations)},
				Spec:       *pod,
			},
		},
	}, nil
}

// deadlineSlack is how much later than Orrery the cluster kills a run.
const deadlineSlack = 5 * time.Minute

// deadlineOf is the cluster's own limit of a run with a bound, in case Orrery is gone. It
// counts from the Job's creation, so the limit of the pod's start comes on top.
func deadlineOf(run jobs.Run) *int64 {
	if run.MaxAllowedRunTimeMS <= 0 {
		return nil
	}
	start := run.Spec.PodStartTimeoutMS
	if start <= 0 {
		start = core.DefaultPodStartTimeoutMS
	}
	const second = 1000
	seconds := (run.MaxAllowedRunTimeMS/second + 1) + (start/second + 1) + int64(deadlineSlack/time.Second)
	seconds = min(seconds, math.MaxInt32) // the most that Kubernetes takes
	return &seconds
}

// attemptOf reads whose a Job or pod of this instance is; false where it is none of
// ours after all: a copy that somebody made by hand, say.
func attemptOf(labels map[string]string) (jobs.Attempt, bool) {
	run, err := uuid.Parse(labels[LabelRun])
	if err != nil || run.String() != labels[LabelRun] {
		return jobs.Attempt{}, false
	}
	n, err := strconv.ParseUint(labels[LabelAttempt], 10, 32)
	if err != nil {
		return jobs.Attempt{}, false
	}
	return jobs.Attempt{Run: run, N: uint32(n)}, true
}

// attemptOfJob is attemptOf, where the name fits too.
func attemptOfJob(job *batchv1.Job) (jobs.Attempt, bool) {
	a, ok := attemptOf(job.Labels)
	return a, ok && namesJob(a, job.Name)
}

// attemptOfPod is attemptOf, where the pod is its Job's, or nobody's any more.
func attemptOfPod(pod *corev1.Pod) (jobs.Attempt, bool) {
	a, ok := attemptOf(pod.Labels)
	owner := metav1.GetControllerOfNoCopy(pod)
	return a, ok && (owner == nil || owner.Kind == "Job" && namesJob(a, owner.Name))
}
