package cli

import (
	"fmt"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
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
			config.AddFlags(flags)
			if err := flags.Set("config", args[0]); err != nil {
				return err
			}
			c, err := config.Load(flags, func(string) string { return "" })
			if err != nil {
				return err
			}
			if err := config.CheckListen(c); err != nil {
				return err
			}
			for i, t := range c.Tokens {
				if at, _ := t.Expiry(""); !at.IsZero() && !at.After(time.Now()) {
					text.Sayf(a.err, "orreryd: warning: tokens[%d] %q expired at %s: nobody can use it\n", i, t.Name, at.Format(time.RFC3339))
				}
			}
			_, err = fmt.Fprintf(a.out, "%s is right: %d tools, %d webhooks, %d tokens\n", text.Clean(args[0]), len(c.Tools), len(c.Webhooks), len(c.Tokens))
			return err
		},
	}
	show := &cobra.Command{
		Use:     "show",
		Short:   "Show the settings that orchestrate would use, without secrets",
		Example: "  orreryd config show --config /etc/orrery.toml\n  ORRERY_TICK_RATE=5 orreryd config show",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(cmd.Flags(), a.env)
			if err != nil {
				return err
			}
			if err := config.CheckListen(c); err != nil {
				return err
			}
			b, err := toml.Marshal(c.Redacted())
			if err != nil {
				return fmt.Errorf("print the settings: %w", err)
			}
			_, err = a.out.Write(b)
			return err
		},
	}
	config.AddFlags(show.Flags())
	completeConfigFlags(show)
	return group("config", "Check or show the configuration", "", check, show)
}

// completeConfigFlags completes the flags of the configuration that have few values.
func completeConfigFlags(cmd *cobra.Command) {
	fixed(cmd, "log-level", config.LogLevels)
	fixed(cmd, "log-format", config.LogFormats)
}
