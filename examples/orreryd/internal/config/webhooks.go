package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/workspace"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/orrery-go/orrery/core"
	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/shell"
	"github.com/orrery-go/orrery/shell/httpapi"
	"github.com/orrery-go/orrery/shell/secrets"
)

// webhookConfig is one [webhooks.NAME]: a route of the webhook ingress (B4).
type webhookConfig struct {
	Tool        string         `toml:"tool"`
	ToolInput   map[string]any `toml:"tool_input,omitempty"`
	Label       string         `toml:"label,omitempty"`
	ActionType  string         `toml:"action_type,omitempty"`
	Namespace   string         `toml:"namespace,omitempty"` // default "default"
	Tenant      string         `toml:"tenant,omitempty"`    // default "default"
	OnInterrupt string         `toml:"on_interrupt,omitempty"`
	MaxAttempts *int           `toml:"max_attempts,omitempty"`
	OnFailure   string         `toml:"on_failure,omitempty"`
	Backoff     *backoffConfig `toml:"backoff,omitempty"`
	// Events and Match say which requests are taken.
	Events []string       `toml:"events,omitempty"`
	Match  []webhookMatch `toml:"match,omitempty"`
	// Signature is how requests are signed: standard (the default), github or none.
	Signature  string `toml:"signature,omitempty"`
	Secret     string `toml:"secret,omitempty"`
	SecretEnv  string `toml:"secret_env,omitempty"`
	SecretFile string `toml:"secret_file,omitempty"` // one secret a line, all are good: for rotation
}

// webhookMatch is httpapi.WebhookMatch, with its names.
type webhookMatch struct {
	Path   string   `toml:"path"`
	Values []string `toml:"values,omitempty"`
}

// filter is the route's filter.
func (w webhookConfig) filter() httpapi.WebhookFilter {
	f := httpapi.WebhookFilter{Events: w.Events}
	for _, m := range w.Match {
		f.Match = append(f.Match, httpapi.WebhookMatch(m))
	}
	return f
}

// backoffConfig is core.Backoff, with its names.
type backoffConfig struct {
	InitialMS     int64    `toml:"initial_ms,omitempty"`
	FactorPercent *int     `toml:"factor_percent,omitempty"`
	MaxMS         int64    `toml:"max_ms,omitempty"`
	JitterPercent *int     `toml:"jitter_percent,omitempty"`
	NoRetry       []string `toml:"no_retry,omitempty"`
}

// policy is the run policy of the route's actions.
func (w webhookConfig) policy() core.RunPolicy {
	p := core.RunPolicy{
		OnInterrupt: core.OnInterrupt(w.OnInterrupt), MaxAttempts: uint32(deref(w.MaxAttempts)), OnFailure: core.OnFailure(w.OnFailure),
	}
	if w.Backoff != nil {
		b := w.Backoff
		p.Backoff = &core.Backoff{
			InitialMS: b.InitialMS, FactorPercent: uint32(deref(b.FactorPercent)), MaxMS: b.MaxMS, JitterPercent: uint32(deref(b.JitterPercent)), NoRetry: b.NoRetry,
		}
	}
	return p
}

// DefaultScope is the namespace, and the tenant, of requests that name none.
const DefaultScope = "default"

func (c *Config) validateWebhooks() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Webhooks)) {
		errs = append(errs, c.validateWebhook(name, c.Webhooks[name]))
	}
	return errors.Join(errs...)
}

func (c *Config) validateWebhook(name string, w webhookConfig) error {
	key := "webhooks." + name
	if !PlainName(name) {
		return fmt.Errorf("webhooks: the route %q is not 1 to 64 letters, digits, '-', '_' and '.'", text.Clip(name, 40))
	}
	var errs []error
	t, ok := c.Tools[w.Tool]
	switch {
	case w.Tool == "":
		errs = append(errs, fmt.Errorf("%s.tool: missing: name one of %s", key, c.enabledTools()))
	case !ok:
		errs = append(errs, fmt.Errorf("%s.tool: %q is unknown: use one of %s", key, text.Clip(w.Tool, 40), c.enabledTools()))
	case !t.enabled():
		errs = append(errs, fmt.Errorf("%s.tool: %w", key, disabledTool(w.Tool)))
	default:
		errs = append(errs, w.validateInput(key, t, c.Secrets))
	}
	if err := w.filter().Validate(); err != nil {
		errs = append(errs, fmt.Errorf("%s.%w", key, err))
	}
	if _, err := w.secrets(key); err != nil {
		errs = append(errs, err)
	}
	switch core.OnInterrupt(w.OnInterrupt) {
	case "", core.InterruptFail, core.InterruptRetry:
	default:
		errs = append(errs, fmt.Errorf("%s.on_interrupt: %q is unknown: use %q or %q", key, text.Clip(w.OnInterrupt, 40), core.InterruptFail, core.InterruptRetry))
	}
	errs = append(errs, w.validateFailure(key))
	errs = append(errs, checkBetween(key+".max_attempts", w.MaxAttempts, 1, core.MaxAttemptsEver), w.validateSpec(key))
	return errors.Join(errs...)
}

// validateFailure asks the core about what follows a failure.
func (w webhookConfig) validateFailure(key string) error {
	if b := w.Backoff; b != nil {
		if err := errors.Join(checkBetween(key+".backoff.factor_percent", b.FactorPercent, 100, 10_000), checkBetween(key+".backoff.jitter_percent", b.JitterPercent, 0, 100)); err != nil {
			return err
		}
	}
	p := core.RunPolicy{OnFailure: core.OnFailure(w.OnFailure), Backoff: w.policy().Backoff} // the rest is checked elsewhere
	if err := p.Validate(); err != nil {
		return fmt.Errorf("%s.%s", key, strings.ReplaceAll(err.Error(), "policy.", ""))
	}
	return nil
}

// validateSpec asks the core whether an action can carry what the route says;
// else the daemon would not start.
func (w webhookConfig) validateSpec(key string) error {
	err := core.ActionSpec{
		ID: uuid.Max, Namespace: w.Namespace, Tenant: w.Tenant, Label: w.Label, ActionType: w.ActionType,
		ToolName: TypeCommand, ToolInput: json.RawMessage("null"), // the real tool and its input are checked elsewhere
		Trigger: core.Scheduled(effects.MinTime), Policy: core.RunPolicy{OnInterrupt: core.InterruptFail, MaxAttempts: 1},
	}.Validate()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, fmt.Errorf("%s.%w", key, e))
		}
		return errors.Join(errs...)
	}
	return err
}

// validateInput asks the tool, so that a webhook does not fail at its first
// request only.
func (w webhookConfig) validateInput(key string, t toolConfig, named map[string]namedSecretConfig) error {
	input, err := w.input()
	if err != nil {
		return fmt.Errorf("%s.tool_input: %w", key, err)
	}
	var names []string
	if len(named) > 0 { // else such texts have no meaning
		if names, err = secrets.Names(input); err != nil {
			return fmt.Errorf("%s.tool_input: %w", key, err)
		}
	}
	for _, name := range names {
		s, ok := named[name]
		use := secrets.Use{Namespace: cmp.Or(w.Namespace, DefaultScope), Tenant: cmp.Or(w.Tenant, DefaultScope), Tool: w.Tool}
		if set := (secrets.Set{name: {Namespaces: s.Namespaces, Tenants: s.Tenants, Tools: s.Tools}}); !ok || !set.Allows(name, use) {
			return fmt.Errorf("%s.tool_input: secret %q is not in [secrets.%s], or not for this tool, namespace and tenant", key, name, name)
		}
	}
	if len(names) > 0 {
		return nil // what it is with its secrets, only the call shows
	}
	tool, err := t.make(key, workspace.Roots{}, nil, confined{})
	if err != nil {
		return nil // validateTools reports it
	}
	defer func() { _ = CloseTool(tool) }()
	if v, ok := tool.(shell.InputValidator); ok {
		if err := v.ValidateInput(input); err != nil {
			return fmt.Errorf("%s.%w", key, err)
		}
	}
	return nil
}

// input gives the tool's input as JSON.
func (w webhookConfig) input() (json.RawMessage, error) {
	if w.ToolInput == nil {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(w.ToolInput)
}

// WebhookRoutes gives the webhook routes for the engine.
func (c *Config) WebhookRoutes() (map[string]shell.WebhookRoute, error) {
	routes := make(map[string]shell.WebhookRoute, len(c.Webhooks))
	for name, w := range c.Webhooks {
		input, err := w.input()
		if err != nil {
			return nil, fmt.Errorf("webhooks.%s.tool_input: %w", name, err)
		}
		routes[name] = shell.WebhookRoute{
			Tool: w.Tool, ToolInput: input, Label: w.Label, ActionType: w.ActionType,
			Namespace: cmp.Or(w.Namespace, DefaultScope), Tenant: cmp.Or(w.Tenant, DefaultScope),
			Policy: w.policy(),
		}
	}
	return routes, nil
}

// Schemes of webhook signatures.
const (
	SignStandard = "standard" // Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature
	SignGitHub   = "github"   // X-Hub-Signature-256
	SignNone     = "none"
)

func (w webhookConfig) signature() string { return cmp.Or(w.Signature, SignStandard) }

// secrets gives the secrets that sign this route's requests; each is good.
func (w webhookConfig) secrets(key string) ([]string, error) {
	given := countGiven(w.Secret, w.SecretEnv, w.SecretFile)

	scheme := w.signature()
	switch scheme {
	case SignNone:
		if given > 0 {
			return nil, fmt.Errorf("%s: has a secret that signature \"none\" never asks for: use %q or %q, or leave it out", key, SignStandard, SignGitHub)
		}
		return nil, nil
	case SignStandard, SignGitHub:
	default:
		return nil, fmt.Errorf("%s.signature: %q is unknown: use %q, %q or %q", key, scheme, SignStandard, SignGitHub, SignNone)
	}
	if given != 1 {
		return nil, fmt.Errorf("%s: signature %q needs exactly one of secret, secret_env and secret_file: there are %d (or say signature = \"none\")", key, scheme, given)
	}
	text, field, err := readSecret(w.Secret, w.SecretEnv, w.SecretFile, "secret")
	if err != nil {
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	var secrets []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			secrets = append(secrets, line)
		}
	}
	for i, s := range secrets {
		if isPublished(s) {
			return nil, errPublished(fmt.Sprintf("%s.%s: secret %d", key, field, i+1))
		}
		if scheme == SignStandard {
			if _, err := standardwebhooks.NewWebhook(s); err != nil {
				return nil, fmt.Errorf("%s.%s: secret %d is not base64, as signature %q wants it (whsec_…)", key, field, i+1, SignStandard)
			}
		}
	}
	return secrets, nil
}

// WebhookFilters say which requests of each route are taken.
func (c *Config) WebhookFilters() map[string]httpapi.WebhookFilter {
	filters := make(map[string]httpapi.WebhookFilter, len(c.Webhooks))
	for name, w := range c.Webhooks {
		filters[name] = w.filter()
	}
	return filters
}

// WebhookAuth says how the requests of each route are signed.
func (c *Config) WebhookAuth() (map[string]httpapi.WebhookAuth, error) {
	auth := make(map[string]httpapi.WebhookAuth, len(c.Webhooks))
	for name, w := range c.Webhooks {
		secrets, err := w.secrets("webhooks." + name)
		if err != nil {
			return nil, err
		}
		auth[name] = httpapi.WebhookAuth{Scheme: httpapi.WebhookScheme(w.signature()), Secrets: secrets}
	}
	return auth, nil
}
