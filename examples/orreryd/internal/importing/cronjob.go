package importing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	yamlnode "go.yaml.in/yaml/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/shell/jobfile"
	"github.com/orrery-go/orrery/shell/podspec"
)

// podPath is where the pod spec of a CronJob is.
const podPath = "spec.jobTemplate.spec.template.spec"

// A cronJob is one that becomes a job.
type cronJob struct {
	*manifests
	o     *manifest
	in    batchv1.CronJob // what has found its place is taken out
	out   core.JobSpec
	above []string // comments above the job
}

// cronJob makes a job of a CronJob.
func (m *manifests) cronJob(o *manifest) {
	c := &cronJob{manifests: m, o: o}
	unknown, err := kjson.UnmarshalStrict(o.raw, &c.in)
	if err != nil {
		path, problem := "", strings.TrimPrefix(err.Error(), "json: ")
		if f := wrongType.FindStringSubmatch(problem); f != nil {
			path, problem = f[2], fmt.Sprintf("it is a %s: want %s", f[1], f[3])
		}
		c.wrong(path, "%s", problem)
		return
	}
	before := len(m.errs)
	c.unknown(unknown)
	c.identify()
	c.schedule()
	c.runs()
	c.pod()
	if len(m.errs) > before {
		return
	}
	c.rest()
	text, err := jobfile.Marshal(c.out)
	if err == nil {
		text, err = shortened(text)
	}
	if err == nil {
		_, err = jobfile.Parse(c.o.source, text, jobfile.Options{})
	}
	if err != nil {
		c.wrong("", "the job that is made of it cannot be used: %s", err)
		return
	}
	m.write(o, c.out.ID, c.above, text)
}

// wrong notes what is wrong with a field.
func (c *cronJob) wrong(path, format string, args ...any) {
	c.say(c.o.source, c.o.at(path).Line, path, "%s: %s", strings.TrimSpace("CronJob "+c.o.name()), fmt.Sprintf(format, args...))
}

// differs notes what is not the same of a field.
func (c *cronJob) differs(path, format string, args ...any) {
	c.note(c.o, c.o.at(path).Line, strings.TrimSuffix("CronJob "+c.o.name()+": "+path, ": "), format, args...)
}

var wrongType = regexp.MustCompile(`^cannot unmarshal (\w+) into Go struct field \w+\.(\S+) of type (\S+)$`)

var unknownField = regexp.MustCompile(`^(unknown|duplicate) field "(.*)"$`)

// unknown notes fields that this version of Kubernetes does not have. Those of the pod are errors of its own.
func (c *cronJob) unknown(errs []error) {
	for _, err := range errs {
		if f := unknownField.FindStringSubmatch(err.Error()); f != nil && !strings.HasPrefix(f[2], podPath+".") {
			c.differs(f[2], "a CronJob has no such field: it is left out")
		}
	}
}

func (c *cronJob) identify() {
	meta := &c.in.ObjectMeta
	if meta.Name == "" {
		c.wrong("metadata.name", "it is missing: a job needs an id")
		return
	}
	c.out.ID = meta.Name
	if c.ids[c.out.ID] && meta.Namespace != "" {
		c.out.ID = meta.Namespace + "-" + meta.Name
	}
	if c.ids[c.out.ID] {
		c.wrong("metadata.name", "there is another one of this name already: rename one of them")
	} else if c.out.ID != meta.Name {
		c.differs("metadata.name", "its job is called %s, as another one is called %s", c.out.ID, meta.Name)
	}
	c.ids[c.out.ID] = true
	if meta.Namespace != "" {
		c.differs("metadata.namespace", "pods are made in the namespace of the runner: configure one with namespace = %q, and import with --runner", meta.Namespace)
	}
	c.out.Runner = c.manifests.o.Runner
	c.labels()
	*meta = *meta.DeepCopy()
	meta.Name, meta.Namespace, meta.UID, meta.ResourceVersion, meta.Generation = "", "", "", "", 0
	meta.ManagedFields, meta.CreationTimestamp.Time = nil, time.Time{}
	delete(meta.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	c.in.Status = batchv1.CronJobStatus{}
	c.in.Kind, c.in.APIVersion = "", ""
}

// labels takes those of the pods and their Jobs; those of the CronJob itself are put on neither.
func (c *cronJob) labels() {
	job, pod := &c.in.Spec.JobTemplate.ObjectMeta, &c.in.Spec.JobTemplate.Spec.Template.ObjectMeta
	taken := map[string]string{}
	maps.Copy(taken, job.Labels)
	maps.Copy(taken, pod.Labels)
	for _, k := range slices.Sorted(maps.Keys(taken)) {
		if prefix, _, _ := strings.Cut(k, "/"); prefix == "orrery.dev" || prefix == "batch.kubernetes.io" ||
			slices.Contains([]string{"app.kubernetes.io/managed-by", "job-id", "run-id", "scheduled-at", "job-name", "controller-uid"}, k) {
			c.differs("spec.jobTemplate.spec.template.metadata.labels", "%s is set by Orrery or Kubernetes: it is left out", k)
			delete(taken, k)
		}
	}
	if len(taken) > 0 {
		c.out.Labels = taken
	}
	var own []string
	for _, k := range slices.Sorted(maps.Keys(c.in.Labels)) {
		if _, both := pod.Labels[k]; !both && taken[k] == "" {
			own = append(own, k)
		}
	}
	if len(own) > 0 {
		c.differs("metadata.labels", "labels of a job are put on its pods: those that the CronJob alone has are left out: %s", strings.Join(own, ", "))
	}
	c.in.Labels, job.Labels, pod.Labels = nil, nil, nil
	for _, at := range []struct {
		path string
		of   *map[string]string
	}{
		{"spec.jobTemplate.metadata.annotations", &job.Annotations}, {"spec.jobTemplate.spec.template.metadata.annotations", &pod.Annotations},
	} {
		if keys := slices.Sorted(maps.Keys(*at.of)); len(keys) > 0 {
			c.differs(at.path, "Jobs and pods get no annotations from a job: they are left out: %s", strings.Join(keys, ", "))
		}
		*at.of = nil
	}
	job.CreationTimestamp.Time, pod.CreationTimestamp.Time = time.Time{}, time.Time{}
}

// schedule takes when it runs.
func (c *cronJob) schedule() {
	s := &c.in.Spec
	expr, zone := strings.TrimSpace(s.Schedule), ""
	if s.TimeZone != nil {
		zone = *s.TimeZone
	}
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(expr, prefix); ok {
			zone, expr, _ = strings.Cut(rest, " ")
			expr = strings.TrimSpace(expr)
			c.differs("spec.schedule", "%s%s in the schedule is its timezone here", prefix, zone)
		}
	}
	if zone == "" {
		zone = c.manifests.o.Zone
		c.differs("spec.timeZone", "it is not there: the times are read in %s; in the cluster in the zone of its controller manager", zone)
	}
	loaded, err := schedule.LoadZone(zone)
	if err != nil {
		c.wrong("spec.timeZone", "%s", strings.TrimPrefix(err.Error(), "timezone: "))
		return
	}
	var ok bool
	if c.out.Schedule, ok = c.expression(expr); !ok {
		return
	}
	c.out.Timezone = strings.TrimPrefix(loaded.Name(), "Etc/UTC")
	spec := schedule.Spec{Expr: c.out.Schedule, Zone: loaded.Name(), Anchor: c.now}
	if _, err := spec.Compile(); err != nil {
		c.wrong("spec.schedule", "%s", strings.TrimPrefix(err.Error(), "cron_expr: "))
		return
	}
	fields := strings.Fields(c.out.Schedule)
	if len(fields) == len(cronFieldsOf) {
		if different := asShown(&fields[cronHour], spec, changesOf(loaded, c.now), "Kubernetes"); different != "" {
			c.differs("spec.schedule", "%s", different)
		}
		c.out.Schedule = strings.Join(fields, " ")
		spec.Expr = c.out.Schedule
	} else if strings.HasPrefix(c.out.Schedule, "@every") {
		c.differs("spec.schedule", "%s counts from when the job is applied", c.out.Schedule)
	}
	compiled, err := spec.Compile()
	switch {
	case err != nil:
		c.wrong("spec.schedule", "%s", err)
	case compiled.Impossible(c.now):
		c.differs("spec.schedule", "%s names a day that does not exist: the job is made without a schedule, to be triggered by hand", c.out.Schedule)
		c.out.Schedule = ""
	}
	if s.Suspend != nil && *s.Suspend && c.out.Schedule != "" {
		c.differs("spec.suspend", "it is suspended: the job is made without its schedule, which stands as a comment above it")
		c.above = append(c.above, fmt.Sprintf("suspended: schedule: %q", c.out.Schedule))
		c.out.Schedule = ""
	}
	s.Schedule, s.TimeZone, s.Suspend = "", nil, nil
}

// expression checks an expression as Kubernetes reads it, and gives it as it is written here.
func (c *cronJob) expression(expr string) (written string, ok bool) {
	if strings.HasPrefix(expr, "@") {
		return expr, true
	}
	fields := strings.Fields(expr)
	if len(fields) != len(cronFieldsOf) {
		c.wrong("spec.schedule", "%q has %d fields: Kubernetes takes minute, hour, day of month, month, day of week", clip(expr), len(fields))
		return "", false
	}
	for i, text := range fields {
		for item := range strings.SplitSeq(text, ",") {
			if err := kubernetesItem(&cronFieldsOf[i], item); err != nil {
				c.wrong("spec.schedule", "%s: %s", cronFieldsOf[i].name, err)
				return "", false
			}
		}
		fields[i] = strings.ReplaceAll(text, "?", "*") // which Kubernetes takes in each field
	}
	return strings.Join(fields, " "), true
}

// kubernetesItem refuses what Kubernetes refuses: it takes a step after a single value, and no 7 for Sunday.
func kubernetesItem(u *cronField, item string) error {
	body, _, stepped := strings.Cut(item, "/")
	single := body != "*" && body != "?" && !strings.Contains(body, "-")
	switch {
	case u.max == 7 && strings.Contains(body, "7"):
		return fmt.Errorf("%q: Kubernetes refuses 7: write 0 for Sunday", clip(item))
	case body == "?":
		item = "*" + strings.TrimPrefix(item, "?")
	case single && stepped:
		item = fmt.Sprintf("%s-%d%s", body, u.top(), strings.TrimPrefix(item, body))
	}
	if _, err := u.item(item, true); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "cron refuses", "Kubernetes refuses"))
	}
	return nil
}

// runs takes what becomes of times, and of a run that fails.
func (c *cronJob) runs() {
	s := &c.in.Spec
	switch s.ConcurrencyPolicy {
	case "", batchv1.AllowConcurrent:
	case batchv1.ForbidConcurrent:
		c.out.Overlap = core.OverlapForbid
		c.differs("spec.concurrencyPolicy", "a time that comes while a run is under way is skipped; Kubernetes starts one more once that has ended, if it is not too late: overlap: buffer_one does so")
	case batchv1.ReplaceConcurrent:
		c.out.Overlap = core.OverlapReplace
	default:
		c.wrong("spec.concurrencyPolicy", "%q is unknown: want Allow, Forbid or Replace", clip(string(s.ConcurrencyPolicy)))
	}
	c.lateness()
	j := &s.JobTemplate.Spec
	retries := int32(6) // the default of Kubernetes
	if j.BackoffLimit != nil {
		retries = *j.BackoffLimit
	}
	if most := int32(core.MaxRetries); retries > most {
		c.differs("spec.jobTemplate.spec.backoffLimit", "%d is more than %d, which is taken", retries, most)
		retries = most
	}
	if retries > 0 {
		c.out.RetryConfig = core.RetryConfig{MaxRetries: uint32(retries), InitialDelayMS: 10_000, MaxDelayMS: 6 * 60_000}
	}
	if d := j.ActiveDeadlineSeconds; d != nil {
		c.out.ConstraintConfig = json.RawMessage(fmt.Sprintf(`{"constraints":[{"maxAllowedRunTime":{"config":{"limit":%q},"onViolation":["fail"]}}]}`, seconds(*d)))
		c.differs("spec.jobTemplate.spec.activeDeadlineSeconds", "it is maxAllowedRunTime here, which counts for each attempt, from when its pod runs; in Kubernetes for all of them together")
	}
	if ttl := j.TTLSecondsAfterFinished; ttl != nil {
		if c.out.TTLSecondsAfterFinished = int64(*ttl); c.out.TTLSecondsAfterFinished > core.MaxTTLSecondsAfterFinished {
			c.out.TTLSecondsAfterFinished = core.MaxTTLSecondsAfterFinished
			c.differs("spec.jobTemplate.spec.ttlSecondsAfterFinished", "%d is more than a week, which is taken", *ttl)
		}
	}
	s.ConcurrencyPolicy, j.BackoffLimit, j.ActiveDeadlineSeconds, j.TTLSecondsAfterFinished = "", nil, nil, nil
}

// lateness takes how late a run may start. Without a deadline Kubernetes starts the last time that was missed, however long ago
// it was.
func (c *cronJob) lateness() {
	s := &c.in.Spec
	deadline := s.StartingDeadlineSeconds
	s.StartingDeadlineSeconds = nil
	switch {
	case deadline == nil:
		c.out.Missed = core.MissedLatest
	case *deadline < 0:
		c.wrong("spec.startingDeadlineSeconds", "%d is negative", *deadline)
	case *deadline == 0:
		c.differs("spec.startingDeadlineSeconds", "0 is the deadline of 2 minutes here")
	case *deadline <= int64(core.MaxStartDeadline/time.Second):
		c.out.StartDeadlineSeconds = *deadline
	default:
		c.out.Missed, c.out.CatchUpSeconds = core.MissedLatest, min(*deadline, core.MaxCatchUpSeconds)
		if *deadline > core.MaxCatchUpSeconds {
			c.differs("spec.startingDeadlineSeconds", "%d is more than a year, which is taken", *deadline)
		}
	}
}

// pod takes the pod spec as it stands there, so that what it does not know is found.
func (c *cronJob) pod() {
	var tree struct {
		Spec struct {
			JobTemplate struct {
				Spec struct {
					Template struct {
						Spec map[string]json.RawMessage `json:"spec"`
					} `json:"template"`
				} `json:"spec"`
			} `json:"jobTemplate"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(c.o.raw, &tree); err != nil {
		c.wrong(podPath, "%s", err)
		return
	}
	pod := tree.Spec.JobTemplate.Spec.Template.Spec
	if pod == nil {
		c.wrong(podPath, "it is missing: say what runs")
		return
	}
	switch policy := c.in.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy; policy {
	case "", corev1.RestartPolicyNever:
	case corev1.RestartPolicyOnFailure:
		c.differs(podPath+".restartPolicy", "OnFailure starts a container again in its pod; here each attempt has a pod of its own")
	default:
		c.wrong(podPath+".restartPolicy", "%q is refused by Kubernetes, too: want Never or OnFailure", clip(string(policy)))
	}
	delete(pod, "restartPolicy")
	raw, err := json.Marshal(pod)
	if err == nil {
		_, c.out.PodSpec, err = podspec.Parse(raw)
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			path, problem, ok := strings.Cut(line, ": ")
			if !ok || strings.Contains(path, " ") {
				path, problem = "", line
			}
			c.wrong(strings.TrimSuffix(podPath+"."+path, "."), "%s", problem)
		}
		return
	}
	c.in.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{}
}

// read-only: what an absent field of a pod and of its containers means, which kubectl prints all the same. Empty: an empty object.
var (
	podDefaults       = map[string]string{"restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": ""}
	containerDefaults = map[string]string{"resources": "", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
)

// shortened leaves out of a job file what means the same if it is not there.
func shortened(text []byte) ([]byte, error) {
	var doc yamlnode.Node
	if err := yamlnode.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	pod := valueOf(doc.Content[0], "podSpec")
	if pod == nil {
		return text, nil
	}
	leaveOut(pod, podDefaults)
	for _, key := range []string{"containers", "initContainers"} {
		if list := valueOf(pod, key); list != nil {
			for _, container := range list.Content {
				leaveOut(container, containerDefaults)
			}
		}
	}
	var b bytes.Buffer
	e := yamlnode.NewEncoder(&b)
	e.SetIndent(2)
	err := errors.Join(e.Encode(&doc), e.Close())
	return b.Bytes(), err
}

// valueOf is the value of a key; nil: it is not there.
func valueOf(m *yamlnode.Node, key string) *yamlnode.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// leaveOut takes keys with these values out of a mapping.
func leaveOut(m *yamlnode.Node, defaults map[string]string) {
	kept := m.Content[:0]
	for i := 0; i+1 < len(m.Content); i += 2 {
		k, v := m.Content[i], m.Content[i+1]
		absent, known := defaults[k.Value]
		if same := v.Kind == yamlnode.ScalarNode && v.Value == absent || v.Kind == yamlnode.MappingNode && len(v.Content) == 0 && absent == ""; !known || !same {
			kept = append(kept, k, v)
		}
	}
	m.Content = kept
}

// seconds writes a length of time.
func seconds(n int64) string {
	switch {
	case n%3600 == 0 && n > 0:
		return fmt.Sprintf("%dh", n/3600)
	case n%60 == 0 && n > 0:
		return fmt.Sprintf("%dm", n/60)
	}
	return fmt.Sprintf("%ds", n)
}
