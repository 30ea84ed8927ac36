package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orrery-go/orrery/examples/orreryd/internal/text"
	"github.com/orrery-go/orrery/shell/httpapi/wire"
)

func (a *app) notifyCommand() *cobra.Command {
	return a.addClientFlags(group("notify", "List and test the channels by which people are told",
		`People are told by the channels of the daemon's configuration. An admin's token lists and
tests them.`,
		a.notifyList(), a.notifyTest()))
}

func (a *app) notifyList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the channels, and what became of what they were to tell",
		Long: `List the channels: the events that each tells, how many it took, how many attempts failed
(most are made again), what it was not to tell or will never take, and how often something
else was put off as it could not be reached; and what alerts still have to tell by it. The
counts but the last are those of the instance that answers, since it began; the default
channel has a star.`,
		Args: noArgs,
	}
	l := listing[wire.Channel]{
		none: "No channel", name: func(c wire.Channel) string { return c.Name },
		header: []string{"CHANNEL", "TOLD", "FAILED", "DROPPED", "LATER", "ALERTS WAIT:60", "EVENTS:120"}, row: channelRow,
	}
	listWhole(a, cmd, l, "/v1/notify/channels", func(list wire.ChannelList) []wire.Channel { return list.Channels })
	return cmd
}

func channelRow(c wire.Channel) []string {
	name := text.Clean(c.Name)
	if c.Default {
		name += " *"
	}
	return []string{name, number(c.Told), number(c.Failed), number(c.Dropped), number(c.Later), alertsWaiting(c.Alerts), text.OrDash(strings.Join(c.Events, ", "))}
}

// alertsWaiting says what alerts have still to tell by a channel, and why they have not.
func alertsWaiting(w *wire.ChannelAlerts) string {
	if w == nil {
		return "-"
	}
	var says []string
	if counts := w.Raised.String(); counts != "" {
		says = append(says, counts)
	}
	if counts := w.Cleared.String(); counts != "" {
		says = append(says, counts+" over")
	}
	if w.Message != "" {
		message := text.Clean(w.Message)
		if w.Error != "" {
			message += " (not sent: " + text.Clean(w.Error) + ")"
		}
		says = append(says, message)
	}
	return text.OrDash(strings.Join(says, "; "))
}

func (a *app) notifyTest() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test [CHANNEL]",
		Short: "Have a channel, or all, tell a test message",
		Long: `Have the daemon send a test message by a channel, or by all, and say what became of it. It is
the daemon that sends: with its secrets, from its machine, by the configuration that it
runs with. A message is sent now and once; one that no channel took is exit code 1.`,
		Example: "  orreryd notify test\n  orreryd notify test ops",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("want one CHANNEL or none, as in: %s ops", cmd.CommandPath())
			}
			return nil
		},
	}
	cmd.RunE = a.withClient(func(ctx context.Context, c *client, args []string) error {
		body := wire.NotifyTestRequest{Channel: strings.Join(args, "")}
		var out wire.NotifyTested
		raw, err := c.json(ctx, request{method: http.MethodPost, path: "/v1/notify/test", body: body}, &out)
		if err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(raw); err != nil {
				return err
			}
		}
		failed := 0
		for _, r := range out.Results {
			if !r.Told {
				failed++
			}
			if !a.json {
				if _, err := fmt.Fprintln(a.out, testLine(r)); err != nil {
					return err
				}
			}
		}
		if failed > 0 {
			return fmt.Errorf("%d of %d channels did not take the message", failed, len(out.Results))
		}
		return nil
	})
	return cmd
}

// testLine says what became of a test message.
func testLine(r wire.NotifyResult) string {
	if r.Told {
		return text.Clean(r.Channel) + ": told"
	}
	return text.Clean(r.Channel) + ": not told: " + text.Clean(r.Error)
}
