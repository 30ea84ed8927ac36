package kube

import (
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

// Labels of each Job and pod (004 Job Creation). The first three are for people and
// bounded, see [LabelValue]; the exact values are annotations of the names below.
const (
	LabelJobID       = "job-id"
	LabelRunID       = "run-id"
	LabelScheduledAt = "scheduled-at"

	LabelManagedBy = "app.kubernetes.io/managed-by" // "orrery"
	LabelInstance  = "orrery.dev/instance"          // Options.Instance
	LabelRun       = "orrery.dev/run"               // the run's UUID
	LabelAttempt   = "orrery.dev/attempt"           // 0 for the first

	AnnotationJobID       = "orrery.dev/job-id"
	AnnotationRunID       = "orrery.dev/run-id"
	AnnotationScheduledAt = "orrery.dev/scheduled-at"
	AnnotationNamespace   = "orrery.dev/namespace" // Orrery's, not the cluster's
	AnnotationTenant      = "orrery.dev/tenant"
)

// LabelValue makes a value of a label of any text, the same for the same text. Colons
// become underscores, so that a run's "jobID:timestamp" stays legible; a text that
// cannot be a label's value even so has each character that is not allowed replaced
// by one too, is cut to 54 bytes and ends in 8 digits of its SHA-256, so that
// different texts stay different.
func LabelValue(s string) string {
	plain := strings.ReplaceAll(s, ":", "_")
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

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// ours reports whether a label is Orrery's or the Job controller's, not the user's.
func ours(key string) bool {
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
		case ours(k):
			errs = append(errs, fmt.Errorf("labels.%s: this label is Orrery's or Kubernetes' own; use another name", k))
		case len(validation.IsQualifiedName(k)) > 0:
			errs = append(errs, fmt.Errorf("labels: %q is no name of a Kubernetes label: %s", k, validation.IsQualifiedName(k)[0]))
		case len(validation.IsValidLabelValue(labels[k])) > 0:
			errs = append(errs, fmt.Errorf("labels.%s: %q is no value of a Kubernetes label: %s", k, labels[k], validation.IsValidLabelValue(labels[k])[0]))
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
	return pod, errors.Join(err, checkLabels(spec.Labels))
}

// Check reports what of a job's pod spec and labels this runner cannot run, or may not by
// its profile; each line
// of the error names a field. It makes no call of the API.
func (r *Runner) Check(spec core.JobSpec) error {
	_, err := r.checked(spec)
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
		LabelManagedBy: managedBy, LabelInstance: r.instance, LabelRun: run.Run.String(), LabelAttempt: strconv.FormatUint(uint64(run.N), 10),
	})
	annotations := map[string]string{AnnotationJobID: run.JobID, AnnotationRunID: run.RunID, AnnotationScheduledAt: run.ScheduledAt.String()}
	if run.Namespace != "" {
		annotations[AnnotationNamespace] = run.Namespace
	}
	if run.Tenant != "" {
		annotations[AnnotationTenant] = run.Tenant
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: run.Name(), Namespace: r.namespace, Labels: labels, Annotations: annotations},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)), Completions: new(int32(1)),
			BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed), // Orrery alone tries again
			ActiveDeadlineSeconds:   deadlineOf(run),
			TTLSecondsAfterFinished: new(r.ttlSeconds),
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
	return a, ok && a.Name() == job.Name
}

// attemptOfPod is attemptOf, where the pod is its Job's, or nobody's any more.
func attemptOfPod(pod *corev1.Pod) (jobs.Attempt, bool) {
	a, ok := attemptOf(pod.Labels)
	owner := metav1.GetControllerOfNoCopy(pod)
	return a, ok && (owner == nil || owner.Kind == "Job" && owner.Name == a.Name())
}
