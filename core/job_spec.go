package core

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core/schedule"
	"github.com/orrery-go/orrery/effects"
)

// Limits and defaults of a [JobSpec].
const (
	DefaultPodStartTimeoutMS = 300_000 // 5 minutes
	DefaultCreateAheadMS     = 30_000  // 30 seconds
	DefaultRetryMaxDelayMS   = 3_600_000

	// MaxPodSpecBytes bounds a pod spec, the configuration of constraints and that of
	// actions, each: every run carries them.
	MaxPodSpecBytes  = 64 << 10
	MaxRetries       = 1000
	MaxCreateAheadMS = 3_600_000 // 1 hour
	// MaxTTLSecondsAfterFinished is how long a Kubernetes Job may be kept: each is an object
	// of the cluster.
	MaxTTLSecondsAfterFinished = 7 * 24 * 3600 // a week
	// MaxActiveRuns bounds the runs of one job that have not ended, so that one event
	// can reach them all, see [MaxDeliveries].
	MaxActiveRuns = 500
)

// JobSpec is a job as its owner configures it (004 Job). Each of its occurrences
// is one run, see [Orchestrator].
type JobSpec struct {
	ID        string `json:"id"` // unique within the tenant (004 Job.ID)
	Namespace string `json:"namespace"`
	Tenant    string `json:"tenant"`
	Name      string `json:"name"` // for people
	// Schedule is a cron expression, see package schedule; empty: runs are triggered
	// by hand alone.
	Schedule string `json:"schedule"`
	Timezone string `json:"timezone"` // of the schedule; empty: UTC
	// PodSpec is a Kubernetes pod spec as a JSON object. The shell makes it of YAML
	// and checks it strictly.
	PodSpec json.RawMessage `json:"pod_spec"`
	// ConstraintConfig and ActionConfig are for the modules that check constraints
	// and take actions: JSON objects, opaque to the machines.
	ConstraintConfig json.RawMessage `json:"constraint_config,omitempty"`
	ActionConfig     json.RawMessage `json:"action_config,omitempty"`
	RetryConfig      RetryConfig     `json:"retry_config"`

	// Overlap says what becomes of an occurrence while earlier runs have not ended.
	Overlap OverlapPolicy `json:"overlap"`
	// StartDeadlineSeconds is how late a run of the schedule may still begin; later
	// it counts as missed. 0: [DefaultStartDeadline].
	StartDeadlineSeconds int64 `json:"start_deadline_seconds"`
	// MaxConcurrentRuns bounds the runs beyond Pending at a time; 0: no bound.
	MaxConcurrentRuns uint32 `json:"max_concurrent_runs"`
	// OrphanPolicy says what becomes of the pod of a run that is orphaned.
	OrphanPolicy OrphanPolicy `json:"orphan_policy"`
	// PodStartTimeoutMS bounds the time from the creation to a running pod; 0: 5
	// minutes.
	PodStartTimeoutMS int64 `json:"pod_start_timeout_ms"`
	// CreateAheadMS is how long before its time a run is created, and waits in
	// PreRun; 0: 30 seconds. It is not created before the time before has come.
	CreateAheadMS int64 `json:"create_ahead_ms"`
	// TTLSecondsAfterFinished is how long an attempt's Kubernetes Job and pod stay in the
	// cluster after they have ended, for people to look at; 0: as its runner is configured.
	// The run does not wait for that.
	TTLSecondsAfterFinished int64 `json:"ttl_seconds_after_finished,omitempty"`
	// ConstraintErrors says what an error of the checker means.
	ConstraintErrors ErrorPolicy       `json:"constraint_errors"`
	Logs             LogPolicy         `json:"logs"`
	Labels           map[string]string `json:"labels,omitempty"` // put on the Kubernetes Job and its pods
	// Runner names who runs it, as the daemon is configured: "kubernetes", "local",
	// a cluster's name. Empty: the default one.
	Runner string `json:"runner"`
	// EndsAt is the first instant at which no time of the schedule is due any more; null: none.
	EndsAt Time `json:"ends_at,omitzero"`
	ScheduleOptions
}

// OrphanPolicy says what becomes of the pod of a run that is orphaned.
type OrphanPolicy string

// Orphan policies.
const (
	OrphanDelete OrphanPolicy = "delete" // the pod is deleted
	OrphanAdopt  OrphanPolicy = "adopt"  // a pod that runs goes on, without a slot, and how it ends is recorded
)

// ErrorPolicy says what an error of a checker means (004 Constraint Checker
// Errors).
type ErrorPolicy string

// Error policies.
const (
	FailClosed ErrorPolicy = "closed" // the run does not go on
	FailOpen   ErrorPolicy = "open"   // it does
)

// LogPolicy says what is kept of what a pod writes.
type LogPolicy struct {
	Discard   bool  `json:"discard"`    // nothing is fetched
	HeadBytes int64 `json:"head_bytes"` // 0: as the daemon is configured
	TailBytes int64 `json:"tail_bytes"`
}

// RetryConfig says how many attempts a run has, and when (004 RetryConfig).
type RetryConfig struct {
	MaxRetries        uint32     `json:"max_retries"` // after the first attempt
	InitialDelayMS    int64      `json:"initial_delay_ms"`
	BackoffMultiplier Multiplier `json:"backoff_multiplier"` // 0: 2
	MaxDelayMS        int64      `json:"max_delay_ms"`       // 0: 1 hour
}

// ShouldRetry reports whether another attempt follows the given one, from 0 (004
// shouldRetry).
func (r RetryConfig) ShouldRetry(attempt uint32) bool { return attempt < r.MaxRetries }

// Delay is the wait after the given attempt, from 0, in milliseconds: InitialDelay
// × BackoffMultiplier ^ attempt, at least 0 and at most MaxDelay, whatever the
// configuration (004 calculateRetryDelay, R8). It is computed exactly, and only
// its fraction of a millisecond is dropped: 1 ms grows by a factor of 1.5 too.
func (r RetryConfig) Delay(attempt uint32) int64 {
	most := cmp.Or(max(r.MaxDelayMS, 0), DefaultRetryMaxDelayMS)
	factor := cmp.Or(int64(max(r.BackoffMultiplier, 0)), defaultMultiplier)
	initial := min(max(r.InitialDelayMS, 0), most)
	if initial == 0 || factor == multiplierOne {
		return initial
	}
	// initial × factor^attempt and 1000000^attempt: the delay is their quotient.
	var limit big.Int
	num, den, f, one := big.NewInt(initial), big.NewInt(1), big.NewInt(factor), big.NewInt(multiplierOne)
	for range min(attempt, MaxRetries) {
		num.Mul(num, f)
		den.Mul(den, one)
		if factor > multiplierOne && num.Cmp(limit.Mul(den, big.NewInt(most))) >= 0 {
			return most // it only grows
		}
	}
	return num.Quo(num, den).Int64()
}

func (r RetryConfig) validate() error {
	var multiplier error
	if r.BackoffMultiplier < 0 || r.BackoffMultiplier > maxMultiplier {
		multiplier = fmt.Errorf("retry_config.backoff_multiplier: %s is not between 0 and %s", r.BackoffMultiplier, Multiplier(maxMultiplier))
	}
	return errors.Join(
		checkBetween("retry_config.max_retries", int64(r.MaxRetries), 0, MaxRetries),
		multiplier,
		checkLengthMS("retry_config.initial_delay_ms", r.InitialDelayMS),
		checkLengthMS("retry_config.max_delay_ms", r.MaxDelayMS),
	)
}

// Multiplier is a factor in millionths: a number without a float, so that each
// machine computes the same (R8).
type Multiplier int64

const (
	multiplierOne     = 1_000_000
	multiplierDigits  = 6
	defaultMultiplier = 2 * multiplierOne
	maxMultiplier     = 1000 * multiplierOne
)

// String prints it as a decimal number, such as 1.5.
func (m Multiplier) String() string {
	sign, v := "", uint64(m)
	if m < 0 {
		sign, v = "-", -v
	}
	s := sign + strconv.FormatUint(v/multiplierOne, 10)
	if part := v % multiplierOne; part > 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%06d", part), "0")
	}
	return s
}

// MarshalJSON encodes it as a number.
func (m Multiplier) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON decodes a decimal number with up to 6 digits after the point.
func (m *Multiplier) UnmarshalJSON(b []byte) error {
	v, err := ParseMultiplier(string(b))
	if err == nil {
		*m = v
	}
	return err
}

// ParseMultiplier reads a decimal number with up to 6 digits after the point.
func ParseMultiplier(s string) (Multiplier, error) {
	bad := fmt.Errorf("backoff_multiplier: %q is not a decimal number between 0 and %s with up to %d digits after the point, such as 1.5", clip(s), Multiplier(maxMultiplier), multiplierDigits)
	whole, part, point := strings.Cut(s, ".")
	if point && part == "" {
		return 0, bad
	}
	part = strings.TrimRight(part, "0")
	if len(whole) == 0 || len(whole) > 4 || len(part) > multiplierDigits || strings.Trim(whole+part, "0123456789") != "" {
		return 0, bad
	}
	v, err := strconv.ParseInt(whole+(part + "000000")[:multiplierDigits], 10, 64)
	if err != nil || v > maxMultiplier {
		return 0, bad
	}
	return Multiplier(v), nil
}

func (s JobSpec) withDefaults() JobSpec {
	s.Timezone = zoneOr(s.Timezone)
	s.Overlap = cmp.Or(s.Overlap, OverlapAllow)
	s.OrphanPolicy = cmp.Or(s.OrphanPolicy, OrphanDelete)
	s.ConstraintErrors = cmp.Or(s.ConstraintErrors, FailClosed)
	s.PodStartTimeoutMS = cmp.Or(s.PodStartTimeoutMS, DefaultPodStartTimeoutMS)
	s.CreateAheadMS = cmp.Or(s.CreateAheadMS, DefaultCreateAheadMS)
	s.RetryConfig.BackoffMultiplier = cmp.Or(s.RetryConfig.BackoffMultiplier, defaultMultiplier)
	s.RetryConfig.MaxDelayMS = cmp.Or(s.RetryConfig.MaxDelayMS, DefaultRetryMaxDelayMS)
	// The journal holds the compact form: a replay must see what we see.
	for _, v := range []*json.RawMessage{&s.PodSpec, &s.ConstraintConfig, &s.ActionConfig} {
		if *v = bytes.Clone(trimJSON(*v)); len(*v) > 0 {
			*v = compacted(*v)
		} else {
			*v = nil
		}
	}
	return s
}

// Validate reports what a job cannot be. It does not look into the pod spec, nor
// into what is opaque.
func (s JobSpec) Validate() error {
	s = s.withDefaults()
	return errors.Join(s.validate(), s.validateSchedule())
}

func (s JobSpec) validate() error {
	return errors.Join(
		checkName("id", s.ID, true),
		checkRunPart("id", s.ID),
		checkTenant("", s.Namespace, s.Tenant),
		checkName("name", s.Name, false),
		checkName("runner", s.Runner, false),
		checkConfig("pod_spec", s.PodSpec, true),
		checkConfig("constraint_config", s.ConstraintConfig, false),
		checkConfig("action_config", s.ActionConfig, false),
		checkMap("labels", s.Labels),
		checkLabels(s.Labels),
		s.RetryConfig.validate(),
		s.validateRuns(),
	)
}

// checkRunPart refuses what would make a run's id ambiguous.
func checkRunPart(field, id string) error {
	if strings.Contains(id, ":") {
		return fmt.Errorf("%s: %q has a colon, which ends it in the id of a run", field, clip(id))
	}
	return nil
}

// maxLabelBytes is the most that Kubernetes takes for a label's value.
const maxLabelBytes = 63

func checkLabels(labels map[string]string) error {
	var errs []error
	for _, k := range sortedKeys(labels) {
		if n := len(labels[k]); n > maxLabelBytes {
			errs = append(errs, fmt.Errorf("labels.%s: %d bytes is longer than %d, the most that Kubernetes takes", clip(k), n, maxLabelBytes))
		}
	}
	return errors.Join(errs...)
}

func checkConfig(field string, v json.RawMessage, required bool) error {
	switch {
	case len(v) == 0 && required:
		return fmt.Errorf("%s: missing: give a JSON object", field)
	case len(v) == 0:
		return nil
	case len(v) > MaxPodSpecBytes:
		return fmt.Errorf("%s: %d bytes is more than %d", field, len(v), MaxPodSpecBytes)
	}
	return checkObject(field, v)
}

func (s JobSpec) validateRuns() error {
	var logs error
	if s.Logs.HeadBytes < 0 || s.Logs.TailBytes < 0 {
		logs = fmt.Errorf("logs: head_bytes %d and tail_bytes %d must not be negative", s.Logs.HeadBytes, s.Logs.TailBytes)
	}
	return errors.Join(
		s.Overlap.validate(),
		checkOneOf("orphan_policy", s.OrphanPolicy, OrphanDelete, OrphanAdopt),
		checkOneOf("constraint_errors", s.ConstraintErrors, FailClosed, FailOpen),
		checkBetween("start_deadline_seconds", s.StartDeadlineSeconds, 0, int64(MaxStartDeadline/time.Second)),
		checkBetween("max_concurrent_runs", int64(s.MaxConcurrentRuns), 0, MaxActiveRuns),
		checkBetween("ttl_seconds_after_finished", s.TTLSecondsAfterFinished, 0, MaxTTLSecondsAfterFinished),
		checkBetween("create_ahead_ms", s.CreateAheadMS, 0, MaxCreateAheadMS),
		s.ScheduleOptions.validate(0),
		logs,
		checkLengthMS("pod_start_timeout_ms", s.PodStartTimeoutMS),
	)
}

// validateZone looks at a zone without a schedule, which says so itself: constraints
// go by it.
func (s JobSpec) validateZone() error {
	if s.Schedule != "" {
		return nil
	}
	_, err := schedule.LoadZone(s.Timezone)
	return err
}

// validateSchedule says what is wrong with the zone, and with the schedule.
func (s JobSpec) validateSchedule() error {
	_, zone := schedule.LoadZone(s.Timezone)
	if zone != nil {
		s.Timezone = zoneOr("") // in which the schedule is looked at nevertheless
	}
	_, err := s.scheduleFrom(effects.MinTime)
	return errors.Join(zone, err)
}

// scheduleFrom compiles the schedule of a job that was made at that time; nil if it has none.
func (s JobSpec) scheduleFrom(created Time) (*timetable, error) {
	if s.Schedule == "" {
		return nil, nil
	}
	spec := schedule.Spec{Expr: s.Schedule, Zone: s.Timezone, Anchor: created, EndsAt: s.EndsAt}
	compiled, err := s.timetable(spec, JobRef(s.Namespace, s.Tenant, s.ID).ID, s.EndsAt)
	var bad *schedule.Error
	if errors.As(err, &bad) && bad.Field == "cron_expr" {
		return nil, fmt.Errorf("schedule: %s", bad.Problem)
	}
	return compiled, err
}

// Warnings says which parts of the schedule mean something else than they seem to, see
// [schedule.Schedule.Warnings]. It is empty for a schedule that is refused.
func (s JobSpec) Warnings() []string {
	compiled, err := s.withDefaults().scheduleFrom(effects.MinTime)
	if err != nil || compiled == nil {
		return nil
	}
	return compiled.due.Warnings()
}

func (s JobSpec) startDeadline() int64 {
	return cmp.Or(s.StartDeadlineSeconds, int64(DefaultStartDeadline/time.Second)) * 1000
}

// JobRef names the job of that id in a tenant.
func JobRef(namespace, tenant, id string) effects.Ref {
	return effects.Ref{Kind: KindJob, ID: namedID("job", namespace, tenant, id)}
}

// RunID is the id of a job's run: deterministic, "jobID:timestamp" (004 RunID).
func RunID(job string, scheduled Time) string { return job + ":" + scheduled.String() }

// RunRef names the run of that id in a tenant.
func RunRef(namespace, tenant, runID string) effects.Ref {
	return effects.Ref{Kind: KindOrchestrator, ID: namedID("run", namespace, tenant, runID)}
}
