package cli

import (
	"context"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) systemCommand() *cobra.Command {
	return a.addClientFlags(group("system", "Show how the daemon is, and have one that was started paused go on",
		`A daemon that was started with --start-paused takes every request, and fires and begins
nothing until it is told to go on. That takes an admin's token.`,
		a.systemShow(), a.systemResume()))
}

func (a *app) systemShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show how the daemon and its database are",
		Long: `Show whether the daemon is at work or paused, how many runs of tools are under way, how far its
loop is behind, the journal, and how many records were set aside. It takes a token that is
bound to nothing; --json has more, for an admin's the settings in force.`,
		Args: noArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		var s wire.System
		raw, err := c.json(ctx, request{method: http.MethodGet, path: "/v1/system"}, &s)
		if err != nil {
			return err
		}
		return a.print(raw, systemView(s))
	})
	return cmd
}

func systemView(s wire.System) view {
	state := "at work"
	if !s.PausedSince.IsZero() {
		state = "paused since " + shortTime(s.PausedSince) + " UTC: go on with orreryd system resume"
	}
	kept := ""
	if s.Store != nil {
		kept = s.Store.Kind
		if s.Store.Partitions > 1 {
			kept += ", " + counted(s.Store.Partitions, "partition") + ", of which the daemon that was asked works on " + strconv.Itoa(s.Store.Owned)
		}
	}
	decimal := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return view{fields: [][2]string{
		{"daemon", state}, {"instance", s.Instance}, {"store", kept}, {"tools run", strconv.FormatInt(s.Running, 10)},
		{"loop lag", decimal(s.LoopLagSeconds) + " s in the last minute"}, {"commits", decimal(s.CommitsPerSecond) + " a second"},
		{"commit errors", strconv.FormatUint(s.CommitErrors, 10)},
		{"journal", "batches " + strconv.FormatUint(s.JournalFrom, 10) + " to " + strconv.FormatUint(s.JournalSeq, 10)},
		{"set aside", counted(len(s.Quarantine), "record")},
	}}
}

func (a *app) systemResume() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Have a daemon that was started paused go on",
		Long: `Have a daemon that was started with --start-paused go on: what is due fires, what waits is
begun, and what was under way when the last process ended is taken back by its policy, all
as after an outage. A daemon that is not paused is left as it is. Its next start is paused
again if it is started so.`,
		Example: "  orreryd system resume",
		Args:    noArgs,
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, _ []string) error {
		var out wire.Resumed
		raw, err := c.json(ctx, request{method: http.MethodPost, path: "/v1/system/resume"}, &out)
		if err != nil {
			return err
		}
		if out.Resumed {
			return a.print(raw, view{line: "the daemon goes on"})
		}
		return a.print(raw, view{line: "the daemon is not paused"})
	})
	return cmd
}
