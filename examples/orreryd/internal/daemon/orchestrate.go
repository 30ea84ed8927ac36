package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/orrery-go/orrery/examples/orreryd/internal/config"
	"github.com/orrery-go/orrery/examples/orreryd/internal/guard"
	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/examples/orreryd/internal/version"
)

// Terminal is where a daemon runs: what it prints to, and what its environment says.
type Terminal struct {
	Out, Err io.Writer
	// Demo has the daemon add a schedule to look at, if there is none, and print what fires.
	Demo bool
	// Command is how this program is called, for what the demonstration says to type next.
	Command string
	// Reload tells the daemon to read again what it can while it runs. Nil: nothing does.
	Reload <-chan struct{}
	// Config reads the settings again. Nil: they are not.
	Config func() (config.Config, error)
	// NotifySocket is systemd's, empty without systemd.
	NotifySocket string
}

// Orchestrate runs the daemon until ctx ends, and stops it cleanly then.
func Orchestrate(ctx context.Context, c config.Config, t Terminal) (err error) {
	if err := config.CheckListen(c); err != nil {
		return err
	}
	log, level, err := newLogger(c, t.Err)
	if err != nil {
		return err
	}
	for _, w := range c.Warnings() {
		log.Warn("the configuration restricts less than it seems to", "warning", w)
	}
	if err := errors.Join(guard.Undumpable(), config.ForgetSecretEnv()); err != nil {
		return err
	}
	if c.Database != "" {
		if load := t.Config; load != nil {
			t.Config = func() (config.Config, error) {
				is, err := load()
				if is.Database == "" {
					is.Database = c.Database // it stood in the environment, which has forgotten it
				}
				return is, err
			}
		}
		return orchestrateShared(ctx, c, t, log, level)
	}
	return runTerm(ctx, c, t, log, level, nil)
}

// runTerm works on a database until ctx ends, or it is another daemon's; in is nil for one that is this daemon's alone.
func runTerm(ctx context.Context, c config.Config, t Terminal, log *slog.Logger, level *slog.LevelVar, in *term) (err error) {
	d, err := openDaemon(ctx, c, t.Command, log, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if d.hangups = t.Reload; t.Config != nil {
		d.reloads.add("configuration", d.reloadConfig(t.Config, level))
	}
	var show *demo
	if t.Demo {
		show = newDemo(d.engine, t.Out, t.Command, len(c.Tokens) > 0)
		defer show.close()
	}
	notify := func(state string) {
		if err := sdNotify(context.WithoutCancel(ctx), t.NotifySocket, state); err != nil {
			log.Warn("could not notify systemd", "error", err)
		}
	}
	ready := func() {
		log.Info("ready", "listen", d.api.url(), "page", d.pageURL(), "db", c.StoreName(), "version", version.String())
		page := d.pageURL()
		if t.Demo {
			show.start(ctx, d.api.url(), page, c.StoreName())
		} else {
			// Scripts wait for this line, and take the address from its end.
			text.Sayf(t.Out, "orreryd is ready at %s\n", d.api.url())
			if page != "" {
				text.Sayf(t.Out, "The page is at %s\n", page)
			}
			if d.paused() {
				text.Sayf(t.Out, "%s\n", d.pausedText())
			}
		}
		notify("READY=1")
	}
	return d.run(ctx, ready, func() {
		if ctx.Err() == nil || in != nil && errors.Is(context.Cause(ctx), in.Store.Failure()) {
			return // the term alone has ended, or an error ends it
		}
		notify("STOPPING=1")
		if t.Demo {
			text.Sayf(t.Out, "\nStopping. What runs has %s to end; the same signal again ends it at once.\n", config.Seconds(c.Engine.StopTimeoutSeconds))
		}
	})
}
