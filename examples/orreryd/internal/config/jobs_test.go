package config

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/jobs/runnertest"
)

func TestARestrictedRunnerRunsTheListedProgramsAlone(t *testing.T) {
	created := 0
	fake := &runnertest.Fake{OnCreate: func(context.Context, jobs.Run) error { created++; return nil }}
	r := &restricted{Runner: fake, executables: []string{"date", "/usr/bin/report"}, allowEnv: []string{"REPORT_*", "TZ"}}
	spec := func(pod string) core.JobSpec { return core.JobSpec{ID: "a", PodSpec: json.RawMessage(pod)} }
	for pod, wrong := range map[string]string{
		`{"containers":[{"command":["date","-u"],"env":[{"name":"TZ"},{"name":"REPORT_OF"}]}]}`: "",
		`{"containers":[{"command":["/usr/bin/report"]}]}`:                                      "",
		`{"containers":[{"command":["sh","-c","date"]}]}`:                                       `pod_spec.containers[0].command: "sh" is not one of the programs that may be run here: date, /usr/bin/report`,
		`{"containers":[{"command":["date"]},{"command":["./date"]}]}`:                          `pod_spec.containers[1].command: "./date"`,
		`{"containers":[{"command":["date"]}],"initContainers":[{"command":["$(X)"]}]}`:         `pod_spec.initContainers[0].command: "$(X)"`,
		`{"containers":[{"args":["date"]}]}`:                                                    `pod_spec.containers[0].command: ""`,
		`{"containers":[{"command":["date"],"env":[{"name":"LD_PRELOAD"}]}]}`:                   `pod_spec.containers[0].env[0]: the variable "LD_PRELOAD"`,
		`{"containers":[{"command":["date"],"envFrom":[{"prefix":"X"}]}]}`:                      `pod_spec.containers[0].envFrom`,
	} {
		err, before := r.Check(spec(pod)), created
		_, createErr := r.Create(t.Context(), jobs.Run{Spec: spec(pod)})
		if wrong == "" {
			require.NoError(t, err, pod)
			require.NoError(t, createErr, pod)
			continue
		}
		require.ErrorContains(t, err, wrong)
		require.ErrorContains(t, createErr, wrong, "the job may be older than the list")
		var lasting interface{ Permanent() bool }
		require.ErrorAs(t, createErr, &lasting)
		assert.True(t, lasting.Permanent())
		assert.Equal(t, before, created)
	}
}

const oneToken = "[[tokens]]\nname = 'a'\ntoken = '0123456789-0123456789'\n"

func TestTheLocalRunnerIsThereUnaskedOnlyWhereNothingIsKeptFromAnybody(t *testing.T) {
	const explicit = "[runners.local]\nenabled = true\n"
	for text, enabled := range map[string]bool{
		"":                                true,
		"[tools.http]\nenabled = false\n": true,
		oneToken:                          false,
		"[[tokens]]\nname = 'a'\nadmin = true\ntoken = '0123456789-0123456789'\n": false,
		"[tools.command]\nexecutables = ['date']\n":                               false,
		"[tools.command]\nexecutables = []\n":                                     false,
		explicit + oneToken:                                                       true,
		explicit + "[tools.command]\nexecutables = ['date']\n":                    true,
		"[jobs]\ndefault_runner = 'local'\n" + oneToken:                           true,
	} {
		c, err := load(t, text, nil)
		require.NoError(t, err, text)
		c.DB = filepath.Join(t.TempDir(), "x.db")
		runners, err := c.MakeRunners(nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err, text)
		assert.Equal(t, "local", c.DefaultRunner(), text)
		spec := core.JobSpec{PodSpec: json.RawMessage(`{"containers":[{"name":"a","command":["date"]}]}`)}
		_, createErr := runners["local"].Create(t.Context(), jobs.Run{Attempt: jobs.Attempt{Run: uuid.Max}, Spec: spec})
		if err := runners["local"].Check(spec); enabled {
			require.NoError(t, err, text)
			require.NoError(t, createErr, text)
			_, err := runners["local"].Delete(t.Context(), jobs.Attempt{Run: uuid.Max})
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, `write the lines "[runners.local]" and "enabled = true" into the configuration`, text)
			require.ErrorContains(t, createErr, `write the lines "[runners.local]" and "enabled = true"`, text)
			assert.True(t, shell.IsPermanent(createErr), "the run fails")
			assert.NoDirExists(t, c.DB+".runs", "nothing is left behind")
		}
	}
}

func TestProcessesThatAnEarlierConfigurationBeganAreStillWatchedAndEnded(t *testing.T) {
	db := filepath.Join(t.TempDir(), "x.db")
	before, err := load(t, "", nil)
	require.NoError(t, err)
	before.DB = db
	runners, err := before.MakeRunners(nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	run := jobs.Run{Attempt: jobs.Attempt{Run: uuid.New()}, RunID: "j:1", Spec: core.JobSpec{PodSpec: json.RawMessage(`{"containers":[{"name":"a","command":["sleep","1000"]}]}`)}}
	_, err = runners["local"].Create(t.Context(), run)
	require.NoError(t, err)

	after, err := load(t, oneToken, nil)
	require.NoError(t, err)
	after.DB = db
	runners, err = after.MakeRunners(nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	r := runners["local"]
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := make(chan jobs.Observation, 64), make(chan error, 1)
	go func() { done <- r.Watch(ctx, observer(seen)) }()
	for o := range seen {
		if o.Attempt == run.Attempt && o.Phase == jobs.PhaseRunning {
			break
		}
	}
	_, err = r.Create(t.Context(), run)
	require.NoError(t, err, "it exists already")
	next := run
	next.N = 1
	_, err = r.Create(t.Context(), next)
	require.ErrorContains(t, err, "no runner is enabled here")
	_, err = r.Delete(t.Context(), run.Attempt)
	require.NoError(t, err)
	held, err := r.Held(t.Context())
	require.NoError(t, err)
	assert.Empty(t, held)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// observer sends what it observes, as long as there is room.
type observer chan<- jobs.Observation

func (o observer) Observe(_ context.Context, v jobs.Observation) {
	select {
	case o <- v:
	default:
	}
}

func TestPodsAreRestrictedOnceTenantsHaveTokens(t *testing.T) {
	const cluster, admin = "[runners.k]\ntype = 'kubernetes'\n", "[[tokens]]\nname = 'adm'\nadmin = true\ntoken = '0123456789-0123456789'\n"
	for text, want := range map[string]string{
		cluster:         "",
		cluster + admin: "",
		cluster + oneToken + "read_only = true\n":       "",
		cluster + oneToken:                              "restricted",
		cluster + "profile = 'baseline'\n" + oneToken:   "baseline",
		cluster + "profile = 'privileged'\n" + oneToken: "privileged",
		cluster + "profile = 'restricted'\n":            "restricted",
		cluster + "secrets = ['registry']\n" + oneToken: "restricted",
	} {
		c, err := load(t, text, nil)
		require.NoError(t, err, text)
		assert.Equal(t, want, deref(c.Runners["k"].Profile), text)
	}
	for text, wrong := range map[string]string{
		cluster + "profile = 'strict'":                             `runners.k.profile: "strict" is unknown: use "restricted", "baseline" or "privileged"`,
		cluster + "secrets = ['a']":                                `runners.k.secrets: counts with profile = "restricted" only`,
		cluster + "profile = 'baseline'\nservice_accounts = ['a']": `runners.k.service_accounts: counts with profile = "restricted" only`,
		cluster + "profile = 'restricted'\nconfig_maps = ['A']":    `runners.k.config_maps[0]: "A" is no name of such an object`,
		"[runners.local]\nprofile = 'restricted'":                  `runners.local.profile: a runner of type "local" has no such key`,
	} {
		_, err := load(t, text, nil)
		require.ErrorContains(t, err, wrong, text)
	}
}

func TestRunnersAreThoseOfTheConfiguration(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                 {"local"},
		"[runners.local]\nenabled = false": {"local"}, // it begins nothing
		oneToken:                           {"local"}, // as above
		"[runners.here]\ntype = 'local'\n" + oneToken:                                   {"here"},
		"[runners.here]\ntype = 'local'":                                                {"here"},
		"[runners.local]\nexecutables = []\n[runners.two]\ntype = 'local'\ndir = 'two'": {"local", "two"},
	} {
		c, err := load(t, text, nil)
		require.NoError(t, err, text)
		c.DB = filepath.Join(t.TempDir(), "x.db")
		for name, r := range c.Runners {
			if r.Dir != nil {
				dir := filepath.Join(t.TempDir(), *r.Dir)
				r.Dir = &dir
				c.Runners[name] = r
			}
		}
		runners, err := c.MakeRunners(nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err, text)
		var names []string
		for name := range runners {
			names = append(names, name)
		}
		assert.ElementsMatch(t, want, names, text)
	}
	for text, wrong := range map[string]string{
		"[runners.x]\nqps = 1.0":                                                                        `runners.x.type: "" is unknown: use "kubernetes" or "local"`,
		"[runners.local]\nqps = 1.0":                                                                    `runners.local.qps: a runner of type "local" has no such key`,
		"[runners.x]\ntype = 'kubernetes'\ndir = '/x'":                                                  `runners.x.dir: a runner of type "kubernetes" has no such key`,
		"[runners.x]\ntype = 'kubernetes'\nqps = 0":                                                     `runners.x.qps: 0 is not more than 0`,
		"[runners.local]\nrun_as = 'nobody-here'":                                                       `runners.local.run_as: there is no user "nobody-here" here`,
		"[runners.x]\ntype = 'kubernetes'\nprofile = 'restricted'\npriority_classes = ['A']":            `runners.x.priority_classes[0]: "A" is no name of such an object`,
		"[runners.x]\ntype = 'kubernetes'\nprofile = 'restricted'\nruntime_classes = ['']":              `runners.x.runtime_classes[0]: "" is no name of such an object`,
		"[runners.x]\ntype = 'kubernetes'\nprofile = 'restricted'\nnode_labels = ['a/b=c', '*', 'a b']": `runners.x.node_labels[2]: "a b" is no label or taint of a node: write "key", "key=value", or "*" for all`,
		"[runners.x]\ntype = 'kubernetes'\nprofile = 'restricted'\ntolerations = ['a=b c']":             `runners.x.tolerations[0]: "a=b c" is no label or taint of a node`,
		"[runners.x]\ntype = 'kubernetes'\nprofile = 'restricted'\nlabels = ['team', 'a/b=c', 'x y']":   `runners.x.labels[2]: "x y" is no label of a pod: write "key", "key=value", or "*" for all`,
		"[runners.x]\ntype = 'kubernetes'\nlabels = ['a']":                                              `runners.x.labels: counts with profile = "restricted" only`,
		"[runners.x]\ntype = 'kubernetes'\nprofile = 'baseline'\ntolerations = ['a']":                   `runners.x.tolerations: counts with profile = "restricted" only`,
		"[runners.x]\ntype = 'kubernetes'\nkeep_failed_seconds = 604801":                                `runners.x.keep_failed_seconds: 604801 is not between 0 and 604800, a week`,
		"[runners.x]\ntype = 'kubernetes'\nkeep_failed_seconds = 999999999":                             `runners.x.keep_failed_seconds: 999999999 is not between 0 and 604800, a week`,
		"[runners.x]\ntype = 'kubernetes'\nmax_grace_seconds = 0":                                       `runners.x.max_grace_seconds: 0 is not between 1 and 31622400`,
		"[runners.local]\nmax_grace_seconds = 1":                                                        `runners.local.max_grace_seconds: a runner of type "local" has no such key`,
		"[runners.local]\nkeep_failed_seconds = 1":                                                      `runners.local.keep_failed_seconds: a runner of type "local" has no such key`,
		"[runners.local]\ntenants = []":                                                                 `runners.local.tenants: the list is empty: leave it out for all`,
		"[runners.local]\ntenants = ['a/b', 'a', '*/b', '/b', 'a/']": "runners.local.tenants[1]: \"a\" is not NAMESPACE/TENANT, such as \"team-a/default\", or \"team-a/*\" for all tenants of a namespace\n" +
			"runners.local.tenants[2]: \"*/b\" is not NAMESPACE/TENANT, such as \"team-a/default\", or \"team-a/*\" for all tenants of a namespace\n" +
			"runners.local.tenants[3]: \"/b\"",
		"[runners.local]\nmax_pods = -1":                                                      `runners.local.max_pods: -1 is not between 0 and 1000000`,
		"[runners.local]\npids_max = 8":                                                       `runners.local: memory_max_bytes, pids_max and cpu_max need a control group: set cgroup.root`,
		"[cgroup]\nroot = '/x'\n[runners.local]\ncpu_max = 0":                                 `runners.local.cpu_max: 0 is not between 0.01 and 4096 CPUs`,
		"[runners.x]\ntype = 'kubernetes'\nmax_pods = 5":                                      `runners.x.max_pods: a runner of type "kubernetes" has no such key`,
		"[runners.local]\nexecutables = ['./x']":                                              `runners.local.executables[0]: "./x" is neither a bare name nor an absolute path`,
		"[jobs]\ndefault_runner = 'mars'":                                                     `jobs.default_runner: "mars" is not one of the runners: local`,
		"[runners.a]\ntype = 'local'\n[runners.b]\ntype = 'local'":                            `runners.b: its pods would mix with those of runners.a: give each a dir of its own`,
		"[runners.a]\ntype = 'local'\ndir = 'x/../y'\n[runners.b]\ntype = 'local'\ndir = 'y'": `runners.b: its pods would mix with those of runners.a`,
		"[runners.a]\ntype = 'kubernetes'\nnamespace = 'n'\n[runners.b]\ntype = 'kubernetes'\nnamespace = 'n'\nqps = 1.0": `runners.b: its pods would mix with those of runners.a: give each an instance of its own`,
		"[jobs]\nheartbeat_seconds = 0":              `jobs.heartbeat_seconds`,
		"[jobs]\nmax_missed = 0":                     `jobs.max_missed`,
		"[jobs]\nlog_head_bytes = 100000000":         `jobs.log_head_bytes`,
		"[tools.kubernetes]\ntime_limit_seconds = 1": `tools.kubernetes.time_limit_seconds: a tool of type "kubernetes" has no such key`,
		"[jobs]\nallow = ['10.0.0.1']":               `jobs.allow[0]: "10.0.0.1" is not a network`,
		"[jobs.secrets.a]\nsecret = 'hush, hush!'":   `jobs.secrets.a.secret: it is not base64`,
		"[jobs.secrets.a]":                           `jobs.secrets.a: needs exactly one of secret, secret_env and secret_file: there are 0`,
		"[jobs.secrets.a]\nsecret = 'b25lIHNlY3JldCBvZiB0aGUgdGVzdHM='\ntenants = []\nnamespaces = []": "jobs.secrets.a.namespaces: the list is empty: leave it out for all, or name some\n" +
			"jobs.secrets.a.tenants: the list is empty",
		"[runners.local]\nenabled = false\n[jobs]\ndefault_runner = 'local'": `jobs.default_runner: "local" is not one of the runners: there is none`,
	} {
		_, err := load(t, text, nil)
		require.ErrorContains(t, err, wrong, text)
	}
}

func TestALocalRunnerHasRoomForAHundredPodsUnlessTheFileSaysOtherwise(t *testing.T) {
	for text, want := range map[string]map[string]int{
		"":                                {"local": 100},
		"[runners.local]\nmax_pods = 0\n": {"local": 0},
		"[runners.local]\nmax_pods = 7\n[runners.x]\ntype = 'kubernetes'\n": {"local": 7},
		"[runners.local]\nenabled = false\n":                                {},
	} {
		c, err := load(t, text, nil)
		require.NoError(t, err, text)
		assert.Equal(t, want, c.MaxPods(), text)
	}
}

func TestARunnerMayBeForSomeTenantsAlone(t *testing.T) {
	c, err := load(t, "[runners.local]\ntenants = ['team-a/*', 'team-b/x/y', '*/*']\n[runners.x]\ntype = 'kubernetes'\n[runners.y]\ntype = 'kubernetes'\ninstance = 'y'\nenabled = false\ntenants = ['a/b']\n", nil)
	require.NoError(t, err)
	assert.Equal(t, map[string][]shell.Scope{"local": {
		{Namespace: "team-a", Tenant: "*"}, {Namespace: "team-b", Tenant: "x/y"}, {Namespace: "*", Tenant: "*"},
	}}, c.RunnerTenants())
}
