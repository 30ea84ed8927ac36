package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/daemon"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
	"github.com/orrery-go/orrery/shell/setfile"
)

// orchestrateCommand is the daemon (B5).
func (a *app) orchestrateCommand() *cobra.Command {
	var demo bool
	cmd := &cobra.Command{
		Use:   "orchestrate",
		Short: "Run the daemon in the foreground",
		Long: `Run the daemon in the foreground: fire what is due, answer the HTTP API, until
SIGTERM or SIGINT. Then it takes nothing new, waits for what runs (up to
engine.stop_timeout_seconds, 30 by default), ends or hands back the rest by its policy,
and ends with 0. A second signal ends it at once; nothing acknowledged is lost then
either. What comes within 300 ms of the first one is taken for the same signal:
programs such as timeout send it to the process and to its group.

On SIGHUP it goes on, and reads again the certificate of [http.tls], the set of files of
--apply and, of the settings, the tokens, the secrets of tools and the level of the log;
which others have changed, and need a restart, the log says. What cannot be read stays as it was. If its terminal is closed, SIGHUP stops it.

With --start-paused it takes every request, and fires and begins nothing before "orreryd system
resume": so a database that was restored, or copied, can be looked at and changed first.

With --database everything is in a PostgreSQL database. Of several daemons on it one works; the
others stand by: they pass requests on, and one of them takes the database over once the one that
works has stopped, or has given no sign of life for ten seconds (cluster.lease_seconds).

Settings come from flags, else from the environment (ORRERY_DB, ORRERY_DATABASE, ORRERY_CLUSTER_NAME,
ORRERY_CLUSTER_ADDRESS, ORRERY_LISTEN,
ORRERY_TICK_RATE, ORRERY_STRICT_TICK, ORRERY_LOG_LEVEL, ORRERY_LOG_FORMAT,
ORRERY_WORKSPACE, ORRERY_APPLY, ORRERY_START_PAUSED, ORRERY_CONFIG), else from the configuration file, else they have their defaults.
Show them with: orreryd config show

Without tokens in the configuration the daemon listens on loopback only.`,
		Example: `  orreryd orchestrate --demo
  orreryd orchestrate --tick-rate 60 --db /var/lib/orrery/orrery.db --config /etc/orrery.toml
  orreryd orchestrate --db restored.db --start-paused
  orreryd orchestrate --database postgres://orrery@db.example/orrery
  ORRERY_LISTEN=127.0.0.1:8000 orreryd orchestrate`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (config.Config, error) {
				c, err := config.Load(cmd.Flags(), a.env)
				if demo && !cmd.Flags().Changed("log-level") && a.env("ORRERY_LOG_LEVEL") == "" && c.LogLevel == "info" {
					c.LogLevel = "warn" // the demonstration's own lines say what an info log would
				}
				return c, err
			}
			reload := a.hangups.toReload()
			c, err := load()
			if err != nil {
				return err
			}
			if demo && c.Engine.StartPaused {
				return usagef("--demo shows what fires, and with --start-paused (engine.start_paused) nothing does: leave one of them out")
			}
			return daemon.Orchestrate(cmd.Context(), c, daemon.Terminal{
				Out: a.out, Err: a.err, Demo: demo, Command: a.command(), NotifySocket: a.env("NOTIFY_SOCKET"),
				Reload: reload, Config: load,
			})
		},
	}
	config.AddFlags(cmd.Flags())
	completeConfigFlags(cmd)
	cmd.Flags().BoolVar(&demo, "demo", false, "add a schedule that fires every 5 seconds, if there is none, and print what fires")
	return cmd
}

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a configuration file, and say what is wrong with it",
		Long:    "Check a configuration file as the daemon does at its start: every key, every value,\nthat secrets are where they are said to be, and that each base_dir is a folder. The\nfiles of apply.dir are checked as \"orreryd sets check\" does. The environment and\nflags are not looked at.",
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
			for _, w := range c.Warnings() {
				text.Sayf(a.err, "orreryd: warning: %s\n", text.Clean(w))
			}
			for i, t := range c.Tokens {
				if at, _ := t.Expiry(""); !at.IsZero() && !at.After(time.Now()) {
					text.Sayf(a.err, "orreryd: warning: tokens[%d] %q expired at %s: nobody can use it\n", i, t.Name, at.Format(time.RFC3339))
				}
			}
			if err := a.checkApplied(c.Apply.Dir, c.Apply.Variables); err != nil {
				return err
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

// checkApplied checks the files that the daemon would apply by itself; there may be none.
func (a *app) checkApplied(dir string, variables map[string]string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil // which a warning says
	}
	o, err := setOptions(scoped{config.DefaultScope, config.DefaultScope}, variables)
	if err != nil {
		return err
	}
	_, warnings, err := setfile.CheckFiles([]string{dir}, o, effects.TimeOf(time.Now()))
	for _, w := range warnings {
		text.Sayf(a.err, "orreryd: warning: %s\n", text.Clean(w))
	}
	if wrong, ok := errors.AsType[setfile.Errors](err); ok {
		return fmt.Errorf("apply.dir: %s in the files that the daemon would apply:\n%s", counted(len(wrong), "error"), text.CleanLines(wrong.Error()))
	}
	if unknown, ok := errors.AsType[*setfile.UnknownVariableError](err); ok {
		return fmt.Errorf("apply.variables: %w", unknown)
	}
	if err != nil {
		return fmt.Errorf("apply.dir: %w", err)
	}
	return nil
}

// completeConfigFlags completes the flags of the configuration that have few values.
func completeConfigFlags(cmd *cobra.Command) {
	fixed(cmd, "log-level", config.LogLevels)
	fixed(cmd, "log-format", config.LogFormats)
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the program, of Go, of the core and of the time zone database",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := version.Read()
			return a.show(v, versionText(v))
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	return cmd
}

// versionText shows the versions for people.
func versionText(v version.Versions) string {
	commit := v.Commit
	if v.Modified {
		commit += " (modified)"
	}
	return view{fields: [][2]string{
		{"orreryd", v.Version}, {"commit", commit}, {"go", v.Go + " " + v.Platform}, {"core", v.Core}, {"tzdb", v.TZDB},
	}}.text(screen{})
}
