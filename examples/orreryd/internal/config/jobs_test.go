package config

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/core"
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

func TestRunnersAreThoseOfTheConfiguration(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                 {"local"},
		"[runners.local]\nenabled = false": nil,
		"[runners.here]\ntype = 'local'":   {"here"},
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
		runners, err := c.MakeRunners(slog.New(slog.DiscardHandler))
		require.NoError(t, err, text)
		var names []string
		for name := range runners {
			names = append(names, name)
		}
		assert.ElementsMatch(t, want, names, text)
	}
	for text, wrong := range map[string]string{
		"[runners.x]\nqps = 1.0":                                                              `runners.x.type: "" is unknown: use "kubernetes" or "local"`,
		"[runners.local]\nqps = 1.0":                                                          `runners.local.qps: a runner of type "local" has no such key`,
		"[runners.x]\ntype = 'kubernetes'\ndir = '/x'":                                        `runners.x.dir: a runner of type "kubernetes" has no such key`,
		"[runners.x]\ntype = 'kubernetes'\nqps = 0":                                           `runners.x.qps: 0 is not more than 0`,
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
		"[jobs.secrets.a]\nsecret = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'\ntenants = []\nnamespaces = []": "jobs.secrets.a.namespaces: the list is empty: leave it out for all, or name some\n" +
			"jobs.secrets.a.tenants: the list is empty",
		"[runners.local]\nenabled = false\n[jobs]\ndefault_runner = 'local'": `jobs.default_runner: "local" is not one of the runners: there is none`,
	} {
		_, err := load(t, text, nil)
		require.ErrorContains(t, err, wrong, text)
	}
}
