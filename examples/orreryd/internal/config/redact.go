package config

import (
	"maps"
	"regexp"
	"slices"
)

// secretKey matches the names of values that tend to be secret.
var secretKey = regexp.MustCompile(`(?i)authorization|cookie|credential|passw|secret|token|api[-_]?key|private`)

// redactValue hides what a tool's input names as secret: headers, variables.
func redactValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if secretKey.MatchString(k) {
				e = redactedText
			}
			out[k] = redactValue(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = redactValue(e)
		}
		return out
	}
	return v
}

// redactedText stands where a secret was.
const redactedText = "(redacted)"

// Redacted gives a copy that can be shown.
func (c Config) Redacted() Config {
	hide := func(s *string) {
		if *s != "" {
			*s = redactedText
		}
	}
	c.Tokens = slices.Clone(c.Tokens)
	for i := range c.Tokens {
		hide(&c.Tokens[i].Token)
		hide(&c.Tokens[i].TokenSHA256)
	}
	c.Webhooks = maps.Clone(c.Webhooks)
	for name, w := range c.Webhooks {
		hide(&w.Secret)
		w.Signature = w.signature()
		w.ToolInput, _ = redactValue(w.ToolInput).(map[string]any)
		c.Webhooks[name] = w
	}
	if c.Database != "" {
		c.Database = DatabaseName(c.Database)
	}
	hide(&c.Watchdog.URL) // as with channels
	hide(&c.Jobs.UpdatesURL)
	hide(&c.Jobs.MetricsURL)
	c.Jobs.Secrets = maps.Clone(c.Jobs.Secrets)
	for name, k := range c.Jobs.Secrets {
		hide(&k.Secret)
		c.Jobs.Secrets[name] = k
	}
	c.Notify.Channels = maps.Clone(c.Notify.Channels)
	for name, ch := range c.Notify.Channels {
		hide(&ch.URL) // many services have the secret in it
		ch.Headers, ch.Env = redactTexts(ch.Headers), redactTexts(ch.Env)
		c.Notify.Channels[name] = ch
	}
	return c
}

// redactTexts hides all values: headers and variables of channels are mostly secrets.
func redactTexts(m map[string]string) map[string]string {
	out := maps.Clone(m)
	for k := range out {
		out[k] = redactedText
	}
	return out
}
