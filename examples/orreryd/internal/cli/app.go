// Package cli is the command line of orreryd: it runs the daemon, works on its
// database file, and talks to a running daemon over HTTP.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
)

// Exit codes; see the comment of the command.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitNoDaemon = 3
	exitNotFound = 4
	exitSignal   = 128
)

// app is what all commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string

	json    bool   // --json, or --output json
	form    string // --output
	server  string // --server
	token   string // --token
	ca      string // --ca
	started bool   // a command was found and its arguments are well formed

	hangups *hangups
}

// exitError is an error that decides the exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef is an error in what the user typed.
func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// Main is the whole program but for the process around it; it gives the exit code.
func Main(args []string, env func(string) string, in io.Reader, out, stderr io.Writer) int {
	a := &app{in: in, out: out, err: stderr, env: env, hangups: newHangups(stderr)}
	ctx, stop := untilSignal(stderr, a.hangups)
	defer stop()
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	code := exitFailed
	var coded *exitError
	var wrong *config.Error
	switch {
	case errors.As(err, &coded):
		code = coded.code
	case errors.As(err, &wrong), !a.started:
		code = exitUsage
	}
	text.Sayf(stderr, "orreryd: %s\n", text.CleanLines(err.Error()))
	if code == exitUsage {
		text.Sayf(stderr, "See %s --help\n", cmd.CommandPath())
	}
	return code
}

// otherNumber has for each command about many things its name in the other number: both do the same.
var otherNumber = map[string]string{
	"actions": "action", "calendars": "calendar", "occurrences": "occurrence", "events": "event", "limits": "limit", "runners": "runner", "alerts": "alert",
	"queue": "queues", "job": "jobs", "run": "runs", "webhook": "webhooks", "pipeline": "pipelines", "task": "tasks", "strategy": "strategies",
	"worker": "workers", "lock": "locks", "semaphore": "semaphores", "backfill": "backfills", "subscriber": "subscribers",
	"runbook": "runbooks", "sets": "set",
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "orreryd",
		Short: "Fire scheduled, recurring and webhook actions, and never lose or repeat one",
		Long: `orreryd fires actions: at a time, on a cron schedule, or when a webhook comes in.
Whatever it has acknowledged is on the disk in one file; kill it, start it again,
and it goes on where it was.

Start with:
  orreryd orchestrate --demo

Exit codes: 0 done; 1 failed, or a divergence was found; 2 the command line or the
configuration is wrong; 3 no daemon answers; 4 not found; 128 + n ended at once by
a second signal n.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
		},
	}
	root.AddGroup(
		&cobra.Group{ID: "daemon", Title: "The daemon:"},
		&cobra.Group{ID: "client", Title: "With a running daemon:"},
		&cobra.Group{ID: "file", Title: "With a database file:"},
		&cobra.Group{ID: "runbook", Title: "With a runbook file:"},
		&cobra.Group{ID: "import", Title: "From another program:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"daemon": {a.orchestrateCommand(), a.configCommand(), a.versionCommand()},
		"client": {
			a.actionsCommand(), a.recurringCommand(), a.queueCommand(), a.jobCommand(), a.runCommand(), a.webhookCommand(), a.backupCommand(),
			a.pipelineCommand(), a.taskCommand(), a.strategyCommand(), a.workerCommand(),
			a.auditCommand(), a.limitsCommand(), a.runnersCommand(), a.lockCommand(), a.semaphoreCommand(), a.calendarsCommand(), a.occurrencesCommand(), a.backfillCommand(), a.alertsCommand(), a.eventsCommand(), a.subscriberCommand(), a.notifyCommand(), a.clusterCommand(), a.systemCommand(),
			a.applyCommand(), a.diffCommand(), a.exportCommand(), a.setsCommand(),
		},
		"file":    {a.replayCommand(), a.checkCommand(), a.quarantineCommand(), a.historyCommand(), a.compactCommand(), a.salvageCommand(), a.restoreCommand(), a.copyCommand()},
		"runbook": {a.runbookCommand()},
		"import":  {a.importCommand()},
	} {
		for _, c := range commands {
			c.GroupID = group
			if other := otherNumber[c.Name()]; other != "" {
				c.Aliases = append(c.Aliases, other)
			}
			root.AddCommand(c)
		}
	}
	root.Version = versionText(version.Read())
	root.SetVersionTemplate("{{.Version}}")
	root.Flags().Bool("version", false, "show what the command version shows") // the library's own would take -v
	root.SetHelpCommand(helpCommand(root))
	root.SetFlagErrorFunc(flagError)
	root.SetOut(a.out) // the scripts of completion go where they are told to now
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = cobra.ArbitraryArgs, needSubcommand
		for _, shell := range completion.Commands() {
			shell.Args = noArgs
		}
	}
	return root
}

// helpCommand is cobra's, but for an unknown topic, which is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q", strings.Join(args, " "))
			}
			return cmd.Help()
		},
	}
}

// sameSignal is how soon after the first signal another one counts as the same:
// timeout(1) and some shells send it to the process and to its group.
const sameSignal = 300 * time.Millisecond

// untilSignal gives a context that ends with the first SIGINT, SIGTERM or SIGHUP that is one to stop;
// the second one ends the process at once.
func untilSignal(stderr io.Writer, h *hangups) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var hup, wg sync.WaitGroup
	hup.Go(func() { h.forward(signals) })
	wg.Go(func() {
		if s := secondSignal(ctx, signals, cancel, time.Now); s != nil {
			text.Sayf(stderr, "orreryd: %s again: ending at once\n", s)
			code := exitSignal + 15
			if n, ok := s.(syscall.Signal); ok {
				code = exitSignal + int(n)
			}
			os.Exit(code)
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		h.stop()
		cancel()
		hup.Wait()
		close(signals)
		wg.Wait()
	}
}

// secondSignal calls stop at the first signal, and gives the second one; nil where
// ctx has ended before the first, or the signals have.
func secondSignal(ctx context.Context, signals <-chan os.Signal, stop func(), now func() time.Time) os.Signal {
	var first time.Time
	select {
	case <-signals:
		first = now()
		stop()
	case <-ctx.Done():
		return nil
	}
	for s := range signals {
		if now().Sub(first) >= sameSignal {
			return s
		}
	}
	return nil
}

// group makes a command that only has subcommands.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args:  cobra.ArbitraryArgs,
		RunE:  needSubcommand,
	}
	c.AddCommand(commands...)
	return c
}

// withMore adds subcommands to a group.
func withMore(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.AddCommand(commands...)
	return c
}

func needSubcommand(cmd *cobra.Command, args []string) error {
	names := make([]string, 0, len(cmd.Commands()))
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	if len(args) == 0 {
		return usagef("%s needs a subcommand: %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	return usagef("%s: unknown subcommand %q: use one of %s", cmd.CommandPath(), text.Clip(args[0], 60), strings.Join(names, ", "))
}
