// Package constraints has the constraints of jobs that come with Orrery, and their
// actions (004 Constraint-Action System). docs/constraints.md is their reference.
//
// A job's constraint_config and action_config become a plan: parse.go reads them
// strictly, and Validate refuses what it cannot read. check.go evaluates a plan. What
// has to be done is named in the result and taken by the run's machine, one action
// after the other; those that leave the machine come back to [Checker.Take].
//
// The files, in the order in which they are best read:
//
//   - constraint.go: what a [Constraint], its [Type] and an [Action] are;
//   - constraints.go: the [Checker], its options, and the plans of configurations;
//   - parse.go: constraint_config and action_config into a plan;
//   - check.go: the evaluation of a plan, constraint by constraint;
//   - builtin.go, window.go, previous.go, depends.go, concurrent.go, hooks.go,
//     locks.go, expression.go with cost.go: the constraints that come with Orrery;
//   - actions.go, webhook.go: the actions that leave the machine;
//   - template.go, post.go: texts with references, and posts to web servers.
//
// # Duties of the caller
//
//  1. Make the [Checker] with [New], and give it the engine by [Checker.Use] before
//     the first check.
//  2. Give it to package jobs as Checker and as Actions.
//  3. Call [Checker.Close] when no check and no action is under way any more.
package constraints

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpcall"
	"github.com/orrery-go/orrery/shell/internal/clip"
	"github.com/orrery-go/orrery/shell/jobs"
	"github.com/orrery-go/orrery/shell/secrets"
)

// Source is what constraints use of an engine: [EngineSource] makes one.
type Source interface {
	Job(ctx context.Context, s shell.Scope, id string) (core.Job, error)
	JobRun(ctx context.Context, run uuid.UUID) (core.Orchestrator, error)
	JobRuns(ctx context.Context, f shell.JobRunFilter, p shell.Page) ([]core.Orchestrator, string, error)
	Lock(ctx context.Context, s shell.Scope, name string) (core.Lock, error)
	SendLock(ctx context.Context, s shell.Scope, name string, ev core.LockEvent) (core.Lock, error)
}

// EngineSource gives the Source that an engine is.
func EngineSource(e *shell.Engine) Source { return engineSource{e} }

type engineSource struct{ e *shell.Engine }

func (s engineSource) Job(ctx context.Context, scope shell.Scope, id string) (core.Job, error) {
	return s.e.Jobs().Get(ctx, scope, id)
}

func (s engineSource) JobRun(ctx context.Context, run uuid.UUID) (core.Orchestrator, error) {
	return s.e.Runs().Get(ctx, run)
}

func (s engineSource) JobRuns(ctx context.Context, f shell.JobRunFilter, p shell.Page) ([]core.Orchestrator, string, error) {
	return s.e.Runs().List(ctx, f, p)
}

func (s engineSource) Lock(ctx context.Context, scope shell.Scope, name string) (core.Lock, error) {
	return s.e.Locks().Get(ctx, scope, name)
}

func (s engineSource) SendLock(ctx context.Context, scope shell.Scope, name string, ev core.LockEvent) (core.Lock, error) {
	return s.e.Locks().Send(ctx, scope, name, ev)
}

// Options configure a [Checker].
type Options struct {
	// Tools are those that hooks may run, by name. They run without an engine: none
	// that pushes into queues or starts pipelines.
	Tools map[string]shell.Tool
	// Concurrency bounds the hooks that a tool carries out at a time, by tool name, beside
	// the runs of actions; a hook waits for its turn within its own time limit. A tool that
	// is not listed has no bound. MaxShare is the part of these that one tenant may hold of
	// those that others leave, but always one (default 1: all).
	Concurrency map[string]int
	MaxShare    float64
	// Slots, if several checkers of one process share them, have Concurrency count the hooks of all together; nil: of this one alone.
	Slots *Slots
	// Client carries out webhooks; nil: one that refuses private addresses, as
	// package httpcall does. Redirects are never followed.
	Client *http.Client
	// Secrets are the keys, by name, that sign webhooks. A job knows a name, never a key.
	Secrets map[string]Secret
	// Notify sends notifications; nil: a job with the action notify is refused. The key is the same
	// when the same one is sent again after a crash.
	Notify func(ctx context.Context, key string, n effects.Notify) error
	// Constraints and Actions are the embedder's own types; built-in names are taken.
	Constraints map[string]Type
	Actions     map[string]ActionFactory
	// Now is the clock; nil: time.Now.
	Now    func() time.Time
	Logger *slog.Logger // default slog.Default()
}

// Secret is a key that signs webhooks.
type Secret struct {
	// Key is as Standard Webhooks have it: base64, with or without "whsec_" in front.
	Key string
	// Namespaces and Tenants are those whose jobs may ask for it; nil: all. Who is told
	// of a run by a webhook takes its signature for the word of those.
	Namespaces, Tenants []string
}

func (s Secret) covers(job *jobs.Job) bool {
	return (s.Namespaces == nil || slices.Contains(s.Namespaces, job.Namespace)) &&
		(s.Tenants == nil || slices.Contains(s.Tenants, job.Tenant))
}

// Checker is a [jobs.ConstraintChecker] and [jobs.ActionExecutor], safe for concurrent use.
type Checker struct {
	o      Options
	parser parser
	keys   map[string]*standardwebhooks.Webhook // of Options.Secrets

	mu     sync.Mutex
	source Source
	plans  map[planKey]*plan // of the configurations that were used last
	slots  map[string]*slots // of the tools that hooks run
}

var (
	_ jobs.ConstraintChecker = (*Checker)(nil)
	_ jobs.ActionExecutor    = (*Checker)(nil)
)

// New makes a Checker. The error names the option that cannot be right.
func New(o Options) (*Checker, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if err := checkTypes(o); err != nil {
		return nil, err
	}
	c := &Checker{o: o, plans: map[planKey]*plan{}, keys: map[string]*standardwebhooks.Webhook{}, slots: map[string]*slots{}}
	for name, n := range o.Concurrency { // order-free: it fills a map
		c.slots[name] = o.Slots.of(name, n, cmp.Or(o.MaxShare, 1))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Secrets)) {
		key, err := standardwebhooks.NewWebhook(o.Secrets[name].Key)
		if err != nil || o.Secrets[name].Key == "" { // the error would show the secret
			return nil, fmt.Errorf("constraints: Options.Secrets[%q].Key: it is not base64, with or without \"whsec_\" in front", clip.Text(name, maxQuoted))
		}
		c.keys[name] = key
	}
	client, err := clientOf(o.Client)
	if err != nil {
		return nil, err
	}
	c.o.Client = client
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("constraints: %w", err)
	}
	c.parser = c.newParser(env)
	return c, nil
}

func checkTypes(o Options) error {
	for _, name := range slices.Sorted(maps.Keys(o.Concurrency)) {
		if n := o.Concurrency[name]; n < 1 {
			return fmt.Errorf("constraints: Options.Concurrency[%q] is %d: it must be at least 1", clip.Text(name, maxQuoted), n)
		}
	}
	if !(o.MaxShare >= 0 && o.MaxShare <= 1) {
		return fmt.Errorf("constraints: Options.MaxShare is %g: it must be from 0 to 1", o.MaxShare)
	}
	own := builtinTypes(nil)
	for _, name := range slices.Sorted(maps.Keys(o.Constraints)) {
		if _, taken := own[name]; taken || name == "" || o.Constraints[name].New == nil {
			return fmt.Errorf("constraints: Options.Constraints[%q]: it needs a name that no built-in constraint has, and New", clip.Text(name, maxQuoted))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Actions)) {
		if builtinAction(name) || name == "" || name == continueOnError || o.Actions[name] == nil {
			return fmt.Errorf("constraints: Options.Actions[%q]: it needs a name that no built-in action has, and a factory", clip.Text(name, maxQuoted))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Tools)) {
		if o.Tools[name] == nil {
			return fmt.Errorf("constraints: Options.Tools[%q]: is nil", clip.Text(name, maxQuoted))
		}
	}
	return nil
}

// clientOf gives the client of webhooks, without redirects: a signature is for one server.
func clientOf(given *http.Client) (*http.Client, error) {
	client := http.Client{}
	if given != nil {
		client = *given
	} else {
		transport, err := httpcall.NewTransport(httpcall.Options{DenyPrivate: true})
		if err != nil {
			return nil, fmt.Errorf("constraints: %w", err)
		}
		client.Transport = transport
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client, nil
}

// Close releases the idle connections of webhooks: call it once none is under way.
func (c *Checker) Close() error {
	c.o.Client.CloseIdleConnections()
	return nil
}

func (c *Checker) newParser(env *cel.Env) parser {
	types := builtinTypes(env)
	maps.Copy(types, c.o.Constraints)
	return parser{types: types, actions: c.o.Actions}
}

// Use gives the Checker the engine that it reads from: before the first check.
func (c *Checker) Use(s Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.source = s
}

// UseEngine gives the Checker the engine that it reads from. A [jobs.Service] calls it.
func (c *Checker) UseEngine(e *shell.Engine) { c.Use(EngineSource(e)) }

func (c *Checker) engine() (Source, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.source == nil {
		return nil, errors.New("constraints: there is no engine yet to read from: call Use first")
	}
	return c.source, nil
}

// Validate reports what of a job's constraint_config and action_config is wrong, by field.
// What is valid is never refused by a check of the same Checker.
func (c *Checker) Validate(job *jobs.Job) error {
	return c.validate(job, func(s Secret) bool { return s.covers(job) })
}

// ValidateUnscoped is [Checker.Validate] for a job whose namespace and tenant are not
// known yet: it may ask for each key that anybody's may.
func (c *Checker) ValidateUnscoped(job *jobs.Job) error {
	return c.validate(job, func(Secret) bool { return true })
}

// ValidateStored is [Checker.Validate] for a job of an action that was stored long before it is
// applied: what only new jobs may not have is not refused.
func (c *Checker) ValidateStored(job *jobs.Job) error {
	p, err := c.plan(job)
	if err != nil {
		return err
	}
	return c.available(p, func(s Secret) bool { return s.covers(job) })
}

// validate is Validate for a job that may ask for some of the keys.
func (c *Checker) validate(job *jobs.Job, may func(Secret) bool) error {
	p, err := c.plan(job)
	if err == nil {
		err = p.refused
	}
	if err == nil {
		err = p.namesNoSecrets()
	}
	if err != nil {
		return err
	}
	return c.available(p, may)
}

// secretsOf names the keys that may be asked for, in order.
func (c *Checker) secretsOf(may func(Secret) bool) []string {
	names := slices.Sorted(maps.Keys(c.o.Secrets))
	return slices.DeleteFunc(names, func(name string) bool { return !may(c.o.Secrets[name]) })
}

// signer gives the key that a job asks for; nil: it may not, or there is none.
func (c *Checker) signer(job *jobs.Job, name string) *standardwebhooks.Webhook {
	if !c.o.Secrets[name].covers(job) {
		return nil
	}
	return c.keys[name]
}

// namesNoSecrets refuses hooks whose inputs refer to secrets, which nobody fills in there.
func (p *plan) namesNoSecrets() error {
	for _, u := range p.needs {
		if u.what != needTool {
			continue
		}
		if names, err := secrets.Names(u.input); err != nil || len(names) > 0 {
			return fmt.Errorf(`%s: tool_input: a hook of a job cannot have secrets, as {{secret "…"}} is one: have it start an action`, strings.TrimSuffix(u.path, ".tool"))
		}
	}
	return nil
}

// available reports what the job needs and the daemon lacks, or the job may not use.
func (c *Checker) available(p *plan, may func(Secret) bool) error {
	for _, u := range p.needs {
		var known []string
		var what string
		var ok bool
		switch u.what {
		case needTool:
			var tool shell.Tool
			tool, ok = c.o.Tools[u.name]
			what, known = "tool", slices.Sorted(maps.Keys(c.o.Tools))
			if err := checkInput(tool, u.input); err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSuffix(u.path, ".tool"), err)
			}
		case needSecret:
			what, known = "secret", c.secretsOf(may)
			ok = slices.Contains(known, u.name)
		case needNotify:
			if c.o.Notify == nil {
				return fmt.Errorf("%s: no notifications are configured here", u.path)
			}
			continue
		}
		if !ok {
			return fmt.Errorf("%s: there is no %s %q: %s", u.path, what, clip.Text(u.name, maxQuoted), oneOf(known))
		}
	}
	return nil
}

// checkInput has a tool look at its input, with something in the place of what is
// known of a run alone. It names the field tool_input.
func checkInput(tool shell.Tool, input json.RawMessage) error {
	v, ok := tool.(shell.InputValidator)
	if !ok {
		return nil
	}
	values := map[string]string{}
	for _, name := range variableNames {
		values[name] = "0"
	}
	filled, err := expand(input, values)
	if err != nil {
		return err
	}
	return v.ValidateInput(filled)
}

// planKey is all that a plan depends on.
type planKey struct{ job, zone, constraints, actions string }

// maxPlans bounds the plans in memory, each a few times as large as its configuration.
const maxPlans = 128

// plan reads a job's configuration, or remembers it.
func (c *Checker) plan(job *jobs.Job) (*plan, error) {
	key := planKey{job.ID, job.Timezone, string(job.ConstraintConfig), string(job.ActionConfig)}
	c.mu.Lock()
	p := c.plans[key]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := c.parser.parse(job)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plans) >= maxPlans {
		clear(c.plans)
	}
	c.plans[key] = p
	return p, nil
}

// Uses lists what a job's built-in constraints and actions reach.
func Uses(job *jobs.Job) (jobs.Reach, error) {
	p, err := parser{types: builtinTypes(nil), lenient: true}.parse(job)
	if err != nil {
		return jobs.Reach{}, err
	}
	return sorted(p.reach), nil
}

func sorted(r jobs.Reach) jobs.Reach {
	for _, list := range []*[]string{&r.Tools, &r.Queues, &r.Jobs, &r.Cancels, &r.Locks} {
		*list = slices.Compact(slices.Sorted(slices.Values(*list)))
	}
	return r
}

// ValidateAnywhere is [Checker.Validate] without what a daemon must have: tools of hooks,
// secrets and notifications. So a job file can be checked where there is no daemon.
func (c *Checker) ValidateAnywhere(job *jobs.Job) error {
	p, err := c.plan(job)
	if err != nil {
		return err
	}
	return p.refused
}
