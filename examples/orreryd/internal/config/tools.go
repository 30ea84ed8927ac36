package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/workspace"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/command"
	"github.com/orrery-go/orrery/shell/httpcall"
	"github.com/orrery-go/orrery/shell/jobs"
)

// toolConfig is one [tools.NAME]. Which keys it may have depends on its type.
type toolConfig struct {
	Type        string `toml:"type"`
	Enabled     *bool  `toml:"enabled,omitempty"`     // default true
	Concurrency *int   `toml:"concurrency,omitempty"` // default engine.default_concurrency

	TimeLimitSeconds *float64 `toml:"time_limit_seconds,omitempty" for:"command http"`

	MaxOutputBytes   *int      `toml:"max_output_bytes,omitempty" for:"command"`
	KillGraceSeconds *float64  `toml:"kill_grace_seconds,omitempty" for:"command"`
	InheritEnv       *[]string `toml:"inherit_env,omitempty" for:"command"`
	BaseDir          *string   `toml:"base_dir,omitempty" for:"command"`
	Executables      *[]string `toml:"executables,omitempty" for:"command"`
	AllowEnv         *[]string `toml:"allow_env,omitempty" for:"command"`
	RunAs            *string   `toml:"run_as,omitempty" for:"command"`
	MemoryMaxBytes   *int64    `toml:"memory_max_bytes,omitempty" for:"command"`
	PidsMax          *int      `toml:"pids_max,omitempty" for:"command"`
	CPUMax           *float64  `toml:"cpu_max,omitempty" for:"command"`

	TotalLimitSeconds *float64  `toml:"total_limit_seconds,omitempty" for:"http"`
	MaxResponseBytes  *int      `toml:"max_response_bytes,omitempty" for:"http"`
	Retries           *int      `toml:"retries,omitempty" for:"http"`
	BackoffSeconds    *float64  `toml:"backoff_seconds,omitempty" for:"http"`
	DenyPrivate       *bool     `toml:"deny_private,omitempty" for:"http"`
	Allow             *[]string `toml:"allow,omitempty" for:"http"`
	UserAgent         *string   `toml:"user_agent,omitempty" for:"http"`
}

// Types of [toolConfig].
const (
	TypeCommand  = "command"
	TypeHTTP     = "http"
	typeQueue    = "queue"
	typePipeline = "pipeline"

	typeKubernetes = "kubernetes"
)

var toolTypes = []string{TypeCommand, TypeHTTP, typeQueue, typePipeline, typeKubernetes}

// builtIn are the tools that exist unless they are switched off.
var builtIn = map[string]string{
	command.Name: TypeCommand, httpcall.Name: TypeHTTP, shell.QueueToolName: typeQueue, shell.PipelineToolName: typePipeline,
	jobs.ToolName: typeKubernetes,
}

// optionKeys are the keys that set the options of tools that their own check
// may refuse.
var optionKeys = strings.NewReplacer(
	"InheritEnv: ", "inherit_env: ", "BaseDir: ", "base_dir: ", "Executables: ", "executables: ", "AllowEnv: ", "allow_env: ",
	"MaxResponse: ", "max_response_bytes: ", "Retries: ", "retries: ", "UserAgent: ", "user_agent: ",
)

func (t toolConfig) enabled() bool { return t.Enabled == nil || *t.Enabled }

// addDefaultTools adds the tools that exist unless they are switched off.
func (c *Config) addDefaultTools() {
	c.Tools = maps.Clone(c.Tools)
	if c.Tools == nil {
		c.Tools = make(map[string]toolConfig)
	}
	for name, typ := range builtIn {
		t := c.Tools[name]
		if t.Type == "" {
			t.Type = typ
		}
		c.Tools[name] = t
	}
}

// servesTenants reports for a namespace and a tenant whether a token that is no admin's may
// have something done there. What is done elsewhere is the operator's.
func (c *Config) servesTenants() func(namespace, tenant string) bool {
	tokens := slices.Clone(c.Tokens)
	in := func(list []string, name string) bool { return list == nil || slices.Contains(list, name) }
	return func(namespace, tenant string) bool {
		return slices.ContainsFunc(tokens, func(t tokenConfig) bool {
			return t.writes() && in(t.Namespaces, namespace) && in(t.Tenants, tenant)
		})
	}
}

func (c *Config) validateTools() error {
	var errs []error
	errs = append(errs, c.checkCgroup())
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		errs = append(errs, c.Tools[name].checkConfined("tools."+name, c.Cgroup.Root))
		if err := c.Tools[name].validate("tools." + name); err != nil {
			errs = append(errs, err)
		}
		if name == "" || len(name) > core.MaxNameBytes {
			errs = append(errs, fmt.Errorf("tools: the name %q has %d bytes: want 1 to %d", text.Clip(name, 40), len(name), core.MaxNameBytes))
		}
	}
	return errors.Join(errs...)
}

func (t toolConfig) validate(key string) error {
	if !slices.Contains(toolTypes, t.Type) {
		return fmt.Errorf("%s.type: %q is unknown: use %q, %q, %q, %q or %q", key, t.Type, TypeCommand, TypeHTTP, typeQueue, typePipeline, typeKubernetes)
	}
	name := strings.TrimPrefix(key, "tools.")
	if typ, ok := builtIn[name]; ok && t.Type != typ {
		return fmt.Errorf("%s.type: %q is always of type %q: give a tool of type %q another name", key, name, typ, t.Type)
	}
	if t.Type == typeKubernetes && name != jobs.ToolName { // tokens name the tool so
		return fmt.Errorf("%s.type: %q: the only tool of that type is %q, which has no keys of its own: use it instead", key, t.Type, jobs.ToolName)
	}
	errs := foreignKeys(t, key+".", "tool", t.Type)
	errs = append(errs,
		checkBetween(key+".concurrency", t.Concurrency, 1, 1<<16),
		checkBetween(key+".max_output_bytes", t.MaxOutputBytes, 0, maxCaptured),
		checkBetween(key+".max_response_bytes", t.MaxResponseBytes, 1, maxCaptured),
		checkBetween(key+".retries", t.Retries, 0, 1<<16),
	)
	for k, v := range map[string]*float64{
		"time_limit_seconds": t.TimeLimitSeconds, "kill_grace_seconds": t.KillGraceSeconds,
		"total_limit_seconds": t.TotalLimitSeconds, "backoff_seconds": t.BackoffSeconds,
	} {
		if v != nil {
			errs = append(errs, checkSeconds(key+"."+k, *v, 0.001))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	tool, err := t.make(key, workspace.Roots{}, nil, confined{})
	if err != nil {
		return err
	}
	return CloseTool(tool)
}

// maxCaptured bounds what is kept of a run's output, which is a part of a record.
const maxCaptured = 64 << 20

func checkBetween[N int | int64](key string, v *N, least, most N) error {
	if v != nil && (*v < least || *v > most) {
		return fmt.Errorf("%s: %d is not between %d and %d", key, *v, least, most)
	}
	return nil
}

// make builds the tool. A key that is left out keeps the tool's own default. What
// a runbook calls a relative directory lies in the workspace. Unless deny_private is given,
// the actions for which tenants returns true reach public addresses only.
func (t toolConfig) make(key string, roots workspace.Roots, tenants func(namespace, tenant string) bool, bounds confined) (shell.Tool, error) {
	var tool shell.Tool
	var err error
	switch t.Type {
	case typeQueue:
		return shell.QueueTool{}, nil
	case typeKubernetes:
		return (&jobs.Service{}).Tool(), nil // the daemon puts its own in
	case typePipeline:
		return shell.PipelineTool{LoadFor: runbooksIn(roots)}, nil
	case TypeCommand:
		tool, err = command.New(command.Options{
			TimeLimit:  Seconds(deref(t.TimeLimitSeconds)),
			MaxOutput:  zeroIsNone(t.MaxOutputBytes),
			KillGrace:  Seconds(deref(t.KillGraceSeconds)),
			InheritEnv: nilOrList(t.InheritEnv),
			BaseDir:    deref(t.BaseDir),
			RelativeTo: roots.Dir(), RelativeToFor: ownRoot(roots),
			Executables: nilOrList(t.Executables),
			AllowEnv:    nilOrList(t.AllowEnv),
			RunAs:       bounds.user, Cgroups: bounds.tree, Limits: bounds.limits,
		})
	default:
		if t.DenyPrivate != nil {
			tenants = nil
		}
		var allow []netip.Prefix
		for i, s := range deref(t.Allow) {
			p, perr := netip.ParsePrefix(s)
			if perr != nil {
				return nil, fmt.Errorf("%s.allow[%d]: %q is not a network such as \"10.1.0.0/16\"", key, i, s)
			}
			allow = append(allow, p)
		}
		tool, err = httpcall.New(httpcall.Options{
			TimeLimit:   Seconds(deref(t.TimeLimitSeconds)),
			TotalLimit:  Seconds(deref(t.TotalLimitSeconds)),
			MaxResponse: deref(t.MaxResponseBytes),
			Retries:     zeroIsNone(t.Retries),
			Backoff:     Seconds(deref(t.BackoffSeconds)),
			DenyPrivate: deref(t.DenyPrivate), DenyPrivateFor: tenants,
			Allow:     allow,
			UserAgent: deref(t.UserAgent),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%s.%s", key, optionKeys.Replace(err.Error()))
	}
	return tool, nil
}

// ownRoot gives the folder from which a relative directory of an action is taken; nil: there
// is one for all, or none.
func ownRoot(roots workspace.Roots) func(namespace, tenant string) (string, error) {
	if roots.Dir() == "" || roots.Shared() {
		return nil
	}
	return roots.Of
}

// zeroIsNone says zero to an option where zero would mean its default.
func zeroIsNone(v *int) int {
	if v != nil && *v == 0 {
		return -1
	}
	return deref(v)
}

// nilOrList gives a copy of a list; nil if the key is left out, which an empty list is not.
func nilOrList(v *[]string) []string {
	if v == nil {
		return nil
	}
	return append([]string{}, *v...)
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// MakeTools makes all tools that are enabled.
func (c *Config) MakeTools() (tools map[string]shell.Tool, concurrency map[string]int, err error) {
	roots, err := c.WorkspaceRoots()
	if err != nil {
		return nil, nil, err
	}
	bounds, err := c.confine()
	if err != nil {
		return nil, nil, wrongf("%w", err)
	}
	tools, concurrency = make(map[string]shell.Tool), make(map[string]int)
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t := c.Tools[name]
		if !t.enabled() {
			continue
		}
		if tools[name], err = t.make("tools."+name, roots, c.servesTenants(), bounds[name]); err != nil {
			return nil, nil, err
		}
		if t.Concurrency != nil {
			concurrency[name] = *t.Concurrency
		}
	}
	return tools, concurrency, nil
}

// AbandonAfter is how long a tool may take to return once it was asked to stop: longer than any
// of them gives its programs to end by themselves, so that none counts as ended that has not.
func (c *Config) AbandonAfter() time.Duration {
	const least, beyondGrace = 15 * time.Second, 10 * time.Second
	after := least
	for _, t := range c.Tools {
		if t.enabled() && t.Type == TypeCommand {
			after = max(after, Seconds(deref(t.KillGraceSeconds))+beyondGrace)
		}
	}
	return after
}

// CloseTool releases what a tool holds between runs.
func CloseTool(t shell.Tool) error {
	switch t := t.(type) {
	case io.Closer:
		return t.Close()
	case interface{ Close() }:
		t.Close()
	}
	return nil
}

// enabledTools names the tools that may be used.
func (c *Config) enabledTools() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if c.Tools[name].enabled() {
			names = append(names, strconv.Quote(name))
		}
	}
	return strings.Join(names, ", ")
}

func disabledTool(name string) error {
	return fmt.Errorf("%q is disabled: set tools.%s.enabled = true, or name another tool", name, name)
}
