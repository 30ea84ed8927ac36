package importing

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// kubernetesDefaults are what Kubernetes fills in where a file says nothing: they mean nothing here. They are only read.
var kubernetesDefaults = map[string]string{
	"spec.successfulJobsHistoryLimit": "3", "spec.failedJobsHistoryLimit": "1",
	"spec.jobTemplate.spec.parallelism": "1", "spec.jobTemplate.spec.completions": "1", "spec.jobTemplate.spec.completionMode": `"NonIndexed"`,
	"spec.jobTemplate.spec.suspend": "false", "spec.jobTemplate.spec.manualSelector": "false", "spec.jobTemplate.spec.podReplacementPolicy": `"TerminatingOrFailed"`,
}

// read-only: what to do about fields that have no place here.
var kubernetesAdvice = map[string]string{
	"spec.successfulJobsHistoryLimit":                    "runs are kept as the daemon's retention says, and a Job of the cluster goes when its run has ended, or after ttlSecondsAfterFinished",
	"spec.failedJobsHistoryLimit":                        "runs are kept as the daemon's retention says; keep_failed_seconds of the runner keeps pods that have failed",
	"spec.jobTemplate.spec.parallelism":                  "a run has one pod: for more of them make more jobs",
	"spec.jobTemplate.spec.completions":                  "a run has one pod: for more of them make more jobs",
	"spec.jobTemplate.spec.completionMode":               "a run has one pod: for more of them make more jobs",
	"spec.jobTemplate.spec.podFailurePolicy":             "each failure counts as an attempt, whatever its exit code",
	"spec.jobTemplate.spec.backoffLimitPerIndex":         "a run has one pod",
	"spec.jobTemplate.spec.maxFailedIndexes":             "a run has one pod",
	"spec.jobTemplate.spec.suspend":                      "a run cannot be made suspended",
	"spec.jobTemplate.spec.selector":                     "the runner finds its pods by labels of its own",
	"spec.jobTemplate.spec.manualSelector":               "the runner finds its pods by labels of its own",
	"spec.jobTemplate.spec.podReplacementPolicy":         "another attempt begins when the pod before is gone or has ended",
	"metadata.annotations":                               "a job has none",
	"metadata.ownerReferences":                           "a job has no owner in the cluster: who makes the CronJob will make it anew",
	"metadata.finalizers":                                "a job has none",
	"spec.jobTemplate.spec.template.metadata.name":       "pods are called after the job and its run",
	"spec.jobTemplate.metadata.name":                     "Jobs are called after the job and its run",
	"spec.jobTemplate.metadata.namespace":                "pods are made in the namespace of the runner",
	"spec.jobTemplate.spec.template.metadata.finalizers": "pods get none",
}

// rest notes all that was not taken out: whatever has found no place.
func (c *cronJob) rest() {
	raw, err := json.Marshal(c.in)
	if err != nil {
		c.wrong("", "%s", err)
		return
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		c.wrong("", "%s", err)
		return
	}
	c.leftOver("", tree)
}

// leftOver goes through what is left, down to what is known by name.
func (c *cronJob) leftOver(path string, v any) {
	advice := kubernetesAdvice[path]
	inner, isObject := v.(map[string]any)
	if isObject && advice == "" {
		for _, k := range slices.Sorted(maps.Keys(inner)) {
			c.leftOver(strings.TrimPrefix(path+"."+k, "."), inner[k])
		}
		return
	}
	text, err := json.Marshal(v)
	switch {
	case err != nil, v == nil, path == "metadata.selfLink", // which no cluster fills in any more
		string(text) == `""`, string(text) == "{}", string(text) == "[]", kubernetesDefaults[path] == string(text):
		return
	case advice == "":
		advice = "it has no place in a job"
	}
	c.differs(path, "%s is left out: %s", clip(string(text)), advice)
}
