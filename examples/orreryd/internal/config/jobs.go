package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell/confine"
	"github.com/orrery-go/orrery/shell/constraints"
	"github.com/orrery-go/orrery/shell/httpcall"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/kube"
	"github.com/orrery-go/orrery/shell/local"
)

// jobsConfig says how the runs of jobs are watched.
type jobsConfig struct {
	DefaultRunner    string  `toml:"default_runner,omitempty"`
	HeartbeatSeconds float64 `toml:"heartbeat_seconds"`
	MaxMissed        int     `toml:"max_missed"` // heartbeats, before a run is orphaned
	ReconcileSeconds float64 `toml:"reconcile_seconds"`
	LogHeadBytes     int     `toml:"log_head_bytes"` // where a job says nothing else
	LogTailBytes     int     `toml:"log_tail_bytes"`
	// Allow are networks that the webhooks of constraints may reach although they are
	// not public.
	Allow []string `toml:"allow,omitempty"`
	// UpdatesURL and MetricsURL are told what becomes of runs, in batches; empty:
	// nobody is. FeedSecret names the key that signs them.
	UpdatesURL string `toml:"updates_url,omitempty"`
	MetricsURL string `toml:"metrics_url,omitempty"`
	FeedSecret string `toml:"feed_secret,omitempty"`
	// Secrets sign the webhooks of constraints: a job names one, and never has one. That
	// of the feeds is theirs alone.
	Secrets map[string]secretConfig `toml:"secrets,omitempty"`
}

// secretConfig is one [jobs.secrets.NAME].
type secretConfig struct {
	Secret     string `toml:"secret,omitempty"`
	SecretEnv  string `toml:"secret_env,omitempty"`
	SecretFile string `toml:"secret_file,omitempty"`
	// Namespaces and Tenants are those whose jobs may ask for it; left out: all.
	Namespaces []string `toml:"namespaces,omitempty"`
	Tenants    []string `toml:"tenants,omitempty"`
}

// key reads the secret, in the form that Standard Webhooks have.
func (s secretConfig) key(at string) (string, error) {
	given := countGiven(s.Secret, s.SecretEnv, s.SecretFile)
	if given != 1 {
		return "", fmt.Errorf("%s: needs exactly one of secret, secret_env and secret_file: there are %d", at, given)
	}
	text, field, err := readSecret(s.Secret, s.SecretEnv, s.SecretFile, "secret")
	if err != nil {
		return "", fmt.Errorf("%s.%w", at, err)
	}
	text = strings.TrimSpace(text)
	if _, err := standardwebhooks.NewWebhook(text); err != nil || text == "" { // its error would show the secret
		return "", fmt.Errorf("%s.%s: it is not base64, as webhooks are signed with (whsec_…)", at, field)
	}
	if isPublished(text) {
		return "", errPublished(at + "." + field)
	}
	return text, nil
}

// SigningKeys reads all secrets, and gives those that jobs may ask for, by their names.
func (j jobsConfig) SigningKeys() (map[string]constraints.Secret, error) {
	out := map[string]constraints.Secret{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(j.Secrets)) {
		s, at := j.Secrets[name], "jobs.secrets."+name
		k, err := s.key(at)
		errs = append(errs, err, refuseEmpty(at+".namespaces", s.Namespaces), refuseEmpty(at+".tenants", s.Tenants))
		if name != j.FeedSecret { // else a job could sign updates of its own
			out[name] = constraints.Secret{Key: k, Namespaces: s.Namespaces, Tenants: s.Tenants}
		}
	}
	return out, errors.Join(errs...)
}

// WebhookClient makes the client of webhooks of constraints.
func (j jobsConfig) WebhookClient() (*http.Client, error) {
	var allow []netip.Prefix
	for i, s := range j.Allow {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("jobs.allow[%d]: %q is not a network such as \"10.1.0.0/16\"", i, text.Clip(s, 80))
		}
		allow = append(allow, p)
	}
	t, err := httpcall.NewTransport(httpcall.Options{DenyPrivate: true, Allow: allow})
	if err != nil {
		return nil, fmt.Errorf("jobs.allow: %w", err)
	}
	return &http.Client{Transport: t}, nil
}

// runnerConfig is one [runners.NAME]. Which keys it may have depends on its type.
type runnerConfig struct {
	Type    string `toml:"type"`
	Enabled *bool  `toml:"enabled,omitempty"` // default true
	// Tenants are those whose jobs may use it, as "NAMESPACE/TENANT"; left out: all.
	Tenants []string `toml:"tenants,omitempty"`

	Kubeconfig *string  `toml:"kubeconfig,omitempty" for:"kubernetes"`
	Context    *string  `toml:"context,omitempty" for:"kubernetes"`
	Namespace  *string  `toml:"namespace,omitempty" for:"kubernetes"`
	QPS        *float64 `toml:"qps,omitempty" for:"kubernetes"`
	Burst      *int     `toml:"burst,omitempty" for:"kubernetes"`
	Instance   *string  `toml:"instance,omitempty" for:"kubernetes"`
	// KeepFailed is how long Jobs of attempts that have failed are kept.
	KeepFailed *float64 `toml:"keep_failed_seconds,omitempty" for:"kubernetes"`

	// Profile says what pods may have; left out: see [Config.addDefaultRunners]. What they
	// may name with the profile restricted follows.
	Profile                *string   `toml:"profile,omitempty" for:"kubernetes"`
	ServiceAccounts        *[]string `toml:"service_accounts,omitempty" for:"kubernetes"`
	Secrets                *[]string `toml:"secrets,omitempty" for:"kubernetes"`
	ConfigMaps             *[]string `toml:"config_maps,omitempty" for:"kubernetes"`
	PersistentVolumeClaims *[]string `toml:"persistent_volume_claims,omitempty" for:"kubernetes"`
	PriorityClasses        *[]string `toml:"priority_classes,omitempty" for:"kubernetes"`
	RuntimeClasses         *[]string `toml:"runtime_classes,omitempty" for:"kubernetes"`
	NodeLabels             *[]string `toml:"node_labels,omitempty" for:"kubernetes"` // "key" or "key=value"; "*": all
	Tolerations            *[]string `toml:"tolerations,omitempty" for:"kubernetes"` // of taints, likewise
	Labels                 *[]string `toml:"labels,omitempty" for:"kubernetes"`      // of jobs, likewise
	// MaxGrace bounds the terminationGracePeriodSeconds of pods, with any profile.
	MaxGrace *int `toml:"max_grace_seconds,omitempty" for:"kubernetes"`

	Dir         *string   `toml:"dir,omitempty" for:"local"`
	Executables *[]string `toml:"executables,omitempty" for:"local"`
	AllowEnv    *[]string `toml:"allow_env,omitempty" for:"local"`
	RunAs       *string   `toml:"run_as,omitempty" for:"local"`
	MaxPods     *int      `toml:"max_pods,omitempty" for:"local"` // 0: no bound; see defaultMaxPods

	MemoryMaxBytes *int64   `toml:"memory_max_bytes,omitempty" for:"local"`
	PidsMax        *int     `toml:"pids_max,omitempty" for:"local"`
	CPUMax         *float64 `toml:"cpu_max,omitempty" for:"local"`
}

// defaultMaxPods is how many pods of a local runner live at a time where the file says
// nothing: each has a supervisor beside its programs.
const defaultMaxPods = 100

// MaxPods bounds the pods that live at a time, by the names of the runners.
func (c *Config) MaxPods() map[string]int {
	out := map[string]int{}
	for _, name := range c.RunnerNames() {
		if r := c.Runners[name]; r.Type == runnerLocal {
			out[name] = *cmp.Or(r.MaxPods, new(defaultMaxPods))
		}
	}
	return out
}

// Types of [runnerConfig].
const (
	runnerKubernetes = "kubernetes"
	runnerLocal      = "local"
)

func (r runnerConfig) enabled() bool { return r.Enabled == nil || *r.Enabled }

func defaultJobs() jobsConfig {
	return jobsConfig{HeartbeatSeconds: 10, MaxMissed: 3, ReconcileSeconds: 300, LogHeadBytes: 256 << 10, LogTailBytes: 256 << 10}
}

// addDefaultRunners adds the local runner if the file names no runner: jobs work on a
// laptop at once. A file that names one has no other, so that a daemon in a cluster runs
// nothing beside itself. Of a daemon that has tokens, or a list of executables, the local
// runner is there only if the file asks for it: it would run any program for whoever may
// apply a job. Pods in a cluster have the profile restricted once there are tokens that are
// no admin's, unless the file names another one.
func (c *Config) addDefaultRunners() {
	c.Runners = maps.Clone(c.Runners)
	if len(c.Runners) == 0 {
		local := runnerConfig{Type: runnerLocal}
		if c.guarded() && c.Jobs.DefaultRunner != runnerLocal {
			local.Enabled = new(bool)
		}
		c.Runners = map[string]runnerConfig{runnerLocal: local}
	}
	if l, ok := c.Runners[runnerLocal]; ok && l.Type == "" {
		l.Type = runnerLocal
		c.Runners[runnerLocal] = l
	}
	for name, r := range c.Runners {
		if r.Type == runnerKubernetes && r.Profile == nil && len(c.tenantTokens()) > 0 {
			r.Profile = new(kube.ProfileRestricted)
			c.Runners[name] = r
		}
	}
}

// guarded reports whether the configuration keeps somebody from something.
func (c *Config) guarded() bool {
	for _, t := range c.Tools {
		if t.Executables != nil {
			return true
		}
	}
	return len(c.Tokens) > 0
}

// DefaultRunner names the runner of jobs that name none: the configured one, else the only
// one, else the one that stands where there is none. Empty: there are several.
func (c *Config) DefaultRunner() string {
	names := c.RunnerNames()
	switch {
	case c.Jobs.DefaultRunner != "":
		return c.Jobs.DefaultRunner
	case len(names) == 0:
		return runnerLocal
	case len(names) == 1:
		return names[0]
	}
	return ""
}

// RunnerNames are the names of the runners that are enabled.
func (c *Config) RunnerNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Runners)), func(name string) bool { return !c.Runners[name].enabled() })
}

// LocalRunners are those whose pods are programs of this machine.
func (c *Config) LocalRunners() []string {
	return slices.DeleteFunc(c.RunnerNames(), func(name string) bool { return c.Runners[name].Type != runnerLocal })
}

// OpenRunners are the runners that every token may use: those of a cluster whose pods are
// restricted and reach no secret, account or volume of somebody's, and that no token names as
// its own.
func (c *Config) OpenRunners() []string {
	return slices.DeleteFunc(c.RunnerNames(), func(name string) bool {
		r := c.Runners[name]
		return r.Type != runnerKubernetes || deref(r.Profile) != kube.ProfileRestricted || r.lends() ||
			slices.ContainsFunc(c.Tokens, func(t tokenConfig) bool { return slices.Contains(t.Runners, name) })
	})
}

// lends reports whether pods of a restricted runner reach what belongs to somebody.
func (r runnerConfig) lends() bool {
	return slices.ContainsFunc(r.lists(), func(l list) bool { return len(deref(l.given)) > 0 })
}

func (c *Config) validateJobs() error {
	j := c.Jobs
	errs := []error{
		checkSeconds("jobs.heartbeat_seconds", j.HeartbeatSeconds, 0.1),
		checkBetween("jobs.max_missed", &j.MaxMissed, 1, 1000),
		checkSeconds("jobs.reconcile_seconds", j.ReconcileSeconds, 1),
		checkBetween("jobs.log_head_bytes", &j.LogHeadBytes, 0, maxRunLog),
		checkBetween("jobs.log_tail_bytes", &j.LogTailBytes, 0, maxRunLog),
	}
	_, err := j.SigningKeys()
	_, clientErr := j.WebhookClient()
	_, feedErr := j.MakeFeed()
	if err == nil { // else the same secret would be reported twice
		errs = append(errs, feedErr)
	}
	errs = append(errs, err, clientErr)
	var names []string
	homes := map[string]string{} // names of runners by where their pods are
	for _, name := range slices.Sorted(maps.Keys(c.Runners)) {
		if name == "" || len(name) > core.MaxNameBytes {
			errs = append(errs, fmt.Errorf("runners: the name %q has %d bytes: want 1 to %d", text.Clip(name, 40), len(name), core.MaxNameBytes))
		}
		errs = append(errs, c.Runners[name].validate("runners."+name, c.Cgroup.Root))
		if c.Runners[name].enabled() {
			names = append(names, name)
			home, apart := c.Runners[name].home()
			if other, taken := homes[home]; taken { // each would delete the pods of the other as strays
				errs = append(errs, fmt.Errorf("runners.%s: its pods would mix with those of runners.%s: give each %s of its own", name, other, apart))
			}
			homes[home] = name
		}
	}
	if d := j.DefaultRunner; d != "" && !slices.Contains(names, d) {
		errs = append(errs, fmt.Errorf("jobs.default_runner: %q is not one of the runners: %s", text.Clip(d, 40), c.runnersText()))
	}
	return errors.Join(errs...)
}

// maxRunLog bounds what is kept of a run's logs, at each end.
const maxRunLog = 8 << 20

// maxGraceSeconds bounds max_grace_seconds: a year.
const maxGraceSeconds = 366 * 24 * 3600

// home is where a runner has its pods, and apart the key that keeps two runners apart.
func (r runnerConfig) home() (home, apart string) {
	if r.Type == runnerKubernetes {
		return fmt.Sprintf("%q %q %q %q", deref(r.Kubeconfig), deref(r.Context), deref(r.Namespace), deref(r.Instance)), "an instance"
	}
	dir := deref(r.Dir)
	if dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
	}
	return "dir " + dir, "a dir"
}

func (r runnerConfig) limits() confine.Limits {
	return confine.Limits{MemoryMaxBytes: deref(r.MemoryMaxBytes), PidsMax: deref(r.PidsMax), CPUMax: deref(r.CPUMax)}
}

func (r runnerConfig) validate(key, cgroups string) error {
	if r.Type != runnerKubernetes && r.Type != runnerLocal {
		return fmt.Errorf("%s.type: %q is unknown: use %q or %q", key, text.Clip(r.Type, 40), runnerKubernetes, runnerLocal)
	}
	errs := foreignKeys(r, key+".", "runner", r.Type)
	_, err := r.tenants(key)
	errs = append(errs, err)
	if q := r.QPS; q != nil && !(*q > 0 && *q <= 10_000) { // catches NaN too
		errs = append(errs, fmt.Errorf("%s.qps: %v is not more than 0 and at most 10000 calls a second", key, *q))
	}
	if s := r.KeepFailed; s != nil && !(*s >= 0 && *s <= core.MaxTTLSecondsAfterFinished) {
		errs = append(errs, fmt.Errorf("%s.keep_failed_seconds: %s is not between 0 and %d, a week", key, strconv.FormatFloat(*s, 'f', -1, 64), core.MaxTTLSecondsAfterFinished))
	}
	errs = append(errs, checkBetween(key+".burst", r.Burst, 1, 100_000), checkBetween(key+".max_grace_seconds", r.MaxGrace, 1, maxGraceSeconds))
	errs = append(errs, r.checkProfile(key)...)
	_, err = r.user()
	errs = append(errs, keyed(key+".run_as", err), checkBetween(key+".max_pods", r.MaxPods, 0, 1_000_000))
	errs = append(errs, r.checkKubeNames(key)...)
	errs = append(errs, checkLimits(key, cgroups, r.MemoryMaxBytes, r.PidsMax, r.CPUMax)...)
	for i, name := range deref(r.Executables) {
		if name == "" || filepath.Base(name) != name && !filepath.IsAbs(name) {
			errs = append(errs, fmt.Errorf("%s.executables[%d]: %q is neither a bare name nor an absolute path", key, i, text.Clip(name, 80)))
		}
	}
	return errors.Join(errs...)
}

func (r runnerConfig) checkProfile(key string) (errs []error) {
	p := deref(r.Profile)
	if r.Profile != nil && !slices.Contains(kube.Profiles, p) {
		errs = append(errs, fmt.Errorf("%s.profile: %q is unknown: use %q, %q or %q", key, text.Clip(p, 40), kube.ProfileRestricted, kube.ProfileBaseline, kube.ProfilePrivileged))
	}
	for _, list := range r.lists() {
		if list.given != nil && p != kube.ProfileRestricted {
			errs = append(errs, fmt.Errorf("%s.%s: counts with profile = %q only, else pods may name all: set it, or leave %s out", key, list.key, kube.ProfileRestricted, list.key))
		}
		for i, name := range deref(list.given) {
			if list.pairs != "" {
				if !isPair(name) {
					errs = append(errs, fmt.Errorf("%s.%s[%d]: %q is no %s: write \"key\", \"key=value\", or \"*\" for all", key, list.key, i, text.Clip(name, 80), list.pairs))
				}
			} else if len(validation.IsDNS1123Subdomain(name)) > 0 {
				errs = append(errs, fmt.Errorf("%s.%s[%d]: %q is no name of such an object: want a-z, 0-9, - and ., with a letter or a digit at both ends", key, list.key, i, text.Clip(name, 80)))
			}
		}
	}
	return errs
}

// list is what pods may name, with its key.
type list struct {
	key   string
	given *[]string
	pairs string // what "key" or "key=value" is, if it is no list of names of objects
}

// lists are all that pods of a restricted runner may name.
func (r runnerConfig) lists() []list {
	return []list{
		{"service_accounts", r.ServiceAccounts, ""},
		{"secrets", r.Secrets, ""},
		{"config_maps", r.ConfigMaps, ""},
		{"persistent_volume_claims", r.PersistentVolumeClaims, ""},
		{"priority_classes", r.PriorityClasses, ""},
		{"runtime_classes", r.RuntimeClasses, ""},
		{"node_labels", r.NodeLabels, "label or taint of a node"},
		{"tolerations", r.Tolerations, "label or taint of a node"},
		{"labels", r.Labels, "label of a pod"},
	}
}

func isPair(s string) bool {
	key, value, _ := strings.Cut(s, "=")
	return s == "*" || len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// make builds the runner. beside is the database, beside which a local runner keeps
// its files, home what the daemon is called in a cluster.
func (r runnerConfig) make(beside, cgroups, home string, log *slog.Logger) (jobs.Runner, error) {
	if r.Type == runnerKubernetes {
		k, err := kube.New(r.kubeOptions(log))
		if err != nil { // kube.New makes no call: the settings are wrong
			return nil, wrongf("%w", r.kubeError(err))
		}
		return asRunner(k)
	}
	dir, err := filepath.Abs(r.dir(beside))
	if err != nil {
		return nil, fmt.Errorf("dir: %w", err)
	}
	user, err := r.user()
	if err != nil {
		return nil, wrongf("run_as: %w", err)
	}
	var tree *confine.Tree
	if r.limits().Any() {
		if tree, err = confine.OpenTree(cgroups, r.limits()); err != nil {
			return nil, wrongf("memory_max_bytes, pids_max, cpu_max: cgroup.root: %w", err)
		}
	}
	l, err := local.New(local.Options{Dir: dir, Home: home, RunAs: user, Cgroups: tree, Limits: r.limits(), Logger: log})
	if err != nil {
		return nil, err
	}
	runner, err := asRunner(l)
	if err != nil || r.Executables == nil {
		return runner, err
	}
	return &restricted{Runner: runner, executables: *r.Executables, allowEnv: deref(r.AllowEnv)}, nil
}

// dir is where a local runner keeps its files.
func (r runnerConfig) dir(beside string) string { return cmp.Or(deref(r.Dir), beside+".runs") }

// user is who the programs of pods run as; nil: the daemon's.
func (r runnerConfig) user() (*confine.User, error) {
	if r.RunAs == nil {
		return nil, nil
	}
	return confine.LookupUser(*r.RunAs)
}

func asRunner(v any) (jobs.Runner, error) {
	r, ok := v.(jobs.Runner)
	if !ok {
		return nil, fmt.Errorf("%T is no runner", v)
	}
	return r, nil
}
