package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/daemon"
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
			c, err := config.Load(cmd.Flags(), a.env)
			if err != nil {
				return err
			}
			if demo && !cmd.Flags().Changed("log-level") && a.env("ORRERY_LOG_LEVEL") == "" && c.LogLevel == "info" {
				c.LogLevel = "warn" // the demonstration's own lines say what an info log would
			}
			return daemon.Orchestrate(cmd.Context(), c, daemon.Terminal{
				Out: a.out, Err: a.err, Demo: demo, Command: a.command(), NotifySocket: a.env("NOTIFY_SOCKET"),
			})
		},
	}
	config.AddFlags(cmd.Flags())
	completeConfigFlags(cmd)
	cmd.Flags().BoolVar(&demo, "demo", false, "add a schedule that fires every 5 seconds, if there is none, and print what fires")
	return cmd
}

// command is how the user seems to have started this program.
func (a *app) command() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		return "go run ./examples/orreryd"
	}
	return "orreryd"
}
