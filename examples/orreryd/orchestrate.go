package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// orchestrateCommand is the daemon (B5).
func (a *app) orchestrateCommand() *cobra.Command {
	var demo bool
	cmd := &cobra.Command{
		Use:   "orchestrate",
		Short: "Run the daemon in the foreground",
		Long: `Run the daemon in the foreground: fire what is due, answer the HTTP API, until
SIGTERM or SIGINT. Then it takes nothing new, waits for what runs (up to
engine.stop_timeout_seconds, 30 by default), settles the rest by its policy, and
ends with 0. A second signal ends it at once; nothing acknowledged is lost then
either. What comes within 300 ms of the first one is taken for the same signal:
programs such as timeout send it to the process and to its group.

Settings come from flags, else from the environment (ORRERY_DB, ORRERY_LISTEN,
ORRERY_TICK_RATE, ORRERY_STRICT_TICK, ORRERY_LOG_LEVEL, ORRERY_LOG_FORMAT,
ORRERY_CONFIG), else from the configuration file, else they have their defaults.
Show them with: orreryd config show

Without tokens in the configuration the daemon listens on loopback only.`,
		Example: `  orreryd orchestrate --demo
  orreryd orchestrate --tick-rate 60 --db /var/lib/orrery/orrery.db --config /etc/orrery.toml
  ORRERY_LISTEN=127.0.0.1:8000 orreryd orchestrate`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags(), a.env)
			if err != nil {
				return err
			}
			if demo && !cmd.Flags().Changed("log-level") && a.env("ORRERY_LOG_LEVEL") == "" && c.LogLevel == "info" {
				c.LogLevel = "warn" // the demonstration's own lines say what an info log would
			}
			return a.orchestrate(cmd.Context(), c, demo)
		},
	}
	addConfigFlags(cmd.Flags())
	completeConfigFlags(cmd)
	cmd.Flags().BoolVar(&demo, "demo", false, "add a schedule that fires every 5 seconds, if there is none, and print what fires")
	return cmd
}

func (a *app) orchestrate(ctx context.Context, c config, withDemo bool) (err error) {
	if err := checkListen(c); err != nil {
		return usagef("%w", err)
	}
	log, err := newLogger(c, a.err)
	if err != nil {
		return err
	}
	d, err := openDaemon(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	var show *demo
	if withDemo {
		show = newDemo(d.engine, a.out, a.command(), len(c.Tokens) > 0)
		defer show.close()
	}
	notify := func(state string) {
		if err := sdNotify(context.WithoutCancel(ctx), a.env("NOTIFY_SOCKET"), state); err != nil {
			log.Warn("systemd was not told", "error", err)
		}
	}
	ready := func() {
		log.Info("ready", "listen", d.api.url(), "db", c.DB, "version", version())
		if withDemo {
			show.start(ctx, d.api.url(), c.DB)
		} else {
			sayf(a.out, "orreryd is ready at %s\n", d.api.url())
		}
		notify("READY=1")
	}
	return d.run(ctx, ready, func() {
		notify("STOPPING=1")
		if withDemo {
			sayf(a.out, "\nStopping. What runs has %s to end; the same signal again ends it at once.\n", seconds(c.Engine.StopTimeoutSeconds))
		}
	})
}
