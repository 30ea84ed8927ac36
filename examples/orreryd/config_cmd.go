package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a configuration file, and say what is wrong with it",
		Long:    "Check a configuration file as the daemon does at its start: every key, every value,\nthat secrets are where they are said to be, and that each base_dir is a folder. The\nenvironment and flags are not looked at.",
		Example: "  orreryd config check /etc/orrery.toml",
		Args:    oneArg("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			flags := pflag.NewFlagSet("check", pflag.ContinueOnError)
			addConfigFlags(flags)
			if err := flags.Set("config", args[0]); err != nil {
				return err
			}
			c, err := loadConfig(flags, func(string) string { return "" })
			if err != nil {
				return err
			}
			if err := checkListen(c); err != nil {
				return usagef("%w", err)
			}
			for i, t := range c.Tokens {
				if at, _ := t.expires(""); !at.IsZero() && !at.After(time.Now()) {
					sayf(a.err, "orreryd: warning: tokens[%d] %q expired at %s: nobody can use it\n", i, t.Name, at.Format(time.RFC3339))
				}
			}
			_, err = fmt.Fprintf(a.out, "%s is right: %d tools, %d webhooks, %d tokens\n", clean(args[0]), len(c.Tools), len(c.Webhooks), len(c.Tokens))
			return err
		},
	}
	show := &cobra.Command{
		Use:     "show",
		Short:   "Show the settings that orchestrate would use, without secrets",
		Example: "  orreryd config show --config /etc/orrery.toml\n  ORRERY_TICK_RATE=5 orreryd config show",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags(), a.env)
			if err != nil {
				return err
			}
			if err := checkListen(c); err != nil {
				return usagef("%w", err)
			}
			b, err := toml.Marshal(c.redacted())
			if err != nil {
				return fmt.Errorf("print the settings: %w", err)
			}
			_, err = a.out.Write(b)
			return err
		},
	}
	addConfigFlags(show.Flags())
	completeConfigFlags(show)
	return group("config", "Check or show the configuration", "", check, show)
}

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

// redacted gives a copy that can be shown.
func (c config) redacted() config {
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
	hide(&c.Jobs.UpdatesURL) // as with channels
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

// redactTexts hides all values: what needs one here is mostly a secret.
func redactTexts(m map[string]string) map[string]string {
	out := maps.Clone(m)
	for k := range out {
		out[k] = redactedText
	}
	return out
}
